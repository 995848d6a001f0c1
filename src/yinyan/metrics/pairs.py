"""Ranking metrics: pure functions of the scores of true and of false pairs.

Ties never flatter: Hits@K counts a link only if it beats the K-th best non-link strictly, and MRR takes the
mean of the best and the worst rank that ties admit (both as OGB's evaluator does). `metric` finds one by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError, SettingsError

__all__ = [
    "Metric",
    "average_precision",
    "hits_at_k",
    "hits_at_rate",
    "hits_in_own_ranking",
    "metric",
    "mrr",
    "ranks",
    "roc_auc",
]

Metric = Callable[[ArrayLike, ArrayLike], float]  # of the scores of positives and of negatives


def metric(name: str) -> Metric:
    """The metric called `name`.

    The metric takes scores of positives, (p,), and of negatives, shared (m,) or each positive's own row of (p, m). With
    rows, 'hits@K' and 'mrr' rank each positive in its own row, while 'auc' and 'ap' pool the rows.

    Parameters
    ----------
    name
        'hits@K' for a positive integer K, 'mrr', 'auc' or 'ap'.

    Returns
    -------
    callable
        A function of the scores of positives and of negatives.

    Raises
    ------
    SettingsError
        If there is no such metric.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.metric("hits@1")([0.9, 0.2], [0.5, 0.1])
    0.5
    """
    if found := re.fullmatch(r"hits@([1-9][0-9]*)", name):
        return partial(_hits, k=int(found[1]))
    if name not in _NAMED:
        raise SettingsError(f"a metric needs to be one of hits@K (such as hits@20), {', '.join(_NAMED)} (got {name!r})")
    return _NAMED[name]


def hits_at_k(positive: ArrayLike, negative: ArrayLike, k: int) -> float:
    """Share of positives that score strictly above the k-th best negative.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives, shared by all positives.
    k
        A positive integer.

    Returns
    -------
    float
        The share; 1.0 if there are fewer than `k` negatives.

    Raises
    ------
    InputError
        If there are no scores, a score is NaN, or `k` is below 1.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.hits_at_k([0.9, 0.2], [0.5, 0.1], 1)
    0.5
    """
    pos, neg = _scores(positive, negative)
    _check_k(k)
    neg = neg.ravel()  # negatives are shared, in whatever shape they come
    if neg.size < k:
        return 1.0
    return float((pos > np.partition(neg, neg.size - k)[neg.size - k]).mean())


def hits_at_rate(positive: ArrayLike, negative: ArrayLike, rate: float) -> float:
    """Share of positives above all but a share of the negatives: Hits@K for any number of negatives.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives, shared by all positives.
    rate
        K as a share of the negatives, such as 0.1.

    Returns
    -------
    float
        The share.

    Raises
    ------
    InputError
        If there are no scores, or a score is NaN.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.hits_at_rate([0.9, 0.2], [0.5, 0.1], 0.5)
    0.5
    """
    _, neg = _scores(positive, negative)
    return hits_at_k(positive, negative, max(1, round(rate * neg.size)))


def hits_in_own_ranking(positive: ArrayLike, negative: ArrayLike, k: int) -> float:
    """Share of positives whose rank in their own row of negatives is k or better (as HeaRT counts).

    The rank is that of `ranks`, where ties end in the middle. With m ≤ 2(k - 1) negatives a constant score would reach
    1.0, so that so few negatives are refused.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        (p, m) scores of negatives, a row for each positive.
    k
        A positive integer.

    Returns
    -------
    float
        The share.

    Raises
    ------
    InputError
        If `negative` has no rows or too few columns, a score is NaN, or `k` is below 1.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.hits_in_own_ranking([0.9, 0.2], [[0.5, 0.1], [0.5, 0.1]], 1)
    0.5
    """
    _check_k(k)
    neg = np.asarray(negative)
    if neg.ndim != 2:
        raise InputError(
            f"'negative' needs one row per positive (got shape {neg.shape}): see hits_at_k for shared ones"
        )
    if 0 < neg.shape[1] <= 2 * (k - 1):
        raise InputError(f"Hits@{k} needs at least {2 * k - 1:,} negatives per positive (got {neg.shape[1]:,})")
    return float((ranks(positive, negative) <= k).mean())


def mrr(positive: ArrayLike, negative: ArrayLike) -> float:
    """Mean of 1/rank of each positive among the negatives.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives: shared (m,), or each positive's own row of (p, m).

    Returns
    -------
    float
        The mean reciprocal rank.

    Raises
    ------
    InputError
        If there are no scores, a score is NaN, or there is not one row for each positive.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.mrr([0.9, 0.2], [0.5, 0.1])
    0.75
    """
    return float((1.0 / ranks(positive, negative)).mean())


def ranks(positive: ArrayLike, negative: ArrayLike) -> NDArray[np.float64]:
    """Rank of each positive among the negatives, from 1: with ties, the mean of the best and the worst rank.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives: shared (m,), or each positive's own row of (p, m).

    Returns
    -------
    numpy.ndarray
        (p,) ranks.

    Raises
    ------
    InputError
        If there are no scores, a score is NaN, or there is not one row for each positive.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.ranks([0.9, 0.5], [0.5, 0.1])
    array([1. , 1.5])
    """
    pos, neg = _scores(positive, negative)
    if neg.ndim == 2:
        if neg.shape[0] != pos.size:
            raise InputError(f"'negative' needs one row per positive: {pos.size:,} (got {neg.shape[0]:,})")
        better = (neg > pos[:, None]).sum(1)
        no_worse = (neg >= pos[:, None]).sum(1)
    else:
        ordered = np.sort(neg)
        better = neg.size - np.searchsorted(ordered, pos, side="right")
        no_worse = neg.size - np.searchsorted(ordered, pos, side="left")
    return np.asarray(0.5 * (better + no_worse) + 1.0)


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float:
    """Probability that a positive scores above a negative; ties count one half.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives, in any shape.

    Returns
    -------
    float
        The area under the ROC curve.

    Raises
    ------
    InputError
        If there are no scores, or a score is NaN.

    Examples
    --------
    >>> from yinyan import metrics
    >>> metrics.roc_auc([0.9, 0.2], [0.5, 0.1])
    0.75
    """
    pos, neg = _scores(positive, negative)
    ordered = np.sort(neg, axis=None)
    below = np.searchsorted(ordered, pos, side="left") + np.searchsorted(ordered, pos, side="right")
    return float(below.mean() / (2.0 * ordered.size))


def average_precision(positive: ArrayLike, negative: ArrayLike) -> float:
    """Area under the precision-recall curve by steps; tied pairs share one threshold.

    Parameters
    ----------
    positive
        (p,) scores of positives.
    negative
        Scores of negatives, in any shape.

    Returns
    -------
    float
        The average precision.

    Raises
    ------
    InputError
        If there are no scores, or a score is NaN.

    Examples
    --------
    >>> from yinyan import metrics
    >>> round(metrics.average_precision([0.9, 0.2], [0.5, 0.1]), 4)
    0.8333
    """
    pos, neg = _scores(positive, negative)
    pos, neg = np.sort(pos), np.sort(neg, axis=None)
    thresholds, first = np.unique(pos, return_index=True)
    true_positive = pos.size - first  # positives at or above each threshold
    false_positive = neg.size - np.searchsorted(neg, thresholds, side="left")
    own = np.diff(np.append(first, pos.size))  # positives at each threshold
    return float((own * true_positive / (true_positive + false_positive)).sum() / pos.size)


_NAMED: dict[str, Metric] = {"mrr": mrr, "auc": roc_auc, "ap": average_precision}


def _hits(positive: ArrayLike, negative: ArrayLike, *, k: int) -> float:
    """Hits@k in each positive's own row of negatives if they come in rows, among shared ones otherwise."""
    return (hits_in_own_ranking if np.ndim(negative) == 2 else hits_at_k)(positive, negative, k)


def _check_k(k: int) -> None:
    if k < 1:
        raise InputError(f"'k' needs to be a positive integer (got {k})")


def _scores(positive: ArrayLike, negative: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    pos, neg = np.asarray(positive, dtype=np.float64), np.asarray(negative, dtype=np.float64)
    for name, array in (("positive", pos), ("negative", neg)):
        if array.size == 0:
            raise InputError(f"'{name}' needs at least one score (got none)")
        if np.isnan(array).any():
            raise InputError(f"'{name}' scores hold NaN: a NaN has no rank")
    return pos, neg
