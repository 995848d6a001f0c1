"""The map of embeddings in two dimensions: exact t-SNE of landmarks, and the other nodes between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError
from yinyan.randomness import named_seed

__all__ = ["EmbeddingMap"]

Floats = NDArray[np.float32]

_COMPONENTS = 30  # t-SNE's usual input width: the rest is mostly noise, and distances get cheaper
_PERPLEXITY = 30.0  # effective neighbours of a point, where there are enough points
_ITERATIONS = 300
_EXAGGERATED = 100  # first iterations, in which attraction is `_EXAGGERATION` times stronger
_EXAGGERATION = 12.0
_BLOCK = 32  # rows of the n x n matrix worked on at a time: they stay in cache, and BLAS on one thread
_NEAREST = 3  # landmarks between which another node is placed
_PLACED = 1024  # nodes placed at a time
_SMALLEST = 10  # points below which neighbourhoods say little: the components themselves are drawn


@dataclass(frozen=True, eq=False)
class EmbeddingMap:
    """Landmarks, placed by t-SNE; every other node is placed between the landmarks that it is nearest to.

    A map shows who is near whom: distances between far groups, and the sizes of groups, mean nothing on it.
    """

    landmarks: NDArray[np.float64]  # (m, d) embeddings
    points: NDArray[np.float64]  # (m, 2), centred and within [-1, 1]

    @classmethod
    def of(cls, embeddings: ArrayLike, *, seed: int, num_landmarks: int = 1000) -> EmbeddingMap:
        """The map of (n, d) embeddings; time and memory grow with the square of `num_landmarks`."""
        table = np.asarray(embeddings)
        if table.ndim != 2 or 0 in table.shape:
            raise InputError(f"'embeddings' needs shape (nodes, dimensions), none of them 0 (got {table.shape})")
        generator = np.random.default_rng(named_seed(seed, "map"))
        rows = np.arange(len(table))
        if len(table) > num_landmarks:
            rows = np.sort(generator.choice(len(table), num_landmarks, replace=False))
        landmarks = table[rows].astype(np.float64)
        if not np.isfinite(landmarks).all():
            raise InputError("'embeddings' hold NaN or infinity, which have no place on a map")
        components = _principal_components(landmarks)
        points = components[:, :2] if rows.size < _SMALLEST else _tsne(components, generator)
        return cls(landmarks, _fitted(points))

    def place(self, embeddings: ArrayLike) -> NDArray[np.float64]:
        """(n, 2) places of (n, d) embeddings: a landmark's own is kept, as long as its embedding is the same."""
        table = np.asarray(embeddings, dtype=np.float64)
        size = np.abs(self.landmarks).max() or 1.0  # no overflow in the squares
        marks, near = self.landmarks / size, min(_NEAREST, len(self.landmarks))
        points = np.empty((len(table), 2))
        for start in range(0, len(table), _PLACED):
            part = table[start : start + _PLACED] / size
            distance = np.maximum((part**2).sum(1)[:, None] + (marks**2).sum(1) - 2 * part @ marks.T, 0.0)
            nearest = np.argpartition(distance, near - 1, axis=1)[:, :near]
            weight = 1 / (np.take_along_axis(distance, nearest, axis=1) + 1e-12)
            weight /= weight.sum(1, keepdims=True)
            points[start : start + _PLACED] = (weight[:, :, None] * self.points[nearest]).sum(1)
        return points


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
