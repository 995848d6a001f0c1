"""Local heuristics: how many neighbours two nodes share, and how telling these are; exact, without learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.peers.neighbours import DistinctPairs, Neighbours, distinct_pairs, neighbours_of, source_blocks

__all__ = [
    *("WEIGHTS", "adamic_adar", "common_neighbours", "jaccard", "preferential_attachment"),
    "resource_allocation",
]

Pairs = NDArray[np.int64]
Scores = NDArray[np.float64]

# what a common neighbour counts for, by its degree
WEIGHTS: dict[str, Callable[[NDArray[np.int64]], Scores]] = {
    "cn": lambda degrees: np.ones(degrees.size),
    "aa": lambda degrees: np.where(degrees > 1, 1.0 / np.log(np.maximum(degrees, 2)), 0.0),
    "ra": lambda degrees: 1.0 / np.maximum(degrees, 1),
}

_BLOCK = 5_000_000  # neighbours looked at together
_LOOKUP = 5e-8  # seconds that one neighbour takes to be listed and looked up
_PRODUCT = 2.5e-11  # seconds that one multiplication of a dense product takes


def common_neighbours(message_graph: Graph, pairs: Pairs) -> Scores:
    """CN: the number of common neighbours, |N(i) ∩ N(j)|."""
    return _common(message_graph, pairs, WEIGHTS["cn"])


def adamic_adar(message_graph: Graph, pairs: Pairs) -> Scores:
    """AA: the sum of 1 / log(degree) over common neighbours (those of degree one, which only (i, i) has, add 0)."""
    return _common(message_graph, pairs, WEIGHTS["aa"])


def resource_allocation(message_graph: Graph, pairs: Pairs) -> Scores:
    """RA: the sum of 1 / degree over common neighbours."""
    return _common(message_graph, pairs, WEIGHTS["ra"])


def jaccard(message_graph: Graph, pairs: Pairs) -> Scores:
    """The share of common neighbours among all of both, |N(i) ∩ N(j)| / |N(i) ∪ N(j)|; 0 if there are none."""
    common = common_neighbours(message_graph, pairs)
    degrees, rows = neighbours_of(message_graph).degrees, np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return np.asarray(common / np.maximum(degrees[rows].sum(1) - common, 1))


def preferential_attachment(message_graph: Graph, pairs: Pairs) -> Scores:
    """PA: the product of the degrees, |N(i)| · |N(j)|."""
    around = neighbours_of(message_graph)
    distinct = distinct_pairs(message_graph, pairs)
    products = around.degrees[distinct.first].astype(np.float64) * around.degrees[distinct.second]
    return np.asarray(products[distinct.inverse])


def _common(graph: Graph, pairs: Pairs, weight: Callable[[NDArray[np.int64]], Scores]) -> Scores:
    """Sum over the common neighbours of each pair of weights by their degrees, by the way that takes less time."""
    around, distinct = neighbours_of(graph), distinct_pairs(graph, pairs)
    way = _by_product if _product_is_faster(around, distinct) else _by_lookup
    return np.asarray(way(around, distinct, weight(around.degrees))[distinct.inverse])


def _product_is_faster(around: Neighbours, distinct: DistinctPairs) -> bool:
    """Whether rows of the dense A diag(w) A take less time than listing each pair's neighbours."""
    lookups = float(np.minimum(around.degrees[distinct.first], around.degrees[distinct.second]).sum())
    products = float(np.unique(distinct.first).size) * around.degrees.size**2
    return around.dense_fits and products * _PRODUCT < lookups * _LOOKUP


def _by_product(around: Neighbours, distinct: DistinctPairs, weights: Scores) -> Scores:
    """Rows of A diag(w) A for the first ends, some at a time."""
    adjacency, weight = around.dense(), torch.from_numpy(weights)
    scores = np.zeros(distinct.first.size)
    for block, sources, row in source_blocks(distinct, _BLOCK // max(1, around.degrees.size)):
        product = (adjacency[torch.from_numpy(sources)] * weight) @ adjacency
        scores[block] = product.numpy()[row, distinct.second[block]]
    return scores


def _by_lookup(around: Neighbours, distinct: DistinctPairs, weights: Scores) -> Scores:
    """The neighbours of a pair's lesser end are listed, and looked up among those of the other by binary search."""
    indptr, neighbours, degrees = around
    num_nodes = degrees.size
    keys = around.rows() * num_nodes + neighbours
    swap = degrees[distinct.first] > degrees[distinct.second]
    less = np.where(swap, distinct.second, distinct.first)
    more = np.where(swap, distinct.first, distinct.second)
    scores = np.zeros(less.size)
    reach = np.cumsum(degrees[less])
    start = 0
    while start < less.size and keys.size:
        done = reach[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(reach, done + _BLOCK)))
        block = slice(start, stop)
        counts = degrees[less[block]]
        pair = np.repeat(np.arange(stop - start), counts)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        middle = neighbours[np.repeat(indptr[less[block]], counts) + offsets]
        wanted = more[block][pair] * num_nodes + middle
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        shared = keys[place] == wanted
        scores[block] = np.bincount(pair[shared], weights[middle[shared]], minlength=stop - start)
        start = stop
    return scores
