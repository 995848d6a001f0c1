"""The recommended lists of some sources while edges are held out, by exact search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.held_out_lists import HeldOutLists
from yinyan.model.reranking import Reranker, Reranking, Shortlists, fit_reranking
from yinyan.model.scoring import Model
from yinyan.model.shared_neighbours import NUM_COLUMNS, CompressedLists, shared_columns
from yinyan.randomness import named_seed
from yinyan.retrieval.exact import ExactSearch, TopK
from yinyan.retrieval.recommend import Partners, candidate_rows
from yinyan.retrieval.reranking import SHORTLIST, reranked, shortlist_for
from yinyan.retrieval.snapshot import Snapshot

__all__ = ["LIST_LENGTH", "held_out_lists", "num_asked", "reranked_lists"]

LIST_LENGTH = 10  # rows of a list, the default of `recommend`

_PAIRS_PER_EDGE = 200  # pairs scored per edge of the graph: a small part of what training scores
_FEWEST, _MOST = 128, 1024  # sources asked
_FEW_PAIRS = 1_500_000  # that may be scored in any case: a second of one core
_WITH_HITS = 2 / 3  # of these, where so many have held-out edges: the others have no hits to find

Rows = NDArray[np.int64]


def num_asked(num_nodes: int, num_edges: int) -> int:
    """How many sources are asked, so that it takes a small part of the time of a fit."""
    wanted = max(_PAIRS_PER_EDGE * num_edges, _FEW_PAIRS) // max(1, num_nodes)
    return min(num_nodes, max(_FEWEST, min(_MOST, wanted)))


def held_out_lists(
    decoder: Decoder,
    embeddings: Tensor,
    graph: Graph,
    known: Rows,
    held_out: Rows,
    *,
    seed: int,
    missing: float,
    count: int | None = None,
    reranker: Reranker | None = None,
) -> HeldOutLists:
    """Lists of `count` sources from (n, d) embeddings: edges `known` (positions in the graph's) are left out of them.

    (h, 2) `held_out` edges are hits. Sources are drawn from those with held-out edges and from the others apart, and
    weighted by how many each stands for: so the lists are those of all sources, whether or not they have hits to find.
    """
    length = LIST_LENGTH if reranker is None else shortlist_for(LIST_LENGTH)
    found, weights = _searched(decoder, embeddings, graph, known, held_out, seed=seed, count=count, length=length)
    if reranker is not None:
        found = Partners(found.rows, reranked(reranker, found.rows, found.tops, LIST_LENGTH))
    return _lists(graph, held_out, found, weights, graph.edges[known], missing)


def reranked_lists(
    model: Model,
    embeddings: Tensor,
    graph: Graph,
    known: Rows,
    held_out: Rows,
    messages: Rows,
    missing: float,
    *,
    seed: int,
    rerank: bool = True,
) -> tuple[HeldOutLists, Reranking | None]:
    """The same lists, reranked by exact counts over the edges `messages` where that shows held-out edges earlier."""
    decoder = model.decoder
    if not rerank:
        return held_out_lists(decoder, embeddings, graph, known, held_out, seed=seed, missing=missing), None
    found, weights = _searched(decoder, embeddings, graph, known, held_out, seed=seed, length=SHORTLIST)
    neighbours = CompressedLists.from_pairs(graph.edges[messages], graph.num_nodes)
    reranking = fit_reranking(_shortlists(graph, held_out, found, neighbours))
    if reranking is None:
        tops = [TopK(top.rows[:LIST_LENGTH], top.scores[:LIST_LENGTH]) for top in found.tops]
    else:
        tops = reranked(Reranker(reranking, neighbours), found.rows, found.tops, LIST_LENGTH)
    lists = _lists(graph, held_out, Partners(found.rows, tops), weights, graph.edges[known], missing)
    return lists, reranking


def _searched(
    decoder: Decoder,
    embeddings: Tensor,
    graph: Graph,
    known: Rows,
    held_out: Rows,
    *,
    seed: int,
    length: int,
    count: int | None = None,
) -> tuple[Partners, NDArray[np.float64]]:
    """Some sources with their best candidates, and how many sources each stands for."""
    edges, left = graph.edges[known], graph.num_left
    sources, weights = _drawn(graph, held_out, num_asked(graph.num_nodes, known.size) if count is None else count, seed)
    linked = _linked(edges, sources, graph)
    search, rows = ExactSearch(decoder), Snapshot.of(embeddings, check=False)
    tops: list[TopK] = [TopK(np.empty(0, np.int64), np.empty(0, np.float32))] * sources.size
    for side in (False, True) if left is not None else (False,):
        places = np.arange(sources.size) if left is None else np.flatnonzero((sources >= left) == side)
        pool = candidate_rows(graph.num_nodes, left, side)
        found = search.top_k(rows, sources[places], length, linked.__getitem__, pool) if places.size else []
        for place, top in zip(places.tolist(), found, strict=True):
            tops[place] = top
    return Partners(sources, tops), weights


def _shortlists(graph: Graph, held_out: Rows, found: Partners, neighbours: CompressedLists) -> Shortlists:
    """The candidates of the sources that have hits, as arrays."""
    lengths = np.array([top.rows.size for top in found.tops], dtype=np.int64)
    flat = _are_hits(graph, held_out, found, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    chosen = [place for place in range(lengths.size) if flat[starts[place] : starts[place + 1]].any()]
    width = int(lengths.max(initial=1))
    scores = np.zeros((len(chosen), width), dtype=np.float32)
    columns = np.zeros((len(chosen), width, NUM_COLUMNS), dtype=np.float32)
    hits, is_there = (np.zeros(scores.shape, dtype=np.bool_) for _ in range(2))
    sizes = lengths[chosen]
    is_there[np.arange(width) < sizes[:, None]] = True
    tops = [found.tops[place] for place in chosen]
    rows = np.concatenate([top.rows for top in tops]) if tops else np.empty(0, np.int64)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns[is_there] = shared_columns(neighbours, found.rows[chosen], ends, rows)
    scores[is_there] = np.concatenate([top.scores for top in tops]) if tops else 0.0
    hits[is_there] = np.concatenate([flat[starts[place] : starts[place + 1]] for place in chosen]) if tops else False
    return Shortlists(scores, columns, hits, is_there)


def _linked(edges: Rows, sources: Rows, graph: Graph) -> dict[int, Rows]:
    """The rows that each source is linked to: of a directed graph, those that it points to."""
    is_asked = np.zeros(graph.num_nodes, dtype=np.bool_)
    is_asked[sources] = True
    from_sources = [edges[is_asked[edges[:, 0]]]]
    if not graph.directed:
        from_sources.append(edges[is_asked[edges[:, 1]]][:, ::-1])
    pairs = np.concatenate(from_sources)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    starts = np.searchsorted(pairs[:, 0], np.stack([sources, sources + 1]))
    return {int(s): pairs[a:b, 1] for s, a, b in zip(sources, starts[0], starts[1], strict=True)}


def _drawn(graph: Graph, held_out: Rows, count: int, seed: int) -> tuple[Rows, NDArray[np.float64]]:
    """Sources, ascending, and how many each of them stands for."""
    ends = held_out[:, 0] if graph.directed else held_out
    has_hits = np.zeros(graph.num_nodes, dtype=np.bool_)
    has_hits[ends] = True
    groups = [np.flatnonzero(has_hits), np.flatnonzero(~has_hits)]
    first = min(groups[0].size, max(round(_WITH_HITS * count), count - groups[1].size))
    generator = np.random.default_rng(named_seed(seed, "held-out lists"))
    sources, weights = [], []
    for group, size in zip(groups, (first, min(groups[1].size, count - first)), strict=True):
        sources.append(np.sort(generator.choice(group, size=size, replace=False)))
        weights.append(np.full(size, group.size / max(1, size)))
    return np.concatenate(sources), np.concatenate(weights)


def _are_hits(graph: Graph, held_out: Rows, found: Partners, lengths: Rows) -> NDArray[np.bool_]:
    """Whether each row of the lists, one after the other, is a held-out edge."""
    pairs = np.stack([np.repeat(found.rows, lengths), np.concatenate([top.rows for top in found.tops])], axis=1)
    both = (pairs, held_out) if graph.directed else (np.sort(pairs, axis=1), np.sort(held_out, axis=1))
    keys = [part[:, 0] * graph.num_nodes + part[:, 1] for part in both]
    return np.isin(keys[0], keys[1])


def _lists(
    graph: Graph, held_out: Rows, found: Partners, weights: NDArray[np.float64], edges: Rows, missing: float
) -> HeldOutLists:
    """The rows of the lists, with what is known of each."""
    lengths = np.array([top.rows.size for top in found.tops], dtype=np.int64)
    degrees = np.bincount(edges.reshape(-1), minlength=graph.num_nodes)
    return HeldOutLists(
        scores=np.concatenate([top.scores for top in found.tops]),
        hits=_are_hits(graph, held_out, found, lengths),
        weights=np.repeat(weights, lengths),
        degrees=np.repeat(degrees[found.rows], lengths),
        ranks=np.concatenate([np.arange(1, size + 1) for size in lengths.tolist()]),
        missing=missing,
    )
