"""What an audit writes down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from yinyan.text import counted

__all__ = ["Audit", "Finding", "Log", "Severity"]

Severity = Literal["leak", "warning"]


class Finding(NamedTuple):
    """A fault of a split: a leak raises the scores, a warning makes them less exact."""

    kind: str  # a short name that stays the same
    severity: Severity  # 'leak' or 'warning'
    count: int  # type: ignore[assignment]  # number of such pairs
    share: float  # of the pairs that were checked
    example: tuple[Any, Any] | None  # the first such pair, in the caller's ids if they are known
    words: str  # what, how many, why it matters, remedy


@dataclass(frozen=True)
class Audit:
    """What was found in a split, and what was checked; `print` shows it.

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

    def __str__(self) -> str:
        leaks, warnings = len(self.leaks), len(self.warnings)
        head = f"{counted(leaks, 'leak') if leaks else 'no leaks'}, {counted(warnings, 'warning')}"
        lines = [f"{'LEAK' if f in self.leaks else 'warning'} {f.kind}: {f.words}" for f in self._sorted()]
        return "\n".join([head, *lines, "checked:", *(f"- {words}" for words in self.checked)])

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
        severity: Severity,
        tally: tuple[int, int, tuple[Any, Any] | None],
        *,
        what: str,
        why: str,
    ) -> None:
        """Note a finding unless its count is 0; `tally` is a count, of how many, and an example."""
        count, total, example = tally
        if not count:
            return
        shown = "" if example is None else f", for example {example[0]!r} - {example[1]!r}"
        words = f"{what}: {count:,} of {total:,} ({count / total:.1%}){shown}. {why}"
        self.findings.append(Finding(kind, severity, count, count / total, example, words))

    def finish(self) -> Audit:
        """All of it."""
        return Audit(tuple(self.findings), tuple(self.checked))
