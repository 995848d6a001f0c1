"""What an audit writes down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from yinyan.text import counted, html_table

__all__ = ["Audit", "Finding", "Log", "Severity", "Tally"]

Severity = Literal["leak", "warning"]
Tally = tuple[int, int, tuple[Any, Any] | None]  # a count, of how many, and an example in the caller's ids

_LEAKS = frozenset(
    {
        *("repeated", "reversed", "scored-by-itself", "future", "sampler-knows", "sampler-avoids", "easy-side"),
        "batch-dependent",
    }
)
_BY_PAIR = "Cure: split unordered pairs, so that all copies of a link share a part."
_DRAW = "Cure: draw training negatives with the training links as the only known links."
_EVAL = "a module in evaluation mode (`module.eval()`), and nothing summed or averaged over the batch."
_TWICE = (
    "Where one is predicted and the other passes messages, the answers are among the messages. Cure: keep one of them, "
    "or leave the edges of the other out with graph.with_edges({name: []})."
)
_WHY = {  # why each kind of finding matters, and the remedy
    "repeated": f"The model was trained on the answer, or chosen by it. {_BY_PAIR}",
    "reversed": "Undirected, that is the same link: the model was trained on the answer, or chosen by it. Directed, "
    f"the reverse gives links away where they are often answered. {_BY_PAIR}",
    "inverse-relations": f"They are one relation, written both ways. {_TWICE}",
    "near-duplicate-relations": f"They are one relation under two names. {_TWICE}",
    "contained-relation": "Its edges are among those of the other. If these are known later only, they give answers "
    "away. Cure: leave out what is not known when a link is to be predicted.",
    "symmetric-relation": "It has no direction, and the reverse of a test link may be a message. Cure: leave it out of "
    "'directed', so that both ways are one edge.",
    "answered-by-relation": "The answer is among the messages. Cure: take the same pairs out of both relations, or "
    "leave the other one out.",
    "scored-by-itself": "The encoder sees the answer. Cure: take the links out of the messages that score them.",
    "doubled": "Some links weigh more than others. Cure: keep each pair once.",
    "self-pairs": "They can be recognised without learning. Cure: drop them.",
    "one-sided": "No link of the graph is like them. Cure: drop them, or number the two sides apart.",
    "not-in-graph": "The split may be of another graph. Cure: give the graph with the links of all parts.",
    "future": "The model learns from what came after. Cure: cut the parts at points in time.",
    "sampler-knows": f"A pair that is never drawn as a negative is a link: the model learns that. {_DRAW}",
    "sampler-avoids": f"They were avoided: a pair that is never a negative is a link, the model learns that. {_DRAW}",
    "mislabelled": "Their label is wrong: a good model is punished for them. Cure: drop them, or draw others.",
    "doubled-negatives": "Some negatives weigh more than others. Cure: keep each pair once.",
    "easy-side": "They can be recognised without learning. Cure: draw negatives between the two sides.",
    "shared-negatives": "The model was trained on them, or chosen by them. Cure: draw the parts' negatives apart.",
    "own-positive": "The link competes with itself, and ties. Cure: draw them anew.",
    "stranger-negatives": "The ranking is no longer among the candidates of one node. Cure: keep one end of the link "
    "in each of its negatives, and links and negatives in one order.",
    "easy-degree": "Nodes without links give most negatives away. Cure: draw them among nodes that have links.",
    "batch-dependent": "A pair has no score of its own: where links and negatives are scored in batches of their own, "
    f"the batch reveals the label. Cure: {_EVAL}",
    "not-deterministic": f"Figures change from call to call. Cure: {_EVAL} Random draws need a fixed seed.",
    "nan-scores": "A NaN has no rank. Cure: look for divisions by zero and for weights that diverged.",
    "fails-alone": f"A model in use is asked for single pairs. Cure: {_EVAL}",
}


class Finding(NamedTuple):
    """A fault of a split or a scorer: a leak raises the figures, a warning makes them less exact."""

    kind: str  # a short name that stays the same
    severity: Severity  # 'leak' or 'warning'
    count: int  # type: ignore[assignment]  # number of such pairs
    share: float  # of the pairs that were checked
    example: tuple[Any, Any] | None  # the first such pair, in the caller's ids if they are known
    words: str  # what, how many, why it matters, remedy
    sizes: dict[str, float] | None = None  # of a scorer's fault: 'difference' in standard deviations, AUCs by batches


@dataclass(frozen=True)
class Audit:
    """What was found in a split or a scorer, and what was checked; `print` shows it.

    Examples
    --------
    >>> from yinyan import audit, released_split
    >>> len(audit(released_split(graph, seed=0)).leaks) > 0
    True
    """

    findings: tuple[Finding, ...]  # leaks and warnings
    checked: tuple[str, ...]  # what was checked, in words

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """The findings that flatter the scores."""
        return tuple(finding for finding in self.findings if finding.severity == "leak")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that blur the scores."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def _head(self) -> str:
        leaks = len(self.leaks)
        return f"{counted(leaks, 'leak') if leaks else 'no leaks'}, {counted(len(self.warnings), 'warning')}"

    def _repr_html_(self) -> str:
        rows = [[f.severity, f.kind, f.words] for f in self._sorted()]
        rows += [["checked", "", words] for words in self.checked]
        return html_table(["", "kind", "finding"], rows, title=self._head(), right=())

    def __str__(self) -> str:
        lines = [f"{'LEAK' if f in self.leaks else 'warning'} {f.kind}: {f.words}" for f in self._sorted()]
        return "\n".join([self._head(), *lines, "checked:", *(f"- {words}" for words in self.checked)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            The number of leaks, the findings, and what was checked.

        Examples
        --------
        >>> from yinyan import audit, random_split
        >>> list(audit(random_split(graph, seed=0)).to_dict())
        ['leaks', 'findings', 'checked']
        """
        findings = [{**f._asdict(), "example": None if f.example is None else list(f.example)} for f in self._sorted()]
        return {"leaks": len(self.leaks), "findings": findings, "checked": list(self.checked)}

    def _sorted(self) -> tuple[Finding, ...]:
        return self.leaks + self.warnings


class Log:
    """Where checks write what they looked at and what they found."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checked: list[str] = []

    def looked(self, words: str) -> None:
        """Note what was looked at."""
        self.checked.append(words)

    def found(
        self,
        kind: str,
        tally: Tally,
        what: str,
        *,
        severity: Severity | None = None,
        size: str = "",
        sizes: dict[str, float] | None = None,
    ) -> None:
        """Note a finding unless its count is 0, with the usual severity of its kind unless given, and its size."""
        count, total, example = tally
        if not count:
            return
        usual: Severity = "leak" if kind in _LEAKS else "warning"
        shown = "" if example is None else f", for example {example[0]!r} - {example[1]!r}"
        words = (
            f"{what}: {count:,} of {total:,} ({count / total:.1%}){shown}. {size + '. ' if size else ''}{_WHY[kind]}"
        )
        self.findings.append(Finding(kind, severity or usual, count, count / total, example, words, sizes))

    def finish(self) -> Audit:
        """All of it."""
        return Audit(tuple(self.findings), tuple(self.checked))
