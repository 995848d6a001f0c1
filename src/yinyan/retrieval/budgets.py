"""What a search may cost and must find, and the least effort that does."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import SettingsError
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK
from yinyan.retrieval.probing import Effort, Probing
from yinyan.retrieval.queries import is_linear
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Budget", "Sample", "Trial", "ladder", "nearest", "recall_of", "try_efforts", "unreached", "within"]

Rows = NDArray[np.int64]

_ONE_SIDED = 1.64  # standard errors that a mean exceeds once in twenty times
_MOST_CANDIDATES = 16_000  # for k = 100: beyond, an exact search is as good


@dataclass(frozen=True)
class Budget:
    """Recall at least, milliseconds per source and megabytes at most; None where it does not matter."""

    recall: float | None = 0.98
    milliseconds: float | None = None
    megabytes: float | None = None
    k: int = 100  # of the recall

    def __post_init__(self) -> None:
        if self.recall is not None and not 0 < self.recall <= 1:
            raise SettingsError(f"'recall' needs to be above 0 and at most 1 (got {self.recall!r})")
        for name in ("milliseconds", "megabytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name!r} needs to be positive (got {value!r})")
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise SettingsError(f"'k' needs to be a positive integer (got {self.k!r})")


@dataclass(frozen=True, eq=False)
class Sample:
    """Sources whose exact answer is known: what recall is measured on."""

    sources: Rows
    truth: Sequence[TopK]
    excluded: Excluded | None
    k: int
    exact_milliseconds: float  # per source

    @classmethod
    def draw(
        cls, exact: ExactSearch, rows: Snapshot, count: int, k: int, excluded: Excluded | None, seed: int
    ) -> Sample:
        """So many sources, drawn from those that are not removed."""
        there = np.flatnonzero(~rows.is_removed)
        sources = np.random.default_rng(seed).choice(there, min(count, there.size), replace=False)
        started = time.perf_counter()
        truth = exact.top_k(rows, sources, k, excluded)
        spent = time.perf_counter() - started
        return cls(sources, truth, excluded, k, 1e3 * spent / max(1, sources.size))

    def part(self, which: slice) -> Sample:
        """Some of the sources."""
        return dataclasses.replace(self, sources=self.sources[which], truth=self.truth[which])

    def try_out(self, search: Probing, rows: Snapshot) -> Trial:
        """Recall and time of a search."""
        started = time.perf_counter()
        found = search.top_k(rows, self.sources, self.k, self.excluded)
        spent = time.perf_counter() - started
        recall, error = recall_and_error(found, self.truth)
        return Trial(search.effort, recall, 1e3 * spent / max(1, self.sources.size), error)


@dataclass(frozen=True)
class Trial:
    """What an effort found of the exact answer, and how long it took."""

    effort: Effort
    recall: float
    milliseconds: float  # per source, in a batch
    error: float = 0.0  # standard error of the recall

    def reaches(self, recall: float | None) -> bool:
        """Whether it finds that share of the answer, and not by chance: nineteen times of twenty."""
        return recall is None or self.recall - _ONE_SIDED * self.error >= recall


def ladder(num_cells: int, *, linear: bool) -> list[Effort]:
    """Efforts from little to a look into all cells with very many candidates."""
    steps: list[Effort] = []
    probes, candidates = 8, 200
    while candidates <= _MOST_CANDIDATES:
        probed = min(probes, num_cells)
        rounds = (1,) if linear else (1, 3)
        steps += [Effort(probed, candidates, rounds=count) for count in rounds]
        probes, candidates = 2 * probes, candidates + 100 if probed < min(num_cells, 256) else 2 * candidates
    return steps


def recall_of(found: Sequence[TopK], truth: Sequence[TopK]) -> float:
    """Mean share of the exact answer that was found; one that has no rows counts as found."""
    return recall_and_error(found, truth)[0]


def recall_and_error(found: Sequence[TopK], truth: Sequence[TopK]) -> tuple[float, float]:
    """The same, and its standard error."""
    shares = [
        np.isin(exact.rows, top.rows).mean() if exact.rows.size else 1.0
        for top, exact in zip(found, truth, strict=True)
    ]
    if not shares:
        return 1.0, 0.0
    return float(np.mean(shares)), float(np.std(shares) / math.sqrt(len(shares)))


def try_efforts(
    search: Probing, rows: Snapshot, sample: Sample, budget: Budget, tell: Callable[[str], None]
) -> list[Trial]:
    """Efforts from the least on, until one reaches the recall or all take too long."""
    trials: list[Trial] = []
    sample.part(slice(0, 2)).try_out(search, rows)  # what is done once only shall not count
    for effort in ladder(len(search.lists.centres), linear=is_linear(search.decoder)):
        trial = sample.try_out(search.with_effort(effort), rows)
        trials.append(trial)
        tell(
            f"{effort.probes:,} cells, {effort.candidates:,} candidates, rounds {effort.rounds}: "
            f"recall {trial.recall:.4f}, {trial.milliseconds:.3f} ms"
        )
        if budget.milliseconds is not None and trial.milliseconds > 2 * budget.milliseconds:
            break
        if budget.recall is not None and trial.reaches(budget.recall):
            break
    return trials


def within(trials: Sequence[Trial], budget: Budget) -> Trial | None:
    """The quickest that reaches the recall in time, or the best in time if no recall is asked for."""
    good = [trial for trial in _in_time(trials, budget) if trial.reaches(budget.recall)]
    if not good:
        return None
    return min(good, key=lambda t: t.milliseconds) if budget.recall is not None else max(good, key=lambda t: t.recall)


def nearest(trials: Sequence[Trial], budget: Budget) -> Trial:
    """The best in time; if none is, the quickest."""
    fast = _in_time(trials, budget)
    return max(fast, key=lambda t: t.recall) if fast else min(trials, key=lambda t: t.milliseconds)


def unreached(trials: Sequence[Trial], budget: Budget) -> str:
    """What none of the trials reached, and the best of them."""
    asked = [] if budget.recall is None else [f"reaches a recall of {budget.recall:g}"]
    asked += [] if budget.milliseconds is None else [f"takes {budget.milliseconds:g} ms per source or less"]
    best = max(trials, key=lambda t: t.recall)
    return (
        f"no effort {' and '.join(asked)}: the best recall tried was {best.recall:.4f}, at {best.milliseconds:.3g} ms"
    )


def _in_time(trials: Sequence[Trial], budget: Budget) -> list[Trial]:
    return [t for t in trials if budget.milliseconds is None or t.milliseconds <= budget.milliseconds]
