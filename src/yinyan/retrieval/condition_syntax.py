"""The language of conditions on links: from text to a tree, with the place of every part.

condition   = conjunction { "or" conjunction }
conjunction = negation { "and" negation }
negation    = "not" negation | "(" condition ")" | test
test        = ( value | name ) [ compare value | ["not"] "in" "(" literal { "," literal } ")"
                    | ["not"] ( "contains" | "startswith" ) value | "is" ["not"] "null" ]
compare     = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
value       = literal | ( "source" | "candidate" ) "." name
literal     = 'text' | "text" | number | "true" | "false" | "null"
name        = letters, digits and "_", or any characters between backquotes

A name alone, which only a test begins with, is an attribute of the candidate.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from yinyan.errors import ConditionError

__all__ = [
    "MOST_CHARACTERS",
    "All",
    "Attribute",
    "Comparison",
    "IsNull",
    "Literal",
    "Node",
    "Not",
    "OneOf",
    "SomeOf",
    "Truth",
    "nearest_word",
    "parsed_condition",
    "refuse",
]

MOST_CHARACTERS = 2_000
MOST_DEPTH = 40  # of parentheses and "not"
_WINDOW = 70  # characters of a condition that an error shows before and after the place
_ENDS = ("source", "candidate")
_SYMBOLS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS = ("and", "or", "not", "in", "is", "contains", "startswith", "true", "false", "null")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<quoted>`[^`]+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<symbol>==|!=|<>|<=|>=|[=<>().,])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word of a condition and where it begins."""

    kind: str  # number, text, quoted, word, symbol or end
    text: str
    at: int


@dataclass(frozen=True)
class Literal:
    """A text, a number, a truth value, or None."""

    value: str | float | bool | None
    at: int


@dataclass(frozen=True)
class Attribute:
    """An attribute of one end of the link."""

    end: str  # source or candidate
    name: str
    at: int


Value: TypeAlias = Literal | Attribute


@dataclass(frozen=True)
class Comparison:
    """Two values and what is asked of them: =, !=, <, <=, >, >=, contains or startswith."""

    operator: str
    left: Value
    right: Value
    at: int


@dataclass(frozen=True)
class OneOf:
    """Whether a value is among some."""

    value: Value
    options: tuple[Literal, ...]
    at: int


@dataclass(frozen=True)
class IsNull:
    """Whether a value is missing."""

    value: Value
    at: int


@dataclass(frozen=True)
class Truth:
    """A truth value on its own."""

    value: Value
    at: int


@dataclass(frozen=True)
class Not:
    """The opposite."""

    part: Node
    at: int


@dataclass(frozen=True)
class All:
    """All of several."""

    parts: tuple[Node, ...]
    at: int


@dataclass(frozen=True)
class SomeOf:
    """At least one of several."""

    parts: tuple[Node, ...]
    at: int


Node: TypeAlias = Comparison | OneOf | IsNull | Truth | Not | All | SomeOf


def parsed_condition(text: str) -> Node:
    """The tree of a condition; what cannot be read is refused at its place."""
    if len(text) > MOST_CHARACTERS:
        raise ConditionError(f"a condition may have {MOST_CHARACTERS:,} characters (got {len(text):,})")
    return _Parser(text).whole()


def refuse(text: str, at: int, words: str) -> NoReturn:
    """Raise the error of a condition, with a caret under the place."""
    shown = "".join(" " if letter.isspace() else letter for letter in text)  # on one line
    first, last = max(0, at - _WINDOW), min(len(shown), at + _WINDOW)
    before, after = ("…" if first else ""), ("…" if last < len(shown) else "")
    line = f"{before}{shown[first:last]}{after}"
    raise ConditionError(f"the condition cannot be used: {words}\n  {line}\n  {' ' * (len(before) + at - first)}^")


def nearest_word(word: str, known: Iterable[str]) -> str:
    """'; nearest: …' where something is spelled alike."""
    by_case = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), by_case, n=1, cutoff=0.5)
    return f"; nearest: {by_case[near[0]]}" if near else ""


