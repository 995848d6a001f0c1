"""A graph out of whatever describes one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from yinyan.connect.tables import DatabaseTable
from yinyan.errors import InputError
from yinyan.graph.graph import Graph
from yinyan.graph.pair_tables import is_frame
from yinyan.graph.typed_graph import TypedGraph

__all__ = ["as_any_graph", "as_graph"]


def as_any_graph(source: Any, tell: Callable[[str], None] = lambda text: None) -> Graph | TypedGraph:
    """The same as `as_graph`, but a graph with relations stays one."""
    if isinstance(source, TypedGraph):
        return source
    if hasattr(source, "node_types") and hasattr(source, "edge_types"):
        made = TypedGraph.from_pyg(source)
        tell(f"graph: {made.describe().splitlines()[0]}")
        return made
    return as_graph(source, tell)


def as_graph(source: Any, tell: Callable[[str], None] = lambda text: None) -> Graph:
    """A graph as it is; other objects are converted with default options, and `tell` is called with a line on it."""
    if isinstance(source, Graph):
        return source
    if isinstance(source, TypedGraph):
        raise InputError(
            "this graph has relations, which are not understood here: take the graph of one with "
            f"graph.of_relation({next(iter(source.relations))!r})"
        )
    kind = f"{type(source).__module__.partition('.')[0]} {type(source).__name__}".removeprefix("builtins ")
    if hasattr(source, "vs") and hasattr(source, "get_edgelist"):
        made, how = Graph.from_igraph(source), "from_igraph"
    elif hasattr(source, "nodes") and hasattr(source, "is_directed"):
        made, how = Graph.from_networkx(source), "from_networkx"
    elif is_frame(source) or isinstance(source, (str, os.PathLike, DatabaseTable)):
        made, how = Graph.from_table(source), "from_table"
    elif hasattr(source, "tocoo"):
        made, how = Graph.from_scipy(source), "from_scipy"
    elif hasattr(source, "edge_index"):
        made, how = Graph.from_pyg(source), "from_pyg"
    else:
        raise InputError(
            f"fit needs a yinyan.Graph, a NetworkX graph, a table of edges or a sparse matrix (got {kind}): "
            "see Graph.from_table and Graph.from_arrays"
        )
    note = f"converted from {kind} by Graph.{how} with default options"
    made = replace(made, notes=(note, *made.notes))
    tell(f"graph: {made.describe().splitlines()[0]}")
    for line in made.notes:
        tell(f"graph: {line}")
    return made
