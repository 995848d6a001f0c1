"""Full ranking of a split's held-out links: every source ranks all targets that it might link to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.graph.graph import Adjacency
from yinyan.metrics.ranking import FullRanking, full_ranking, ranking_by_ranks, ranking_by_rivals
from yinyan.peers.contract import Best, Outcome, Ranks, Scorer, Scores
from yinyan.randomness import named_seed
from yinyan.splits import Split

__all__ = ["FULL_MRR", "held_out_links", "is_ranking_metric", "ranked", "ranked_links"]

Rows = NDArray[np.int64]

FULL_MRR = "full-mrr"  # by full ranking; 'mrr' is the one over sampled negatives

_SOURCES = 1024  # asked for their best targets at a time


def is_ranking_metric(name: str) -> bool:
    """Whether a metric is one of full ranking: 'recall@K', 'ndcg@K' or 'full-mrr'."""
    return name == FULL_MRR or re.fullmatch(r"(recall|ndcg)@[1-9][0-9]*", name) is not None


def ranked(
    outcome: Outcome,
    split: Split,
    part: Literal["valid", "test"] = "test",
    *,
    ks: Sequence[int] = (20,),
    sources: int | None = None,
    whole: bool = False,
) -> FullRanking:
    """Recall@K, NDCG@K and Hits@K of all sources with held-out links of a part, or of so many `sources`.

    Links that the model was allowed to see are no candidates: the training edges, and for the test also the validation
    edges. In a bipartite graph sources are the nodes of side 0 and candidates those of side 1; otherwise every node is
    both, and undirected links are to be found from both ends. `whole` rankings have 'map' and 'mrr' as well.
    """
    graph = split.graph
    held_out = held_out_links(split, part, sources=sources)
    seen = graph.find_edges(split.train_targets)
    if part == "test":
        seen = np.concatenate([seen, graph.find_edges(split.valid_targets), split.test_messages])
    return ranked_links(outcome, graph, held_out, seen, ks=ks, whole=whole)


def held_out_links(split: Split, part: Literal["valid", "test"] = "test", *, sources: int | None = None) -> Rows:
    """(t, 2) held-out links of a part, source first, of all sources or of so many that the split's seed draws."""
    links = _from_sources(split.graph, split.valid_targets if part == "valid" else split.test_targets)
    if sources is None:
        return links
    nodes = np.unique(links[:, 0])
    generator = np.random.default_rng(named_seed(split.seed, "asked papers"))
    asked = generator.choice(nodes, size=min(sources, len(nodes)), replace=False)
    return links[np.isin(links[:, 0], asked)]


def ranked_links(
    outcome: Outcome, graph: Graph, held_out: Rows, seen: Rows, *, ks: Sequence[int], whole: bool = False
) -> FullRanking:
    """The figures of (t, 2) held-out links, source first, among all nodes that are not linked by the edges `seen`.

    A model of two stored rows is asked for the best targets of each source, by exact search, or for a `whole` ranking
    for the ranks of its links. Other methods score all pairs.
    """
    seen = np.setdiff1d(seen, graph.find_edges(held_out))  # where a split leaks on purpose, its links are asked for
    known = _known(graph, seen)
    side = None if graph.sides is None else graph.sides == 1
    if outcome.best is not None and not whole:
        return _by_best(outcome.score, outcome.best, _Asked.of(held_out, known, side), ks)
    if outcome.ranks is not None:
        return _by_ranks(outcome.ranks, _Asked.of(held_out, known, side), ks)
    everyone = np.arange(graph.num_nodes) if side is None else np.flatnonzero(side)

    def rows(sources: Rows) -> Scores:
        if outcome.block is not None:
            return outcome.block(sources, everyone)
        # one source at a time: its rows stay in the cache
        return np.stack([outcome.score(np.stack([np.full_like(everyone, s), everyone], axis=1)) for s in sources])

    return full_ranking(rows, held_out, num_nodes=graph.num_nodes, known=known, candidates=side, ks=ks)


class _Asked(NamedTuple):
    """The sources of held-out links, and what each ranks."""

    held_out: Rows  # (t, 2) distinct, sorted
    sources: Rows  # (s,)
    relevant: list[Rows]  # held-out targets of each source
    linked: list[Rows]  # its known ones
    pool: Rows | None  # candidates; None for all
    sizes: Rows  # (s,) how many candidates each has

    @classmethod
    def of(cls, held_out: Rows, known: Adjacency, side: NDArray[np.bool_] | None) -> _Asked:
        held_out = np.unique(held_out, axis=0)
        sources, first = np.unique(held_out[:, 0], return_index=True)
        pool = None if side is None else np.flatnonzero(side)
        count = len(known.indptr) - 1 if pool is None else pool.size
        linked = [known.indices[known.indptr[s] : known.indptr[s + 1]] for s in sources.tolist()]
        itself = 1 if side is None else 0
        sizes = np.array([count - itself - len(rows) for rows in linked])
        return cls(held_out, sources, np.split(held_out[:, 1], first[1:]), linked, pool, sizes)


def _by_best(score: Scorer, best: Best, asked: _Asked, ks: Sequence[int]) -> FullRanking:
    places = {source: place for place, source in enumerate(asked.sources.tolist())}

    def excluded(source: int) -> Rows:
        return np.concatenate([asked.linked[places[source]], asked.relevant[places[source]]])

    rivals: list[Scores] = []
    for start in range(0, asked.sources.size, _SOURCES):
        rivals += [top.scores for top in best(asked.sources[start : start + _SOURCES], max(ks), excluded, asked.pool)]
    return ranking_by_rivals(score(asked.held_out), rivals, asked.held_out, num_candidates=asked.sizes, ks=ks)


def _by_ranks(ranks: Ranks, asked: _Asked, ks: Sequence[int]) -> FullRanking:
    found: list[Rows] = []
    for start in range(0, asked.sources.size, _SOURCES):
        part = slice(start, start + _SOURCES)
        found += ranks(asked.sources[part], asked.relevant[part], asked.linked[part], asked.pool)
    return ranking_by_ranks(np.concatenate(found), asked.held_out, num_candidates=asked.sizes, ks=ks)


def _from_sources(graph: Graph, links: Rows) -> Rows:
    """Links as pairs of a source and what it is to find."""
    if graph.sides is not None:
        return np.where((graph.sides[links[:, 0]] == 0)[:, None], links, links[:, ::-1])
    return links if graph.directed else np.concatenate([links, links[:, ::-1]])


def _known(graph: Graph, seen: Rows) -> Adjacency:
    """What each source is linked to; in a directed graph, along the edges only."""
    if not graph.directed:
        return graph.with_edges(seen).adjacency
    order = np.argsort(graph.edges[seen, 0], kind="stable")
    indptr = np.searchsorted(graph.edges[seen[order], 0], np.arange(graph.num_nodes + 1))
    return Adjacency(indptr, graph.edges[seen[order], 1], order)
