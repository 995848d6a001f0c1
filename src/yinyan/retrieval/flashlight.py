"""Flashlight: top-k of a nonlinear decoder by inner-product queries that follow the best candidates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.probing import Effort, Found, Permitted, Probing
from yinyan.retrieval.queries import check_covered, queries_at
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["FlashlightSearch"]

_PILOT = 3  # the first of several rounds does a third of the work: it only has to find the pattern of the best
_SETTLED = 0.6  # of an answer known before its last round: fewer mean that the best are spread over many cells

Rows = NDArray[np.int64]


class FlashlightSearch(Probing):
    """The score is linear in the target while its activation pattern stays, and the best targets share few patterns.

    So a first query is the gradient at the source's own row, where similar nodes are; its candidates are scored
    exactly, the mean gradient at the best of them is the next query, and so on. A source is done when a round told
    little new, or after the last; until then each round looks into twice as many cells. The answer is the exact
    ranking of everything met.
    """

    def __init__(self, decoder: Decoder, lists: Lists, effort: Effort) -> None:
        check_covered(decoder)
        super().__init__(decoder, lists, effort)

    def _search(self, rows: Snapshot, sources: Rows, k: int, permitted: Permitted, left_out: Sequence[Rows]) -> Found:
        own, count, probes = rows.gather(sources), self._count(k), self.effort.probes
        queries = queries_at(self.scorer.precise, own, own[:, None])
        found = Found.none(len(sources))
        active, share = np.arange(len(sources)), 1 if self.effort.rounds == 1 else _PILOT
        for number in range(self.effort.rounds):
            few, before = [left_out[place] for place in active.tolist()], found.of(active)
            met = self.candidates(rows, queries, -(-probes // share), -(-count // share), permitted, few)
            after = before.joined(met, self.scores(rows, own[active], met), max(k, self.effort.pattern))
            found = found.replaced(active, after)
            if number + 1 == self.effort.rounds:
                break
            goes_on = np.flatnonzero(_news(before.rows[:, :k], after.rows[:, :k]) > 1 - _SETTLED)
            if not goes_on.size:
                break
            active = active[goes_on]
            queries = self._turned(rows, own[active], after.of(goes_on), queries[torch.from_numpy(goes_on)])
            probes, share = probes if number == 0 else 2 * probes, 1
        return found

    def _turned(self, rows: Snapshot, own: Tensor, found: Found, queries: Tensor) -> Tensor:
        """The next queries: mean gradients at the best candidates so far."""
        best = found.rows[:, : self.effort.pattern]
        there = best[:, 0] >= 0
        if not there.any():
            return queries
        filled = np.where(best < 0, best[:, :1], best)[there]  # a source with few candidates counts its best again
        at = rows.gather(filled.ravel()).view(*filled.shape, -1)
        turned = queries.clone()
        turned[torch.from_numpy(there)] = queries_at(self.scorer.precise, own[torch.from_numpy(there)], at)
        return turned


def _news(before: Rows, after: Rows) -> NDArray[np.float64]:
    """(sources,) share of an answer that was not known before; -1 is no answer."""
    offsets = np.arange(len(after))[:, None] * (int(after.max(initial=0)) + 1)
    known = np.isin(after + offsets, (before + offsets)[before >= 0]) | (after < 0)
    shares: NDArray[np.float64] = 1 - known.sum(1) / max(1, after.shape[1])
    return shares
