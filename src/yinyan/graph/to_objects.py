"""Graphs and tables as objects of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from yinyan.errors import MissingExtraError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from yinyan.graph.graph import Graph

__all__ = [
    "data_frame",
    "graph_to_arrays",
    "graph_to_igraph",
    "graph_to_networkx",
    "graph_to_pandas",
    "graph_to_pyg",
    "links_to_networkx",
]


def data_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Columns as a data frame; its absence names what to install."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("to_pandas needs pandas: pip install pandas") from error
    return pd.DataFrame({name: list(values) for name, values in columns.items()})


def graph_to_pandas(graph: Graph) -> pd.DataFrame:
    """A row for each edge; see `Graph.to_pandas`."""
    columns: dict[str, Any] = {
        "source": graph.ids.take(graph.edges[:, 0]),
        "target": graph.ids.take(graph.edges[:, 1]),
        "weight": graph.weights,
        "time": graph.times,
    }
    return data_frame({name: values for name, values in columns.items() if values is not None})


def links_to_networkx(rows: Sequence[Mapping[str, Any]], graph: nx.Graph | None) -> nx.Graph:
    """Links as edges, of a graph that is there or of a new one; see `Recommendations.to_networkx`."""
    made: nx.Graph = _networkx().DiGraph() if graph is None else graph
    for row in rows:
        values = {name: value for name, value in row.items() if name in ("score", "rank", "probability")}
        if not made.has_edge(row["source"], row["target"]):
            made.add_edge(row["source"], row["target"], predicted=True, **values)
    return made


def graph_to_arrays(graph: Graph) -> dict[str, Any]:
    """Arrays by name, undirected edges in both directions; see `Graph.to_arrays`."""
    first, second = graph.edges[:, 0], graph.edges[:, 1]
    both = not graph.directed
    ends = [np.concatenate(pair) if both else pair[0] for pair in ((first, second), (second, first))]
    made: dict[str, Any] = {"edge_index": np.ascontiguousarray(np.stack(ends)), "num_nodes": graph.num_nodes}
    for name, values in (("edge_weight", graph.weights), ("time", graph.times)):
        if values is not None:
            made[name] = np.concatenate([values, values]) if both else values
    if graph.features is not None:
        made["x"] = graph.features if isinstance(graph.features, np.ndarray) else graph.features.to_dense()
    if graph.sides is not None:
        made["side"] = graph.sides
    return {**made, "id": graph.ids.take(np.arange(graph.num_nodes))}


def graph_to_pyg(graph: Graph) -> Any:
    """A `Data` of PyTorch Geometric; see `Graph.to_pyg`."""
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError("to_pyg needs PyTorch Geometric: pip install 'yinyan[baselines]'") from error
    import torch

    arrays = graph_to_arrays(graph)
    ids = arrays.pop("id")
    tensors = {name: value if name == "num_nodes" else torch.from_numpy(value.copy()) for name, value in arrays.items()}
    return Data(**tensors, id=ids)


def graph_to_igraph(graph: Graph) -> Any:
    """Vertices with their attributes and edges with weights and times; see `Graph.to_igraph`."""
    try:
        import igraph
    except ImportError as error:
        raise MissingExtraError("to_igraph needs igraph: pip install 'yinyan[igraph]'") from error
    made = igraph.Graph(graph.num_nodes, graph.edges.tolist(), directed=graph.directed)
    if graph.attributes is not None:
        for name in graph.attributes.table.column_names:
            made.vs[name] = graph.attributes.table[name].to_pylist()
    made.vs["name"] = graph.ids.take(np.arange(graph.num_nodes))
    if graph.sides is not None:
        made.vs["type"] = (graph.sides == 1).tolist()
    for name, values in (("weight", graph.weights), ("time", graph.times)):
        if values is not None:
            made.es[name] = values.tolist()
    return made


def _networkx() -> Any:
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError("to_networkx needs networkx: pip install networkx") from error
    return networkx


def graph_to_networkx(graph: Graph) -> nx.Graph:
    """Nodes with their attributes and edges with weights and times; see `Graph.to_networkx`."""
    kind = _networkx()
    made: nx.Graph = kind.DiGraph() if graph.directed else kind.Graph()
    ids = graph.ids.take(np.arange(graph.num_nodes))
    known = [{} for _ in ids] if graph.attributes is None else graph.attributes.table.to_pylist()
    sides = [{}] * len(ids) if graph.sides is None else [{"bipartite": side} for side in graph.sides.tolist()]
    made.add_nodes_from(
        (node, {name: value for name, value in cells.items() if value is not None} | side)
        for node, cells, side in zip(ids, known, sides, strict=True)
    )
    values = {"weight": graph.weights, "time": graph.times}
    facts = {name: column.tolist() for name, column in values.items() if column is not None}
    rows = zip(*facts.values(), strict=True) if facts else ((),) * graph.num_edges
    made.add_edges_from(
        (ids[a], ids[b], dict(zip(facts, row, strict=True)))
        for (a, b), row in zip(graph.edges.tolist(), rows, strict=True)
    )
    return made
