"""Search over shards: each holds a range of the stored rows, and what all of them find is merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder
from yinyan.retrieval.cells import num_cells
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK, left_out_of
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.probing import NEAR, Found, Probing, Starts, lists_of
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Ask", "Search", "Shard", "ShardedProbing", "ShardedSearch", "shard_ranges"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Pool = Rows | tuple[int, int] | None  # candidates: sorted rows, the first and the last of a range, or all


class Search(Protocol):
    """What answers questions of a fitted model: `ExactSearch`, or the same over shards."""

    def top_k(
        self, rows: Snapshot, sources: Rows, k: int, excluded: Excluded | None = None, pool: Rows | None = None
    ) -> list[TopK]:
        """For each source the best of `pool`, but for itself and the `excluded`."""
        ...

    def reaching(
        self, rows: Snapshot, sources: Rows, bars: Sequence[Scores], left_out: Sequence[Rows], pool: Rows | None = None
    ) -> list[Rows]:
        """For each source how many rows score at least each of its bars."""
        ...


class Packed(NamedTuple):
    """Several arrays as one, which travels faster."""

    joined: NDArray[Any]
    ends: Rows  # of each

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> Packed:
        return cls(np.concatenate(arrays), np.cumsum([each.size for each in arrays], dtype=np.int64))

    def arrays(self) -> list[NDArray[Any]]:
        """Each of them again."""
        return np.split(self.joined, self.ends[:-1])


class Sources(NamedTuple):
    """Who is asked for, and among which rows; they are numbered as in the whole graph."""

    own: Scores  # (sources, row) stored vectors
    left_out: Packed  # sorted rows that are no candidates of each source
    pool: Pool


class Best(NamedTuple):
    """Question: the best `k` rows of each source, as a table."""

    sources: Sources
    k: int

    def put_to(self, shard: Shard) -> Found:
        """The shard's answer."""
        return shard.best(self)


class Reaching(NamedTuple):
    """Question: how many rows score at least each bar of each source; the counts one after the other."""

    sources: Sources
    bars: Packed

    def put_to(self, shard: Shard) -> Rows:
        """The shard's answer."""
        return shard.reaching(self)


class Build(NamedTuple):
    """Question: make lists of the rows by cells, unless they are there; returns their bytes."""

    seed: int

    def put_to(self, shard: Shard) -> int:
        """The shard's answer."""
        return shard.lists(self.seed).num_bytes


class Probe(NamedTuple):
    """Question: as `Best`, by a search in the lists."""

    sources: Sources
    k: int
    effort: Effort
    seed: int  # of the lists
    near: Rows  # (sources, ·) neighbours, where a search begins
    beyond: Rows  # (sources, ·) neighbours of neighbours

    def put_to(self, shard: Shard) -> Found:
        """The shard's answer."""
        return shard.probed(self)


class Shard:
    """A range of the stored rows, and what searches it."""

    def __init__(self, decoder: Decoder, rows: Tensor, first: int) -> None:
        self._first, self._last = first, first + rows.shape[0]
        self._decoder, self._rows = decoder, Snapshot.of(rows, check=False)
        self._search = ExactSearch(decoder)
        self._lists: tuple[int, Lists] | None = None  # their seed, and they: made at the first question for them

    def best(self, question: Best) -> Found:
        """The best of this shard's rows."""
        own, left_out, pool = self._here(question.sources)
        if pool is not None and not pool.size:
            return Found.none(len(own), 0)
        return self._table(self._search.top_k_of(self._rows, own, question.k, left_out, pool))

    def reaching(self, question: Reaching) -> Rows:
        """How many of this shard's rows reach each bar."""
        own, left_out, pool = self._here(question.sources)
        counts = self._search.reaching_of(self._rows.base, own, question.bars.arrays(), left_out, pool)
        return np.concatenate(counts)

    def lists(self, seed: int) -> Lists:
        """Lists of this shard's rows; the same for the same seed, also in another process."""
        if self._lists is None or self._lists[0] != seed:
            self._lists = seed, lists_of(self._decoder, self._rows, num_cells(self._last - self._first), seed)
        return self._lists[1]

    def probed(self, question: Probe) -> Found:
        """The best of this shard's rows that a search in the lists finds."""
        own, left_out, pool = self._here(question.sources)
        if pool is not None and not pool.size:
            return Found.none(len(own), 0)
        search = Probing(self._decoder, self.lists(question.seed), Efforts({question.k: question.effort}))
        nowhere = np.full((len(own), 1), -1)
        starts = Starts(nowhere, self._places(question.near), self._places(question.beyond))
        return self._table(search.top_k_of(self._rows, own, question.k, left_out, starts, pool))

    def _here(self, sources: Sources) -> tuple[Tensor, list[Rows], Rows | None]:
        """Vectors, rows to leave out and candidates, by their places here."""
        own = torch.from_numpy(np.array(sources.own))  # what was sent cannot be written to
        return own, [self._own(rows) for rows in sources.left_out.arrays()], self._own_pool(sources.pool)

    def _own(self, rows: Rows) -> Rows:
        """Those of some sorted rows that stand here."""
        begin, end = np.searchsorted(rows, [self._first, self._last])
        return rows[begin:end] - self._first

    def _own_pool(self, pool: Pool) -> Rows | None:
        if not isinstance(pool, tuple):
            return None if pool is None else self._own(pool)
        first, last = max(pool[0], self._first), min(pool[1], self._last)
        if (first, last) == (self._first, self._last):
            return None
        return np.arange(first, max(first, last)) - self._first

    def _places(self, rows: Rows) -> Rows:
        """Rows by their places here; -1 for those elsewhere."""
        return np.where((rows >= self._first) & (rows < self._last), rows - self._first, -1)

    def _table(self, tops: Sequence[TopK]) -> Found:
        table = Found.none(len(tops), max((top.rows.size for top in tops), default=0))
        for place, top in enumerate(tops):
            table.rows[place, : top.rows.size] = top.rows + self._first
            table.scores[place, : top.rows.size] = top.scores
        return table


