"""Today's edges, as a fitted model sees them: known, new between known nodes, or with new nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.ids import Id
from yinyan.graph.labels import rows_of_texts
from yinyan.text import counted

__all__ = ["Arrivals", "arrivals", "arrivals_of_rows", "known_pairs_of"]

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Distinct edges without self loops, divided by what the model knows of them."""

    num_edges: int
    num_known: int  # edges of the model's graph
    links: Rows  # (m, 2) new edges between nodes of the model
    num_with_new: int  # edges with a new node
    num_new_nodes: int
    known_ends: Rows  # (e,) ends of new edges that are nodes of the model, with repetitions


def arrivals(graph: Graph, pairs: Sequence[tuple[Id, Id]]) -> Arrivals:
    """Edges by ids, or by labels that one node has; what is neither is a new node."""
    if not pairs:
        raise InputError("there are no edges to compare with those of training: the table is empty")
    distinct = list(dict.fromkeys(value for pair in pairs for value in pair))
    if None in distinct:
        count = sum(None in pair for pair in pairs)
        raise InputError(f"{counted(count, 'edge')} without an id: leave these rows out, or name the columns of ids")
    rows = rows_of_texts(graph, distinct, refuse=False)
    unknown = np.flatnonzero(rows < 0)
    rows[unknown] = graph.num_nodes + np.arange(unknown.size)
    place = dict(zip(distinct, rows.tolist(), strict=True))
    return arrivals_of_rows(graph, np.array([(place[a], place[b]) for a, b in pairs], dtype=np.int64))


def arrivals_of_rows(graph: Graph, pairs: Rows) -> Arrivals:
    """The same of (e, 2) rows; those from `num_nodes` on are new nodes."""
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].reshape(-1, 2)
    pairs = np.unique(pairs if graph.directed else np.sort(pairs, axis=1), axis=0)
    is_inside = (pairs < graph.num_nodes).all(axis=1)
    inside = pairs[is_inside]
    is_known = graph.has_edges(inside) if len(inside) else np.zeros(0, dtype=np.bool_)
    fresh = np.concatenate([inside[~is_known], pairs[~is_inside]])
    return Arrivals(
        num_edges=len(pairs),
        num_known=int(is_known.sum()),
        links=_across_sides(graph, inside[~is_known]),
        num_with_new=int((~is_inside).sum()),
        num_new_nodes=np.unique(pairs[pairs >= graph.num_nodes]).size,
        known_ends=fresh[fresh < graph.num_nodes],
    )


def _across_sides(graph: Graph, links: Rows) -> Rows:
    """Of a bipartite graph only links across its sides, which alone can be predicted."""
    left = graph.num_left
    return links if left is None else links[(links[:, 0] < left) != (links[:, 1] < left)]


def known_pairs_of(graph: Graph, pairs: Sequence[tuple[Id, Id]]) -> Rows:
    """(p, 2) rows of pairs whose nodes are both in the graph, once each."""
    distinct = list(dict.fromkeys(value for pair in pairs for value in pair if value is not None))
    place = dict(zip(distinct, rows_of_texts(graph, distinct, refuse=False).tolist(), strict=True)) if distinct else {}
    rows = np.array([(place.get(a, -1), place.get(b, -1)) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
    rows = rows[(rows >= 0).all(axis=1)]
    return np.unique(rows if graph.directed else np.sort(rows, axis=1), axis=0)
