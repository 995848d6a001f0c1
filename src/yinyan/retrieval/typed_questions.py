"""Questions about relations: each predicted relation answers as a plain model over the nodes of its types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.attributes import Column
from yinyan.graph.ids import Id
from yinyan.graph.pair_tables import is_frame, pairs_from_frame
from yinyan.graph.typed_graph import NodeType, Relation, RelationName, TypedGraph
from yinyan.model.explanation import Explainer
from yinyan.model.fitted import Fitted
from yinyan.model.typed_fitted import TypedFitted
from yinyan.retrieval.node_columns import attribute_of
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.recommend import is_id
from yinyan.retrieval.state import FittedState
from yinyan.text import listed

__all__ = ["RelationState", "TypedQuestions"]

Rows = NDArray[np.int64]


class RelationState(FittedState):
    """One relation of a fitted model: rows are those of its view, ids those of its types."""

    def __init__(self, fitted: Fitted, whole: TypedGraph, relation: Relation) -> None:
        super().__init__(fitted)
        self.relation = relation
        names = [relation.source] if relation.is_within else [relation.source, relation.target]
        self.kinds: dict[str, NodeType] = {name: whole.nodes[name] for name in names}
        self._starts = np.cumsum([0, *(len(kind.ids) for kind in self.kinds.values())])[:-1]

    def rows(self, ids: Sequence[Any]) -> Rows:
        """The row of each node: an id that one of the two types has, or (type, id)."""
        return np.array([self.row(node) for node in ids], dtype=np.int64)

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
            if name in wanted and (row := _row_in(kind, value)) >= 0
        ]
        if len(found) > 1:
            first, second = (name for name, _ in found)
            raise InputError(f"node {value!r} is a {first!r} and a {second!r}: name its type, ({first!r}, {value!r})")
        if not found:
            unknown = "; ".join(f"type {name!r}: {self.kinds[name].ids.unknown(value)}" for name in wanted)
            raise UnknownNodeError(unknown)
        return found[0][1]

    def row_at(self, end: int, node: Any) -> int:
        """The row of a node at one end of a pair: 0 for the source, 1 for the target."""
        if isinstance(node, tuple) and len(node) == 2:
            return self.row(node)
        return self.row(((self.relation.source, self.relation.target)[end], node))

    def kind_of(self, row: int) -> str:
        """The type of a row."""
        return list(self.kinds)[int(np.searchsorted(self._starts, row, side="right")) - 1]

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows, as the caller gave them."""
        rows = np.asarray(rows, dtype=np.int64)
        number = np.searchsorted(self._starts, rows, side="right") - 1
        found: list[Id] = [0] * len(rows)
        for place, kind in enumerate(self.kinds.values()):
            here = np.flatnonzero(number == place)
            for at, value in zip(here.tolist(), kind.ids.take(rows[here] - self._starts[place]), strict=True):
                found[at] = value
        return found

    def column(self, name: str) -> Column:
        """One attribute of all nodes; `id` is that of its type."""
        if name != "id" or self.relation.is_within:
            return super().column(name)
        parts = [attribute_of("id", kind.ids, None, np.empty(0, np.int64)) for kind in self.kinds.values()]
        if {part.kind for part in parts} == {"number"}:
            values = np.concatenate([part.values for part in parts])
            return Column("number", values, np.zeros(values.size, dtype=np.bool_))
        return super().column(name)


