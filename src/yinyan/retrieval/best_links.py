"""The best new links of a whole graph, whichever nodes they join."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import StoppedError
from yinyan.results import Id, Recommendations
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.recommend import as_list, checked_k
from yinyan.retrieval.state import SearchState, pair_scores

__all__ = ["best_links"]

_FIRST = 8  # partners asked for of every node
_PART = 1024  # nodes asked at a time

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
TopKOf = Callable[[Rows, int, Excluded, Rows | None], list[TopK]]


def best_links(
    state: SearchState,
    k: int,
    *,
    nodes: Iterable[Id] | None = None,
    top_k: TopKOf | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Recommendations:
    """The `k` best new links of the whole graph, or of `nodes`, ranked from 1; by the state's search, or by `top_k`."""
    rows = None if nodes is None else np.unique(state.rows(as_list(nodes)))
    pairs, scores = _best_pairs(state, top_k or state.top_k, checked_k(k), rows, on_progress, should_stop)
    sources, targets = (tuple(state.ids(pairs[:, end])) for end in (0, 1))
    return Recommendations(sources, targets, scores, np.arange(1, len(pairs) + 1))


def _best_pairs(
    state: SearchState,
    top_k: TopKOf,
    k: int,
    rows: Rows | None,
    on_progress: Callable[[int, int], None],
    should_stop: Callable[[], bool],
) -> tuple[Rows, Scores]:
    """(k, 2) pairs of rows that are no links, best first, and their scores: fewer only where fewer exist.

    Every node is asked for a few partners. A node all of whose partners are among the k best so far may have more of
    them, so it is asked for twice as many, and so on. With an exact search the answer is exact.
    Given distinct `rows`, only these nodes are asked: the answer is the best of their links.
    """
    symmetric = state.decoder.is_symmetric and not state.directed
    pairs, scores = np.empty((0, 2), np.int64), np.empty(0, np.float32)
    asked, count = np.arange(state.num_nodes) if rows is None else rows, _FIRST
    total = asked.size
    while asked.size:
        found_pairs, found_scores, last = [pairs], [scores], np.full(asked.size, -np.inf, np.float32)
        for places, pool in _sides(state, asked, one_side=symmetric and rows is None):
            for first in range(0, places.size, _PART):
                if should_stop():
                    raise StoppedError("mining was stopped: it keeps nothing, and starts anew the next time")
                part = places[first : first + _PART]
                found = top_k(asked[part], count, lambda row: state.left_out(row, True), pool)
                for place, top in zip(part.tolist(), found, strict=True):
                    found_pairs.append(np.stack([np.full(top.rows.size, asked[place]), top.rows], axis=1))
                    found_scores.append(top.scores)
                    if top.rows.size == count:  # there may be more
                        last[place] = top.scores[-1]
                on_progress(min(total, total - asked.size + first + part.size), total)
        pairs, scores = _distinct(np.concatenate(found_pairs), np.concatenate(found_scores), symmetric=symmetric)
        kept = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[: k + 64]
        pairs, scores = pairs[kept], scores[kept]
        bar = scores[k - 1] if scores.size >= k else -np.inf
        asked, count = asked[(last > -np.inf) & (last >= bar)], 2 * count
    if not len(pairs):
        return pairs, scores
    scores = pair_scores(state, pairs)  # from the lower row to the higher, the same whoever was asked
    kept = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[:k]
    return pairs[kept], scores[kept]


def _sides(state: SearchState, asked: Rows, *, one_side: bool) -> list[tuple[Rows, Rows | None]]:
    """Places of the nodes to ask with their candidates: one side of a bipartite graph names every pair already."""
    left, n = state.num_left, state.num_nodes
    if left is None:
        return [(np.arange(asked.size), None)]
    first = (np.flatnonzero(asked < left), np.arange(left, n))
    return [first] if one_side else [first, (np.flatnonzero(asked >= left), np.arange(left))]


def _distinct(pairs: Rows, scores: Scores, *, symmetric: bool) -> tuple[Rows, Scores]:
    if symmetric:
        pairs = np.sort(pairs, axis=1)
    span = int(pairs.max(initial=0)) + 1
    _, first = np.unique(pairs[:, 0] * span + pairs[:, 1], return_index=True)
    return pairs[first], scores[first]
