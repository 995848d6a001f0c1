"""What a search may cost and must find, and the least effort that does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import SettingsError
from yinyan.retrieval.efforts import Effort, Efforts, ladder, smaller
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.metadata import AtK
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.queries import is_linear
from yinyan.retrieval.shards import Search, ShardedProbing
from yinyan.retrieval.snapshot import Snapshot

__all__ = [
    "LOW",
    "Budget",
    "Sample",
    "Trial",
    "measured_facts",
    "measured_ks",
    "nearest",
    "recall_of",
    "try_efforts",
    "unreached",
    "within",
]

Rows = NDArray[np.int64]

_ONE_SIDED = 1.64  # standard errors that a mean exceeds once in twenty times
_USUAL = (1, 10, 20, 50, 100)  # what users ask for
LOW = 0.9  # a recall that is too low for one node, whatever the mean


@dataclass(frozen=True)
class Budget:
    """Recall at least, milliseconds per source and megabytes at most; None where it does not matter."""

    recall: float | None = 0.98
    milliseconds: float | None = None
    megabytes: float | None = None
    k: int = 100  # the recall holds for it and for the usual k

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
    exact_milliseconds: float  # per source
    around: Neighbourhoods | None = None  # of the sources, where a search begins

    @classmethod
    def draw(
        cls,
        exact: Search,
        rows: Snapshot,
        count: int,
        k: int,
        excluded: Excluded | None,
        seed: int,
        around: Neighbourhoods | None = None,
    ) -> Sample:
        """So many sources, drawn from those that are not removed, with their k best partners."""
        there = np.flatnonzero(~rows.is_removed)
        sources = np.random.default_rng(seed).choice(there, min(count, there.size), replace=False)
        started = time.perf_counter()
        truth = exact.top_k(rows, sources, k, excluded)
        spent = time.perf_counter() - started
        return cls(sources, truth, excluded, 1e3 * spent / max(1, sources.size), around)

    def part(self, which: slice) -> Sample:
        """Some of the sources."""
        return replace(self, sources=self.sources[which], truth=self.truth[which])

    def try_out(self, search: Probing | ShardedProbing, rows: Snapshot, k: int) -> Trial:
        """Recall and time of a search for k rows."""
        started = time.perf_counter()
        found = search.top_k(rows, self.sources, k, self.excluded, around=self.around)
        spent = time.perf_counter() - started
        shares = recalls_of(found, [TopK(top.rows[:k], top.scores[:k]) for top in self.truth])
        return Trial(
            k,
            search.efforts.at(k),
            float(shares.mean()) if shares.size else 1.0,
            1e3 * spent / max(1, self.sources.size),
            float(np.maximum(shares, LOW).std() / math.sqrt(shares.size)) if shares.size else 0.0,
            float((shares < LOW).mean()) if shares.size else 0.0,
        )


@dataclass(frozen=True)
class Trial:
    """What an effort found of the exact k best, and how long it took."""

    k: int
    effort: Effort
    recall: float
    milliseconds: float  # per source, in a batch
    error: float = 0.0  # standard error of the recall, if no source had less than LOW
    low_share: float = 0.0  # of sources whose recall is below LOW

    def reaches(self, recall: float | None) -> bool:
        """Whether it finds that share of the answer, and not by chance: nineteen times of twenty.

        Sources with a recall below LOW count in the mean as they are. They do not widen the margin: a few nodes that
        are harder than all others would ask for any effort.
        """
        return recall is None or self.recall - _ONE_SIDED * self.error >= recall


def measured_ks(k: int) -> tuple[int, ...]:
    """The k that recall is measured for: usual ones, and the one asked for."""
    return tuple(sorted({*_USUAL, k}))


def recalls_of(found: Sequence[TopK], truth: Sequence[TopK]) -> NDArray[np.float64]:
    """(sources,) shares of the exact answers that were found; one that has no rows counts as found."""
    return np.array(
        [
            np.isin(exact.rows, top.rows).mean() if exact.rows.size else 1.0
            for top, exact in zip(found, truth, strict=True)
        ]
    )


def recall_of(found: Sequence[TopK], truth: Sequence[TopK]) -> float:
    """Their mean."""
    shares = recalls_of(found, truth)
    return float(shares.mean()) if shares.size else 1.0


def try_efforts(
    search: Probing | ShardedProbing,
    rows: Snapshot,
    sample: Sample,
    k: int,
    budget: Budget,
    tell: Callable[[str], None],
    *,
    check: Sample | None = None,
    first: int = 0,
    useless_from: float = math.inf,
) -> list[Trial]:
    """Efforts for k rows from the least on, until one reaches the recall or all take too long; then smaller ones.

    One that reaches it on `sample` has to reach it in the mean of `check` too: some nodes are much harder than others,
    and few of them may be in one sample. The ladder begins at its step `first`. From `useless_from` milliseconds on
    none is tried any more.
    """

    def tried(effort: Effort) -> Trial:
        narrowed = search.with_efforts(Efforts({k: effort}))
        trial = sample.try_out(narrowed, rows, k)
        if check is not None and budget.recall is not None and trial.reaches(budget.recall):
            again = check.try_out(narrowed, rows, k).recall
            trial = trial if again >= budget.recall else replace(trial, recall=again)
        tell(
            f"k = {k}, {effort.probes:,} cells, {effort.candidates:,} candidates, rounds {effort.rounds}: "
            f"recall {trial.recall:.4f}, {trial.milliseconds:.3f} ms"
        )
        return trial

    trials: list[Trial] = []
    sample.part(slice(0, 2)).try_out(search, rows, k)  # what is done once only shall not count
    steps = ladder(search.num_cells, k, linear=is_linear(search.decoder))
    for effort in steps[min(first, len(steps) - 1) :]:
        trial = tried(effort)
        trials.append(trial)
        if budget.milliseconds is not None and trial.milliseconds > 2 * budget.milliseconds:
            break
        if budget.recall is not None and trial.reaches(budget.recall):
            return [*trials, *_smaller(trial, budget.recall, tried)]
        if trial.milliseconds >= useless_from:
            break
    return trials


def _smaller(best: Trial, recall: float, tried: Callable[[Effort], Trial]) -> list[Trial]:
    """Trials of efforts that do less in one respect than one that reaches the recall, as long as they do too."""
    trials: list[Trial] = []
    seen = {best.effort}
    while fresh := [effort for effort in smaller(best.effort, best.k) if effort not in seen]:
        seen.add(fresh[0])
        trials.append(tried(fresh[0]))
        if trials[-1].reaches(recall) and trials[-1].milliseconds < best.milliseconds:
            best = trials[-1]
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
    k = trials[0].k
    asked = [] if budget.recall is None else [f"reaches a recall of {budget.recall:g} at k = {k}"]
    asked += [] if budget.milliseconds is None else [f"takes {budget.milliseconds:g} ms per source or less"]
    best = max(trials, key=lambda t: t.recall)
    return (
        f"no effort {' and '.join(asked)}: the best recall tried was {best.recall:.4f}, at {best.milliseconds:.3g} ms"
    )


def _in_time(trials: Sequence[Trial], budget: Budget) -> list[Trial]:
    return [t for t in trials if budget.milliseconds is None or t.milliseconds <= budget.milliseconds]


def measured_facts(
    sample: Sample, search: Probing | ShardedProbing, rows: Snapshot, ks: Sequence[int], k: int
) -> dict[str, Any]:
    """What metadata say of recall and time, for each of some k and for the one of the build."""
    trials = {other: sample.try_out(search, rows, other) for other in ks}
    mine = trials[k]
    per_k = (AtK(t.k, t.recall, t.low_share, t.milliseconds, asdict(t.effort)) for t in trials.values())
    return {
        "effort": asdict(mine.effort),
        "recall": mine.recall,
        "milliseconds": mine.milliseconds,
        "exact_milliseconds": sample.exact_milliseconds,
        "sample": sample.sources.size,
        "per_k": tuple(per_k),
    }
