"""Walk heuristics: Katz and personalised PageRank, sums over the walks of every length, without learning."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.model.operators import csr_product
from yinyan.peers.neighbours import DistinctPairs, Neighbours, distinct_pairs, neighbours_of, source_blocks

__all__ = [
    "SparseRows",
    "katz",
    "katz_of_sources",
    "large_pageranks",
    "pagerank_of_sources",
    "pagerank_rows",
    "personalised_pagerank",
    "spectral_radius",
]

Pairs = NDArray[np.int64]
Scores = NDArray[np.float64]

_BLOCK = 500_000  # entries of a block of solutions: it stays near the processor
_TOLERANCE = 1e-10  # of what longer walks might add to a sum, as a share of it
_PAGERANK_ERROR = 1e-14  # of a sum of PageRank, on the scale of 1
_SHARE, _RESTART = 0.1, 0.15
_LANCZOS_STEPS = 100
_SPARSE = 2e-9  # seconds that one multiplication of a sparse product takes
_INVERSE = 5e-11  # seconds for each of the n³ of a dense inverse and its product


def katz(message_graph: Graph, pairs: Pairs, *, share: float = _SHARE, beta: float | None = None) -> Scores:
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


def personalised_pagerank(message_graph: Graph, pairs: Pairs, *, restart: float = _RESTART) -> Scores:
    """PPR_i(j) + PPR_j(i): how often a walker from one end, who starts again with `restart`, is at the other.

    PPR_i = α Σ_{l ≥ 0} (1-α)^l (D⁻¹A)^l_i. With S = D^{-1/2} A D^{-1/2} symmetric, both ends need one sum:

        PPR_i(j) + PPR_j(i) = α [Σ_{l ≥ 0} (1-α)^l S^l]_ij (√(d_j/d_i) + √(d_i/d_j)).

    A node without links keeps its walker. Exact to about 1e-12.
    """
    if not 0 < restart < 1:
        raise InputError(f"'restart' needs to lie between 0 and 1 (got {restart})")
    around, distinct = neighbours_of(message_graph), distinct_pairs(message_graph, pairs)
    degrees, values = _pagerank_values(around, restart)
    walks = _walk_sums(around, values, 1 - restart, distinct, error=_PAGERANK_ERROR)
    first, second = distinct.first, distinct.second
    both = np.sqrt(degrees[second] / degrees[first]) + np.sqrt(degrees[first] / degrees[second])
    scores = restart * (walks + (first == second)) * both
    scores[(first == second) & (around.degrees[first] == 0)] = 2.0
    return np.asarray(scores[distinct.inverse])


def katz_of_sources(around: Neighbours, radius: float, sources: NDArray[np.int64]) -> Scores:
    """(b, n) Katz of some sources with all nodes, β being the usual share of 1/ρ(A), for the graph's ρ(A)."""
    if not around.columns.size:
        return np.zeros((sources.size, around.degrees.size))
    values = np.full(around.columns.size, _SHARE / radius)
    return _sums_of_sources(around, values, _num_steps(values, _SHARE, None), sources, 0.0)


def pagerank_of_sources(around: Neighbours, sources: NDArray[np.int64]) -> Scores:
    """(b, n) PPR_i(j) + PPR_j(i) of some sources i with all nodes j other than themselves."""
    if not around.columns.size:
        return np.zeros((sources.size, around.degrees.size))
    degrees, values = _pagerank_values(around, _RESTART)
    steps = _num_steps(values, 1 - _RESTART, _PAGERANK_ERROR)
    walks = _sums_of_sources(around, values, steps, sources, 1 - _RESTART)
    share = np.sqrt(degrees[None, :] / degrees[sources, None])
    return np.asarray(_RESTART * walks * (share + 1 / share))


def pagerank_rows(
    around: Neighbours,
    sources: NDArray[np.int64],
    *,
    restart: float = _RESTART,
    error: float = _PAGERANK_ERROR,
) -> Scores:
    """(b, n) PPR_i(j) of some sources i and all nodes j; `error` is that of each sum, on the scale of 1."""
    degrees, values = _pagerank_values(around, restart)
    walks = np.zeros((sources.size, degrees.size))
    if around.columns.size:
        steps = _num_steps(values, 1 - restart, error)
        walks = np.array(_sums_of_sources(around, values, steps, sources, 1 - restart))
    walks[np.arange(sources.size), sources] += 1.0
    rows = restart * walks * np.sqrt(degrees[None] / degrees[sources][:, None])
    lonely = np.flatnonzero(around.degrees[sources] == 0)
    rows[lonely, sources[lonely]] = 1.0
    return np.asarray(rows)


