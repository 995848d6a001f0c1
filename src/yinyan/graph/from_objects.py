"""Graphs from objects in memory: arrays, networkx, igraph, scipy and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from yinyan.errors import InputError
from yinyan.graph.attributes import Attributes, attributes_of_rows, kept_attributes
from yinyan.graph.edge_lists import MergedEdges, Rows, checked_times, checked_weights, merge_edges, row_name
from yinyan.graph.feature_matrix import as_numpy, features_from_matrix
from yinyan.graph.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.graph.label_tables import attribute_column, label_name
from yinyan.graph.labels import guess_label
from yinyan.graph.tables import open_table
from yinyan.text import counted

__all__ = ["graph_from_arrays", "graph_from_igraph", "graph_from_networkx", "graph_from_pyg", "graph_from_scipy"]


def graph_from_arrays(
    edges: Any,
    *,
    ids: Any = None,
    num_nodes: int | None = None,
    features: Any = None,
    weights: Any = None,
    times: Any = None,
    edge_features: Any = None,
    directed: bool = False,
    sides: Any = None,
    attributes: Any = None,
    label: str | int | Literal[False] | None = None,
) -> Graph:
    """Build a graph from pairs of rows or ids; see `Graph.from_arrays`."""
    known = None if ids is None else ids if isinstance(ids, Ids) else Ids.from_values(ids)
    if known is not None and num_nodes is not None and num_nodes != len(known):
        raise InputError(f"num_nodes is {num_nodes:,}, but there are {len(known):,} ids: leave num_nodes out")
    features = features if features is None or hasattr(features, "shape") else as_numpy(features)
    rows, known = _pairs(edges, known, num_nodes, features)
    if attributes is None and label is not None and label is not False:
        raise InputError("'label' names a column of 'attributes': pass a table of these as well")
    beside = None if attributes is None else _table_attributes(attributes, label, len(known))
    return _build(
        *(rows, known, features, weights, times),
        directed=directed,
        sides=sides,
        attributes=beside,
        edge_features=edge_features,
    )


def graph_from_networkx(
    graph: Any, *, weight: str | None, time: str | None, features: Any, label: str | Literal[False] | None = None
) -> Graph:
    """Build a graph from a networkx graph; see `Graph.from_networkx`."""
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise InputError(f"expected a networkx graph (got {type(graph).__name__}): see Graph.from_arrays")
    nodes = list(graph.nodes)
    try:
        ids = Ids.from_values(nodes)
    except InputError as error:
        raise InputError(f"{error} (networkx.convert_node_labels_to_integers does that)") from None
    position = {node: row for row, node in enumerate(nodes)}
    links = list(graph.edges(data=True))
    rows = np.array([(position[u], position[v]) for u, v, _ in links], dtype=np.int64).reshape(-1, 2)
    notes: list[str] = []
    weights = None
    if weight is not None and any(weight in data for _, _, data in links):
        lacking = sum(weight not in data for _, _, data in links)
        notes += [f"weight 1 for {counted(lacking, 'edge')} without the attribute {weight!r}"] if lacking else []
        weights = [data.get(weight, 1.0) for _, _, data in links]
    times = None
    if time is not None:
        without = next(((u, v) for u, v, data in links if time not in data), None)
        if without is not None:
            raise InputError(f"edge {without} lacks the attribute {time!r}: every edge needs a time, or none")
        times = [data[time] for _, _, data in links]
    if isinstance(features, str):
        features = _attribute(graph, features)
    beside = attributes_of_rows([data for _, data in graph.nodes(data=True)])
    if label is not None and label is not False and (beside is None or label not in beside.names):
        raise InputError(f"no node has the attribute {label!r}: 'label' needs the name of one that holds text")
    if beside is not None and label is not False:
        beside = Attributes(beside.table, label or guess_label({name: beside.table[name] for name in beside.names}))
    return _build(rows, ids, features, weights, times, directed=graph.is_directed(), notes=notes, attributes=beside)


def graph_from_igraph(
    graph: Any, *, weight: str | None, time: str | None, features: Any, label: str | Literal[False] | None = None
) -> Graph:
    """Build a graph from one of igraph; see `Graph.from_igraph`."""
    if not hasattr(graph, "vs") or not hasattr(graph, "get_edgelist"):
        raise InputError(f"expected an igraph graph (got {type(graph).__name__}): see Graph.from_arrays")
    names = graph.vs["name"] if "name" in graph.vs.attributes() else None
    known = set(graph.es.attributes())
    if time is not None and time not in known:
        raise InputError(f"edges have no attribute {time!r}: every edge needs a time, or none")
    columns = {name: graph.vs[name] for name in graph.vs.attributes() if name != "name"}
    if isinstance(features, str):
        if features not in columns:
            raise InputError(f"vertices have no attribute {features!r}: features need one for every vertex")
        features = np.stack([np.atleast_1d(as_numpy(value)) for value in columns[features]])
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    beside = attributes_of_rows(rows) if rows else None
    if label is not None and label is not False and (beside is None or label not in beside.names):
        raise InputError(f"no vertex has the attribute {label!r}: 'label' needs the name of one that holds text")
    if beside is not None and label is not False:
        beside = Attributes(beside.table, label or guess_label({name: beside.table[name] for name in beside.names}))
    return _build(
        np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2),
        Ids.integers(graph.vcount()) if names is None else Ids.from_values(names),
        features,
        graph.es[weight] if weight in known else None,
        None if time is None else graph.es[time],
        directed=graph.is_directed(),
        attributes=beside,
    )


def graph_from_scipy(matrix: Any, *, ids: Any, features: Any, directed: bool | None) -> Graph:
    """Build a graph from a square sparse matrix; see `Graph.from_scipy`."""
    if not hasattr(matrix, "tocoo"):
        raise InputError(f"expected a scipy sparse matrix (got {type(matrix).__name__}): see Graph.from_arrays")
    entries = matrix.tocoo()
    if entries.shape[0] != entries.shape[1]:
        raise InputError(f"an adjacency matrix needs to be square (got shape {entries.shape})")
    known = Ids.integers(entries.shape[0]) if ids is None else Ids.from_values(ids)
    if len(known) != entries.shape[0]:
        raise InputError(f"the matrix has {entries.shape[0]:,} rows, but there are {len(known):,} ids")
    source, target = entries.row.astype(np.int64), entries.col.astype(np.int64)
    values = checked_weights(entries.data, lambda place: f"entry ({source[place]}, {target[place]})", "the matrix")
    full = merge_edges(source, target, len(known), weights=values, directed=True)
    symmetric = _is_symmetric(full, len(known))
    source, target = full.edges[:, 0], full.edges[:, 1]
    triangular = bool((source < target).all() or (source > target).all())
    if directed is False and not symmetric and not triangular:
        raise InputError("the matrix is not symmetric: pass directed=True, or add its transpose")
    undirected = symmetric if directed is None else not directed
    rows, weights = _one_way(full) if undirected and symmetric else (full.edges, full.weights)
    weights = None if weights is None or (weights == 1).all() else weights
    said = [note for note in full.notes if "repeated" not in note]
    if directed is None:
        said.append(
            f"the matrix is {'' if symmetric else 'not '}symmetric: taken as {'un' if undirected else ''}directed"
        )
    return _build(rows, known, features, weights, None, directed=not undirected, notes=said)


def graph_from_pyg(data: Any) -> Graph:
    """Build a graph from a PyTorch Geometric `Data`; see `Graph.from_pyg`."""
    if hasattr(data, "edge_index_dict") or hasattr(data, "node_types"):
        raise InputError("this object is heterogeneous, with several types or relations: use TypedGraph.from_pyg")
    pairs = getattr(data, "edge_index", None)
    if pairs is None:
        raise InputError("the data object has no edge_index")
    ends = as_numpy(pairs)
    if ends.ndim != 2 or ends.shape[0] != 2:
        raise InputError(f"edge_index needs shape (2, num_edges) (got {ends.shape})")
    features = getattr(data, "x", None)
    rows, count = _row_numbers(ends.T, getattr(data, "num_nodes", None), features)
    notes: list[str] = []
    weights = _pyg_weights(data, len(rows), notes)
    full = merge_edges(rows[:, 0], rows[:, 1], count, weights=weights, directed=True)
    symmetric = _is_symmetric(full, count)
    notes += [*full.notes, f"taken as {'un' if symmetric else ''}directed: {_SYMMETRY[symmetric]}"]
    rows, summed = _one_way(full) if symmetric else (full.edges, full.weights)
    return _build(rows, Ids.integers(count), features, summed, None, directed=not symmetric, notes=notes)


_SYMMETRY = {True: "every edge has its reverse", False: "not every edge has its reverse, of the same weight"}


def _build(
    rows: Rows,
    ids: Ids,
    features: Any,
    weights: Any,
    times: Any,
    *,
    directed: bool,
    sides: Any = None,
    notes: Sequence[str] = (),
    attributes: Attributes | None = None,
    edge_features: Any = None,
) -> Graph:
    """Check everything, bring side 0 to the front and merge the edges."""
    said = list(notes)
    if weights is not None:
        weights = checked_weights(_one_each(weights, len(rows), "weights"), row_name, "weight")
    if times is not None:
        times = checked_times(_one_each(times, len(rows), "times"), row_name, "time")
    described = None if edge_features is None else _edge_matrix(edge_features, len(rows))
    matrix = None if features is None else features_from_matrix(features, len(ids))
    if sides is not None:
        sides = _checked_sides(as_numpy(sides), len(ids), directed)
        if (np.diff(sides) < 0).any():
            order = np.argsort(sides, kind="stable")
            ids, sides, rows = ids.select(order), sides[order], np.argsort(order)[rows]
            if matrix is not None:
                matrix = matrix[order] if isinstance(matrix, np.ndarray) else matrix.take(order)
            attributes = None if attributes is None else attributes.take(order)
            said.append("nodes were put in order: side 0, then side 1")
        _refuse_within_side(rows, sides, ids)
    merged = merge_edges(
        *(rows[:, 0], rows[:, 1], len(ids)), weights=weights, times=times, features=described, directed=directed
    )
    return Graph(
        ids, merged.edges, merged.weights, merged.times, matrix, sides, directed,
        notes=(*said, *merged.notes), attributes=attributes, edge_features=merged.features,
    )  # fmt: skip


def _edge_matrix(given: Any, count: int) -> npt.NDArray[np.float32]:
    """(count, c) features of edges."""
    matrix = as_numpy(given)
    if matrix.ndim != 2 or len(matrix) != count or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"'edge_features' needs a row of numbers per edge: {count:,} (got {matrix.dtype}, shape {matrix.shape})"
        )
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _table_attributes(source: Any, label: str | int | Literal[False] | None, count: int) -> Attributes | None:
    """The columns of a table with one row per node."""
    opened = open_table(source, label="the table of attributes")
    table = opened.read()
    if table.num_rows != count:
        raise InputError(f"'attributes' needs one row per node: {count:,} (got {table.num_rows:,})")
    columns = {name: attribute_column(opened, table[name]) for name in table.column_names}
    return kept_attributes(columns, label_name(columns, label, opened.names))[0]


def _pairs(edges: Any, ids: Ids | None, num_nodes: int | None, features: Any) -> tuple[Rows, Ids]:
    """The edges as pairs of rows, and all ids."""
    if not hasattr(edges, "shape"):
        edges = [tuple(pair) for pair in edges]
        if any(isinstance(end, str) for pair in edges for end in pair):
            return _named_pairs(edges, ids, num_nodes, features)
    array = as_numpy(edges)
    if array.size == 0:
        array = np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or 2 not in array.shape:
        raise InputError(f"edges need shape (num_edges, 2) or (2, num_edges) (got {array.shape})")
    array = array if array.shape[1] == 2 else array.T
    if array.dtype.kind in "UO" and any(isinstance(end, str) for end in array.reshape(-1).tolist()):
        return _named_pairs(array.tolist(), ids, num_nodes, features)
    rows, count = _row_numbers(array, num_nodes if ids is None else len(ids), features)
    return rows, Ids.integers(count) if ids is None else ids


def _named_pairs(pairs: Any, ids: Ids | None, num_nodes: int | None, features: Any) -> tuple[Rows, Ids]:
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise InputError(f"an edge needs two ends (got {wrong!r})")
    ends = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if ids is not None:
        return np.stack([ids.rows(end) for end in ends], axis=1), ids
    if features is not None or num_nodes is not None:
        raise InputError("with edges between text ids, pass ids=, the node id of each row of features")
    encoded, columns = Ids.encode(*ends)
    rows = np.stack(columns, axis=1)
    if (rows < 0).any():
        raise InputError("an edge lacks an end: every edge needs two ids")
    return rows, encoded


def _row_numbers(array: npt.NDArray[Any], num_nodes: int | None, features: Any) -> tuple[Rows, int]:
    """Row numbers and how many nodes there are: as given, as features have rows, or as the largest row needs."""
    if array.dtype.kind not in "iu":
        raise InputError(f"edges need integer row numbers (got {array.dtype}): pass pairs of text ids as a list")
    rows = array.astype(np.int64)
    count = num_nodes
    if count is None:
        count = features.shape[0] if features is not None else int(rows.max(initial=-1)) + 1
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        bad = int(rows.min()) if rows.min() < 0 else int(rows.max())
        raise InputError(f"an edge ends at row {bad:,}, but the {count:,} nodes are rows 0 to {count - 1:,}")
    return rows, int(count)


def _one_each(values: Any, count: int, what: str) -> npt.NDArray[Any]:
    array = as_numpy(values)
    if array.shape != (count,):
        raise InputError(f"{what} need one entry per edge: {count:,} (got shape {array.shape})")
    return array


def _checked_sides(sides: npt.NDArray[Any], count: int, directed: bool) -> npt.NDArray[np.int8]:
    if directed:
        raise InputError("a graph is either directed or bipartite (got both): leave one out")
    if sides.shape != (count,) or not np.isin(sides, (0, 1)).all():
        raise InputError(f"sides need to be 0 or 1 for each of the {count:,} nodes")
    return sides.astype(np.int8)


def _refuse_within_side(rows: Rows, sides: npt.NDArray[np.int8], ids: Ids) -> None:
    within = sides[rows[:, 0]] == sides[rows[:, 1]]
    if within.any():
        ends = rows[int(np.argmax(within))]
        first, second = ids.take(ends)
        raise InputError(f"edge {first!r} to {second!r} joins two nodes of side {sides[ends[0]]}")


def _attribute(graph: Any, name: str) -> npt.NDArray[Any]:
    """A node attribute that holds a vector, or a number, as a matrix."""
    lacking = next((node for node, data in graph.nodes(data=True) if name not in data), None)
    if lacking is not None:
        raise InputError(f"node {lacking!r} lacks the attribute {name!r}: features need one for every node")
    rows = [np.atleast_1d(as_numpy(data[name])) for _, data in graph.nodes(data=True)]
    odd = next((place for place, row in enumerate(rows) if row.shape != rows[0].shape or row.ndim != 1), None)
    if odd is not None:
        raise InputError(f"attribute {name!r} has shape {rows[odd].shape} at one node and {rows[0].shape} at another")
    return np.stack(rows) if rows else np.zeros((0, 0))


def _is_symmetric(merged: MergedEdges, count: int) -> bool:
    """Whether every edge has its reverse, of the same weight."""
    keys, reverse = merged.edges @ (count, 1), merged.edges @ (1, count)
    order = np.argsort(reverse)
    same = merged.weights is None or np.array_equal(merged.weights, merged.weights[order])
    return bool(same and np.array_equal(keys, reverse[order]))


def _one_way(merged: MergedEdges) -> tuple[Rows, npt.NDArray[np.float32] | None]:
    """The edges from the smaller row to the larger, and their weights."""
    upper = merged.edges[:, 0] < merged.edges[:, 1]
    return merged.edges[upper], None if merged.weights is None else merged.weights[upper]


def _pyg_weights(data: Any, count: int, notes: list[str]) -> npt.NDArray[np.float64] | None:
    values = getattr(data, "edge_weight", None)
    if values is None:
        values = getattr(data, "edge_attr", None)
        if values is not None and len(values.shape) == 2 and values.shape[1] == 1:
            values = values.reshape(-1)
        if values is not None and len(values.shape) != 1:
            notes.append(f"edge_attr of shape {tuple(values.shape)} is not used: weights are one number per edge")
            return None
    if values is None:
        return None
    return checked_weights(_one_each(values, count, "edge weights"), row_name, "edge weight")
