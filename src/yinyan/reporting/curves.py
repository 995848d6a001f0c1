"""The numbers of the charts: ROC, precision-recall, histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError

__all__ = [
    "Floats",
    "precision_recall_curve",
    "roc_curve",
    "score_histogram",
    "thinned",
]

Floats = NDArray[np.float64]


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
