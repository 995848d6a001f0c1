"""The neighbours of a node over all relations of a graph: at the other ends of edges, with the relation of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.graph.typed_graph import TypedGraph

__all__ = ["Ends", "TypedNeighbours"]

Rows = NDArray[np.int64]


class Ends(NamedTuple):
    """The other ends of a node's edges."""

    rows: Rows
    relations: NDArray[np.int32]  # by their number in the graph
    leaves: NDArray[np.bool_]  # whether the node is the source of the edge


class TypedNeighbours:
    """Edges by node, both ways: 13 bytes per end of an edge."""

    def __init__(self, graph: TypedGraph) -> None:
        owners, others, numbers, leaves = [], [], [], []
        for number, relation in enumerate(graph.relations.values()):
            source, target = (
                relation.edges[:, end] + graph.offsets[kind]
                for end, kind in enumerate((relation.source, relation.target))
            )
            owners += [source, target]
            others += [target, source]
            numbers.append(np.full(2 * len(relation.edges), number, dtype=np.int32))
            leaves += [np.ones(len(source), dtype=np.bool_), np.zeros(len(source), dtype=np.bool_)]
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=graph.num_nodes))])
        self._ends = Ends(np.concatenate(others)[order], np.concatenate(numbers)[order], np.concatenate(leaves)[order])
        self._degrees: dict[int | None, Rows] = {None: np.diff(self._starts)}

    def of(self, row: int, relation: int | None = None) -> Ends:
        """The ends of the edges of a node, of one relation or of all."""
        start, stop = self._starts[row], self._starts[row + 1]
        rows, relations, leaves = self._ends
        found = Ends(rows[start:stop], relations[start:stop], leaves[start:stop])
        if relation is None:
            return found
        own = found.relations == relation
        return Ends(found.rows[own], found.relations[own], found.leaves[own])

    def degrees(self, relation: int | None = None) -> Rows:
        """The number of edges of each node, of one relation or of all."""
        if relation not in self._degrees:
            owner = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
            own = owner[self._ends.relations == relation]
            self._degrees[relation] = np.bincount(own, minlength=len(self._starts) - 1)
        return self._degrees[relation]
