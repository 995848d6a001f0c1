"""Unseen nodes of a graph with relations: a type grows, edges join it, the layers run again, nothing is retrained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph import Graph
from yinyan.graph.features import stacked_features
from yinyan.graph.ids import Id
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.live.new_nodes import batches, feature_remarks, new_features, new_table_rows, padded
from yinyan.model.fitted import embed_graph, our_encoder
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.scoring import Model
from yinyan.model.typed_encoder import TypedBase, inputs_of
from yinyan.model.typed_fitted import TypedFitted, rows_of_relation
from yinyan.model.typed_tensors import typed_features, typed_messages
from yinyan.retrieval.relation_names import is_typed
from yinyan.text import listed

__all__ = ["extend_typed"]

Rows = NDArray[np.int64]


class _Joined(NamedTuple):
    """A relation with its new edges, and the positions of those that pass messages."""

    relation: Relation
    messages: Rows
    ends: Rows  # (m, 2) the new edges as rows within the two types


def extend_typed(
    fitted: TypedFitted, kind: str | None, features: Any, edges: Mapping[str, Sequence[Any]], ids: Sequence[Id]
) -> TypedFitted:
    """`fitted` with new nodes of a type, and new edges by relation, each with at least one of these nodes."""
    graph = fitted.graph
    name = _only_type(graph) if kind is None else kind
    old, count = graph.type_of(name), len(ids)
    known = [value for value in ids if value in old.ids]
    if known or len(set(ids)) < count:
        what = f"{known[0]!r} is a {name!r} already" if known else "an id is there twice"
        raise InputError(f"new nodes need ids of their own: {what}")
    alone = Graph(
        ids=old.ids, edges=np.empty((0, 2), np.int64), features=old.features, feature_encoder=old.feature_encoder
    )
    given = new_features(alone, features, count)
    if given is not None:
        outside = [ids[place] for place in np.flatnonzero(given.outside).tolist()]
        for remark in feature_remarks(outside, list(ids) if given.imputed else ()):
            warnings.warn(remark, stacklevel=3)
    places = {value: len(old.ids) + place for place, value in enumerate(ids)}
    joined = {n: _joined(fitted, graph.relations[n], name, places, edges.get(n, ())) for n in graph.relations}
    for wanted in edges:
        if wanted not in joined:
            graph.relation(wanted)  # which says what relations there are
    nodes = {**graph.nodes, name: _grown_type(old, ids, None if given is None else given.values)}
    grown = replace(graph, nodes=nodes, relations={n: each.relation for n, each in joined.items()})
    model = _grown_model(fitted, name, _near(graph, name, joined, count))
    messages = {n: each.messages for n, each in joined.items()}
    return _embedded(fitted, grown, model, messages)


def _alone(kind: NodeType) -> Graph:
    """The nodes of a type without any edge."""
    none = np.empty((0, 2), dtype=np.int64)
    return Graph(ids=kind.ids, edges=none, features=kind.features, feature_encoder=kind.feature_encoder)


def _only_type(graph: TypedGraph) -> str:
    if len(graph.nodes) > 1:
        raise InputError(f"name the type of the new nodes with 'type' (types: {listed(list(graph.nodes))})")
    return next(iter(graph.nodes))


def _grown_type(old: NodeType, ids: Sequence[Id], features: Any) -> NodeType:
    count = len(old.ids)
    stacked = None if old.features is None else stacked_features([old.features, features])
    rows = np.concatenate([np.arange(count), np.full(len(ids), -1)])
    attributes = None if old.attributes is None else old.attributes.take(rows)
    return NodeType(old.ids.extended(ids), stacked, old.feature_encoder, attributes)


def _joined(
    fitted: TypedFitted, relation: Relation, kind: str, places: Mapping[Id, int], pairs: Sequence[Any]
) -> _Joined:
    """A relation with its new edges; those of the model keep their place among the messages."""
    graph, messages = fitted.graph, fitted.message_edges[relation.name]
    if not len(pairs):
        return _Joined(relation, messages, np.empty((0, 2), np.int64))
    kinds = (relation.source, relation.target)
    if kind not in kinds:
        raise InputError(f"relation {relation.in_words()!r} joins no nodes of type {kind!r}")
    ends = np.array([_ends(graph, relation, kind, places, pair) for pair in pairs], dtype=np.int64)
    both = ends if not relation.is_within or relation.directed else np.sort(ends, axis=1)
    every = np.concatenate([relation.edges, both])
    width = max(len(graph.nodes[relation.target].ids) + len(places), 1)
    keys, first = np.unique(every[:, 0] * width + every[:, 1], return_index=True)
    passes = np.ones(len(every), dtype=np.bool_)
    passes[: len(relation.edges)] = False
    passes[messages] = True
    weights, times = (
        None if values is None else padded(values, len(both), fill)[first]
        for values, fill in ((relation.weights, np.mean), (relation.times, np.max))
    )
    edges = np.stack([keys // width, keys % width], axis=1)
    return _Joined(replace(relation, edges=edges, weights=weights, times=times), np.flatnonzero(passes[first]), ends)


def _ends(graph: TypedGraph, relation: Relation, kind: str, places: Mapping[Id, int], pair: Any) -> tuple[int, int]:
    """The two rows of a new edge within their types."""
    if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise InputError(f"an edge of relation {relation.name!r} needs two ends (got {pair!r})")
    found = []
    for wanted, given in zip((relation.source, relation.target), pair, strict=True):
        value = given
        if is_typed(given, graph.nodes):
            if given[0] != wanted:
                raise InputError(f"edges of {relation.in_words()!r} are (source, target) (got {tuple(pair)!r})")
            value = given[1]
        if wanted == kind and value in places:
            found.append(places[value])
            continue
        row = int(graph.nodes[wanted].ids.find([value])[0])
        if row < 0:
            words = graph.nodes[wanted].ids.unknown(value)
            raise UnknownNodeError(f"{words}; looked for among nodes of type {wanted!r} and the new ones")
        found.append(row)
    is_new = [
        wanted == kind and row >= len(graph.nodes[kind].ids)
        for wanted, row in zip((relation.source, relation.target), found, strict=True)
    ]
    if not any(is_new):
        raise InputError(f"the edge {tuple(pair)!r} joins two known nodes: fit again to change what is known")
    if relation.is_within and found[0] == found[1]:
        raise InputError(f"the edge {tuple(pair)!r} joins a node to itself")
    return found[0], found[1]


def _near(graph: TypedGraph, kind: str, joined: Mapping[str, _Joined], count: int) -> list[Rows]:
    """For each new node the nodes of its type that a learned row is made of.

    Those that it is linked to, and else those that are linked to its neighbours by the same relation.
    """
    size = len(graph.nodes[kind].ids)
    direct: list[list[Rows]] = [[] for _ in range(count)]
    indirect: list[list[Rows]] = [[] for _ in range(count)]
    for name, (_, _, ends) in joined.items():
        relation = graph.relations[name]
        for own, other in ((0, 1), (1, 0)):
            if (relation.source, relation.target)[own] != kind:
                continue
            for row, neighbour in ends[ends[:, own] >= size][:, [own, other]].tolist():
                if relation.is_within:
                    direct[row - size].append(np.array([neighbour]))
                else:
                    known = relation.edges[relation.edges[:, other] == neighbour, own]
                    indirect[row - size].append(known)
    none = [np.empty(0, np.int64)]
    return [np.unique(np.concatenate([*none, *(near or far)])) for near, far in zip(direct, indirect, strict=True)]


def _grown_model(fitted: TypedFitted, kind: str, near: Sequence[Rows]) -> RelationModel:
    """The same weights, with rows for new nodes in the table of their type, if it has one."""
    encoder = our_encoder(fitted.model)
    base = encoder.base
    if not isinstance(base, TypedBase):
        raise TypeError("a model of relations has a base model per type")
    place = list(fitted.graph.nodes).index(kind)
    part: Any = base.parts[place]
    sizes = [size + len(near) * (number == place) for number, size in enumerate(base.sizes)]
    parts = list(base.parts)
    if part.table is not None:
        num_features = 0 if (features := fitted.graph.nodes[kind].features) is None else features.shape[1]
        inputs = inputs_of(fitted.settings.encoder, num_features).inputs
        table = part.table.detach()
        for batch in batches(near, len(table)):
            table = torch.cat([table, new_table_rows(table, batch, inputs, fitted.seed)])
        parts[place] = _with_table(part, table)
    grown_base = copy(base)
    grown_base._modules = {**base._modules, "parts": nn.ModuleList(parts)}
    grown_base.sizes = sizes
    grown = copy(encoder)
    grown._modules = {**encoder._modules, "base": grown_base}
    return RelationModel(grown, fitted.model.decoder, fitted.model.relations)


def _with_table(part: Any, table: Tensor) -> Any:
    made = copy(part)
    made._parameters, made._buffers = dict(part._parameters), dict(part._buffers)

    made.table = nn.Parameter(table) if isinstance(part.table, nn.Parameter) else table
    return made


def _embedded(
    fitted: TypedFitted, graph: TypedGraph, model: RelationModel, messages: Mapping[str, Rows]
) -> TypedFitted:
    """The grown model with its embeddings, and with a plain fitted model of each predicted relation."""
    device, maps = fitted.embeddings.device, fitted.settings.encoder.relation_maps
    features: Any = typed_features(graph, device)
    seen = typed_messages(graph, messages, device, maps=maps)[0]
    embeddings = embed_graph(model, features, seen, fitted.settings, fitted.seed)
    relations = {
        name: replace(
            own,
            graph=graph.of_relation(name),
            message_edges=messages[name],
            model=Model(model.encoder, own.model.decoder),
            embeddings=rows_of_relation(graph, name, embeddings),
        )
        for name, own in fitted.relations.items()
    }
    return replace(
        fitted, graph=graph, message_edges=dict(messages), model=model, embeddings=embeddings, relations=relations
    )
