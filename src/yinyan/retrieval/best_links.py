"""The best new links of a whole graph, whichever nodes they join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import StoppedError
from yinyan.results import Id, Recommendations
from yinyan.retrieval.candidates import Candidates, Where, candidates_of
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.recommend import checked_k, links_of
from yinyan.retrieval.state import SearchState, pair_scores

__all__ = ["FIRST", "best_links"]

FIRST = 8  # partners asked for of every node
_PART = 1024  # nodes asked at a time

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
TopKOf = Callable[[Rows, int, Excluded, Rows | None], list[TopK]]


def best_links(
    state: SearchState,
    k: int,
    *,
    nodes: Iterable[Id] | None = None,
    where: Where | None = None,
    top_k: TopKOf | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Recommendations:
    """The `k` best new links of the whole graph, or of `nodes`, ranked from 1; fewer only where fewer exist.

    Every node is asked for a few partners, by the state's search or by `top_k`. A node all of whose partners are among
    the k best so far may have more of them, so it is asked for twice as many, and so on. With an exact search the
    answer is exact. Given `nodes`, only these are asked: the answer is the best of their links. Under a condition
    `where`, a link is listed from the end that is its source; undirected, one of its two ends has to be one.
    """
    k, search, candidates = checked_k(k), top_k or state.top_k, candidates_of(state, None, where)
    # between two sides a link is one from whichever side it is seen, and its source is of side 0
    symmetric = not state.directed and (state.decoder.is_symmetric or state.num_left is not None)
    pairs, scores = np.empty((0, 2), np.int64), np.empty(0, np.float32)
    asked = np.arange(state.num_nodes) if nodes is None else np.unique(state.rows(state.listed(nodes)))
    total, count = asked.size, FIRST
    while asked.size:
        found_pairs, found_scores, last = [pairs], [scores], np.full(asked.size, -np.inf, np.float32)
        for places, pool in _pools(state, asked, candidates, one_side=symmetric and nodes is None):
            for first in range(0, places.size, _PART):
                if should_stop():
                    raise StoppedError("mining was stopped: it keeps nothing, and starts anew the next time")
                part = places[first : first + _PART]
                if pool is not None and not pool.size:
                    continue
                found = search(asked[part], count, lambda row: state.left_out(row, True), pool)
                for place, top in zip(part.tolist(), found, strict=True):
                    found_pairs.append(np.stack([np.full(top.rows.size, asked[place]), top.rows], axis=1))
                    found_scores.append(top.scores)
                    if top.rows.size == count:  # there may be more
                        last[place] = top.scores[-1]
                on_progress(min(total, total - asked.size + first + part.size), total)
        pairs, scores = _distinct(np.concatenate(found_pairs), np.concatenate(found_scores), symmetric=symmetric)
        pairs = np.sort(pairs, axis=1) if symmetric and candidates is None else pairs
        pairs, scores = _first(pairs, scores, k + 64)
        bar = scores[k - 1] if scores.size >= k else -np.inf
        asked, count = asked[(last > -np.inf) & (last >= bar)], 2 * count
    if len(pairs):  # scored from the lower row to the higher, the same whoever was asked
        pairs, scores = _first(pairs, pair_scores(state, np.sort(pairs, axis=1) if symmetric else pairs), k)
    return links_of(state, pairs, scores, np.arange(1, len(pairs) + 1))


def _first(pairs: Rows, scores: Scores, count: int) -> tuple[Rows, Scores]:
    """The `count` best, equal ones in the order of rows."""
    kept = np.lexsort((pairs[:, 1], pairs[:, 0], -scores))[:count]
    return pairs[kept], scores[kept]


def _pools(
    state: SearchState, asked: Rows, candidates: Candidates | None, *, one_side: bool
) -> Iterator[tuple[Rows, Rows | None]]:
    """Places of the nodes to ask with their candidates, of those that a condition admits."""
    for places, pool in _sides(state, asked, one_side=one_side):
        if candidates is None:
            yield places, pool
            continue
        groups = candidates.groups(asked[places])
        for group in np.unique(groups).tolist():
            alike = places[groups == group]
            admitted = candidates.pool(int(asked[alike[0]]))
            yield alike, admitted if pool is None else np.intersect1d(admitted, pool, assume_unique=True)


def _sides(state: SearchState, asked: Rows, *, one_side: bool) -> list[tuple[Rows, Rows | None]]:
    """Places of the nodes to ask with their candidates: one side of a bipartite graph names every pair already."""
    left, n = state.num_left, state.num_nodes
    if left is None:
        return [(np.arange(asked.size), None)]
    first = (np.flatnonzero(asked < left), np.arange(left, n))
    return [first] if one_side else [first, (np.flatnonzero(asked >= left), np.arange(left))]


def _distinct(pairs: Rows, scores: Scores, *, symmetric: bool) -> tuple[Rows, Scores]:
    """Each pair once; of both directions of one link, the one from the lower row."""
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, scores = pairs[order], scores[order]
    ends = np.sort(pairs, axis=1) if symmetric else pairs
    span = int(pairs.max(initial=0)) + 1
    _, first = np.unique(ends[:, 0] * span + ends[:, 1], return_index=True)
    return pairs[first], scores[first]
