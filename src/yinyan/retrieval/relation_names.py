"""What nodes of one relation are called: an id of their type, or (type, id) where both types have the id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.attributes import Column
from yinyan.graph.ids import Id
from yinyan.graph.labels import LabelFinder, unknown_node
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph, TypedNode
from yinyan.retrieval.node_columns import attribute_of
from yinyan.text import listed

__all__ = ["RelationNames", "as_list", "is_id", "is_typed", "row_in_type"]

Rows = NDArray[np.int64]


def is_id(value: Any) -> bool:
    """Whether a value is one id, not several."""
    return isinstance(value, (str, int, np.integer, np.str_))


def as_list(nodes: Any) -> list[Any]:
    """One id or several as a list."""
    if is_id(nodes):
        return [nodes]
    if not isinstance(nodes, Iterable):
        raise InputError(f"nodes are named by an id, text or an integer, or by a sequence of ids (got {nodes!r})")
    return list(nodes)


def is_typed(node: Any, kinds: Iterable[str]) -> TypeGuard[TypedNode]:
    """Whether a value is (type, id) with one of these types."""
    return isinstance(node, tuple) and len(node) == 2 and is_id(node[1]) and node[0] in kinds


class RelationNames:
    """The names of the nodes of a relation; rows are those of its view, the source type first."""

    def __init__(self, graph: TypedGraph, relation: Relation) -> None:
        self.relation, self._all_types = relation, tuple(graph.nodes)
        self.number = list(graph.relations).index(relation.name)  # as in the files of a saved model
        names = [relation.source] if relation.is_within else [relation.source, relation.target]
        self.kinds: dict[str, NodeType] = {name: graph.nodes[name] for name in names}
        self._starts = np.cumsum([0, *(len(kind.ids) for kind in self.kinds.values())])[:-1]
        self._finders: dict[str, LabelFinder | None] = {}

    @property
    def has_types(self) -> bool:
        """Whether the graph has several types of nodes, so that an id alone may not name one."""
        return len(self._all_types) > 1

    # -- from names to rows ----------------------------------------------------------------------------------

    def is_node(self, value: Any) -> bool:
        """Whether a value names one node: an id, or (type, id)."""
        return is_id(value) or is_typed(value, self._all_types)

    def listed(self, nodes: Any) -> list[Any]:
        """Nodes that are asked about, as a list: an id, (type, id), or a sequence of these."""
        if self.is_node(nodes):
            return [nodes]
        if not isinstance(nodes, Iterable):
            raise InputError(f"nodes are named by an id, (type, id), or a sequence of these (got {nodes!r})")
        return list(nodes)

    def rows(self, nodes: Sequence[Any]) -> Rows:
        """The row of each node: an id that one of the two types has, or (type, id)."""
        return np.array([self.row(node) for node in nodes], dtype=np.int64)

    def row(self, node: Any) -> int:
        """The row of one node."""
        named = isinstance(node, tuple) and len(node) == 2
        if named and node[0] not in self.kinds:
            raise InputError(
                f"relation {self.relation.in_words()!r} joins no nodes of type {node[0]!r} (types: "
                f"{listed(list(self.kinds))})"
            )
        wanted = [node[0]] if named else list(self.kinds)
        value: Id = node[1] if named else node
        found = [
            (name, int(start) + row)
            for (name, kind), start in zip(self.kinds.items(), self._starts, strict=True)
            if name in wanted and (row := row_in_type(kind, value, self._finder(name))) >= 0
        ]
        if len(found) > 1:
            first, second = (name for name, _ in found)
            raise InputError(f"node {value!r} is a {first!r} and a {second!r}: name its type, ({first!r}, {value!r})")
        if not found:
            unknown = "; ".join(f"type {name!r}: {self._unknown(name, value)}" for name in wanted)
            raise UnknownNodeError(unknown)
        return found[0][1]

    def row_at(self, end: int, node: Any) -> int:
        """The row of a node at one end of a pair: 0 for the source, 1 for the target."""
        wanted = (self.relation.source, self.relation.target)[end]
        if not is_typed(node, self._all_types):
            return self.row((wanted, node))
        if node[0] != wanted and node[0] in self.kinds:
            place = ("source", "target")[end]
            raise InputError(
                f"the {place} of relation {self.relation.in_words()!r} is a {wanted!r} (got {node!r}): pairs are "
                "(source, target)"
            )
        return self.row(node)

    def pair_rows(self, pairs: Sequence[Sequence[Any]]) -> Rows:
        """(p, 2) rows of pairs, source first: the place of an id in a pair says its type."""
        found = [[self.row_at(end, node) for end, node in enumerate(pair)] for pair in pairs]
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def partner_rows(self, nodes: Any, asked: Rows) -> Rows:
        """The rows of candidates; an id is one of the other type than the rows that are `asked` about."""
        given = self.listed(nodes)
        if self.relation.is_within:
            return self.rows(given)
        own = set(self.types(asked))
        (other, *more) = [kind for kind in self.kinds if {kind} != own]
        return self.rows([node if more or is_typed(node, self._all_types) else (other, node) for node in given])

    def parse(self, text: str, end: int | None = None) -> Any:
        """The node that some text means: `type:id`, or an id; the `end` of a pair gives its type."""
        name, _, rest = text.partition(":")
        if rest and name in self.kinds:
            return name, self.kinds[name].ids.spelled(rest)
        if rest and name in self._all_types and not any(text in kind.ids for kind in self.kinds.values()):
            return name, rest  # which is refused: the relation joins no nodes of this type
        wanted = list(self.kinds) if end is None else [(self.relation.source, self.relation.target)[end]]
        spelled = [(kind, self.kinds[kind].ids.spelled(text)) for kind in wanted]
        found = [(kind, value) for kind, value in spelled if value in self.kinds[kind].ids]
        return found[0] if len(found) == 1 else (wanted[0], text) if len(wanted) == 1 else text

    # -- from rows to names ----------------------------------------------------------------------------------

    def kind_of(self, row: int) -> str:
        """The type of a row."""
        return self.types(np.array([row]))[0]

    def types(self, rows: Rows) -> list[str]:
        """The type of each row."""
        names = list(self.kinds)
        return [names[place] for place in self._places(rows).tolist()]

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows, as the caller gave them."""
        rows = np.asarray(rows, dtype=np.int64)
        number = self._places(rows)
        found: list[Id] = [0] * len(rows)
        for place, kind in enumerate(self.kinds.values()):
            here = np.flatnonzero(number == place)
            for at, value in zip(here.tolist(), kind.ids.take(rows[here] - self._starts[place]), strict=True):
                found[at] = value
        return found

    def id_column(self) -> Column | None:
        """The ids as a column, where all are numbers; None where those of the view are the column."""
        parts = [attribute_of("id", kind.ids, None, np.empty(0, np.int64)) for kind in self.kinds.values()]
        if self.relation.is_within or {part.kind for part in parts} != {"number"}:
            return None
        values = np.concatenate([part.values for part in parts])
        return Column("number", values, np.zeros(values.size, dtype=np.bool_))

    def _places(self, rows: Rows) -> Rows:
        """The place of each row's type."""
        return np.searchsorted(self._starts, np.asarray(rows, dtype=np.int64), side="right") - 1

    def _finder(self, name: str) -> LabelFinder | None:
        if name not in self._finders:
            attributes = self.kinds[name].attributes
            labels = None if attributes is None else attributes.labels
            self._finders[name] = None if labels is None else LabelFinder(labels)
        return self._finders[name]

    def _unknown(self, name: str, value: Id) -> str:
        ids = self.kinds[name].ids
        return unknown_node(value, ids, ids.__getitem__, self._finder(name))


def row_in_type(kind: NodeType, value: Any, labels: LabelFinder | None) -> int:
    """The row of an id, or of a label that one node has, among the nodes of a type; -1 if there is none."""
    row = int(kind.ids.find([value])[0]) if is_id(value) else -1
    if row >= 0 or not isinstance(value, str) or not labels:
        return row
    found = labels.find([value]).get(value, [])
    if len(found) > 1:
        named = listed([kind.ids[row] for row in found[:5]])
        raise InputError(f"the label {value!r} is that of {len(found):,} nodes: give an id ({named})")
    return found[0] if found else -1
