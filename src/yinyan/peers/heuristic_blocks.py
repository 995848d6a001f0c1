"""Heuristics of some sources with many targets at once: rows of sparse products, for full rankings."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.model.operators import csr_product
from yinyan.peers.heuristics import WEIGHTS
from yinyan.peers.neighbours import Neighbours, neighbours_of
from yinyan.peers.walk_sums import katz_of_sources, pagerank_of_sources, spectral_radius

__all__ = ["BLOCKS", "HeuristicBlocks"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]

BLOCKS = ("cn", "aa", "ra", "jaccard", "preferential", "katz", "pagerank")

_ENTRIES = 4_000_000  # of a dense block of sources at a time


class HeuristicBlocks:
    """The heuristics of a message graph, each equal to its function of pairs, but for a source with itself."""

    def __init__(self, message_graph: Graph) -> None:
        self.graph = message_graph

    def scores(self, name: str, sources: Rows, targets: Rows | None = None) -> Scores:
        """(b, t) scores of a heuristic of BLOCKS for all pairs of some sources and some targets, all nodes without."""
        few = max(1, _ENTRIES // max(1, self.graph.num_nodes))
        chosen: slice | Rows = slice(None) if targets is None else targets
        parts = [self._rows(name, sources[at : at + few])[:, chosen] for at in range(0, sources.size, few)]
        width = self.graph.num_nodes if targets is None else targets.size
        return np.concatenate(parts) if parts else np.empty((0, width))

    def _rows(self, name: str, sources: Rows) -> Scores:
        around = self._around
        if name == "katz":
            return katz_of_sources(around, self._radius, sources)
        if name == "pagerank":
            return pagerank_of_sources(around, sources)
        degrees = around.degrees
        if name == "preferential":
            return degrees[sources, None].astype(np.float64) * degrees
        if name == "jaccard":
            common = self._common(sources, WEIGHTS["cn"](degrees))
            return np.asarray(common / np.maximum(degrees[sources, None] + degrees - common, 1))
        return self._common(sources, WEIGHTS[name](degrees))

    def _common(self, sources: Rows, weights: Scores) -> Scores:
        """(b, n) rows of A diag(w) A."""
        around = self._around
        start = np.zeros((around.degrees.size, sources.size))
        counts = around.degrees[sources]
        first = np.repeat(around.indptr[sources] - np.cumsum(counts) + counts, counts)
        middle = around.columns[first + np.arange(counts.sum())]
        start[middle, np.repeat(np.arange(sources.size), counts)] = weights[middle]
        indptr, columns = torch.from_numpy(around.indptr), torch.from_numpy(around.columns)
        ones = torch.ones(columns.numel(), dtype=torch.float64)
        return csr_product(indptr, columns, ones, torch.from_numpy(start)).numpy().T

    @functools.cached_property
    def _around(self) -> Neighbours:
        return neighbours_of(self.graph)

    @functools.cached_property
    def _radius(self) -> float:
        return spectral_radius(self._around)
