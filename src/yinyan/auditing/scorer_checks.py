"""Leaks through the batch: does the score of a pair depend on the pairs that are scored with it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.auditing.findings import Log, Tally
from yinyan.errors import InputError
from yinyan.metrics import roc_auc
from yinyan.text import counted

__all__ = ["AnyScorer", "Trial", "check_scorer", "trial_of"]

AnyScorer = Callable[[Any], Any]  # (p, 2) pairs -> (p,) scores, as an array or a tensor
Scores = NDArray[np.float64]
Places = NDArray[np.int64]

_LEAST = 5  # pairs of each label: fewer make no batch
_ALONE = 64  # pairs scored one at a time, half of each label
_REPEATS = 3  # identical calls
_PART = 3  # shuffled batches
_NEGLIGIBLE = 1e-4  # of the spread: less is rounding
_ROUNDING = 16 * float(np.finfo(np.float32).eps)  # of the largest score
_NOISE = 3.0  # times the difference of identical calls: less is noise


class Trial(NamedTuple):
    """A scorer, and labelled pairs to try it on."""

    score: AnyScorer
    pairs: NDArray[Any]  # (p, 2)
    positive: NDArray[np.bool_]  # (p,)

    def scores(self, places: Places) -> Scores:
        """Scores of some pairs in one batch."""
        found = self.score(self.pairs[places])
        found = found.detach().cpu().numpy() if hasattr(found, "detach") else found
        scores = np.asarray(found, dtype=np.float64)
        if scores.shape != places.shape:
            raise InputError(f"'score' needs to return one score per pair, {places.shape} (got shape {scores.shape})")
        return scores

    def in_batches(self, batches: list[Places]) -> Scores:
        """(p,) scores of all pairs, batch after batch, in the order of the pairs."""
        scores = np.empty(len(self.pairs))
        for places in batches:
            scores[places] = self.scores(places)
        return scores

    def auc(self, scores: Scores) -> float | None:
        """AUC by the labels; None if a score is NaN."""
        return None if np.isnan(scores).any() else roc_auc(scores[self.positive], scores[~self.positive])

    def tally(self, marked: NDArray[np.bool_], places: Places) -> Tally:
        """How many of some pairs are marked, and the first of them."""
        first = self.pairs[places[int(marked.argmax())]].tolist() if marked.any() else None
        return int(marked.sum()), len(places), None if first is None else (first[0], first[1])


def trial_of(score: AnyScorer, pairs: ArrayLike, labels: ArrayLike) -> Trial:
    """A trial of pairs with labels, both checked."""
    if not callable(score):
        raise InputError(f"'score' needs to be a function of pairs (got {type(score).__name__}): see model.score")
    rows, marks = np.asarray(pairs), np.asarray(labels)
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InputError(f"'pairs' needs the shape (pairs, 2) (got {rows.shape})")
    if marks.shape != (len(rows),):
        raise InputError(f"'labels' needs one label per pair, {(len(rows),)} (got shape {marks.shape})")
    if not np.isin(marks, (0, 1)).all():
        wrong = marks[~np.isin(marks, (0, 1))][0]
        raise InputError(f"'labels' needs 1 for links and 0 for negatives (got {wrong.item()!r})")
    positive = marks.astype(np.bool_)
    counts = int(positive.sum()), int((~positive).sum())
    if min(counts) < _LEAST:
        raise InputError(
            f"an audit of a scorer needs at least {counted(_LEAST, 'pair')} of each label (got {counts[0]:,} links and "
            f"{counted(counts[1], 'negative')}): add pairs of the other label"
        )
    return Trial(score, rows, positive)


def check_scorer(trial: Trial, log: Log) -> None:
    """Score the same pairs in other batches, and write down every difference beyond rounding and noise."""
    everything = np.arange(len(trial.pairs))
    mixed = trial.scores(everything)
    _find_nan(trial, log, mixed)
    finite = mixed[np.isfinite(mixed)]
    spread, largest = (float(finite.std()), float(np.abs(finite).max())) if finite.size else (0.0, 0.0)
    tolerance = max(_NEGLIGIBLE * spread, _ROUNDING * largest)
    noise = _find_noise(trial, log, mixed, spread, tolerance)
    compare = _Comparison(trial, log, mixed, spread, max(tolerance, _NOISE * noise))
    compare.batches_of_one_label()
    compare.shuffled_batches()
    compare.single_pairs()


def _find_nan(trial: Trial, log: Log, mixed: Scores) -> None:
    places = np.arange(len(mixed))
    log.found("nan-scores", trial.tally(np.isnan(mixed), places), "scores that are NaN")
    log.looked(f"scores of {counted(len(mixed), 'pair')} in one mixed batch")


def _find_noise(trial: Trial, log: Log, mixed: Scores, spread: float, tolerance: float) -> float:
    """The largest difference between identical calls."""
    places = np.arange(len(mixed))
    again = [trial.scores(places) for _ in range(_REPEATS)]
    marked = np.any([_differs(mixed, other, tolerance) for other in again], axis=0)
    noise = max(_largest(mixed, other) for other in again)
    log.found(
        "not-deterministic",
        trial.tally(marked, places),
        "scores that differ between identical calls",
        sizes={"difference": _relative(noise, spread)},
        size=f"The largest difference is {_in_spreads(noise, spread)}; below {_NOISE:g} times as much, dependence on "
        "the batch is not visible",
    )
    log.looked(f"{counted(_REPEATS + 1, 'identical call')}: whether the scores are the same")
    return noise if marked.any() else 0.0


class _Comparison:
    """Scores in other batches against those of one mixed batch."""

    def __init__(self, trial: Trial, log: Log, mixed: Scores, spread: float, tolerance: float) -> None:
        self.trial, self.log, self.mixed = trial, log, mixed
        self.spread, self.tolerance = spread, tolerance
        self.generator = np.random.default_rng(0)

    def batches_of_one_label(self) -> None:
        """One batch of links and one of negatives, as many evaluations score them: then the batch has the label."""
        trial = self.trial
        links, negatives = np.flatnonzero(trial.positive), np.flatnonzero(~trial.positive)
        pure = trial.in_batches([links, negatives])
        self._report(pure, np.arange(len(pure)), "in one batch of links and one of negatives", with_auc=True)

    def shuffled_batches(self) -> None:
        """Other batches and another order."""
        order = self.generator.permutation(len(self.mixed))
        shuffled = self.trial.in_batches(np.array_split(order, _PART))
        self._report(shuffled, np.arange(len(shuffled)), f"in {_PART} shuffled batches")

    def single_pairs(self) -> None:
        """One pair at a time: the score that a service gives."""
        halves = [np.flatnonzero(self.trial.positive == label)[: _ALONE // 2] for label in (True, False)]
        places = np.concatenate(halves)
        alone = np.full(len(places), np.nan)
        failed, why = np.zeros(len(places), dtype=np.bool_), ""
        for row in range(len(places)):
            try:
                alone[row] = self.trial.scores(places[row : row + 1])[0]
            except Exception as error:  # the scorer is the caller's: whatever it raises is a finding
                failed[row], why = True, why or f"{type(error).__name__}: {error}"
        self.log.found(
            "fails-alone",
            self.trial.tally(failed, places),
            "pairs that cannot be scored alone",
            size=f"The first error is {why!r}",
        )
        self._report(alone[~failed], places[~failed], "one pair at a time")

    def _report(self, scores: Scores, places: Places, batches: str, *, with_auc: bool = False) -> None:
        self.log.looked(f"the scores {batches} against those in one mixed batch: {counted(len(places), 'pair')}")
        mixed = self.mixed[places]
        difference = _largest(mixed, scores)
        sizes = {"difference": _relative(difference, self.spread)}
        size = f"The largest difference is {_in_spreads(difference, self.spread)}"
        lost = int((np.isnan(scores) & ~np.isnan(mixed)).sum())
        size += f", and {counted(lost, 'score')} became NaN" if lost else ""
        aucs = (self.trial.auc(scores), self.trial.auc(mixed)) if with_auc else (None, None)
        if aucs[0] is not None and aucs[1] is not None:
            sizes |= {"auc_pure": aucs[0], "auc_mixed": aucs[1]}
            size += f"; the AUC is {aucs[0]:.4f} in these batches and {aucs[1]:.4f} in a mixed one"
        marked = _differs(mixed, scores, self.tolerance)
        tally = self.trial.tally(marked, places)
        self.log.found("batch-dependent", tally, f"scores that differ {batches}", sizes=sizes, size=size)


def _differs(first: Scores, second: Scores, tolerance: float) -> NDArray[np.bool_]:
    """Which scores are not the same; NaN equals NaN, an infinity equals itself."""
    with np.errstate(invalid="ignore"):
        near = np.abs(first - second) <= tolerance
    same: NDArray[np.bool_] = near | (first == second) | (np.isnan(first) & np.isnan(second))
    return ~same


def _largest(first: Scores, second: Scores) -> float:
    """The largest difference of two finite scores."""
    both = np.isfinite(first) & np.isfinite(second)
    return float(np.abs(first[both] - second[both]).max(initial=0.0))


def _relative(difference: float, spread: float) -> float:
    """A difference in standard deviations of the scores; as it is if all scores are the same."""
    return difference / spread if spread else difference


def _in_spreads(difference: float, spread: float) -> str:
    if not spread:
        return f"{difference:.3g} (all scores of the mixed batch are the same)"
    return f"{difference / spread:.2g} standard deviations of the scores"
