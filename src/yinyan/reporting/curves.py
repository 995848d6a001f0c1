"""The numbers of the charts: ROC, precision-recall, calibration, histogram."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError

__all__ = [
    "Floats",
    "ReliabilityBins",
    "precision_recall_curve",
    "reliability_bins",
    "roc_curve",
    "score_histogram",
    "thinned",
]

Floats = NDArray[np.float64]


class ReliabilityBins(NamedTuple):
    """Stated against observed probability, one entry per non-empty bin."""

    predicted: Floats  # weighted mean of the stated probabilities
    observed: Floats  # weighted share of positives
    low: Floats  # 95 % Wilson interval of the observed share
    high: Floats
    counts: NDArray[np.int64]  # pairs, unweighted


def roc_curve(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats, float]:
    """False and true positive rates from (0, 0) to (1, 1), and the area; tied scores make one slope."""
    true_positive, false_positive = _cumulative(positive, negative)
    tpr = np.append(0.0, true_positive / true_positive[-1])
    fpr = np.append(0.0, false_positive / false_positive[-1])
    return fpr, tpr, float((np.diff(fpr) * (tpr[1:] + tpr[:-1])).sum() / 2)


def precision_recall_curve(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats, float]:
    """Recall and precision at each distinct score, and the area of the steps that reach back from them."""
    true_positive, false_positive = _cumulative(positive, negative)
    precision = true_positive / (true_positive + false_positive)
    recall = np.append(0.0, true_positive / true_positive[-1])
    area = float((np.diff(recall) * precision).sum())
    return recall, np.append(precision[0], precision), area


def reliability_bins(
    positive: ArrayLike, negative: ArrayLike, *, base_rate: float | None = None, num_bins: int = 10
) -> ReliabilityBins:
    """Bins of stated probability, the pairs weighted so that positives make up `base_rate` (None: as sampled)."""
    pos, neg = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    both = np.concatenate([pos, neg])
    if not pos.size or not neg.size or not ((both >= 0) & (both <= 1)).all():
        raise InputError("probabilities of positives and of negatives need to be given, and lie between 0 and 1")
    rate = pos.size / both.size if base_rate is None else base_rate
    if not 0 < rate < 1:
        raise InputError(f"'base_rate' needs to lie between 0 and 1 (got {rate})")
    bin_of = np.minimum((both * num_bins).astype(np.int64), num_bins - 1)
    links = np.bincount(bin_of[: pos.size], minlength=num_bins)
    counts = np.bincount(bin_of, minlength=num_bins)
    weights = np.repeat([rate / pos.size, (1 - rate) / neg.size], [pos.size, neg.size])
    used = counts > 0
    stated = np.bincount(bin_of, weights * both, num_bins)[used] / np.bincount(bin_of, weights, num_bins)[used]
    odds = weights[0] / weights[-1]
    # weighting multiplies the odds and keeps order: so an interval's ends are weighted as the share itself
    shares = (links[used] / counts[used], *_wilson(links[used], counts[used]))
    observed, low, high = (share * odds / (share * odds + 1 - share) for share in shares)
    return ReliabilityBins(stated, observed, low, high, counts[used])


def score_histogram(positive: ArrayLike, negative: ArrayLike, num_bins: int = 32) -> tuple[Floats, Floats, Floats]:
    """(num_bins + 1,) edges of bins, and the share of the positives and of the negatives in each."""
    parts = _scores(positive, negative)
    both = np.concatenate(parts)
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high, num_bins + 1) if high > low else np.linspace(low - 0.5, low + 0.5, num_bins + 1)
    shares = [np.histogram(part.clip(edges[0], edges[-1]), edges)[0] / part.size for part in parts]
    return edges, shares[0], shares[1]


def thinned(x: Floats, y: Floats, most: int = 200) -> tuple[Floats, Floats]:
    """At most `most` vertices, evenly along the curve, both ends among them."""
    if x.size <= most:
        return x, y
    steps = np.abs(np.diff(x)) / (np.ptp(x) or 1.0) + np.abs(np.diff(y)) / (np.ptp(y) or 1.0)
    way = np.append(0.0, np.cumsum(steps))
    rows = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], most)).clip(0, x.size - 1))
    rows = np.union1d(rows, [0, x.size - 1])
    return x[rows], y[rows]


def _cumulative(positive: ArrayLike, negative: ArrayLike) -> tuple[Floats, Floats]:
    """Positives and negatives at or above each distinct score, from the highest score down."""
    parts = [np.sort(part) for part in _scores(positive, negative)]
    thresholds = np.unique(np.concatenate(parts))[::-1]
    above = [(part.size - np.searchsorted(part, thresholds, side="left")).astype(np.float64) for part in parts]
    return above[0], above[1]


def _scores(positive: ArrayLike, negative: ArrayLike) -> list[Floats]:
    parts = [np.asarray(scores, dtype=np.float64).ravel() for scores in (positive, negative)]
    if any(not part.size or np.isnan(part).any() for part in parts):
        raise InputError("scores of positives and of negatives need to be given, none of them NaN")
    return parts


def _wilson(hits: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    z = 1.96
    share, wide = hits / counts, z * z / counts
    centre = (share + wide / 2) / (1 + wide)
    half = np.sqrt(share * (1 - share) * wide + wide * wide / 4) / (1 + wide)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
