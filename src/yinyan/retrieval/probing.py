"""Top-k by inner-product queries: candidates of the best cells and of all changed rows, in exact order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder
from yinyan.native import retrieval_kernels
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.exact import ExactSearch, Excluded, TopK, left_out_of
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.queries import points_of, queries_at
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["NEAR", "Found", "Probing", "Starts", "lists_of"]

_TOGETHER = 256  # sources whose candidates are held at a time
_FEW = 64  # a pool of fewer than so many times the candidates is scored whole
_WEIGHED = 512  # rows whose queries say how much a column counts
_NEWS = 0.02  # of an answer that a round brought: a source of no more is done
NEAR = 8  # neighbours of a source, and as many of each of them, that a search begins with

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Found:
    """(sources, ·) candidates so far with exact scores, best first; -1 and -inf fill up."""

    rows: Rows
    scores: Scores

    @classmethod
    def none(cls, sources: int, width: int) -> Found:
        """No candidates yet."""
        return cls(np.full((sources, width), -1), np.full((sources, width), -np.inf, dtype=np.float32))

    def of(self, places: Rows) -> Found:
        """Those of some sources."""
        return Found(self.rows[places], self.scores[places])

    def replace(self, places: Rows, others: Found) -> None:
        """Put others in some sources' places."""
        self.rows[places], self.scores[places] = others.rows, others.scores

    def best(self, k: int) -> list[TopK]:
        """The k best of each source."""
        counts = np.minimum((self.rows >= 0).sum(1), k).tolist()
        return [TopK(self.rows[i, :c].copy(), self.scores[i, :c].copy()) for i, c in enumerate(counts)]

    def spread(self, count: int, most: int, otherwise: Rows) -> Rows:
        """(sources, count) of the `most` best, evenly spaced; (sources, ·) others where a source has none."""
        there = np.minimum((self.rows >= 0).sum(1, keepdims=True), most)
        chosen = np.take_along_axis(self.rows, np.arange(count) * there // count, 1)
        others = otherwise[:, np.arange(count) % otherwise.shape[1]]
        return np.where(there > 0, chosen, others)

    def joined(self, rows: Rows, scores: Scores) -> Found:
        """With more candidates, each row once; as many as before, the best, equal ones in the order of rows."""
        keep = self.rows.shape[1]
        rows, scores = np.concatenate([self.rows, rows], axis=1), np.concatenate([self.scores, scores], axis=1)
        if retrieval_kernels.library() is not None:
            return Found(*retrieval_kernels.keep_best(rows, scores, keep))
        order = np.argsort(rows, axis=1, kind="stable")
        rows, scores = np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
        scores[:, 1:][rows[:, 1:] == rows[:, :-1]] = -np.inf
        first = torch.from_numpy(scores).sort(dim=1, descending=True, stable=True)
        order, scores = first.indices[:, :keep].numpy(), first.values[:, :keep].numpy()
        rows = np.take_along_axis(rows, order, 1)
        rows[np.isneginf(scores)] = -1
        return Found(rows, scores)


class Permitted(NamedTuple):
    """Which rows may be found, whoever asks."""

    is_passed: Mask | None  # (rows,) passed over in the lists: not in the pool, or changed since the build
    is_outside: Mask | None  # (rows,) not in the pool
    number: int  # of rows to choose from
    is_removed: Mask  # (rows,)

    @classmethod
    def of(cls, rows: Snapshot, pool: Rows | None) -> Permitted:
        """Those of a pool, or all that are not removed."""
        if pool is None:
            number = rows.num_rows - rows.num_removed
            return cls(rows.is_stale if rows.churn else None, None, number, rows.is_removed)
        outside = np.ones(rows.num_rows, dtype=bool)
        outside[pool] = False
        return cls(outside | rows.is_stale, outside, int((~outside & ~rows.is_removed).sum()), rows.is_removed)

    def without(self, left_out: Rows) -> int:
        """How many there are to choose from without some rows: only those count that could be chosen otherwise."""
        there = ~self.is_removed[left_out]
        if self.is_outside is not None:
            there &= ~self.is_outside[left_out]
        return self.number - int(there.sum())


class Starts(NamedTuple):
    """Rows where the search of each source begins; -1 where there is none, and its own vector serves."""

    itself: Rows  # (sources, 1)
    near: Rows | None = None  # (sources, ·) neighbours; None where they are not known
    beyond: Rows | None = None  # (sources, ·) neighbours of neighbours

    @classmethod
    def of(cls, sources: Rows, around: Neighbourhoods | None) -> Starts:
        """Of rows that are sources."""
        if around is None:
            return cls(sources[:, None])
        return cls(sources[:, None], around.near(sources, NEAR), around.beyond(sources, NEAR))

    def part(self, places: Rows | slice) -> Starts:
        """Those of some sources."""
        return Starts(*(None if rows is None else rows[places] for rows in self))  # type: ignore[arg-type]


class Probing:
    """Flashlight: top-k of a decoder by inner-product queries that follow the best candidates.

    The score is linear in the target while its activation pattern stays, and the best targets share few patterns.
    So a first query is the mean gradient at neighbours of the source's neighbours that score best, or at its own row;
    its candidates are scored exactly, the mean gradient at rows of the answer so far is the next query, and so on.
    Cells are those of the best centres, and those where the answer so far lies. No row is scored twice: every round
    finds new ones. A source is done when a round brought nothing new to its answer, or after the last; from the third
    on each looks into twice as many cells. The answer is the exact ranking of everything met, and never short. A
    decoder that is one inner product needs one round.
    """

    def __init__(self, decoder: Decoder, lists: Lists, efforts: Efforts) -> None:
        self.decoder, self.lists, self.efforts = decoder, lists, efforts
        self.scorer = Scorer(decoder)
        self._exact = ExactSearch(decoder)

    @property
    def num_cells(self) -> int:
        """Cells of the lists."""
        return len(self.lists.centres)

    def with_efforts(self, efforts: Efforts) -> Probing:
        """The same lists, searched with other efforts."""
        return Probing(self.decoder, self.lists, efforts)

    @torch.no_grad()
    def top_k(
        self,
        rows: Snapshot,
        sources: Rows,
        k: int,
        excluded: Excluded | None = None,
        pool: Rows | None = None,
        around: Neighbourhoods | None = None,
    ) -> list[TopK]:
        """For each source the best of `pool` (all without), but for itself and the `excluded`.

        The search begins with nodes `around` the source, where these are known.
        """
        if self._is_little(rows, k, pool):
            return self._exact.top_k(rows, sources, k, excluded, pool)
        permitted, order = Permitted.of(rows, pool), self._order(sources)
        found: dict[int, TopK] = {}
        for first in range(0, len(sources), _TOGETHER):
            places = order[first : first + _TOGETHER]
            part = sources[places]
            left_out = [left_out_of(int(s), excluded) for s in part]
            tops = self._together(rows, rows.gather(part), k, permitted, left_out, Starts.of(part, around), pool)
            found.update(zip(places.tolist(), tops, strict=True))
        return [found[place] for place in range(len(sources))]

    @torch.no_grad()
    def top_k_of(
        self,
        rows: Snapshot,
        own: Tensor,
        k: int,
        left_out: Sequence[Rows],
        starts: Starts,
        pool: Rows | None = None,
    ) -> list[TopK]:
        """The same for (s, row) stored vectors of sources, which need not stand in `rows`."""
        if self._is_little(rows, k, pool):
            return self._exact.top_k_of(rows, own, k, left_out, pool)
        permitted, tops = Permitted.of(rows, pool), list[TopK]()
        for first in range(0, len(own), _TOGETHER):
            part = slice(first, first + _TOGETHER)
            tops += self._together(rows, own[part], k, permitted, left_out[part], starts.part(part), pool)
        return tops

    def _is_little(self, rows: Snapshot, k: int, pool: Rows | None) -> bool:
        """Whether there is so little to choose from that all of it is scored."""
        count = self.efforts.at(k).candidates
        return (pool is not None and pool.size <= _FEW * count) or rows.num_rows <= 2 * count

    def _together(
        self,
        rows: Snapshot,
        own: Tensor,
        k: int,
        permitted: Permitted,
        left_out: Sequence[Rows],
        starts: Starts,
        pool: Rows | None,
    ) -> list[TopK]:
        """The answers of a batch, none of them short."""
        tops = self._search(rows, own, k, self.efforts.at(k), permitted, left_out, starts).best(k)
        for at, top in enumerate(tops):
            if top.rows.size < k and top.rows.size < permitted.without(left_out[at]):
                # too few in the cells: the rest of the answer is elsewhere
                tops[at] = self._exact.top_k_of(rows, own[at : at + 1], k, [left_out[at]], pool)[0]
        return tops

    def _order(self, sources: Rows) -> Rows:
        """Sources of a cell one after the other, where there are many: they look into the same lists."""
        if len(sources) <= _TOGETHER:
            return np.arange(len(sources))
        cells = self.lists.cell_of
        known = np.minimum(sources, cells.size - 1)  # rows added since have a place somewhere
        return np.argsort(cells[known], kind="stable")

    def _search(
        self,
        rows: Snapshot,
        own: Tensor,
        k: int,
        effort: Effort,
        permitted: Permitted,
        left_out: Sequence[Rows],
        starts: Starts,
    ) -> Found:
        """Candidates of a batch."""
        probes = effort.probes
        found, met = Found.none(len(own), max(k, effort.pattern)), np.empty((len(own), 0), np.int64)
        places = near = starts.itself
        if starts.near is not None and starts.beyond is not None and effort.rounds > 1:
            near = np.concatenate([near, starts.near], axis=1)
            met = _permitted(starts.beyond, permitted, left_out)
            found = found.joined(met, self._scores(rows, own, met))
            places = found.spread(effort.pattern, 2 * effort.pattern, near)
            near = np.concatenate([near, places], axis=1)
        active = np.arange(len(own))
        for number in range(effort.rounds):
            mine, before = _of(own, active), found.of(active)
            few, queries = [left_out[place] for place in active.tolist()], self._queries(rows, mine, places)
            fresh = self._candidates(rows, queries, probes, effort.candidates, permitted, few, met, near)
            scores = self._scores(rows, mine, fresh)
            after = before.joined(fresh, scores)
            found.replace(active, after)
            news = (scores > before.scores[:, k - 1 : k]).sum(1)
            goes_on = np.flatnonzero(news > _NEWS * k)
            if number + 1 == effort.rounds or not goes_on.size:
                break
            active, met = active[goes_on], np.concatenate([met, fresh], axis=1)[goes_on]
            places = near = after.of(goes_on).spread(effort.pattern, max(k, effort.pattern), starts.itself[active])
            probes = probes if number == 0 else 2 * probes
        return found

    def _queries(self, rows: Snapshot, own: Tensor, at: Rows) -> Tensor:
        """(sources, columns) mean gradients at (sources, ·) rows; by the compiled kernel, or in double precision."""
        places = rows.gather(np.maximum(at, 0).ravel())
        if (at < 0).any():  # no row is there: at the source's own vector
            nowhere = torch.from_numpy(at < 0)[..., None]
            places = torch.where(nowhere, own[:, None], places.view(*at.shape, -1)).flatten(0, 1)
        if self.scorer.is_canonical(rows.base):
            return self.scorer.mean_gradients(places, own, np.arange(at.size).reshape(at.shape))
        return queries_at(self.scorer.precise, own, places.view(*at.shape, -1))

    def _candidates(
        self,
        rows: Snapshot,
        queries: Tensor,
        probes: int,
        count: int,
        permitted: Permitted,
        left_out: Sequence[Rows],
        met: Rows,
        near: Rows,
    ) -> Rows:
        """(sources, ·) rows of the largest products with the queries, without those `met` before; -1 fills up."""
        found = self.lists.search(queries, probes, count, permitted.is_passed, left_out, met, near)
        if rows.extra_rows.size:
            products = queries @ points_of(self.decoder, rows.extra).t()
            products[:, torch.from_numpy(rows.extra_rows < 0)] = -torch.inf
            if permitted.is_outside is not None:
                products[:, torch.from_numpy(permitted.is_outside[rows.extra_rows])] = -torch.inf
            for place, out in enumerate(left_out):
                passed = np.concatenate([out, met[place][met[place] >= 0]])
                products[place, torch.from_numpy(rows.extra_places(passed))] = -torch.inf
            top = products.topk(min(count, rows.extra_rows.size), dim=1)
            more = np.where(top.values.isneginf().numpy(), -1, rows.extra_rows[top.indices.numpy()])
            found = np.concatenate([found, more], axis=1)
        return np.ascontiguousarray(found)

    def _scores(self, rows: Snapshot, own: Tensor, candidates: Rows) -> Scores:
        """(sources, ·) exact scores of candidates."""
        if not rows.extra_rows.size:
            return self.scorer.candidates(rows.base, own, candidates)
        changed = rows.is_stale[np.maximum(candidates, 0)] & (candidates >= 0)
        places = rows.slots[np.maximum(candidates, 0)]
        older = self.scorer.candidates(rows.base, own, np.where(changed, -1, candidates))
        return np.maximum(older, self.scorer.candidates(rows.extra, own, np.where(changed, places, -1)))


def _of(rows: Tensor, places: Rows) -> Tensor:
    """Some rows: a few are no work for several threads."""
    return torch.from_numpy(rows.numpy()[places])


def _permitted(rows: Rows, permitted: Permitted, left_out: Sequence[Rows]) -> Rows:
    """(sources, ·) rows, with -1 for those that may not be found; what a source leaves out is sorted."""
    span = int(max(rows.max(initial=0), *(out[-1] for out in left_out if out.size), 0)) + 1
    keys = rows + span * np.arange(len(rows))[:, None]
    out = np.concatenate([each + span * place for place, each in enumerate(left_out)])
    allowed = rows >= 0
    if out.size:
        allowed &= out[np.minimum(np.searchsorted(out, keys), out.size - 1)] != keys
    if permitted.is_passed is not None:
        allowed &= ~permitted.is_passed[rows]
    return np.where(allowed, rows, -1)


def lists_of(decoder: Decoder, rows: Snapshot, cells: int, seed: int) -> Lists:
    """Lists of all rows, weighted by queries at some of them."""
    n = rows.num_rows
    some = rows.gather(np.random.default_rng(seed).choice(n, min(n, _WEIGHED), replace=False))
    return Lists.build(points_of(decoder, rows.base), cells, seed, queries_at(decoder, some, some[:, None]))
