"""The best new links of a whole graph, whichever nodes they join."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import StoppedError
from yinyan.graph import Graph
from yinyan.retrieval.asking import Ask, checked_k, known_partners

__all__ = ["Pairs", "best_pairs"]

_FIRST = 8  # partners asked for of every node
_PART = 1024  # nodes asked at a time

Rows = NDArray[np.int64]
Pairs = tuple[Rows, NDArray[np.float32]]


def best_pairs(
    graph: Graph,
    ask: Ask,
    score: Callable[[Rows], NDArray[np.float32]],
    k: int,
    *,
    symmetric: bool,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Pairs:
    """(k, 2) pairs of rows that are no links, best first, and their scores: fewer only where fewer exist.

    Every node is asked for a few partners. A node all of whose partners are among the k best so far may have more of
    them, so it is asked for twice as many, and so on. With an exact `ask` the answer is exact.
    """
    k = checked_k(k)
    pairs, scores = np.empty((0, 2), np.int64), np.empty(0, np.float32)
    asked, count = np.arange(graph.num_nodes), _FIRST
    while asked.size:
        found_pairs, found_scores, last = [pairs], [scores], np.full(asked.size, -np.inf, np.float32)
        for places, pool in _sides(graph, asked, symmetric):
            for first in range(0, places.size, _PART):
                if should_stop():
                    raise StoppedError("mining was stopped: it keeps nothing, and starts anew the next time")
                part = places[first : first + _PART]
                for place, top in zip(part.tolist(), ask(asked[part], count, known_partners(graph), pool), strict=True):
                    found_pairs.append(np.stack([np.full(top.rows.size, asked[place]), top.rows], axis=1))
                    found_scores.append(top.scores)
                    if top.rows.size == count:  # there may be more
                        last[place] = top.scores[-1]
                on_progress(min(graph.num_nodes, graph.num_nodes - asked.size + first + part.size), graph.num_nodes)
        pairs, scores = _distinct(np.concatenate(found_pairs), np.concatenate(found_scores), symmetric=symmetric)
        kept = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[: k + 64]
        pairs, scores = pairs[kept], scores[kept]
        bar = scores[k - 1] if scores.size >= k else -np.inf
        asked, count = asked[(last > -np.inf) & (last >= bar)], 2 * count
    if not len(pairs):
        return pairs, scores
    scores = score(pairs)  # from the lower row to the higher, the same whoever was asked
    kept = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[:k]
    return pairs[kept], scores[kept]


def _sides(graph: Graph, asked: Rows, symmetric: bool) -> list[tuple[Rows, Rows | None]]:
    """Places of the nodes to ask with their candidates: one side of a bipartite graph names every pair already."""
    if graph.sides is None:
        return [(np.arange(asked.size), None)]
    sides = graph.sides
    return [(np.flatnonzero(sides[asked] == a), np.flatnonzero(sides != a)) for a in ((0,) if symmetric else (0, 1))]


def _distinct(pairs: Rows, scores: NDArray[np.float32], *, symmetric: bool) -> tuple[Rows, NDArray[np.float32]]:
    if symmetric:
        pairs = np.sort(pairs, axis=1)
    span = int(pairs.max(initial=0)) + 1
    _, first = np.unique(pairs[:, 0] * span + pairs[:, 1], return_index=True)
    return pairs[first], scores[first]
