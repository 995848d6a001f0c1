"""Neighbours with the age of each link, and sums over paths whose links weigh less with age."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.graph.moments import required_times
from yinyan.model.operators import csr_product
from yinyan.peers.heuristics import WEIGHTS
from yinyan.peers.neighbours import Neighbours, neighbours_of

__all__ = ["TimedRows"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


class TimedRows:
    """A message graph without directions; of two directions the later link counts. Now is when the last link came."""

    def __init__(self, message_graph: Graph) -> None:
        times = required_times(message_graph, "this method")
        self.around: Neighbours = neighbours_of(message_graph)
        self.num_nodes = message_graph.num_nodes
        self.now = float(times.max()) if len(times) else 0.0
        self.ages = self._ages(message_graph, self.now - times.astype(np.float64))  # (ends,) of each entry
        self.span = float(self.ages.max(initial=0.0)) or 1.0  # age of the oldest link

    def _ages(self, graph: Graph, ages: Scores) -> Scores:
        columns = self.around.columns
        keys = self.around.rows() * self.num_nodes + columns
        found = np.full(columns.size, np.inf)
        for a, b in ((0, 1), (1, 0)):
            places = np.searchsorted(keys, graph.edges[:, a] * self.num_nodes + graph.edges[:, b])
            np.minimum.at(found, places, ages)
        return found

    @functools.cached_property
    def silence(self) -> Scores:
        """(n,) the time since the last link of each node; twice the span for a node without any."""
        found = np.full(self.num_nodes, 2 * self.span)
        np.minimum.at(found, self.around.rows(), self.ages)
        return found

    def recent(self, window: float) -> Scores:
        """(n,) how many links of each node are no older than a window."""
        return np.bincount(self.around.rows()[self.ages <= window], minlength=self.num_nodes).astype(np.float64)

    def weights(self, half_life: float) -> Scores:
        """(ends,) 2^(-age / h) of each entry."""
        return np.exp2(-self.ages / half_life)

    def strengths(self, half_life: float) -> Scores:
        """(n,) sums of the weights of each node's links."""
        return np.bincount(self.around.rows(), self.weights(half_life), minlength=self.num_nodes).astype(np.float64)

    def two_hops(self, sources: Rows, half_life: float) -> Scores:
        """(b, n) Σ_z w_iz w_zj / log(degree of z): Adamic-Adar with decayed links."""
        return self._product(self._start(sources, half_life, WEIGHTS["aa"](self.around.degrees)), half_life).T

    def three_hops(self, sources: Rows, half_life: float) -> Scores:
        """(b, n) Σ_zu w_iz w_zu w_uj / sqrt(degree of z · degree of u), over walks of three links."""
        scale = 1 / np.sqrt(np.maximum(self.around.degrees, 1))
        middle = self._product(self._start(sources, half_life, scale), half_life) * scale[:, None]
        return self._product(middle, half_life).T

    def last_meeting(self, sources: Rows) -> Scores:
        """(b, n) min_z max(age of i - z, age of z - j): since when two nodes have a common partner; inf for never."""
        indptr, columns, degrees = self.around
        found = np.full((sources.size, self.num_nodes), np.inf)
        for row, source in enumerate(sources.tolist()):
            first = slice(int(indptr[source]), int(indptr[source + 1]))
            partners = columns[first]
            counts = degrees[partners]
            places = np.repeat(indptr[partners] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            ages = np.maximum(np.repeat(self.ages[first], counts), self.ages[places])
            np.minimum.at(found[row], columns[places], ages)
        return found

    def _start(self, sources: Rows, half_life: float, scale: Scores) -> Scores:
        """(n, b) w_iz times a scale of z, for the partners z of each source i."""
        indptr, columns, degrees = self.around
        counts = degrees[sources]
        places = np.repeat(indptr[sources] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        start = np.zeros((self.num_nodes, sources.size))
        partners = columns[places]
        start[partners, np.repeat(np.arange(sources.size), counts)] = self.weights(half_life)[places] * scale[partners]
        return start

    def _product(self, right: Scores, half_life: float) -> Scores:
        """W right for the symmetric matrix of decayed links."""
        indptr, columns = torch.from_numpy(self.around.indptr), torch.from_numpy(self.around.columns)
        weights = torch.from_numpy(self.weights(half_life))
        return np.asarray(csr_product(indptr, columns, weights, torch.from_numpy(right)).numpy())
