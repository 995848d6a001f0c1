"""What all nodes of a graph with relations are called: (type, id), or an id or label that one type alone has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.ids import Id
from yinyan.graph.labels import LabelFinder, unknown_node
from yinyan.graph.typed_graph import TypedGraph
from yinyan.retrieval.relation_names import is_typed, row_in_type
from yinyan.text import listed

__all__ = ["TypedNames"]

Rows = NDArray[np.int64]


class TypedNames:
    """The names of all nodes; rows are those of the whole graph, type after type."""

    def __init__(self, graph: TypedGraph) -> None:
        self.graph = graph
        self._finders: dict[str, LabelFinder | None] = {}

    def rows(self, nodes: Sequence[Any]) -> Rows:
        """The row of each node."""
        return np.array([self.row(node) for node in nodes], dtype=np.int64)

    def row(self, node: Any) -> int:
        """The row of one node."""
        graph = self.graph
        if is_typed(node, graph.nodes):
            return self.row_among([node[0]], node[1])
        if isinstance(node, tuple) and len(node) == 2:
            graph.type_of(node[0])  # which says what types there are
        return self.row_among(list(graph.nodes), node)

    def row_among(self, kinds: Sequence[str], value: Any) -> int:
        """The row of an id, or of a label that one node has, among the nodes of some types."""
        offsets = self.graph.offsets
        found = [
            (kind, offsets[kind] + row)
            for kind in kinds
            if (row := row_in_type(self.graph.nodes[kind], value, self._finder(kind))) >= 0
        ]
        if len(found) > 1:
            named = listed([repr(kind) for kind, _ in found])
            raise InputError(f"node {value!r} is there in {named}: name its type, ({found[0][0]!r}, {value!r})")
        if not found:
            raise UnknownNodeError("; ".join(f"type {kind!r}: {self._unknown(kind, value)}" for kind in kinds))
        return found[0][1]

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows, as the caller gave them."""
        return [node for _, node in self.graph.nodes_at(rows)]

    def types(self, rows: Rows) -> list[str]:
        """The type of each row."""
        return [kind for kind, _ in self.graph.nodes_at(rows)]

    def labels(self, rows: Rows) -> list[str | None]:
        """The label of each row, or None."""
        rows, found = np.asarray(rows, dtype=np.int64), np.full(len(rows), None, dtype=object)
        for kind, first in self.graph.offsets.items():
            own = self.graph.nodes[kind]
            here = np.flatnonzero((rows >= first) & (rows < first + len(own.ids)))
            labels = None if own.attributes is None or not here.size else own.attributes.labels_of(rows[here] - first)
            if labels is not None:
                found[here] = labels
        return list(found)

    def attributes(self, row: int) -> dict[str, Any]:
        """What the node table of its type has of a node."""
        kind = self.types(np.array([row]))[0]
        attributes = self.graph.nodes[kind].attributes
        return {} if attributes is None else attributes.shown(row - self.graph.offsets[kind])

    def _finder(self, kind: str) -> LabelFinder | None:
        if kind not in self._finders:
            attributes = self.graph.nodes[kind].attributes
            labels = None if attributes is None else attributes.labels
            self._finders[kind] = None if labels is None else LabelFinder(labels)
        return self._finders[kind]

    def _unknown(self, kind: str, value: Any) -> str:
        ids = self.graph.nodes[kind].ids
        return unknown_node(value, ids, ids.__getitem__, self._finder(kind))