class _Parser:
    """Reads tokens from left to right, one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.tokens = list(self._tokens())

    def _tokens(self) -> Iterable[Token]:
        at = 0
        while match := _TOKEN.match(self.text, at):
            kind = match.lastgroup or ""
            yield Token(kind, match[kind], match.start(kind))
            at = match.end()
        rest = self.text[at:]
        at += len(rest) - len(rest.lstrip())
        if rest.strip():
            quote = rest.strip()[0] in "'\"`"
            words = "a quote is opened and never closed" if quote else f"unexpected {rest.strip()[0]!r}"
            refuse(self.text, at, words)
        yield Token("end", "", len(self.text))

    def whole(self) -> Node:
        if self.next.kind == "end":
            refuse(self.text, 0, "it is empty")
        found = self.condition()
        if self.next.kind != "end":
            self._unexpected("and, or, or the end")
        return found

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def _take(self) -> Token:
        token = self.next
        self.place += token.kind != "end"
        return token

    def _is(self, *words: str) -> bool:
        token = self.next
        return token.kind in ("word", "symbol") and token.text.lower() in words

    def _expect(self, symbol: str) -> Token:
        if not self._is(symbol):
            self._unexpected(repr(symbol))
        return self._take()

    def _unexpected(self, wanted: str) -> NoReturn:
        got = "the end" if self.next.kind == "end" else repr(self.next.text)
        refuse(self.text, self.next.at, f"expected {wanted} (got {got})")

    def condition(self) -> Node:
        return self._joined("or", self.conjunction, SomeOf)

    def conjunction(self) -> Node:
        return self._joined("and", self.negation, All)

    def _joined(self, word: str, part: object, kind: type[All] | type[SomeOf]) -> Node:
        at, parts = self.next.at, [part()]  # type: ignore[operator]
        while self._is(word):
            self._take()
            parts.append(part())  # type: ignore[operator]
        return parts[0] if len(parts) == 1 else kind(tuple(parts), at)

    def negation(self) -> Node:
        token = self.next
        if not self._is("not", "("):
            return self.test()
        self.depth += 1
        if self.depth > MOST_DEPTH:
            refuse(self.text, token.at, f"it is nested deeper than {MOST_DEPTH} levels")
        self._take()
        if token.text == "(":
            found = self.condition()
            self._expect(")")
        else:
            found = Not(self.negation(), token.at)
        self.depth -= 1
        return found

    def test(self) -> Node:
        left = self.value(begins_test=True)
        token = self.next
        if token.kind == "symbol" and token.text in _SYMBOLS:
            self._take()
            return _compared(_SYMBOLS[token.text], left, self.value(), token.at)
        if self._is("is"):
            self._take()
            opposite = self._is("not") and bool(self._take())
            self._expect("null")
            return _not(IsNull(left, token.at), opposite)
        opposite = self._is("not")
        if opposite:
            self._take()
        token = self.next
        if self._is("in"):
            self._take()
            return _not(OneOf(left, self._options(), token.at), opposite)
        if self._is("contains", "startswith"):
            self._take()
            return _not(Comparison(token.text.lower(), left, self.value(), token.at), opposite)
        if opposite:
            self._unexpected("in, contains or startswith")
        if token.kind == "end" or self._is("and", "or", ")"):
            return Truth(left, left.at)
        self._unexpected("a comparison (=, !=, <, <=, >, >=, in, contains, startswith, is null)")

    def _options(self) -> tuple[Literal, ...]:
        self._expect("(")
        options = [self._literal()]
        while self._is(","):
            self._take()
            options.append(self._literal())
        self._expect(")")
        return tuple(options)

    def _literal(self) -> Literal:
        found = self.value()
        if isinstance(found, Attribute) or found.value is None:
            refuse(self.text, found.at, "a list holds texts, numbers or truth values")
        return found

    def value(self, *, begins_test: bool = False) -> Value:
        token = self.next
        word = token.text.lower()
        if token.kind == "text":
            quote = token.text[0]
            self._take()
            return Literal(token.text[1:-1].replace(quote * 2, quote), token.at)
        if token.kind == "number":
            self._take()
            whole = token.text.lstrip("+-").isdigit()
            return Literal(int(token.text) if whole else float(token.text), token.at)
        if token.kind == "word" and word in ("true", "false", "null"):
            self._take()
            return Literal({"true": True, "false": False, "null": None}[word], token.at)
        if token.kind in ("word", "quoted") and word not in _WORDS:
            return self._attribute(begins_test=begins_test)
        self._unexpected("a value: 'text', a number, candidate.NAME or source.NAME")

    def _attribute(self, *, begins_test: bool) -> Attribute:
        token = self._take()
        end = token.text.lower()
        if begins_test and end not in _ENDS and not self._is("."):
            return Attribute("candidate", token.text.strip("`"), token.at)
        if end not in _ENDS or not self._is("."):
            hint = "" if end in _ENDS else f": write candidate.{token.text} or '{token.text.strip('`')}'"
            refuse(self.text, token.at, f"an attribute begins with candidate. or source.{hint}")
        self._take()
        name = self.next
        if name.kind not in ("word", "quoted"):
            self._unexpected("the name of an attribute")
        self._take()
        return Attribute(end, name.text.strip("`") if name.kind == "quoted" else name.text, token.at)


def _compared(operator: str, left: Value, right: Value, at: int) -> Node:
    """A comparison; with null it asks whether a value is missing."""
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Literal) and value.value is None and operator in ("=", "!="):
            return _not(IsNull(other, at), operator == "!=")
    return Comparison(operator, left, right, at)


def _not(node: Node, opposite: bool) -> Node:
    return Not(node, node.at) if opposite else node
