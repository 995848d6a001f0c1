"""Filtered ranking of heads and tails: where each test triple stands among all entities, known triples left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError
from yinyan.text import counted

__all__ = ["FilteredRanking", "filtered_ranking"]

Rows = NDArray[np.int64]
# rows of known ends (b,) and the number of a relation -> (b, candidates) scores of the other end
EndScores = Callable[[Rows, int], Any]

_BLOCK = 4_000_000  # scores held at a time


@dataclass(frozen=True, eq=False, repr=False)
class FilteredRanking:
    """The mean rank of each triple's head and tail, ties counted half."""

    triples: Rows  # (t, 3) head, tail and relation
    heads: NDArray[np.float64]  # (t,) rank of the head among all heads, from 1
    tails: NDArray[np.float64]  # (t,) rank of the tail among all tails, from 1
    num_heads: Rows  # (t,) candidates that each head was ranked among, itself included
    num_tails: Rows  # (t,)
    ks: tuple[int, ...] = (1, 3, 10)  # depths of Hits@K

    @property
    def means(self) -> dict[str, float]:
        """MRR, mean rank and Hits@K over heads and tails together."""
        return self._means(np.concatenate([self.heads, self.tails]))

    @property
    def chance(self) -> dict[str, float]:
        """The same of a scorer that gives every triple one score."""
        return self._means((np.concatenate([self.num_heads, self.num_tails]) + 1) / 2)

    def by_relation(self) -> dict[int, dict[str, float]]:
        """The means of each relation, by its number.

        Returns
        -------
        dict
            Metrics by relation.

        Examples
        --------
        >>> import numpy as np
        >>> from yinyan import ranking
        >>> same = lambda rows, relation: np.zeros((len(rows), 3))
        >>> ranking.filtered_ranking(same, same, [(0, 1, 0)]).by_relation()[0]["mr"]
        2.0
        """
        numbers = self.triples[:, 2]
        return {
            int(number): self._means(np.concatenate([self.heads[numbers == number], self.tails[numbers == number]]))
            for number in np.unique(numbers)
        }

    def _means(self, ranks: NDArray[np.float64]) -> dict[str, float]:
        found = {"mrr": float((1 / ranks).mean()), "mr": float(ranks.mean())}
        return found | {f"hits@{k}": float((ranks <= k).mean()) for k in self.ks}

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"FilteredRanking({counted(len(self.triples), 'triple')}: {figures})"


def filtered_ranking(
    score_tails: EndScores,
    score_heads: EndScores,
    triples: ArrayLike,
    *,
    known: ArrayLike | None = None,
    heads_of: Sequence[Rows] | None = None,
    tails_of: Sequence[Rows] | None = None,
    ks: Sequence[int] = (1, 3, 10),
) -> FilteredRanking:
    """Rank the head and the tail of each triple among all entities, as knowledge graphs are judged.

    Other known triples with the same head and relation (or tail and relation) are no candidates: the *filtered*
    setting. A tie counts as the mean rank: with `a` candidates above and `e` others of the same score the rank is
    1 + a + e/2. So a constant score gets (candidates + 1) / 2, the rank of chance.

    Parameters
    ----------
    score_tails
        A function of rows of heads, (b,), and a relation that returns the scores of all candidate tails, (b, c).
    score_heads
        The same of tails, for all candidate heads.
    triples
        (t, 3) head, tail and relation numbers: the triples to rank.
    known
        (m, 3) triples that are no candidates: those of all parts. The ranked triple itself is never left out.
    heads_of, tails_of
        Ascending rows of the candidates of each relation, in the order of the scores; rows 0, 1, ... unless given.
    ks
        Depths K of Hits@K.

    Returns
    -------
    FilteredRanking
        The ranks of each triple.

    Raises
    ------
    InputError
        If an array has another shape, a score is NaN, or a triple's end is no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from yinyan import ranking
    >>> scores = np.array([0.1, 0.9, 0.5])
    >>> same = lambda rows, relation: np.tile(scores, (len(rows), 1))
    >>> ranking.filtered_ranking(same, same, [(0, 2, 0)], known=[(0, 1, 0)]).tails
    array([1.])
    """
    wanted, beside = _triples("triples", triples), _triples("known", np.empty((0, 3)) if known is None else known)
    if not len(wanted):
        raise InputError("'triples' needs at least one triple (got none)")
    if not ks or min(ks) < 1:
        raise InputError(f"'ks' needs to be positive integers (got {list(ks)})")
    everything = np.unique(np.concatenate([beside, wanted]), axis=0)
    tails, num_tails = _ranks(score_tails, wanted, everything, (0, 1), tails_of)
    heads, num_heads = _ranks(score_heads, wanted, everything, (1, 0), heads_of)
    return FilteredRanking(wanted, heads, tails, num_heads, num_tails, tuple(ks))


