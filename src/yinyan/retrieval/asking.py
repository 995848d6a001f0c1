"""Questions in the caller's ids: who may be recommended to whom, and answers as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.results import Id, Recommendations
from yinyan.retrieval.exact import Excluded, TopK

__all__ = ["Ask", "Where", "as_list", "checked_k", "is_id", "known_partners", "recommended"]

Rows = NDArray[np.int64]
Where = NDArray[np.bool_] | Sequence[bool] | Callable[[Id], bool]
Ask = Callable[[Rows, int, Excluded | None, Rows | None], list[TopK]]


def recommended(
    graph: Graph,
    ask: Ask,
    nodes: Any,
    k: int,
    *,
    among: Iterable[Id] | None = None,
    known: bool = False,
    where: Where | None = None,
) -> Recommendations:
    """The `k` best partners of each node by `ask` (sources, k, excluded, pool), in the caller's ids."""
    count, ids = checked_k(k), graph.ids
    sources = ids.rows(as_list(nodes))
    pool = None if among is None else np.unique(ids.rows(as_list(among)))
    if where is not None:
        chosen = _chosen(graph, where)
        pool = np.flatnonzero(chosen) if pool is None else pool[chosen[pool]]
    excluded = None if known else known_partners(graph)
    found: list[TopK | None] = [None] * len(sources)
    for places, side_pool in _by_sides(graph, sources, pool):
        for place, top in zip(places.tolist(), ask(sources[places], count, excluded, side_pool), strict=True):
            found[place] = top
    return _as_table(graph, sources, [top for top in found if top is not None])


def known_partners(graph: Graph) -> Excluded:
    """The rows that a node is linked to: of a directed graph, those that it points to."""
    if not graph.directed:
        return graph.neighbours

    def pointed_to(source: int) -> Rows:  # the reverse of a known link is still a question
        start, stop = np.searchsorted(graph.edges[:, 0], [source, source + 1])
        return graph.edges[start:stop, 1]

    return pointed_to


def checked_k(k: Any) -> int:
    """A positive integer."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InputError(f"'k' needs to be a positive integer (got {k!r})")
    return int(k)


def is_id(value: Any) -> bool:
    """Whether a value is one id, not several."""
    return isinstance(value, (str, int, np.integer, np.str_))


def as_list(nodes: Any) -> list[Any]:
    """One id or several as a list."""
    if is_id(nodes):
        return [nodes]
    if not isinstance(nodes, Iterable):
        raise InputError(f"nodes are named by an id, text or an integer, or by a sequence of ids (got {nodes!r})")
    return list(nodes)


def _chosen(graph: Graph, where: Where) -> NDArray[np.bool_]:
    """(n,) which nodes a mask or a predicate of ids lets through."""
    if callable(where):
        return np.fromiter(
            (bool(where(node)) for node in graph.ids.take(range(graph.num_nodes))), bool, graph.num_nodes
        )
    mask = np.asarray(where)
    if mask.shape != (graph.num_nodes,) or mask.dtype != bool:
        raise InputError(
            f"'where' needs to be a function of an id, or {graph.num_nodes:,} booleans in the order of the graph's ids "
            f"(got {mask.dtype} of shape {mask.shape})"
        )
    return mask


def _by_sides(graph: Graph, sources: Rows, pool: Rows | None) -> list[tuple[Rows, Rows | None]]:
    """Places of the sources with the candidates that they share: those of the other side, if there are sides."""
    if graph.sides is None:
        return [(np.arange(sources.size), pool)]
    everyone = np.arange(graph.num_nodes) if pool is None else pool
    return [(np.flatnonzero(graph.sides[sources] == side), everyone[graph.sides[everyone] != side]) for side in (0, 1)]


def _as_table(graph: Graph, sources: Rows, found: list[TopK]) -> Recommendations:
    counts = [top.rows.size for top in found]
    rows = np.concatenate([top.rows for top in found]) if found else np.empty(0, np.int64)
    return Recommendations(
        sources=tuple(graph.ids.take(np.repeat(sources, counts))),
        targets=tuple(graph.ids.take(rows)),
        scores=np.concatenate([top.scores for top in found]) if found else np.empty(0, np.float32),
        ranks=np.concatenate([np.arange(1, c + 1) for c in counts]) if found else np.empty(0, np.int64),
    )
