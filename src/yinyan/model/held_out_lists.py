"""Recommended lists in which edges are held out: what probabilities are calibrated and measured on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.graph import Graph

__all__ = ["HeldOutLists", "base_rate_of", "missing_share", "num_candidates"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOutLists:
    """Rows of the lists of some sources, as columns of equal length; a source stands for `weights` sources."""

    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]  # whether the row is a held-out edge
    weights: Floats
    degrees: NDArray[np.int64]  # known edges of the source
    ranks: NDArray[np.int64]  # from 1
    missing: float  # edges assumed to be missing among the other rows, per held-out edge; 0: hits are what is missing

    def as_missing(self, shares: ArrayLike) -> Floats:
        """Shares of hits among rows, restated: of missing edges among the rows that are no hits.

        Missing edges are found as held-out ones are: where a share q of the rows are hits, `missing` · q / (1 - q) of
        the others are missing edges. With `missing` = 0 the hits are the missing edges.
        """
        q = np.asarray(shares, dtype=np.float64)
        return q if not self.missing else np.minimum(self.missing * q / np.maximum(1 - q, 1e-12), 1 - 1e-6)


def num_candidates(graph: Graph) -> int:
    """How many pairs a question may be about: those without an edge, across the sides of a bipartite graph."""
    n, left = graph.num_nodes, graph.num_left
    pairs = n * (n - 1) if left is None else 2 * left * (n - left)
    return max(0, (pairs if graph.directed else pairs // 2) - graph.num_edges)


def base_rate_of(missing: int, graph: Graph) -> float:
    """The share of missing edges among the candidates, one half at most: so few candidates hold no more."""
    count = num_candidates(graph)
    return 0.5 if 2 * missing >= count else max(missing, 1) / count


def missing_share(base_rate: float, graph: Graph) -> float:
    """The number of missing edges that a base rate implies, as a share of the known edges."""
    return base_rate * num_candidates(graph) / max(1, graph.num_edges)
