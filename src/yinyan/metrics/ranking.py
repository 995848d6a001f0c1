"""Full ranking: how high the held-out links of each source stand among all nodes it might link to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError
from yinyan.graph.graph import Adjacency
from yinyan.metrics.filtered_ranking import FilteredRanking, filtered_ranking
from yinyan.text import counted

__all__ = [
    "FilteredRanking",
    "FullRanking",
    "filtered_ranking",
    "full_ranking",
    "ranking_by_ranks",
    "ranking_by_rivals",
]

# rows of sources (b,) -> their scores for all nodes (b, num_nodes), or for the candidates in their order
ScoreBlock = Callable[[NDArray[np.int64]], Any]

_BLOCK = 4_000_000  # scores held at a time
_ROUNDING = 1e-6  # of a score that is computed in two ways, as a share of it


@dataclass(frozen=True, eq=False, repr=False)
class FullRanking:
    """One value per source and metric: 'recall@K', 'ndcg@K' and 'hits@K' for each K, 'map' and 'mrr'."""

    sources: NDArray[np.int64]  # (s,) ascending
    num_held_out: NDArray[np.int64]  # (s,) held-out links of each source
    num_candidates: NDArray[np.int64]  # (s,) nodes that each was ranked among
    values: dict[str, NDArray[np.float64]]  # metric -> (s,)

    @property
    def means(self) -> dict[str, float]:
        """The mean of each metric over the sources."""
        return {name: float(values.mean()) for name, values in self.values.items()}

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in self.means.items())
        return f"FullRanking({counted(self.sources.size, 'source')}: {figures})"


def full_ranking(
    score_block: ScoreBlock,
    held_out: ArrayLike,
    *,
    num_nodes: int,
    known: Adjacency | ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    ks: Sequence[int] = (10, 20, 50),
) -> FullRanking:
    """Rank, for each source, its held-out targets among all nodes.

    The source and its known links are no candidates; all of its held-out links are relevant. Undirected links that are
    to be found from both ends need to be given both ways, in `held_out` and in `known`. `score_block` is called for a
    few sources at a time, so that at most about four million scores are held.

    Ties are pessimistic for every metric: a relevant node ranks below all others of its score, so that a constant score
    finds nothing. With the relevant nodes at ranks r₁ < … < r_R,

        recall@K = #{i: rᵢ ≤ K} / R        ndcg@K = Σ_{rᵢ ≤ K} 1/log₂(rᵢ + 1) / Σ_{i ≤ min(R, K)} 1/log₂(i + 1)
        hits@K = 1 if r₁ ≤ K, else 0       map = Σᵢ (i / rᵢ) / R        mrr = 1 / r₁

    Parameters
    ----------
    score_block
        A function of rows of sources, (b,), that returns their scores for all nodes, (b, num_nodes), or for the
        candidates alone, in their order.
    held_out
        (t, 2) pairs of source and target.
    num_nodes
        The number of nodes.
    known
        Pairs of source and target, or a graph's `adjacency`, that are no candidates.
    candidates
        A mask over the nodes that may be ranked, such as one side of a bipartite graph.
    ks
        Depths K of the metrics.

    Returns
    -------
    FullRanking
        The metrics of each source.

    Raises
    ------
    InputError
        If an array has another shape, or a held-out pair is known, is a self loop or is no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from yinyan import ranking
    >>> scores = np.array([[0.0, 0.9, 0.8, 0.1]])
    >>> ranking.full_ranking(lambda sources: scores[sources], [(0, 2)], num_nodes=4, ks=[1, 2]).means["recall@2"]
    1.0
    """
    depths = _depths(ks)
    wanted = np.unique(_pairs("held_out", held_out, num_nodes), axis=0)
    open_to_all = _mask(candidates, num_nodes)
    indptr, linked = _known_rows(known, num_nodes)
    _refuse_impossible(wanted, open_to_all, indptr, linked)
    groups = _Groups.of(wanted)
    columns = np.flatnonzero(open_to_all)
    place = np.cumsum(open_to_all) - 1  # of a candidate among the columns
    ranks, sizes = np.empty(len(wanted), dtype=np.int64), np.empty(groups.sources.size, dtype=np.int64)
    scored = _rows(score_block, groups.sources, num_nodes, columns)
    for number, (source, scores) in enumerate(zip(groups.sources, scored, strict=True)):
        mine = slice(groups.first[number], groups.first[number] + groups.counts[number])
        barred = np.unique(np.append(linked[indptr[source] : indptr[source + 1]], source))
        barred = place[barred[open_to_all[barred]]]
        ranks[mine] = _worst_ranks(scores, place[wanted[mine, 1]], barred)
        sizes[number] = columns.size - barred.size
    values = _measures_at(ranks, groups, depths) | _measures_of_all(ranks, groups)
    return FullRanking(groups.sources, groups.counts, sizes, values)


def ranking_by_rivals(
    own: NDArray[np.floating[Any]],
    rivals: Sequence[NDArray[np.floating[Any]]],
    held_out: NDArray[np.int64],
    *,
    num_candidates: NDArray[np.int64],
    ks: Sequence[int],
) -> FullRanking:
    """The figures of `full_ranking` at each K, from the best candidates of each source.

    A rival is a candidate that is not held out. If a source has as many better rivals as the largest K, a held-out
    link is not among the first K, whatever follows. 'map' and 'mrr' need whole rankings and are left out. Scores that
    differ by rounding count as ties.

    Parameters
    ----------
    own
        (t,) scores of the held-out pairs.
    rivals
        For each source, in ascending order, the scores of its best rivals: as many as the largest K, or all.
    held_out
        (t, 2) distinct pairs of source and target, sorted by source.
    num_candidates
        (s,) number of candidates of each source.
    ks
        Depths K of the metrics.

    Returns
    -------
    FullRanking
        The metrics of each source.

    Raises
    ------
    InputError
        If a depth is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from yinyan import ranking
    >>> own, rivals, pairs = np.array([0.8]), [np.array([0.9])], np.array([(0, 2)])
    >>> ranking.ranking_by_rivals(own, rivals, pairs, num_candidates=np.array([2]), ks=[1]).means["recall@1"]
    0.0
    """
    depths, groups = _depths(ks), _Groups.of(held_out)
    ranks = np.empty(len(held_out), dtype=np.int64)
    for number, others in enumerate(rivals):
        mine = slice(groups.first[number], groups.first[number] + groups.counts[number])
        scores = np.sort(own[mine])[::-1]
        bar = scores - _ROUNDING * np.maximum(1, np.abs(scores))
        ranks[mine] = (others[None] >= bar[:, None]).sum(1) + np.arange(1, scores.size + 1)
    return FullRanking(groups.sources, groups.counts, num_candidates, _measures_at(ranks, groups, depths))


def ranking_by_ranks(
    ranks: NDArray[np.int64], held_out: NDArray[np.int64], *, num_candidates: NDArray[np.int64], ks: Sequence[int]
) -> FullRanking:
    """The figures of `full_ranking` from the ranks of the held-out links, which were counted elsewhere.

    Parameters
    ----------
    ranks
        (t,) ranks from 1, ascending within each source, in the order of the sources.
    held_out
        (t, 2) distinct pairs of source and target, sorted by source.
    num_candidates
        (s,) number of candidates of each source.
    ks
        Depths K of the metrics.

    Returns
    -------
    FullRanking
        The metrics of each source.

    Raises
    ------
    InputError
        If a depth is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from yinyan import ranking
    >>> pairs = np.array([(0, 2)])
    >>> ranking.ranking_by_ranks(np.array([4]), pairs, num_candidates=np.array([9]), ks=[1]).means["mrr"]
    0.25
    """
    depths, groups = _depths(ks), _Groups.of(held_out)
    values = _measures_at(ranks, groups, depths) | _measures_of_all(ranks, groups)
    return FullRanking(groups.sources, groups.counts, num_candidates, values)


class _Groups(NamedTuple):
    """Sorted pairs by their source."""

    sources: NDArray[np.int64]  # (s,)
    first: NDArray[np.int64]  # (s,) where the pairs of each begin
    counts: NDArray[np.int64]  # (s,) how many there are

    @classmethod
    def of(cls, pairs: NDArray[np.int64]) -> _Groups:
        return cls(*np.unique(pairs[:, 0], return_index=True, return_counts=True))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """(t,) the place of each pair within its source, from 1."""
        return np.arange(1, int(self.counts.sum()) + 1) - np.repeat(self.first, self.counts)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(s,) of the values of each source's pairs."""
        return np.add.reduceat(values, self.first)


