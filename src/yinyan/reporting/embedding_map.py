"""Two dimensions for looking at embeddings: principal components, then exact t-SNE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError
from yinyan.randomness import named_seed

__all__ = ["map_2d"]

Floats = NDArray[np.float32]

_COMPONENTS = 30  # t-SNE's usual input width: the rest is mostly noise, and distances get cheaper
_PERPLEXITY = 30.0  # effective neighbours of a point, where there are enough points
_ITERATIONS = 300
_EXAGGERATED = 100  # first iterations, in which attraction is `_EXAGGERATION` times stronger
_EXAGGERATION = 12.0
_BLOCK = 32  # rows of the n x n matrix worked on at a time: they stay in cache, and BLAS on one thread
_SMALLEST = 10  # points below which neighbourhoods say little: the components themselves are drawn


def map_2d(
    embeddings: ArrayLike,
    *,
    seed: int,
    max_points: int = 3000,
    keep: ArrayLike | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows shown, ascending, and their points (len(rows), 2), centred and within [-1, 1].

    All rows are shown up to `max_points` (time and memory grow with its square); beyond, the rows of `keep`
    and a random choice of the others. The same arguments give the same map.
    A map shows who is near whom: distances between far groups, and the sizes of groups, mean nothing on it.
    """
    table = np.asarray(embeddings, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"'embeddings' needs shape (nodes, dimensions), none of them 0 (got {table.shape})")
    generator = np.random.default_rng(named_seed(seed, "map"))
    rows = _choose(table.shape[0], max_points, keep, generator)
    chosen = table[rows]
    if not np.isfinite(chosen).all():
        raise InputError("'embeddings' hold NaN or infinity, which have no place on a map")
    components = _principal_components(chosen)
    return rows, _fitted(components[:, :2] if rows.size < _SMALLEST else _tsne(components, generator))


def _choose(
    num_rows: int, max_points: int, keep: ArrayLike | None, generator: np.random.Generator
) -> NDArray[np.int64]:
    kept = np.unique(np.asarray([] if keep is None else keep, dtype=np.int64))
    if kept.size and (kept[0] < 0 or kept[-1] >= num_rows):
        raise InputError(f"'keep' needs rows from 0 to {num_rows - 1:,} (got {kept[0]} to {kept[-1]})")
    least = max(1, kept.size)
    if max_points < least:
        raise InputError(f"'max_points' needs to be at least {least:,}, to hold 'keep' (got {max_points:,})")
    if num_rows <= max_points:
        return np.arange(num_rows, dtype=np.int64)
    others = np.setdiff1d(np.arange(num_rows, dtype=np.int64), kept, assume_unique=True)
    drawn = generator.choice(others, size=max_points - kept.size, replace=False)
    return np.sort(np.concatenate([kept, drawn]))


