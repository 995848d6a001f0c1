"""Walk heuristics: Katz and personalised PageRank, sums over the walks of every length, without learning."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.model.operators import csr_product
from yinyan.peers.neighbours import DistinctPairs, Neighbours, distinct_pairs, neighbours_of, source_blocks

__all__ = ["SparseRows", "katz", "pagerank_rows", "personalised_pagerank", "spectral_radius"]

Pairs = NDArray[np.int64]
Scores = NDArray[np.float64]

_BLOCK = 500_000  # entries of a block of solutions: it stays near the processor
_TOLERANCE = 1e-10  # of what longer walks might add to a sum, as a share of it
_LANCZOS_STEPS = 100
_SPARSE = 2e-9  # seconds that one multiplication of a sparse product takes
_INVERSE = 5e-11  # seconds for each of the n³ of a dense inverse and its product


def katz(message_graph: Graph, pairs: Pairs, *, share: float = 0.1, beta: float | None = None) -> Scores:
    """Katz: Σ_{l ≥ 1} β^l (A^l)_ij, the walks between two nodes, a longer one counting for less.

    β is `beta`, or `share` of the largest for which the sum is finite, 1/ρ(A). A tenth of it is about the 0.005
    of the literature on a graph such as Cora, and stays finite on dense ones.
    """
    around, distinct = neighbours_of(message_graph), distinct_pairs(message_graph, pairs)
    if beta is None and not 0 < share < 1:
        raise InputError(f"'share' needs to lie between 0 and 1 (got {share})")
    if beta is not None and not beta > 0:
        raise InputError(f"'beta' needs to be positive (got {beta})")
    if not around.columns.size or not distinct.first.size:
        return np.zeros(distinct.inverse.size)
    radius = spectral_radius(around)
    factor = share / radius if beta is None else beta
    if factor * radius >= 1:
        raise InputError(
            f"'beta' needs to be below 1 / spectral radius = {1 / radius:.4g} (got {beta}): above it the sum over "
            "walks is infinite"
        )
    values = np.full(around.columns.size, factor)
    walks = _walk_sums(around, values, factor * radius, distinct)
    return np.asarray(walks[distinct.inverse])


def personalised_pagerank(message_graph: Graph, pairs: Pairs, *, restart: float = 0.15) -> Scores:
    """PPR_i(j) + PPR_j(i): how often a walker from one end, who starts again with `restart`, is at the other.

    PPR_i = α Σ_{l ≥ 0} (1-α)^l (D⁻¹A)^l_i. With S = D^{-1/2} A D^{-1/2} symmetric, both ends need one sum:

        PPR_i(j) + PPR_j(i) = α [Σ_{l ≥ 0} (1-α)^l S^l]_ij (√(d_j/d_i) + √(d_i/d_j)).

    A node without links keeps its walker. Exact to about 1e-12.
    """
    if not 0 < restart < 1:
        raise InputError(f"'restart' needs to lie between 0 and 1 (got {restart})")
    around, distinct = neighbours_of(message_graph), distinct_pairs(message_graph, pairs)
    degrees = np.maximum(around.degrees, 1).astype(np.float64)
    values = (1 - restart) / np.sqrt(degrees[around.rows()] * degrees[around.columns])
    walks = _walk_sums(around, values, 1 - restart, distinct, error=1e-14)
    first, second = distinct.first, distinct.second
    both = np.sqrt(degrees[second] / degrees[first]) + np.sqrt(degrees[first] / degrees[second])
    scores = restart * (walks + (first == second)) * both
    scores[(first == second) & (around.degrees[first] == 0)] = 2.0
    return np.asarray(scores[distinct.inverse])


class SparseRows(NamedTuple):
    """A matrix of which small entries are left out, in compressed rows with ascending columns."""

    indptr: NDArray[np.int64]  # (n + 1,)
    columns: NDArray[np.int64]
    values: NDArray[np.float32]


def pagerank_rows(around: Neighbours, *, restart: float = 0.15, least: float = 1e-4) -> SparseRows:
    """PPR_i(j) of all nodes, to about 1e-6, wherever it is `least` or more; of i itself and its neighbours always."""
    size, rows = around.degrees.size, around.rows()
    degrees = np.maximum(around.degrees, 1).astype(np.float32)
    values = (1 - restart) / np.sqrt(degrees[rows] * degrees[around.columns])
    places, ends = (torch.from_numpy(part.astype(np.int32)) for part in (around.indptr, around.columns))
    links = places, ends, torch.from_numpy(values)
    steps = math.ceil(_chebyshev_steps(1 - restart, 1e-7))
    counts, columns, found = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    most = max(1, _BLOCK // max(1, size))
    for first in range(0, size, most):
        sources = np.arange(first, min(first + most, size))
        start = torch.eye(size, sources.size).roll(first, 0)
        walks = start + _iterated(links, start, steps, 1 - restart)
        scores = walks.numpy().T * (restart * np.sqrt(degrees / degrees[sources, None]))
        alone = np.flatnonzero(around.degrees[sources] == 0)
        scores[alone, sources[alone]] = 1.0  # such a node keeps its walker
        kept = scores >= least
        kept[np.arange(sources.size), sources] = True
        near = slice(around.indptr[first], around.indptr[first + sources.size])
        kept[rows[near] - first, around.columns[near]] = True
        counts.append(kept.sum(1))
        columns.append(np.nonzero(kept)[1])
        found.append(scores[kept])
    return SparseRows(np.cumsum(np.concatenate(counts)), np.concatenate(columns), np.concatenate(found))


def spectral_radius(around: Neighbours) -> float:
    """ρ(A), the largest eigenvalue, by Lanczos from the degrees: 0 without links."""
    indptr, columns = torch.from_numpy(around.indptr), torch.from_numpy(around.columns)
    ones = torch.ones(columns.numel(), dtype=torch.float64)
    vector = torch.from_numpy(around.degrees.astype(np.float64))
    basis: list[torch.Tensor] = []
    diagonal: list[float] = []
    beside: list[float] = [float(vector.norm())]
    radius = 0.0
    while len(basis) < min(_LANCZOS_STEPS, around.degrees.size) and beside[-1] > 1e-12 * max(1.0, radius):
        basis.append(vector / beside[-1])
        vector = csr_product(indptr, columns, ones, basis[-1][:, None])[:, 0]
        diagonal.append(float(vector @ basis[-1]))
        known = torch.stack(basis)
        for _ in range(2):  # twice is enough to stay orthogonal
            vector = vector - (known @ vector) @ known
        beside.append(float(vector.norm()))
        off = np.diag(beside[1:-1], 1)
        eigenvalues, eigenvectors = np.linalg.eigh(np.diag(diagonal) + off + off.T)
        radius = float(eigenvalues[-1])
        if beside[-1] * abs(eigenvectors[-1, -1]) < 1e-13 * radius:
            break
    return radius


def _walk_sums(
    around: Neighbours, values: Scores, rate: float, distinct: DistinctPairs, error: float | None = None
) -> Scores:
    """[Σ_{l ≥ 1} M^l]_ij of each pair, M symmetric with `values` at the links and spectral radius `rate` < 1.

    Every sum is right to a share of itself, or faster, by `error`, to as much on the scale of 1.
    """
    if not distinct.first.size or not around.columns.size:
        return np.zeros(distinct.first.size)
    if error is None:  # no entry of M^l exceeds rate^l, so that walks of more than L steps add rate^(L+1) / (1 - rate)
        steps = math.log(_TOLERANCE * float(values.min()) ** 2 * (1 - rate)) / math.log(rate)
    else:
        steps = _chebyshev_steps(rate, error)
    sources = np.unique(distinct.first).size
    iterating = float(sources) * around.columns.size * steps * _SPARSE
    if around.dense_fits and float(around.degrees.size) ** 3 * _INVERSE < iterating:
        return _by_inverse(around, values, distinct)
    return _by_steps(around, values, math.ceil(steps), distinct, 0.0 if error is None else rate)


def _chebyshev_steps(rate: float, error: float) -> float:
    """Chebyshev's polynomials leave 2 r^L of the solution, whose norm is rate / (1 - rate) at most."""
    return math.log(error * (1 - rate) / (2 * rate)) / math.log(rate / (1 + math.sqrt(1 - rate**2)))


