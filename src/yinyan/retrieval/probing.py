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
from yinyan.retrieval.queries import points_of, queries_at
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Probing"]

_TOGETHER = 256  # sources whose candidates are held at a time
_FEW = 64  # a pool of fewer than so many times the candidates is scored whole
_PILOT = 3  # the first of several rounds does a third of the work: it only has to find the pattern of the best
_SETTLED = 0.6  # of an answer known before its last round: fewer mean that the best are spread over many cells

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


class Probing:
    """Flashlight: top-k of a decoder by inner-product queries that follow the best candidates.

    The score is linear in the target while its activation pattern stays, and the best targets share few patterns.
    So a first query is the gradient at the source's own row, where similar nodes are; its candidates are scored
    exactly, the mean gradient at the best of them is the next query, and so on. A source is done when a round found
    little new, or after the last; until then each round looks into twice as many cells. The answer is the exact
    ranking of everything met, and never short. A decoder that is one inner product needs one round.
    """

    def __init__(self, decoder: Decoder, lists: Lists, efforts: Efforts) -> None:
        self.decoder, self.lists, self.efforts = decoder, lists, efforts
        self.scorer = Scorer(decoder)
        self._exact = ExactSearch(decoder)

    def with_efforts(self, efforts: Efforts) -> Probing:
        """The same lists, searched with other efforts."""
        return Probing(self.decoder, self.lists, efforts)

    @torch.no_grad()
    def top_k(
        self, rows: Snapshot, sources: Rows, k: int, excluded: Excluded | None = None, pool: Rows | None = None
    ) -> list[TopK]:
        """For each source the best of `pool` (all without), but for itself and the `excluded`."""
        effort = self.efforts.at(k)
        count = effort.candidates
        if (pool is not None and pool.size <= _FEW * count) or rows.num_rows <= 2 * count:
            return self._exact.top_k(rows, sources, k, excluded, pool)
        permitted = Permitted.of(rows, pool)
        found: dict[int, TopK] = {}
        order = self._order(sources)
        for first in range(0, len(sources), _TOGETHER):
            places = order[first : first + _TOGETHER]
            part = sources[places]
            left_out = [left_out_of(int(s), excluded) for s in part]
            together = self._search(rows, part, k, effort, permitted, left_out)
            for at, top in enumerate(together.best(k)):
                short = top.rows.size < k and top.rows.size < permitted.without(left_out[at])
                if short:  # too few in the cells: the rest of the answer is elsewhere
                    top = self._exact.top_k(rows, part[at : at + 1], k, excluded, pool)[0]
                found[int(places[at])] = top
        return [found[place] for place in range(len(sources))]

    def _order(self, sources: Rows) -> Rows:
        """Sources of a cell one after the other, where there are many: they look into the same lists."""
        if len(sources) <= _TOGETHER:
            return np.arange(len(sources))
        cells = self.lists.cell_of
        known = np.minimum(sources, cells.size - 1)  # rows added since have a place somewhere
        return np.argsort(cells[known], kind="stable")

    def _search(
        self, rows: Snapshot, sources: Rows, k: int, effort: Effort, permitted: Permitted, left_out: Sequence[Rows]
    ) -> Found:
        """Candidates of a batch."""
        own, count, probes = rows.gather(sources), effort.candidates, effort.probes
        queries = self._queries(rows, own, sources[:, None])
        found = Found.none(len(sources), max(k, effort.pattern))
        active, share = np.arange(len(sources)), 1 if effort.rounds == 1 else _PILOT
        for number in range(effort.rounds):
            few, before = [left_out[place] for place in active.tolist()], found.of(active)
            met = self._candidates(rows, queries, -(-probes // share), -(-count // share), permitted, few)
            after = before.joined(met, self._scores(rows, _of(own, active), met))
            found.replace(active, after)
            if number + 1 == effort.rounds:
                break
            goes_on = np.flatnonzero(_news(before.rows[:, :k], after.rows[:, :k]) > 1 - _SETTLED)
            if not goes_on.size:
                break
            active = active[goes_on]
            best = after.of(goes_on).rows[:, : effort.pattern]
            queries = self._turned(rows, _of(own, active), best, _of(queries, goes_on))
            probes, share = probes if number == 0 else 2 * probes, 1
        return found

    def _turned(self, rows: Snapshot, own: Tensor, best: Rows, queries: Tensor) -> Tensor:
        """The next queries: mean gradients at the (sources, ·) best candidates so far."""
        there = np.flatnonzero(best[:, 0] >= 0)
        if not there.size:
            return queries
        filled = np.where(best < 0, best[:, :1], best)[there]  # a source with few candidates counts its best again
        turned = queries.numpy().copy()
        turned[there] = self._queries(rows, _of(own, there), filled).numpy()
        return torch.from_numpy(turned)

    def _queries(self, rows: Snapshot, own: Tensor, at: Rows) -> Tensor:
        """(sources, columns) mean gradients at (sources, ·) rows; by the compiled kernel, or in double precision."""
        places = rows.gather(at.ravel())
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
    ) -> Rows:
        """(sources, ·) rows of the largest products with the queries; -1 fills up."""
        found = self.lists.search(queries, probes, count, permitted.is_passed, left_out)
        if rows.extra_rows.size:
            products = queries @ points_of(self.decoder, rows.extra).t()
            products[:, torch.from_numpy(rows.extra_rows < 0)] = -torch.inf
            if permitted.is_outside is not None:
                products[:, torch.from_numpy(permitted.is_outside[rows.extra_rows])] = -torch.inf
            for place, out in enumerate(left_out):
                products[place, torch.from_numpy(rows.extra_places(out))] = -torch.inf
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


def _news(before: Rows, after: Rows) -> NDArray[np.float64]:
    """(sources,) share of an answer that was not known before; -1 is no answer."""
    offsets = np.arange(len(after))[:, None] * (int(after.max(initial=0)) + 1)
    known = np.isin(after + offsets, (before + offsets)[before >= 0]) | (after < 0)
    shares: NDArray[np.float64] = 1 - known.sum(1) / max(1, after.shape[1])
    return shares
