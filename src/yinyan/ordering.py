"""An order of the nodes in which neighbours stand near each other in memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan import native

__all__ = ["local_order"]

Rows = NDArray[np.int64]

_LARGEST = 8192  # nodes of a community: their rows are a few megabytes
_VOTES = 10  # rounds at most; later ones move next to nothing
_ROUNDS = 20_000  # of widening; what a very long graph leaves then stays as it was given


def local_order(pairs: Rows, num_nodes: int, sides: NDArray[np.int8] | None = None) -> Rows:
    """(n,) the nodes with neighbours near each other; nodes of side 0 before those of side 1, without links last.

    With compiled kernels communities are kept together, and they and their nodes follow each other as met from a node
    of few links outwards; without, the order is that of Cuthill and McKee.
    """
    by_kernels = native.library() is not None and pairs.shape[0] < 2**30
    order = _by_communities(torch.from_numpy(pairs), num_nodes) if by_kernels else _by_rings(pairs, num_nodes)
    return order if sides is None else order[np.argsort(sides[order], kind="stable")]


def _by_communities(pairs: Tensor, num_nodes: int) -> Rows:
    """Ring by ring, but for a community, which stands where its first node does."""
    indptr, columns, _ = native.symmetric_rows(pairs, num_nodes, places=False)
    walk = native.breadth_first(indptr, columns)
    place = torch.empty_like(walk)
    place[walk] = torch.arange(num_nodes)
    indptr, columns, _ = native.symmetric_rows(place[pairs], num_nodes, places=False)
    labels = native.communities(indptr, columns, _LARGEST, _VOTES).numpy()
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return walk.numpy()[np.argsort(first[which], kind="stable")]


def _by_rings(pairs: Rows, num_nodes: int) -> Rows:
    """The order of Cuthill and McKee: outwards from a node of few links, ring by ring.

    Within a ring, nodes follow the first neighbour that was reached, those with few links first; nodes without a link
    come last.
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
    return np.concatenate(rings)
