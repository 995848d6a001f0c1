"""Graphs: from tables and from other libraries' objects, with the caller's ids and node features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yinyan.graph.graph import Graph
    from yinyan.graph.typed_graph import TypedGraph

__all__ = ["Graph", "TypedGraph"]


def __getattr__(name: str) -> Any:
    if name == "Graph":  # on first use: the command line's help reads the table options without numpy
        from yinyan.graph.graph import Graph

        return Graph
    if name == "TypedGraph":
        from yinyan.graph.typed_graph import TypedGraph

        return TypedGraph
    raise AttributeError(f"module 'yinyan.graph' has no attribute {name!r}")
