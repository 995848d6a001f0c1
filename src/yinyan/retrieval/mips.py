"""Top-k of a decoder that is one inner product: one query, and an exact ranking of what it finds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yinyan.model.decoder import Decoder
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.probing import Effort, Found, Permitted, Probing
from yinyan.retrieval.queries import check_linear, queries_at
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["MipsSearch"]


class MipsSearch(Probing):
    """Maximum inner products among quantised rows; for distances the rows are augmented by their squared length."""

    def __init__(self, decoder: Decoder, lists: Lists, effort: Effort) -> None:
        check_linear(decoder)
        super().__init__(decoder, lists, effort)

    def _search(
        self,
        rows: Snapshot,
        sources: NDArray[np.int64],
        k: int,
        permitted: Permitted,
        left_out: Sequence[NDArray[np.int64]],
    ) -> Found:
        own = rows.gather(sources)
        queries = queries_at(self.scorer.precise, own, own[:, None])
        met = self.candidates(rows, queries, self.effort.probes, self._count(k), permitted, left_out)
        return Found.none(len(sources)).joined(met, self.scores(rows, own, met), k)