def _by_inverse(around: Neighbours, values: Scores, distinct: DistinctPairs) -> Scores:
    """M (I - M)⁻¹. I - M has no positive entry off its diagonal, so nothing cancels: small entries are exact too."""
    matrix = around.dense(values)
    shifted = -matrix
    shifted.diagonal().add_(1.0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(shifted))
    scores = np.empty(distinct.first.size)
    for block, sources, column in source_blocks(distinct, _BLOCK // around.degrees.size):
        scores[block] = (matrix[torch.from_numpy(sources)] @ inverse).numpy()[column, distinct.second[block]]
    return scores


def _by_steps(around: Neighbours, values: Scores, steps: int, distinct: DistinctPairs, rate: float) -> Scores:
    """The sums for some sources at a time."""
    links = torch.from_numpy(around.indptr), torch.from_numpy(around.columns), torch.from_numpy(values)
    scores = np.empty(distinct.first.size)
    for block, sources, column in source_blocks(distinct, _BLOCK // around.degrees.size):
        start = torch.zeros(around.degrees.size, sources.size, dtype=torch.float64)
        start[torch.from_numpy(sources), torch.arange(sources.size)] = 1.0
        found = _iterated(links, start, steps, rate)
        scores[block] = found.numpy()[distinct.second[block], column]
    return scores


def _iterated(links: tuple[Tensor, Tensor, Tensor], start: Tensor, steps: int, rate: float) -> Tensor:
    """Chebyshev's iteration x ← ω (M (x + e_s) - x') + x' from x = 0 for sources s in columns, x' the x before.

    With rate 0 it adds up walks, ω being 1: nothing cancels here either. Then it goes on after `steps` until no entry
    grows by more than a share of itself, not to call a distant node unreachable.
    """
    before, found, omega = start, torch.zeros_like(start), 1.0
    for step in itertools.count(1):
        walked = csr_product(*links, found + start)
        before, found = found, walked if omega == 1.0 else omega * (walked - before) + before
        omega = 1 / (1 - rate**2 / 2) if step == 1 else 1 / (1 - rate**2 * omega / 4)
        if step >= steps and (rate or bool((found - before <= _TOLERANCE * found).all())):
            break
    return found.clamp_(min=0.0)