def _worst_ranks(
    scores: NDArray[np.floating[Any]], relevant: NDArray[np.int64], barred: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ranks from 1 of the relevant columns, ascending, each below all other candidates of its score.

    Counted, not sorted: relevant ones are few beside the candidates.
    """
    own = np.sort(scores[relevant])[::-1]
    others = scores[np.concatenate([relevant, barred])]  # counted with the rest, and taken off again
    ahead = [np.count_nonzero(scores >= score) - np.count_nonzero(others >= score) for score in own]
    return np.asarray(ahead) + np.arange(1, own.size + 1)


def _measures_at(ranks: NDArray[np.int64], groups: _Groups, depths: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    """The metrics of each source at some depths, from the ascending ranks of its relevant nodes."""
    gains = 1 / np.log2(ranks + 1)
    ideal = np.cumsum(1 / np.log2(np.arange(2, max(*depths, 1) + 2)))
    found = {}
    for k in depths:
        hit = ranks <= k
        hits = groups.sums(hit.astype(np.float64))
        found[f"recall@{k}"] = hits / groups.counts
        found[f"ndcg@{k}"] = groups.sums(np.where(hit, gains, 0.0)) / ideal[np.minimum(k, groups.counts) - 1]
        found[f"hits@{k}"] = (hits > 0).astype(np.float64)
    return found


def _measures_of_all(ranks: NDArray[np.int64], groups: _Groups) -> dict[str, NDArray[np.float64]]:
    """The metrics of whole rankings."""
    return {"map": groups.sums(groups.numbers / ranks) / groups.counts, "mrr": 1 / ranks[groups.first]}


def _rows(
    score_block: ScoreBlock, sources: NDArray[np.int64], num_nodes: int, columns: NDArray[np.int64]
) -> Iterator[NDArray[np.floating[Any]]]:
    """The scores of one source after the other for the candidates, asked for in blocks."""
    size = max(1, _BLOCK // num_nodes)
    for start in range(0, sources.size, size):
        block = sources[start : start + size]
        scores = np.asarray(score_block(block))
        if scores.shape not in ((block.size, num_nodes), (block.size, columns.size)):
            few = "" if columns.size == num_nodes else f" or {(block.size, columns.size)}"
            raise InputError(f"'score_block' needs to return shape {(block.size, num_nodes)}{few} (got {scores.shape})")
        if np.isnan(scores).any():
            raise InputError("'score_block' returned NaN: a NaN has no rank")
        yield from scores if scores.shape[1] == columns.size else (row[columns] for row in scores)


def _known_rows(known: Adjacency | ArrayLike | None, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Known links in compressed rows."""
    if isinstance(known, Adjacency):
        if known.indptr.size != num_nodes + 1:
            raise InputError(f"'known' needs {num_nodes:,} rows (got {known.indptr.size - 1:,})")
        return known.indptr, known.indices
    pairs = _pairs("known", np.empty((0, 2), np.int64) if known is None else known, num_nodes)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return np.searchsorted(pairs[:, 0], np.arange(num_nodes + 1)), pairs[:, 1]


def _pairs(name: str, pairs: ArrayLike, num_nodes: int) -> NDArray[np.int64]:
    rows = np.asarray(pairs, dtype=np.int64)
    rows = rows.reshape(0, 2) if rows.size == 0 else rows
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InputError(f"'{name}' needs to be pairs of rows, (t, 2) (got shape {rows.shape})")
    if len(rows) and not 0 <= rows.min() <= rows.max() < num_nodes:
        raise InputError(f"'{name}' needs rows between 0 and {num_nodes - 1:,} (got {rows.min()} to {rows.max()})")
    return rows


def _mask(candidates: ArrayLike | None, num_nodes: int) -> NDArray[np.bool_]:
    mask = np.ones(num_nodes, dtype=np.bool_) if candidates is None else np.asarray(candidates)
    if mask.dtype != np.bool_ or mask.shape != (num_nodes,):
        raise InputError(f"'candidates' needs to be a mask of {num_nodes:,} nodes (got {mask.dtype}, {mask.shape})")
    return mask


def _refuse_impossible(
    wanted: NDArray[np.int64], open_to_all: NDArray[np.bool_], indptr: NDArray[np.int64], linked: NDArray[np.int64]
) -> None:
    """Held-out links that no ranking could hold, before anything is scored."""
    if not len(wanted):
        raise InputError("'held_out' needs at least one pair (got none)")
    loops = wanted[wanted[:, 0] == wanted[:, 1]]
    if len(loops):
        raise InputError(f"'held_out' needs pairs of two nodes (got {counted(len(loops), 'pair')} such as {loops[0]})")
    outside = wanted[~open_to_all[wanted[:, 1]], 1]
    if outside.size:
        raise InputError(f"'held_out' needs targets among 'candidates' (node {outside[0]} is none)")
    num_nodes = open_to_all.size
    known_keys = np.repeat(np.arange(num_nodes), np.diff(indptr)) * num_nodes + linked
    leaked = wanted[np.isin(wanted[:, 0] * num_nodes + wanted[:, 1], known_keys)]
    if len(leaked):
        source, target = leaked[0]
        raise InputError(f"held-out pair ({source}, {target}) is known as well: take it out of one of the two")


def _depths(ks: Sequence[int]) -> list[int]:
    depths = sorted(set(ks))
    if not depths or depths[0] < 1:
        raise InputError(f"'ks' needs to be positive integers (got {list(ks)})")
    return depths
