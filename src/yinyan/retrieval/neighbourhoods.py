"""Nodes around a source in the graph: where the search for its partners begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yinyan.graph import Graph

__all__ = ["Neighbourhoods"]

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """A graph in compressed rows, of which a few neighbours of many nodes are taken at once."""

    indptr: Rows  # (n + 1,)
    indices: Rows  # neighbours, one node's after the other's

    @classmethod
    def of(cls, graph: Graph) -> Neighbourhoods:
        """Edges of either direction."""
        return cls(graph.adjacency.indptr, graph.adjacency.indices)

    def near(self, rows: Rows, count: int) -> Rows:
        """(..., count) neighbours of (...) rows, evenly spaced among all of them.

        Fewer are repeated. A row without neighbours, or that the graph does not have, stands for itself.
        """
        n = self.indptr.size - 1
        known = np.minimum(rows, max(0, n - 1))
        first = self.indptr[known]
        degrees = np.where(rows < n, self.indptr[np.minimum(known + 1, n)] - first, 0)[..., None]
        if not self.indices.size:
            return np.repeat(rows[..., None], count, axis=-1)
        places = first[..., None] + np.arange(count) * degrees // count
        found = self.indices[np.minimum(places, self.indices.size - 1)]
        return np.where(degrees > 0, found, rows[..., None])

    def beyond(self, rows: Rows, count: int) -> Rows:
        """(len(rows), count²) neighbours of neighbours, `count` of as many each; a row itself may be among them."""
        return self.near(self.near(rows, count), count).reshape(len(rows), -1)
