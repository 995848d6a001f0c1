"""Targets that are given once: a greedy assignment over the ranked lists of several sources."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from yinyan.retrieval.exact import TopK

__all__ = ["assigned"]

Rows = NDArray[np.int64]
Search = Callable[[Rows, int, Rows], list[TopK]]  # places of sources, how many, used rows -> a list for each

_AHEAD = 32  # rows of a list at least: what others take first is behind it


def assigned(search: Search, sources: Rows, k: int, once: Literal["target", "node"]) -> list[TopK]:
    """At most `k` targets for each source, none of them twice; the best pair of all comes first, and so on.

    With `once` = 'node' no node is in two pairs, at either end. Equal scores go to the source that was named first. A
    list that runs out is searched again without what is used, so that the result is that of whole lists.
    """
    k = 1 if once == "node" else k
    depth = max(2 * k, _AHEAD)
    lists = search(np.arange(sources.size), depth, np.empty(0, dtype=np.int64))
    given: list[list[tuple[int, np.float32]]] = [[] for _ in lists]
    used: set[int] = set()
    heap = [(-float(top.scores[0]), place, 0) for place, top in enumerate(lists) if top.rows.size]
    heapq.heapify(heap)
    while heap:
        _, place, at = heapq.heappop(heap)
        if once == "node" and int(sources[place]) in used:
            continue
        target = int(lists[place].rows[at])
        if target not in used:
            used |= {target, int(sources[place])} if once == "node" else {target}
            given[place].append((target, lists[place].scores[at]))
            if len(given[place]) == k:
                continue
        at += 1
        if at == lists[place].rows.size:
            if at < depth:
                continue  # there are no more
            lists[place] = search(np.array([place]), depth, np.array(sorted(used)))[0]
            at = 0
        if at < lists[place].rows.size:
            heapq.heappush(heap, (-float(lists[place].scores[at]), place, at))
    return [
        TopK(np.array([row for row, _ in found], dtype=np.int64), np.array([s for _, s in found], dtype=np.float32))
        for found in given
    ]
