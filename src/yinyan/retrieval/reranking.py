"""The best of a shortlist, once exact structural columns are added to what the decoder says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yinyan.model.reranking import Reranker
from yinyan.retrieval.exact import TopK

__all__ = ["SHORTLIST", "reranked", "shortlist_for"]

SHORTLIST = 100  # candidates by the decoder's score of which the best are chosen
_TIMES = 5  # as many candidates as are asked for, where that is more

Rows = NDArray[np.int64]


def shortlist_for(k: int) -> int:
    """How many candidates a search has to find, so that the `k` best of them can be shown."""
    return max(SHORTLIST, _TIMES * k)


def reranked(reranker: Reranker, sources: Rows, found: Sequence[TopK], k: int) -> list[TopK]:
    """The `k` best of each source's candidates by the reranked score; equal ones keep their order."""
    starts = np.concatenate([[0], np.cumsum([top.rows.size for top in found])]).astype(np.int64)
    rows = np.concatenate([top.rows for top in found]) if found else np.empty(0, np.int64)
    amounts = reranker.of_candidates(sources, starts, rows)
    better = []
    for top, first, last in zip(found, starts[:-1], starts[1:], strict=True):
        scores = top.scores + amounts[first:last]
        order = np.argsort(-scores, kind="stable")[:k]
        better.append(TopK(top.rows[order], scores[order]))
    return better
