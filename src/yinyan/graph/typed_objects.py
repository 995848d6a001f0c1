"""Graphs with relations from NetworkX and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from yinyan.errors import InputError
from yinyan.graph.attributes import attributes_of_rows
from yinyan.graph.edge_lists import checked_weights, merge_edges, row_name
from yinyan.graph.feature_matrix import as_numpy, features_from_matrix
from yinyan.graph.ids import Ids
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.graph.typed_tables import ONE_TYPE, named_relations
from yinyan.text import counted

__all__ = ["typed_from_networkx", "typed_from_pyg"]

Ends = tuple[list[int], list[int], list[float]]


def typed_from_networkx(graph: Any, *, kind: str, weight: str | None) -> TypedGraph:
    """Build a graph with relations from a networkx graph; see `TypedGraph.from_networkx`."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise InputError(f"expected a networkx graph (got {type(graph).__name__}): see Graph.from_tables")
    members: dict[str, list[Hashable]] = {}
    place: dict[Hashable, tuple[str, int]] = {}
    for node, data in graph.nodes(data=True):
        own = members.setdefault(str(data.get(kind, ONE_TYPE)), [])
        place[node] = str(data.get(kind, ONE_TYPE)), len(own)
        own.append(node)
    found: dict[tuple[str, str, str], Ends] = {}
    for u, v, data in graph.edges(data=True):
        if kind not in data:
            raise InputError(f"edge {(u, v)} lacks the attribute {kind!r}: every edge needs one, the relation")
        first, second = place[u], place[v]
        backwards = (second[0], str(data[kind]), first[0])
        if not graph.is_directed() and first[0] != second[0] and backwards in found:
            first, second = second, first
        ends = found.setdefault((first[0], str(data[kind]), second[0]), ([], [], []))
        ends[0].append(first[1])
        ends[1].append(second[1])
        ends[2].append(1.0 if weight is None else data.get(weight, 1.0))
    kinds = {}
    for name, own in members.items():
        try:
            ids = Ids.from_values(own)
        except InputError as error:
            raise InputError(f"{error} (networkx.convert_node_labels_to_integers does that)") from None
        shown = [{k: v for k, v in graph.nodes[node].items() if k != kind} for node in own]
        kinds[name] = NodeType(ids, attributes=attributes_of_rows(shown))
    return _graph(kinds, found, directed=graph.is_directed())


def typed_from_pyg(data: Any) -> TypedGraph:
    """Build a graph with relations from `HeteroData`; see `TypedGraph.from_pyg`."""
    if not hasattr(data, "node_types") or not hasattr(data, "edge_types"):
        raise InputError(f"expected a HeteroData object (got {type(data).__name__}): see Graph.from_pyg")
    kinds = {}
    for name in data.node_types:
        features = getattr(data[name], "x", None)
        count = data[name].num_nodes
        if count is None:
            raise InputError(f"node type {name!r} has neither x nor num_nodes: set data[{name!r}].num_nodes")
        kinds[str(name)] = NodeType(
            Ids.integers(int(count)), None if features is None else features_from_matrix(features, int(count))
        )
    found: dict[tuple[str, str, str], Ends] = {}
    for triple in data.edge_types:
        ends = as_numpy(data[triple].edge_index)
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise InputError(f"edge_index of {triple} needs shape (2, num_edges) (got {ends.shape})")
        weights = getattr(data[triple], "edge_weight", None)
        numbers = np.ones(ends.shape[1]) if weights is None else as_numpy(weights)
        if numbers.shape != (ends.shape[1],):
            raise InputError(f"edge_weight of {triple} needs one number per edge (got shape {numbers.shape})")
        found[triple] = ends[0].tolist(), ends[1].tolist(), numbers.tolist()
    return _graph(kinds, found, directed=True)


def _graph(kinds: dict[str, NodeType], found: dict[tuple[str, str, str], Ends], *, directed: bool) -> TypedGraph:
    if not found:
        raise InputError("the graph has no edges: there is nothing to predict")
    notes, relations = list[str](), {}
    for (source, _, target), name, ends in zip(found, named_relations(list(found)), found.values(), strict=True):
        first, second = (np.array(rows, dtype=np.int64) for rows in ends[:2])
        sizes = len(kinds[source].ids), len(kinds[target].ids)
        for rows, size, what in ((first, sizes[0], source), (second, sizes[1], target)):
            if rows.size and not 0 <= rows.min() <= rows.max() < size:
                raise InputError(f"relation {name!r} ends at row {rows.max():,} of {counted(size, 'node')} of {what!r}")
        plain = all(value == 1 for value in ends[2])
        weights = None if plain else checked_weights(np.array(ends[2]), row_name, f"weight of relation {name!r}")
        within, both = source == target, sizes[0] + sizes[1]
        if within:
            merged = merge_edges(first, second, sizes[0], weights=weights, directed=directed)
        else:
            merged = merge_edges(first, second + sizes[0], both, weights=weights, directed=True)
            merged = merged._replace(edges=merged.edges - np.array([0, sizes[0]]))
        is_directed, edges, summed = directed and within, merged.edges, merged.weights
        if is_directed and _has_all_reverses(edges, sizes[0]):
            upper = edges[:, 0] < edges[:, 1]
            is_directed, edges = False, edges[upper]
            summed = None if summed is None else summed[upper]
            notes.append(f"relation {name!r}: taken as undirected, every edge has its reverse")
        relations[name] = Relation(name, source, target, edges, summed, None, is_directed)
        notes += [f"relation {name!r}: {note}" for note in merged.notes]
    return TypedGraph(kinds, relations, tuple(notes))


def _has_all_reverses(edges: np.ndarray[Any, Any], count: int) -> bool:
    keys: Sequence[Any] = edges @ (count, 1), edges @ (1, count)
    return bool(len(edges) and np.array_equal(np.sort(keys[0]), np.sort(keys[1])))
