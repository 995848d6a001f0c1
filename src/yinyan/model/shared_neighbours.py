"""Exact counts of what two nodes share, from lists of neighbours: the inputs of reranking."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.native import graph_kernels

__all__ = ["NUM_COLUMNS", "CompressedLists", "NeighbourLists", "shared_columns"]

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

NUM_COLUMNS = 5  # see `shared_columns`

_MOST = 4096  # neighbours of an inner node of a path: a hub joins nearly all nodes, and tells none apart
_SCALES = (1.0, 2.0, 20.0, 10.0)  # of the counts before their logarithm: typical values come to about 1


class NeighbourLists(Protocol):
    """The neighbours of each row, whatever holds them. Direction is ignored, and each neighbour occurs once."""

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Compressed rows: where the list of each begins, and the neighbours."""
        ...

    def degrees(self, rows: Rows) -> Rows:
        """How many neighbours each row has."""
        ...


class CompressedLists:
    """The lists of a graph that does not change."""

    def __init__(self, indptr: Rows, neighbours: Rows) -> None:
        self.indptr, self.neighbours = indptr, neighbours

    @classmethod
    def from_pairs(cls, pairs: Rows, num_nodes: int) -> CompressedLists:
        """From (m, 2) edges of either direction."""
        low, high = pairs.min(axis=1, initial=num_nodes), pairs.max(axis=1, initial=0)
        keys = np.unique(low * num_nodes + high)
        ends = np.stack([keys // max(1, num_nodes), keys % max(1, num_nodes)], axis=1)
        source, target = np.concatenate([ends, ends[:, ::-1]]).T
        order = np.lexsort((target, source))
        counts = np.bincount(source, minlength=num_nodes)
        return cls(np.concatenate([[0], np.cumsum(counts)]), np.ascontiguousarray(target[order]))

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """Compressed rows: where the list of each begins, and the neighbours."""
        counts = self.degrees(rows)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return indptr, self.neighbours[np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], counts)]

    def degrees(self, rows: Rows) -> Rows:
        """How many neighbours each row has."""
        return self.indptr[rows + 1] - self.indptr[rows]


def shared_columns(lists: NeighbourLists, sources: Rows, starts: Rows, candidates: Rows) -> NDArray[np.float32]:
    """(c, 5) what (s,) sources share with the (c,) candidates that `starts` (s + 1,) gives to each.

    Logarithms of the number of common neighbours, of Adamic-Adar, of resource allocation and of paths of length three
    (each over the roots of the degrees of its inner nodes: Kovács et al., Nature Communications 2019), and Jaccard's
    share. All are symmetric in source and candidate. An edge between the two adds nothing.
    """
    if isinstance(lists, CompressedLists) and graph_kernels.library() is not None:
        tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in (sources, starts, candidates)]
        graph = (torch.from_numpy(lists.indptr), torch.from_numpy(lists.neighbours))
        counts = graph_kernels.count_shared(*graph, _MOST, *tensors).numpy().astype(np.float64)
    else:
        parts = zip(sources.tolist(), starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        found = [_counts(lists, source, candidates[first:last]) for source, first, last in parts]
        counts = np.concatenate(found) if found else np.empty((0, len(_SCALES)))
    union = np.repeat(lists.degrees(sources), np.diff(starts)) + lists.degrees(candidates) - counts[:, 0]
    logarithms = np.log1p(np.maximum(counts, 0) * _SCALES)
    return np.column_stack([logarithms, counts[:, 0] / np.maximum(union, 1)]).astype(np.float32)


def _counts(lists: NeighbourLists, source: int, candidates: Rows) -> Floats:
    """(c, 4) counts between a source and its candidates, as the compiled kernel has them."""
    near = lists.of(np.array([source]))[1]
    indptr, far = lists.of(near)
    degrees = lists.degrees(near)
    passing = np.repeat(degrees <= _MOST, np.diff(indptr))
    reached, place = np.unique(far[passing], return_inverse=True)
    weights = np.bincount(place, np.repeat(degrees**-0.5, np.diff(indptr))[passing], minlength=reached.size)

    indptr, inner = lists.of(candidates)
    pair = np.repeat(np.arange(candidates.size), np.diff(indptr))
    degrees, own = lists.degrees(inner), lists.degrees(candidates)
    linked = np.isin(candidates, near) & (own <= _MOST)
    amount = np.zeros(inner.size)
    if reached.size:
        at = np.minimum(np.searchsorted(reached, inner), reached.size - 1)
        amount = np.where(reached[at] == inner, weights[at], 0.0)
    amount -= np.where(linked, np.maximum(own, 1) ** -0.5, 0.0)[pair]  # walks to the candidate and back
    amount *= (inner != source) & (degrees <= _MOST)
    is_near = np.isin(inner, near)
    columns = (
        is_near,
        np.where(is_near & (degrees > 1), 1 / np.log(np.maximum(degrees, 2)), 0.0),
        is_near / degrees,
        amount * degrees**-0.5,
    )
    return np.stack([np.bincount(pair, column, minlength=candidates.size) for column in columns], axis=1)