class SparseRows(NamedTuple):
    """A matrix of which small entries are left out, in compressed rows with ascending columns."""

    indptr: NDArray[np.int64]  # (n + 1,)
    columns: NDArray[np.int64]
    values: NDArray[np.float32]


def large_pageranks(around: Neighbours, *, restart: float = _RESTART, least: float = 1e-4) -> SparseRows:
    """PPR_i(j) of all nodes, to about 1e-6, wherever it is `least` or more; of i itself and its neighbours always."""
    size, rows = around.degrees.size, around.rows()
    counts, columns, found = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    most = max(1, _BLOCK // max(1, size))
    for first in range(0, size, most):
        sources = np.arange(first, min(first + most, size))
        scores = pagerank_rows(around, sources, restart=restart, error=1e-7)
        kept = scores >= least
        kept[np.arange(sources.size), sources] = True
        near = slice(around.indptr[first], around.indptr[first + sources.size])
        kept[rows[near] - first, around.columns[near]] = True
        counts.append(kept.sum(1))
        columns.append(np.nonzero(kept)[1])
        found.append(scores[kept].astype(np.float32))
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
    steps = _num_steps(values, rate, error)
    sources = np.unique(distinct.first).size
    iterating = float(sources) * around.columns.size * steps * _SPARSE
    if around.dense_fits and float(around.degrees.size) ** 3 * _INVERSE < iterating:
        return _by_inverse(around, values, distinct)
    return _by_steps(around, values, steps, distinct, 0.0 if error is None else rate)


def _num_steps(values: Scores, rate: float, error: float | None) -> int:
    """How many steps of the iteration a sum takes."""
    if error is None:  # no entry of M^l exceeds rate^l, so that walks of more than L steps add rate^(L+1) / (1 - rate)
        return math.ceil(math.log(_TOLERANCE * float(values.min()) ** 2 * (1 - rate)) / math.log(rate))
    # Chebyshev's polynomials leave 2 r^L of the solution, whose norm is rate / (1 - rate) at most
    return math.ceil(math.log(error * (1 - rate) / (2 * rate)) / math.log(rate / (1 + math.sqrt(1 - rate**2))))


def _pagerank_values(around: Neighbours, restart: float) -> tuple[Scores, Scores]:
    """Degrees, at least 1, and the entries of (1-α) D^{-1/2} A D^{-1/2}."""
    degrees = np.maximum(around.degrees, 1).astype(np.float64)
    return degrees, (1 - restart) / np.sqrt(degrees[around.rows()] * degrees[around.columns])


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
    """The sums of each pair, by the iteration of `_iterated` for some sources at a time."""
    scores = np.empty(distinct.first.size)
    for block, sources, column in source_blocks(distinct, _BLOCK // around.degrees.size):
        scores[block] = _iterated(around, values, steps, sources, rate)[distinct.second[block], column]
    return scores


def _sums_of_sources(around: Neighbours, values: Scores, steps: int, sources: NDArray[np.int64], rate: float) -> Scores:
    """(b, n) sums of some sources with all nodes."""
    few = max(1, _BLOCK // around.degrees.size)
    parts = (sources[at : at + few] for at in range(0, sources.size, few))
    return np.concatenate([_iterated(around, values, steps, part, rate).T for part in parts])


def _iterated(around: Neighbours, values: Scores, steps: int, sources: NDArray[np.int64], rate: float) -> Scores:
    """(n, b) sums by Chebyshev's iteration x ← ω (M (x + e_s) - x') + x' from x = 0, x' the x before.

    With rate 0 it adds up walks, ω being 1: nothing cancels here either. Then it goes on after `steps` until no entry
    grows by more than a share of itself, not to call a distant node unreachable.
    """
    indptr, columns = torch.from_numpy(around.indptr), torch.from_numpy(around.columns)
    entries = torch.from_numpy(values)
    start = torch.zeros(around.degrees.size, sources.size, dtype=torch.float64)
    start[torch.from_numpy(sources), torch.arange(sources.size)] = 1.0
    before, found, omega = start, torch.zeros_like(start), 1.0
    for step in itertools.count(1):
        walked = csr_product(indptr, columns, entries, found + start)
        before, found = found, walked if omega == 1.0 else omega * (walked - before) + before
        omega = 1 / (1 - rate**2 / 2) if step == 1 else 1 / (1 - rate**2 * omega / 4)
        if step >= steps and (rate or bool((found - before <= _TOLERANCE * found).all())):
            break
    return found.clamp_(min=0.0).numpy()
