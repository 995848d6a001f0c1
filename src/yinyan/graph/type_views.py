"""The plain graph of one relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.graph.attributes import Attributes, as_text, kept_attributes
from yinyan.graph.graph import Graph
from yinyan.graph.ids import Ids

if TYPE_CHECKING:
    from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph

__all__ = ["view_of"]


def view_of(graph: TypedGraph, relation: Relation) -> Graph:
    """The nodes of the relation's types, those of the source type first, and its edges."""
    source, target = graph.nodes[relation.source], graph.nodes[relation.target]
    if relation.is_within:
        return Graph(
            ids=source.ids,
            edges=relation.edges,
            weights=relation.weights,
            times=relation.times,
            features=source.features,
            directed=relation.directed,
            feature_encoder=source.feature_encoder,
            attributes=source.attributes,
        )
    count = len(source.ids)
    return Graph(
        ids=_ids(relation, source.ids, target.ids),
        edges=relation.edges + np.array([0, count]),
        weights=relation.weights,
        times=relation.times,
        sides=(np.arange(count + len(target.ids)) >= count).astype(np.int8),
        attributes=_attributes(source, target),
    )


def _ids(relation: Relation, sources: Ids, targets: Ids) -> Ids:
    """The ids of both types; where they share one, each as text after the name of its type."""
    if len(sources) and len(targets) and (sources.find(targets.take(range(len(targets)))) >= 0).any():
        both = ((relation.source, sources), (relation.target, targets))
        return Ids.from_values([f"{kind}:{node}" for kind, ids in both for node in ids.take(range(len(ids)))])
    return sources.concat(targets)


def _attributes(source: NodeType, target: NodeType) -> Attributes | None:
    """The columns of both types; a node has none of those that only the other type has."""
    kinds = [(kind.attributes, len(kind.ids)) for kind in (source, target)]
    names = dict.fromkeys(name for found, _ in kinds if found is not None for name in found.names)
    if not names:
        return None
    columns = {name: _stacked([None if a is None else _column(a, name) for a, _ in kinds], kinds) for name in names}
    labels = [None if found is None else found.label for found, _ in kinds]
    label = labels[0] or labels[1]
    if None not in labels and labels[0] != labels[1] and label is not None:
        parts = [pa.chunked_array([found.labels]) for found, _ in kinds if found is not None]
        columns[label] = _stacked(list(parts), kinds)
    return kept_attributes(columns, label, list(columns))[0]


def _column(found: Attributes, name: str) -> pa.ChunkedArray | None:
    if name not in found.names:
        return None
    column = found.table[name]
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _stacked(parts: list[pa.ChunkedArray | None], kinds: list[tuple[Attributes | None, int]]) -> pa.ChunkedArray:
    """One column above the other, nulls where one is missing; as text if their types differ."""
    types = {part.type for part in parts if part is not None}
    if len(types) > 1:
        parts, types = [None if part is None else as_text(part) for part in parts], {pa.large_string()}
    (kind,) = types
    full = [
        pa.chunked_array([pa.nulls(count, kind)]) if part is None else pc.cast(part, kind)
        for part, (_, count) in zip(parts, kinds, strict=True)
    ]
    return pa.chunked_array([chunk for part in full for chunk in part.chunks], kind)