def _ranks(
    score: EndScores, wanted: Rows, known: Rows, ends: tuple[int, int], candidates: Sequence[Rows] | None
) -> tuple[NDArray[np.float64], Rows]:
    """The rank of the second of two `ends` of each triple, given the first, and among how many."""
    given, sought = ends
    ranks, sizes = np.empty(len(wanted)), np.empty(len(wanted), dtype=np.int64)
    for relation in np.unique(wanted[:, 2]).tolist():
        of_relation = known[known[:, 2] == relation]
        of_relation = of_relation[np.argsort(of_relation[:, given], kind="stable")]
        own = np.flatnonzero(wanted[:, 2] == relation)
        own = own[np.argsort(wanted[own, given], kind="stable")]
        queries, first = np.unique(wanted[own, given], return_index=True)
        rows = None if candidates is None else candidates[relation]
        last = [*first[1:].tolist(), len(own)]
        for query, scores, begin, end in zip(
            queries.tolist(), _rows(score, queries, relation, rows), first.tolist(), last, strict=True
        ):
            low, high = np.searchsorted(of_relation[:, given], [query, query + 1])
            places = own[begin:end]
            barred = _columns(of_relation[low:high, sought], rows, scores.size)
            targets = _columns(wanted[places, sought], rows, scores.size)
            out = np.zeros(scores.size, dtype=np.bool_)
            out[barred] = True
            others = scores[~out]
            for place, target in zip(places.tolist(), targets.tolist(), strict=True):
                above, equal = (others > scores[target]).sum(), (others == scores[target]).sum()
                ranks[place], sizes[place] = 1 + above + equal / 2, others.size + 1
    return ranks, sizes


def _rows(score: EndScores, queries: Rows, relation: int, rows: Rows | None) -> Iterator[NDArray[np.floating[Any]]]:
    """The scores of one query after the other, asked for in blocks."""
    size, start = 1, 0
    while start < len(queries):
        block = np.asarray(score(queries[start : start + size], relation))
        if block.ndim != 2 or len(block) != len(queries[start : start + size]):
            raise InputError(f"a block of scores needs a row for each of {size} queries (got shape {block.shape})")
        if rows is not None and block.shape[1] != rows.size:
            raise InputError(
                f"a block of scores needs {rows.size:,} columns, one per candidate (got {block.shape[1]:,})"
            )
        if np.isnan(block).any():
            raise InputError("a score is NaN: a NaN has no rank")
        yield from block
        start, size = start + size, max(1, _BLOCK // max(1, block.shape[1]))


def _columns(ends: Rows, rows: Rows | None, count: int) -> Rows:
    """The columns of some ends."""
    places = ends if rows is None else np.minimum(np.searchsorted(rows, ends), rows.size - 1)
    wrong = (ends >= count) if rows is None else rows[places] != ends
    if wrong.any():
        raise InputError(f"row {int(ends[np.argmax(wrong)]):,} is the end of a triple, and no candidate")
    return places


def _triples(name: str, given: ArrayLike) -> Rows:
    rows = np.asarray(given, dtype=np.int64)
    rows = rows.reshape(0, 3) if not rows.size else rows
    if rows.ndim != 2 or rows.shape[1] != 3 or (rows.size and rows.min() < 0):
        raise InputError(f"'{name}' needs to be (t, 3) rows of head, tail and relation (got shape {rows.shape})")
    return rows
