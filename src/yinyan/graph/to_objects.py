"""Graphs and tables as objects of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from yinyan.errors import MissingExtraError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from yinyan.graph.graph import Graph

__all__ = ["data_frame", "graph_to_networkx", "graph_to_pandas"]


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


def graph_to_networkx(graph: Graph) -> nx.Graph:
    """Nodes with their attributes and edges with weights and times; see `Graph.to_networkx`."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("to_networkx needs networkx: pip install networkx") from error
    made: nx.Graph = nx.DiGraph() if graph.directed else nx.Graph()
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
