"""The nodes around a node, as a drawing shows them: nearest first, and only as many as it has room for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["edges_among", "surroundings"]

_HUB = 2_000  # neighbours of a node that are looked at

Rows = NDArray[np.int64]


def surroundings(start: int, limit: int, neighbours: Callable[[int], Rows], degree: Callable[[int], int]) -> Rows:
    """(m, 2) a row and its distance: the start, its neighbours and, while there is room, theirs; at most `limit`."""
    hops = {start: 0}
    for hop in (1, 2):
        around = [neighbours(row)[:_HUB] for row, at in hops.items() if at == hop - 1]
        fresh = np.unique(np.concatenate(around)) if around else np.empty(0, dtype=np.int64)
        fresh = fresh[[row not in hops for row in fresh.tolist()]] if fresh.size else fresh
        room = limit - len(hops)
        if fresh.size > room:  # those with most edges tell most
            order = np.argsort([-degree(row) for row in fresh.tolist()], kind="stable")
            fresh = np.sort(fresh[order[:room]])
        hops |= dict.fromkeys(fresh.tolist(), hop)
    return np.array(list(hops.items()), dtype=np.int64)


def edges_among(rows: Rows, out: Callable[[int], Rows], *, directed: bool) -> list[tuple[int, int]]:
    """The edges between some rows; `out` gives the targets of a row's edges, and undirected all its neighbours."""
    within = np.sort(rows)
    return [
        (row, other)
        for row in rows.tolist()
        for other in np.intersect1d(out(row), within).tolist()
        if directed or row < other
    ]