Ask = Callable[[Any], list[Any]]  # a question to all shards at once: the answer of each


class ShardedSearch:
    """Exact search by shards, somewhere else; scores and order are those of `ExactSearch` over all rows."""

    def __init__(self, ask: Ask, ranges: Sequence[tuple[int, int]], *, threads: int = 1) -> None:
        self.ask, self.ranges = ask, ranges
        self.threads = threads  # of each shard

    def top_k(
        self, rows: Snapshot, sources: Rows, k: int, excluded: Excluded | None = None, pool: Rows | None = None
    ) -> list[TopK]:
        """For each source the best of `pool` (sorted rows; all without), but for itself and the `excluded`."""
        if not len(sources):
            return []
        left_out = [left_out_of(int(source), excluded) for source in sources]
        return _merged(self.ask(Best(_asked(rows, sources, left_out, pool), k)), k)

    def reaching(
        self, rows: Snapshot, sources: Rows, bars: Sequence[Scores], left_out: Sequence[Rows], pool: Rows | None = None
    ) -> list[Rows]:
        """For each source how many rows score at least each of its bars."""
        if not len(sources):
            return []
        packed = Packed.of(bars)
        counts = self.ask(Reaching(_asked(rows, sources, left_out, pool), packed))
        return packed._replace(joined=np.sum(counts, axis=0)).arrays()


class ShardedProbing:
    """Search in lists of each shard. What it finds of the exact answer is measured on merged answers."""

    def __init__(self, shards: ShardedSearch, decoder: Decoder, seed: int, efforts: Efforts) -> None:
        self._shards, self.decoder, self.efforts = shards, decoder, efforts
        self._seed = seed

    @property
    def num_cells(self) -> int:
        """Cells of the largest shard."""
        return max(num_cells(last - first) for first, last in self._shards.ranges)

    def build(self) -> int:
        """Have all shards make their lists; returns the bytes of all."""
        return sum(self._shards.ask(Build(self._seed)))

    def with_efforts(self, efforts: Efforts) -> ShardedProbing:
        """The same lists, searched with other efforts."""
        return ShardedProbing(self._shards, self.decoder, self._seed, efforts)

    def top_k(
        self,
        rows: Snapshot,
        sources: Rows,
        k: int,
        excluded: Excluded | None = None,
        pool: Rows | None = None,
        around: Neighbourhoods | None = None,
    ) -> list[TopK]:
        """For each source the best of `pool` (all without) that the shards find, but for itself and the `excluded`."""
        if not len(sources):
            return []
        left_out = [left_out_of(int(source), excluded) for source in sources]
        begin = sources[:, None]
        near = begin if around is None else np.concatenate([begin, around.near(sources, NEAR)], axis=1)
        beyond = begin[:, :0] if around is None else around.beyond(sources, NEAR)
        asked = _asked(rows, sources, left_out, pool)
        return _merged(self._shards.ask(Probe(asked, k, self.efforts.at(k), self._seed, near, beyond)), k)


def shard_ranges(num_rows: int, shards: int) -> list[tuple[int, int]]:
    """Ranges of rows of about the same length, one for each shard; no more than there are rows."""
    count = max(1, min(shards, num_rows))
    bounds = [num_rows * part // count for part in range(count + 1)]
    return list(zip(bounds, bounds[1:], strict=False))


def _asked(rows: Snapshot, sources: Rows, left_out: Sequence[Rows], pool: Rows | None) -> Sources:
    return Sources(rows.gather(sources).cpu().numpy(), Packed.of(left_out), _shortened(pool))


def _merged(tables: Sequence[Found], k: int) -> list[TopK]:
    rows = np.concatenate([table.rows for table in tables], axis=1)
    scores = np.concatenate([table.scores for table in tables], axis=1)
    return Found.none(len(rows), k).joined(rows, scores).best(k)


def _shortened(pool: Rows | None) -> Pool:
    """A pool of consecutive rows by its bounds: one side of a bipartite graph need not be sent."""
    if pool is None or not pool.size or pool[-1] - pool[0] + 1 != pool.size:
        return pool
    return int(pool[0]), int(pool[-1]) + 1
