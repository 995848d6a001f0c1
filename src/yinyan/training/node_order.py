"""An order of the nodes in which neighbours stand near each other in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.native import graph_kernels

__all__ = ["block_order", "local_order"]

Rows = NDArray[np.int64]

_LARGEST = 8192  # nodes of a community: their rows are a few megabytes
_VOTES = 10  # rounds at most; later ones move next to nothing


def local_order(pairs: Rows, num_nodes: int, sides: NDArray[np.int8] | None = None) -> Rows:
    """(n,) the nodes with neighbours near each other; nodes of side 0 before those of side 1.

    Communities are kept together, and they and their nodes follow each other in breadth-first order from a node of few
    links. It needs the compiled kernels; without them, the order is the given one.
    """
    given = torch.from_numpy(pairs)

    def rows(place: Tensor | None) -> tuple[Tensor, Tensor]:
        return graph_kernels.symmetric_rows(given if place is None else place[given], num_nodes, places=False)[:2]

    by_kernels = graph_kernels.library() is not None and pairs.shape[0] < 2**30
    order = _by_communities(rows, num_nodes) if by_kernels else np.arange(num_nodes)
    return order if sides is None else order[np.argsort(sides[order], kind="stable")]


def block_order(blocks: Callable[[], Iterable[Tensor]], num_nodes: int, largest: int = _LARGEST) -> Rows:
    """The order of `local_order`, of pairs that are read a block at a time, several times; it needs the kernels.

    No community has more than `largest` nodes.
    """

    def rows(place: Tensor | None) -> tuple[Tensor, Tensor]:
        found = blocks if place is None else lambda: (place[pairs] for pairs in blocks())
        return graph_kernels.symmetric_rows_of_blocks(found, num_nodes)

    return _by_communities(rows, num_nodes, min(largest, _LARGEST))


def _by_communities(
    rows: Callable[[Tensor | None], tuple[Tensor, Tensor]], num_nodes: int, largest: int = _LARGEST
) -> Rows:
    """Ring by ring, but for a community, which stands where its first node does.

    `rows` gives the compressed rows of the graph, perhaps with its nodes at other places.
    """
    walk = graph_kernels.breadth_first(*rows(None))
    place = torch.empty_like(walk)
    place[walk] = torch.arange(num_nodes)
    labels = graph_kernels.communities(*rows(place), largest, _VOTES).numpy()
    _, first, which = np.unique(labels, return_index=True, return_inverse=True)
    return walk.numpy()[np.argsort(first[which], kind="stable")]
