"""Which column of a table plays which role."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from yinyan.errors import InputError
from yinyan.text import listed

__all__ = [
    "find_column",
    "guess_column",
    "guess_edge_columns",
    "guess_node_column",
    "has_edge_names",
    "plain_name",
    "says_identifier",
    "says_time",
    "two_kinds",
]

# Spelled without case, spaces and punctuation: `Source_ID` is `sourceid`.
_PARTNERS = {
    "source": ("target", "destination", "dest"),
    "src": ("dst", "dest", "tgt"),
    "origin": ("destination", "dest"),
    "from": ("to",),
    "start": ("end",),
    "citing": ("cited",),
    "head": ("tail",),
    "subject": ("object",),
    "user": ("item", "movie", "product"),
    "customer": ("product",),
    "author": ("paper",),
    "parent": ("child",),
    "follower": ("followee",),
}
_ENDINGS = ("", "id", "node", "nodeid")
_NUMBERED = ("protein{}", "gene{}", "node{}", "nodeid{}", "node{}id", "id{}")
_PAIRS = (
    *((a + end, b + end) for a, partners in _PARTNERS.items() for b in partners for end in _ENDINGS),
    *((name.format(1), name.format(2)) for name in _NUMBERED),
    *(("left", "right"), ("u", "v"), ("i", "j"), ("a", "b")),
)
_USUAL = {
    "weight": ("weight", "weights", "edgeweight", "w", "value", "rating", "strength", "count"),
    "time": ("time", "timestamp", "datetime", "date", "year", "edgetime", "unixtime", "ts"),
    "node id": ("id", "nodeid", "node"),
}

_IDENTIFIERS = {"id", "ids", "key", "uuid", "index", "idx", "rowid", "rownumber", "serial", "isbn", "ean"}
_IDENTIFIER_ENDS = ("_id", " id", "-id", "_key", "_no", "_nr", "_number", "Id", "ID")
_TWO_KINDS = ("user", "customer", "author")  # sources whose targets are nodes of another kind


def guess_edge_columns(names: Sequence[str]) -> tuple[str, str]:
    """Guess the source and target columns by their usual names, else take the first two."""
    named = [name for name in names if name.strip()]
    if len(named) < 2:
        raise InputError(
            f"an edge table needs two columns of node ids (got {listed(names)}): "
            "if they are there, give the character between them (delimiter=, --delimiter)"
        )
    plain = {plain_name(name): name for name in reversed(named)}
    for source, target in (*_PAIRS, *_with_ending([plain_name(name) for name in named])):
        if source in plain and target in plain:
            return plain[source], plain[target]
    return named[0], named[1]


def _with_ending(plain: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that end alike, such as `source airport id` and `destination airport id`; ids first, no times."""
    for name in sorted(plain, key=lambda name: not name.endswith("id")):
        for first, partners in _PARTNERS.items():
            ending = name.removeprefix(first)
            if name.startswith(first) and not says_time(ending):
                yield from ((name, partner + ending) for partner in partners)


def has_edge_names(names: Sequence[str]) -> bool:
    """Whether the names include a usual pair of edge columns."""
    plain = {plain_name(name) for name in names}
    return any(source in plain and target in plain for source, target in (*_PAIRS, *_with_ending(plain)))


def two_kinds(source: str, target: str) -> tuple[str, str] | None:
    """The two kinds of nodes that the names of the columns mention, such as user and item; None if they do not."""
    kinds = [(a, b) for a in _TWO_KINDS for b in (*_PARTNERS[a], *_PARTNERS["user"])]
    pair = plain_name(source), plain_name(target)
    found = (k for k in kinds for end in _ENDINGS if pair in ((k[0] + end, k[1] + end), (k[1] + end, k[0] + end)))
    kind = next(found, None)
    return kind if kind is None or pair[0].startswith(kind[0]) else (kind[1], kind[0])


def says_identifier(name: str) -> bool:
    """Whether the name of a column says that its values tell rows apart."""
    return plain_name(name) in _IDENTIFIERS or name.strip().endswith(_IDENTIFIER_ENDS)


def says_time(name: str) -> bool:
    """Whether the name of a column says that its values are times."""
    return any(word in plain_name(name) for word in ("time", "date", "year")) or plain_name(name) in _USUAL["time"]


def guess_column(names: Sequence[str], role: Literal["weight", "time", "node id"]) -> str | None:
    """Guess the column of weights, times or node ids by its usual names."""
    plain = {plain_name(name): name for name in reversed(names)}
    return next((plain[name] for name in _USUAL[role] if name in plain), None)


def guess_node_column(names: Sequence[str]) -> str:
    """Guess the id column of a node table by its usual names, else take the first."""
    named = [name for name in names if name.strip()]
    if not named:
        raise InputError(f"a node table needs a column of ids (got {listed(names)})")
    return guess_column(named, "node id") or named[0]


def find_column(names: Sequence[str], column: str | int, role: str) -> str:
    """Return the name of a column given by name or position (from 0)."""
    if isinstance(column, bool) or not isinstance(column, (str, int)):
        raise InputError(f"the {role} column needs a name or a position (got {column!r})")
    if isinstance(column, str) and column in names:
        return column
    position = column if isinstance(column, int) else int(column) if column.isdecimal() else None
    if position is not None and 0 <= position < len(names):
        return names[position]
    if isinstance(column, int):
        raise InputError(
            f"{role} column {column} is out of range (the columns 0 to {len(names) - 1} are {listed(names)})"
        )
    by_case = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(column.casefold(), by_case, n=1, cutoff=0.5)
    hint = f"; nearest: {by_case[near[0]]!r}" if near else ""
    raise InputError(f"there is no {role} column {column!r} (the columns are {listed(names)}{hint})")


def plain_name(name: str) -> str:
    """A name without case, spaces and punctuation."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
