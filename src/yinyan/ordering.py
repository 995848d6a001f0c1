"""An order of the nodes in which neighbours stand near each other in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["local_order"]

Rows = NDArray[np.int64]

_ROUNDS = 20_000  # of widening; what a very long graph leaves then stays as it was given


def local_order(pairs: Rows, num_nodes: int, sides: NDArray[np.int8] | None = None) -> Rows:
    """(n,) the nodes in the order of Cuthill and McKee: outwards from a node of few links, ring by ring.

    Within a ring, nodes follow the first neighbour that was reached, those with few links first. Nodes of side 0 stay
    before those of side 1; nodes without a link come last.
    """
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    by_row = np.argsort(ends[:, 0], kind="stable")
    columns = ends[by_row, 1]
    degrees = np.bincount(ends[:, 0], minlength=num_nodes)
    begins = np.concatenate([[0], np.cumsum(degrees)])
    seeds = np.argsort(degrees, kind="stable")
    seeds = seeds[degrees[seeds] > 0]
    reached = np.zeros(num_nodes, dtype=bool)
    rings: list[Rows] = []
    front, components, place = np.empty(0, dtype=np.int64), 0, 0
    for _ in range(_ROUNDS):
        if not front.size:  # another component; of very many, many at a time
            place += int(np.argmin(reached[seeds[place:]])) if place < seeds.size else 0
            front = seeds[place : place + max(1, components // 500)]
            front = front[~reached[front]]
            components += 1
            if not front.size:
                break
            reached[front] = True
        rings.append(front)
        counts = degrees[front]
        slots = np.repeat(begins[front] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        parent = np.repeat(np.arange(front.size), counts)
        near = columns[slots]
        fresh = ~reached[near]
        near, first = np.unique(near[fresh], return_index=True)
        front = near[np.lexsort((degrees[near], parent[fresh][first]))]
        reached[front] = True
    else:
        rings.append(front)
    rings.append(np.flatnonzero(~reached))
    order = np.concatenate(rings)
    return order if sides is None else order[np.argsort(sides[order], kind="stable")]
