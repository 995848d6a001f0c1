"""Common neighbours, Adamic-Adar and resource allocation: sparse, exact, without learning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yinyan.graph import Graph

__all__ = ["adamic_adar", "common_neighbours", "resource_allocation"]

Pairs = NDArray[np.int64]
Scores = NDArray[np.float64]

_BLOCK = 5_000_000  # neighbours looked at together


def common_neighbours(message_graph: Graph, pairs: Pairs) -> Scores:
    """CN: the number of common neighbours."""
    return _common(message_graph, pairs, np.ones(message_graph.num_nodes))


def adamic_adar(message_graph: Graph, pairs: Pairs) -> Scores:
    """AA: the sum of 1 / log(degree) over common neighbours."""
    degrees = _degrees(message_graph)
    # a common neighbour has degree two at least, so the logarithm is never asked for less
    return _common(message_graph, pairs, 1.0 / np.log(np.maximum(degrees, 2)))


def resource_allocation(message_graph: Graph, pairs: Pairs) -> Scores:
    """RA: the sum of 1 / degree over common neighbours."""
    degrees = _degrees(message_graph)
    return _common(message_graph, pairs, 1.0 / np.maximum(degrees, 1))


def _degrees(graph: Graph) -> NDArray[np.int64]:
    """Distinct neighbours of each node."""
    low, high = graph.edges.min(axis=1), graph.edges.max(axis=1)
    keys = np.unique(low * graph.num_nodes + high)
    return np.bincount(np.concatenate([keys // graph.num_nodes, keys % graph.num_nodes]), minlength=graph.num_nodes)


def _common(graph: Graph, pairs: Pairs, weights: Scores) -> Scores:
    """Sum of `weights` over the common neighbours of each pair.

    The neighbours of a pair's lesser end are listed, and looked up among those of the other by binary search.
    """
    indptr, columns, _ = graph.adjacency
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    keys = np.unique(rows * graph.num_nodes + columns)  # (node, neighbour) once, were the link there in both directions
    neighbours = keys % graph.num_nodes
    degrees = np.bincount(keys // graph.num_nodes, minlength=graph.num_nodes)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    swap = degrees[pairs[:, 0]] > degrees[pairs[:, 1]]
    less, more = np.where(swap, pairs[:, 1], pairs[:, 0]), np.where(swap, pairs[:, 0], pairs[:, 1])
    scores = np.zeros(len(pairs))
    reach = np.cumsum(degrees[less])
    start = 0
    while start < len(pairs) and keys.size:
        done = reach[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(reach, done + _BLOCK)))
        block = slice(start, stop)
        counts = degrees[less[block]]
        pair = np.repeat(np.arange(stop - start), counts)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        middle = neighbours[np.repeat(indptr[less[block]], counts) + offsets]
        wanted = more[block][pair] * graph.num_nodes + middle
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        shared = keys[place] == wanted
        scores[block] = np.bincount(pair[shared], weights[middle[shared]], minlength=stop - start)
        start = stop
    return scores