class TypedQuestions:
    """Answers about a fitted model of relations; the questions of each relation are made at the first call."""

    def __init__(self, fitted: TypedFitted) -> None:
        self.fitted = fitted
        self.explainer: Explainer | None = None
        self._made: dict[str, Questions] = {}

    def named(self, relation: RelationName | None) -> str:
        """The predicted relation that a question is about."""
        fitted = self.fitted
        if relation is None:
            if len(fitted.predicted) == 1:
                return fitted.predicted[0]
            raise InputError(
                f"this model predicts several relations: name one, relation={fitted.predicted[0]!r} (--relation; "
                f"predicted: {listed(list(fitted.predicted))})"
            )
        name = fitted.graph.relation(relation).name
        if name not in fitted.predicted:
            raise InputError(
                f"relation {name!r} is not predicted by this model, it is a message only (predicted: "
                f"{listed(list(fitted.predicted))}; fit with predict={name!r})"
            )
        return name

    def of(self, relation: RelationName | None) -> Questions:
        """The questions of one relation."""
        name = self.named(relation)
        if name not in self._made:
            state = RelationState(self.fitted.relations[name], self.fitted.graph, self.fitted.graph.relations[name])
            self._made[name] = Questions(state)
        return self._made[name]

    def state(self, relation: RelationName | None) -> RelationState:
        """The state of one relation."""
        state = self.of(relation).state
        if not isinstance(state, RelationState):
            raise TypeError("the questions of a relation need its state")
        return state

    def nodes(self, given: Any, relation: RelationName | None) -> list[Any]:
        """Nodes that are asked about, as a list: an id, (type, id), or a sequence of these."""
        state = self.state(relation)
        if is_id(given) or self._is_typed(given):
            return [given]
        if not isinstance(given, Iterable):
            raise InputError(f"nodes are named by an id, (type, id), or a sequence of these (got {given!r})")
        nodes = list(given)
        state.rows(nodes)  # an unknown one is refused before anything is searched
        return nodes

    def among(self, candidates: Iterable[Any] | None, nodes: Sequence[Any], relation: RelationName | None) -> Any:
        """Candidates with their type: the other one than that of the nodes asked about."""
        if candidates is None:
            return None
        state = self.state(relation)
        if state.relation.is_within:
            return list(candidates)
        asked = {state.kind_of(int(row)) for row in state.rows(nodes)}
        (other, *more) = [kind for kind in state.kinds if {kind} != asked]
        return [c if more or self._is_typed(c) else (other, c) for c in candidates]

    def pair_rows(self, pairs: Any, relation: RelationName | None) -> tuple[Rows, bool]:
        """(p, 2) rows of pairs, source first, and whether it is one pair."""
        state = self.state(relation)
        if is_frame(pairs):
            pairs = pairs_from_frame(pairs)
        one = isinstance(pairs, tuple) and len(pairs) == 2 and all(is_id(end) or self._is_typed(end) for end in pairs)
        if not isinstance(pairs, Iterable):
            raise InputError(f"pairs are (source, target), a sequence of such, or a data frame (got {pairs!r})")
        found = []
        for place, pair in enumerate([pairs] if one else pairs):
            ends = (pair,) if is_id(pair) else tuple(pair)
            if len(ends) != 2:
                raise InputError(f"pair {place} needs two ids (got {pair!r})")
            found.append([state.row_at(end, node) for end, node in enumerate(ends)])
        return np.array(found, dtype=np.int64).reshape(-1, 2), one

    def parse(self, text: str, relation: RelationName | None, end: int | None = None) -> Any:
        """The node that some text means: `type:id`, or an id; the `end` of a pair gives its type."""
        state = self.state(relation)
        name, _, rest = text.partition(":")
        if rest and name in state.kinds:
            return name, state.kinds[name].ids.spelled(rest)
        wanted = list(state.kinds) if end is None else [(state.relation.source, state.relation.target)[end]]
        found = [
            (kind, value) for kind in wanted if (value := state.kinds[kind].ids.spelled(text)) in state.kinds[kind].ids
        ]
        return found[0] if len(found) == 1 else (wanted[0], text) if len(wanted) == 1 else text

    def embed(self, nodes: Any) -> NDArray[np.float32]:
        """The stored vectors of (type, id) nodes, or of ids where there is one type."""
        one = is_id(nodes) or self._is_typed(nodes)
        rows = [self._row(node) for node in ([nodes] if one else nodes)]
        vectors: NDArray[np.float32] = self.fitted.embeddings[torch.tensor(rows)].cpu().numpy()
        return vectors[0] if one else vectors

    def _row(self, node: Any) -> int:
        graph = self.fitted.graph
        if self._is_typed(node):
            return graph.row_of(*node)
        if len(graph.nodes) > 1:
            raise InputError(
                f"name the type of node {node!r}: ({next(iter(graph.nodes))!r}, {node!r}) (types: "
                f"{listed(list(graph.nodes))})"
            )
        return graph.row_of(next(iter(graph.nodes)), node)

    def _is_typed(self, node: Any) -> bool:
        """Whether it is (type, id)."""
        return isinstance(node, tuple) and len(node) == 2 and is_id(node[1]) and node[0] in self.fitted.graph.nodes


def _row_in(kind: NodeType, value: Id) -> int:
    """The row of an id or of a label among the nodes of a type; -1 if there is none."""
    row = int(kind.ids.find([value])[0]) if is_id(value) else -1
    return _labelled(kind, value) if row < 0 and isinstance(value, str) else row


def _labelled(kind: NodeType, value: str) -> int:
    """The one node with a label; -1 if none or several have it."""
    if kind.attributes is None or kind.attributes.labels is None:
        return -1
    found = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(kind.attributes.labels, value), False)))
    return int(found[0]) if found.size == 1 else -1
