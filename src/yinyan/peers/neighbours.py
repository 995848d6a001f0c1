"""Distinct neighbours: what the heuristics read of a graph, and the pairs they are asked for, each once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from yinyan.errors import InputError
from yinyan.graph import Graph

__all__ = ["DENSE_BYTES", "DistinctPairs", "Neighbours", "distinct_pairs", "neighbours_of", "source_blocks"]

DENSE_BYTES = 2**30  # the most a dense matrix may take: 11,585 nodes


class Neighbours(NamedTuple):
    """The graph without directions in compressed rows: each neighbour once, in ascending order."""

    indptr: NDArray[np.int64]  # (num_nodes + 1,)
    columns: NDArray[np.int64]  # (ends,)
    degrees: NDArray[np.int64]  # (num_nodes,) distinct neighbours

    def rows(self) -> NDArray[np.int64]:
        """The node of each entry of `columns`."""
        return np.repeat(np.arange(self.degrees.size), self.degrees)

    def dense(self, values: NDArray[np.float64] | None = None) -> Tensor:
        """The adjacency matrix, or one with other values at its places, as a dense tensor of doubles."""
        matrix = torch.zeros(self.degrees.size, self.degrees.size, dtype=torch.float64)
        matrix.numpy()[self.rows(), self.columns] = 1.0 if values is None else values
        return matrix

    @property
    def dense_fits(self) -> bool:
        """Whether a dense matrix of all nodes stays within DENSE_BYTES."""
        return self.degrees.size**2 * 8 <= DENSE_BYTES


class DistinctPairs(NamedTuple):
    """Unordered pairs, each once, sorted by `first`, the end that stands in more of them."""

    first: NDArray[np.int64]  # (d,)
    second: NDArray[np.int64]  # (d,)
    inverse: NDArray[np.int64]  # (pairs asked for,) their places in the above


def neighbours_of(graph: Graph) -> Neighbours:
    """The distinct neighbours of each node, by links of either direction."""
    low, high = graph.edges.min(axis=1), graph.edges.max(axis=1)
    keys = np.sort(np.concatenate([low * graph.num_nodes + high, high * graph.num_nodes + low]))
    keys = keys[np.diff(keys, prepend=-1) > 0]  # once, were the link there in both directions
    degrees = np.bincount(keys // max(1, graph.num_nodes), minlength=graph.num_nodes)
    return Neighbours(np.concatenate([[0], np.cumsum(degrees)]), keys % max(1, graph.num_nodes), degrees)


def distinct_pairs(graph: Graph, pairs: ArrayLike) -> DistinctPairs:
    """Each pair once whatever its direction, so that (a, b) and (b, a) score alike to the last bit."""
    rows = np.asarray(pairs, dtype=np.int64)
    rows = rows.reshape(0, 2) if rows.size == 0 else rows
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InputError(f"'pairs' needs to be pairs of rows, (k, 2) (got shape {rows.shape})")
    if len(rows) and not 0 <= rows.min() <= rows.max() < graph.num_nodes:
        raise InputError(
            f"'pairs' needs rows between 0 and {graph.num_nodes - 1:,} (got {rows.min():,} to {rows.max():,})"
        )
    keys, inverse = np.unique(rows.min(axis=1) * graph.num_nodes + rows.max(axis=1), return_inverse=True)
    low, high = keys // max(1, graph.num_nodes), keys % max(1, graph.num_nodes)
    often = np.bincount(np.concatenate([low, high]), minlength=graph.num_nodes)
    swap = often[high] > often[low]
    first, second = np.where(swap, high, low), np.where(swap, low, high)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return DistinctPairs(first[order], second[order], place[inverse.reshape(-1)])


def source_blocks(distinct: DistinctPairs, most: int) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int64]]]:
    """Runs of pairs with at most `most` first ends between them, these ends, and each pair's place among them."""
    sources, starts, place = np.unique(distinct.first, return_index=True, return_inverse=True)
    ends = np.append(starts, distinct.first.size)
    for begin in range(0, sources.size, max(1, most)):
        stop = min(begin + max(1, most), sources.size)
        block = slice(int(ends[begin]), int(ends[stop]))
        yield block, sources[begin:stop], place[block] - begin
