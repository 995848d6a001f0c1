"""Whether probabilities hold: stated against observed shares, and the expected calibration error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError

__all__ = ["ReliabilityBins", "expected_calibration_error", "reliability_bins"]

Floats = NDArray[np.float64]


class ReliabilityBins(NamedTuple):
    """Stated against observed probability, one entry per bin, in the order of the stated one."""

    predicted: Floats  # weighted mean of the stated probabilities
    observed: Floats  # weighted share of hits
    low: Floats  # lower end of the 95 % Wilson interval of the observed share
    high: Floats  # its upper end
    counts: NDArray[np.int64]  # rows, unweighted
    weights: Floats  # the bin's share of the weight of all rows


def reliability_bins(
    probabilities: ArrayLike, hits: ArrayLike, weights: ArrayLike | None = None, *, num_bins: int = 10
) -> ReliabilityBins:
    """Bins of equal weight by stated probability; rows with the same probability share a bin.

    Parameters
    ----------
    probabilities
        (p,) stated probabilities.
    hits
        (p,) whether each was right.
    weights
        (p,) how much each counts; all the same unless given.
    num_bins
        The number of bins, at most.

    Returns
    -------
    ReliabilityBins
        Stated and observed probability of each bin.

    Raises
    ------
    InputError
        If there are no rows, the lengths differ, a probability is not between 0 and 1, or a weight is not positive.

    Examples
    --------
    >>> from yinyan.metrics import reliability_bins
    >>> reliability_bins([0.1, 0.1, 0.9, 0.9], [False, False, True, False], num_bins=2).observed
    array([0. , 0.5])
    """
    p, hit, w = _checked(probabilities, hits, weights, num_bins)
    order = np.argsort(p, kind="stable")
    p, hit, w = p[order], hit[order], w[order]
    middle = (np.cumsum(w) - w / 2) / w.sum()
    _, first, where = np.unique(p, return_index=True, return_inverse=True)
    bin_of = np.minimum((middle * num_bins).astype(np.int64), num_bins - 1)[first][where]
    _, bin_of = np.unique(bin_of, return_inverse=True)
    mass = np.bincount(bin_of, w)
    observed = np.bincount(bin_of, w * hit) / mass
    low, high = _wilson(observed, mass**2 / np.bincount(bin_of, w * w))  # as many rows as the weights are worth
    return ReliabilityBins(
        np.bincount(bin_of, w * p) / mass, observed, low, high, np.bincount(bin_of), mass / mass.sum()
    )


def expected_calibration_error(
    probabilities: ArrayLike, hits: ArrayLike, weights: ArrayLike | None = None, *, num_bins: int = 10
) -> float:
    """The mean distance of stated and observed probability over bins of equal weight.

    Parameters
    ----------
    probabilities
        (p,) stated probabilities.
    hits
        (p,) whether each was right.
    weights
        (p,) how much each counts; all the same unless given.
    num_bins
        The number of bins, at most.

    Returns
    -------
    float
        0 where every bin holds what it states.

    Raises
    ------
    InputError
        As `reliability_bins`.

    Examples
    --------
    >>> from yinyan.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0.1, 0.1, 0.9, 0.9], [False, False, True, False], num_bins=2), 3)
    0.25
    """
    bins = reliability_bins(probabilities, hits, weights, num_bins=num_bins)
    return float((bins.weights * np.abs(bins.predicted - bins.observed)).sum())


def _checked(
    probabilities: ArrayLike, hits: ArrayLike, weights: ArrayLike | None, num_bins: int
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    p, hit = np.asarray(probabilities, dtype=np.float64), np.asarray(hits, dtype=np.bool_)
    w = np.ones_like(p) if weights is None else np.asarray(weights, dtype=np.float64)
    if not p.size or p.ndim != 1 or not p.shape == hit.shape == w.shape:
        raise InputError(
            "probabilities, hits and weights need to be of one dimension and of the same length, and not empty "
            f"(got {p.shape}, {hit.shape} and {w.shape})"
        )
    if not ((p >= 0) & (p <= 1)).all() or not (np.isfinite(w) & (w > 0)).all():
        raise InputError("probabilities need to lie between 0 and 1, and weights to be positive")
    if num_bins < 1:
        raise InputError(f"'num_bins' needs to be a positive integer (got {num_bins!r})")
    return p, hit, w


def _wilson(share: Floats, counts: Floats) -> tuple[Floats, Floats]:
    z = 1.96
    wide = z * z / counts
    centre = (share + wide / 2) / (1 + wide)
    half = np.sqrt(share * (1 - share) * wide + wide * wide / 4) / (1 + wide)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
