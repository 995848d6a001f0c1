"""Exact search over shards: each holds a range of the stored rows, and the best of all are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK, best, left_out_of
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Ask", "Question", "Search", "Shard", "ShardedSearch", "shard_ranges"]

Rows = NDArray[np.int64]


class Question(NamedTuple):
    """What a shard is asked: the best `k` of its rows for each source."""

    own: NDArray[np.float32]  # (sources, row) stored vectors
    k: int
    left_out: list[Rows]  # rows of the whole graph that are no candidates of each source
    pool: Rows | tuple[int, int] | None  # candidates: sorted rows, the first and the last of a range, or all


class Search(Protocol):
    """What answers questions of a fitted model: `ExactSearch`, or the same over shards."""

    def top_k(
        self, rows: Snapshot, sources: Rows, k: int, excluded: Excluded | None = None, pool: Rows | None = None
    ) -> list[TopK]:
        """For each source the best of `pool`, but for itself and the `excluded`."""
        ...


class Shard:
    """A range of the stored rows, and exact search in it; rows are numbered as in the whole graph."""

    def __init__(self, decoder: Decoder, rows: Tensor, first: int) -> None:
        self._first, self._last = first, first + rows.shape[0]
        self._rows, self._search = Snapshot.of(rows, check=False), ExactSearch(decoder)

    def answer(self, question: Question) -> list[TopK]:
        """The best of this shard's rows."""
        pool = self._own_pool(question.pool)
        if pool is not None and not pool.size:
            return [TopK(np.empty(0, np.int64), np.empty(0, np.float32))] * len(question.own)
        left_out = [self._own(rows) for rows in question.left_out]
        found = self._search.top_k_of(self._rows, torch.from_numpy(question.own), question.k, left_out, pool)
        return [TopK(top.rows + self._first, top.scores) for top in found]

    def _own(self, rows: Rows) -> Rows:
        """Those of some sorted rows that stand here, by their places here."""
        begin, end = np.searchsorted(rows, [self._first, self._last])
        return rows[begin:end] - self._first

    def _own_pool(self, pool: Rows | tuple[int, int] | None) -> Rows | None:
        if not isinstance(pool, tuple):
            return None if pool is None else self._own(pool)
        first, last = max(pool[0], self._first), min(pool[1], self._last)
        if (first, last) == (self._first, self._last):
            return None
        return np.arange(first, max(first, last)) - self._first


Ask = Callable[[Question], list[list[TopK]]]  # of all shards at once: the answer of each


class ShardedSearch:
    """Search by shards, somewhere else; scores and order are those of `ExactSearch` over all rows."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def top_k(
        self, rows: Snapshot, sources: Rows, k: int, excluded: Excluded | None = None, pool: Rows | None = None
    ) -> list[TopK]:
        """For each source the best of `pool` (sorted rows; all without), but for itself and the `excluded`."""
        left_out = [left_out_of(int(source), excluded) for source in sources]
        own = rows.gather(sources).cpu().numpy()
        answers = self._ask(Question(own, k, left_out, _shortened(pool)))
        return [_merged([found[place] for found in answers], k) for place in range(len(sources))]


def shard_ranges(num_rows: int, shards: int) -> list[tuple[int, int]]:
    """Ranges of rows of about the same length, one for each shard; no more than there are rows."""
    count = max(1, min(shards, num_rows))
    bounds = [num_rows * part // count for part in range(count + 1)]
    return list(zip(bounds, bounds[1:], strict=False))


def _merged(tops: Sequence[TopK], k: int) -> TopK:
    return best(np.concatenate([top.rows for top in tops]), np.concatenate([top.scores for top in tops]), k)


def _shortened(pool: Rows | None) -> Rows | tuple[int, int] | None:
    """A pool of consecutive rows by its bounds: one side of a bipartite graph need not be sent."""
    if pool is None or not pool.size or pool[-1] - pool[0] + 1 != pool.size:
        return pool
    return int(pool[0]), int(pool[-1]) + 1