def _principal_components(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Up to 30 components (at least 2, the second zero for a line), the first of unit spread."""
    centred = table - table.mean(0)
    centred /= np.abs(centred).max() or 1.0  # no overflow in the squares
    left, spread, right = np.linalg.svd(centred, full_matrices=False)
    largest = right[np.arange(len(right)), np.abs(right).argmax(1)]
    spread *= np.where(largest < 0, -1.0, 1.0)  # signs on which all solvers agree
    components = (left * spread)[:, :_COMPONENTS]
    components = np.pad(components, ((0, 0), (0, max(0, 2 - components.shape[1]))))
    return components / (components[:, 0].std() or 1.0)


def _tsne(components: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Gradient descent with momentum and gains (van der Maaten & Hinton, 2008), from two components."""
    affinity = _affinities(components)
    n = len(components)
    # the jitter sets apart points that coincide, which no gradient would
    points = (1e-4 * components[:, :2] + 1e-6 * generator.standard_normal((n, 2))).astype(np.float32)
    velocity, gains = np.zeros_like(points), np.ones_like(points)
    for iteration in range(_ITERATIONS):
        early = iteration < _EXAGGERATED
        rate = n / 48 if early else n / 12  # forces go as 1 / n (Belkina et al., 2019)
        gradient = _gradient(points, affinity, _EXAGGERATION if early else 1.0)
        agrees = (gradient > 0) == (velocity > 0)  # the step went past the valley: a smaller one
        gains = np.maximum(np.where(agrees, gains * 0.8, gains + 0.2), 0.01)
        velocity = (0.5 if early else 0.8) * velocity - np.float32(rate) * gains * gradient
        points = points + velocity
        points -= points.mean(0)
    return points.astype(np.float64)


def _gradient(points: Floats, affinity: Floats, strength: float) -> Floats:
    """4 Σ_j (strength p_ij - q_ij) w_ij (y_i - y_j), with w = 1 / (1 + |y_i - y_j|²) and q = w / Σ w."""
    n = len(points)
    one = np.ones((n, 1), np.float32)
    square = (points * points).sum(1, keepdims=True)
    # left[i] · right[j] = 1 + |y_i - y_j|²
    left, right = np.hstack([-2 * points, one, square + 1]), np.hstack([points, square, one])
    moments = np.hstack([points, one])
    pull, push = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    weight, pulled = np.empty((_BLOCK, n), np.float32), np.empty((_BLOCK, n), np.float32)
    total = -float(n)  # the diagonal's n ones are no pairs
    for start in range(0, n, _BLOCK):
        block = slice(start, min(start + _BLOCK, n))
        w, p = weight[: block.stop - start], pulled[: block.stop - start]
        np.matmul(left[block], right.T, out=w)
        np.reciprocal(w, out=w)
        total += float(w.sum())
        np.multiply(affinity[block], w, out=p)
        np.matmul(p, moments, out=pull[block])
        np.multiply(w, w, out=w)
        np.matmul(w, moments, out=push[block])
    attraction = pull[:, 2:] * points - pull[:, :2]
    repulsion = push[:, 2:] * points - push[:, :2]
    gradient: Floats = 4 * (np.float32(strength) * attraction - repulsion / np.float32(max(total, 1e-12)))
    return gradient


def _affinities(components: NDArray[np.float64]) -> Floats:
    """Symmetric p_ij summing to 1; each point reaches its 3 x perplexity nearest."""
    n = len(components)
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    reach = min(n - 1, int(3 * perplexity) + 1)
    square = (components**2).sum(1)
    distance = np.maximum(square[:, None] + square - 2 * components @ components.T, 0.0)
    np.fill_diagonal(distance, np.inf)
    near = np.argpartition(distance, reach - 1, axis=1)[:, :reach]
    shares = _calibrated(np.take_along_axis(distance, near, axis=1), perplexity)
    affinity = np.zeros((n, n), np.float32)
    np.put_along_axis(affinity, near, shares.astype(np.float32), axis=1)
    affinity = affinity + affinity.T
    shared: Floats = affinity / affinity.sum()
    return shared


def _calibrated(distance: NDArray[np.float64], perplexity: float) -> NDArray[np.float64]:
    """Rows of exp(-b d) summing to 1, each with the b at which its entropy is log(perplexity)."""
    distance = distance - distance.min(1, keepdims=True)
    low, high = np.zeros((len(distance), 1)), np.full((len(distance), 1), np.inf)
    precision = 1.0 / np.maximum(distance.mean(1, keepdims=True), 1e-12)
    share: NDArray[np.float64] = np.ones_like(distance)
    for _ in range(60):
        share = np.exp(-precision * distance)
        total = share.sum(1, keepdims=True)
        share /= total
        entropy = np.log(total) + precision * (share * distance).sum(1, keepdims=True)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        middle = np.where(np.isinf(high), precision * 2, (low + high) / 2)
        precision = np.minimum(middle, 1e100)
    return share


def _fitted(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centred in the square from -1 to 1, in proportion."""
    points = points - (points.max(0) + points.min(0)) / 2
    fitted: NDArray[np.float64] = points / (np.abs(points).max() or 1.0)
    return fitted
