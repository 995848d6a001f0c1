"""Ranks of given rows among all candidates of their source: counted, not sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.model.reranking import Reranker
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.reranking import SHORTLIST, reranked
from yinyan.retrieval.scorer import Scorer
from yinyan.retrieval.shards import Search
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["Listing", "ranks_of"]

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


class Listing(NamedTuple):
    """How the best candidates of a source are listed before all others: by reranked scores."""

    reranker: Reranker
    excluded: Excluded  # the rows that a source's list leaves out, but for itself


def ranks_of(
    search: Search,
    scorer: Scorer,
    rows: Snapshot,
    sources: Rows,
    relevant: Sequence[Rows],
    barred: Sequence[Rows],
    pool: Rows | None = None,
    listing: Listing | None = None,
) -> list[Rows]:
    """Ranks from 1, ascending, of each source's `relevant` rows among those of `pool` (sorted; all without).

    The source itself and its `barred` rows are no candidates. Ties are pessimistic: a relevant row ranks below all
    others of its score. With a `listing` the shortlist stands first, in the reranked order.
    """
    own, orders = rows.gather(sources), list[_Order]()
    tops: list[TopK | None] = [None] * len(sources)
    if listing is not None:
        found = search.top_k(rows, sources, SHORTLIST, listing.excluded, pool)
        tops = list(reranked(listing.reranker, sources, found, SHORTLIST))
    for place, source in enumerate(sources.tolist()):
        mine = np.unique(relevant[place])
        scores = scorer.canonical(rows.base, own[place], mine)
        orders.append(_Order.of(mine, scores, np.append(barred[place], source), tops[place]))
    counts = search.reaching(rows, sources, [o.bars for o in orders], [o.left_out for o in orders], pool)
    return [order.ranks(reaching) for order, reaching in zip(orders, counts, strict=True)]


class _Order(NamedTuple):
    """What is known of one source's ranking before the others are counted."""

    ahead: Rows  # (listed,) candidates before each relevant row of the shortlist, best first, relevant ones left out
    bars: Scores  # (others,) scores of the relevant rows behind the shortlist, descending
    left_out: Rows  # sorted rows that are not counted behind it
    num_listed: int  # candidates in the shortlist that are not relevant

    @classmethod
    def of(cls, mine: Rows, scores: Scores, barred: Rows, top: TopK | None) -> _Order:
        out = np.unique(np.concatenate([barred, mine]))
        if top is None:
            return cls(np.empty(0, np.int64), np.sort(scores)[::-1], out, 0)
        rivals = top.scores[~np.isin(top.rows, out)]
        listed = np.sort(top.scores[np.isin(top.rows, mine)])[::-1]
        ahead = (rivals[None] >= listed[:, None]).sum(1)
        behind = np.sort(scores[~np.isin(mine, top.rows)])[::-1]
        return cls(ahead, behind, np.union1d(out, top.rows), rivals.size)

    def ranks(self, reaching: Rows) -> Rows:
        """Ascending ranks, with the numbers of rows that reach each bar."""
        ahead = np.concatenate([self.ahead, self.num_listed + reaching])
        return ahead + np.arange(1, ahead.size + 1)
