"""Full rankings of a split: by blocks, by search and by pairs, they agree with the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peer_contract import bipartite, communities, split_of

from contracts import planted_graph
from yinyan.metrics.ranking import full_ranking
from yinyan.model.decoder import build_decoder
from yinyan.model.scoring import Model, score_pairs
from yinyan.peers.contract import Outcome, products, searches
from yinyan.peers.factorisation import Table
from yinyan.peers.full_ranking import held_out_links, is_ranking_metric, ranked
from yinyan.settings import DecoderSettings
from yinyan.splits import Split, released_split

ROWS = np.random.default_rng(3).normal(size=(80, 8)).astype(np.float32)


def by_definition(split: Split, scores: NDArray[np.float32], part: str, k: int) -> dict[str, float]:
    """Each source's candidates sorted by score, without what was seen."""
    graph = split.graph
    held = split.valid_targets if part == "valid" else split.test_targets
    seen = [split.train_targets] + ([split.valid_targets] if part == "test" else [])
    recall, ndcg, first = [], [], []
    for source in range(graph.num_nodes if graph.sides is None else int(graph.num_left or 0)):
        mine = {b for a, b in held.tolist() if a == source}
        hers = {b for some in seen for a, b in some.tolist() if a == source}
        if not graph.directed and graph.sides is None:
            mine |= {a for a, b in held.tolist() if b == source}
            hers |= {a for some in seen for a, b in some.tolist() if b == source}
        if not mine:
            continue
        allowed = [
            node
            for node in range(graph.num_nodes)
            if node != source and node not in hers and (graph.sides is None or graph.sides[node] == 1)
        ]
        best = sorted(allowed, key=lambda node: -scores[source, node])[:k]
        recall.append(len(mine & set(best)) / len(mine))
        gain = sum(1 / np.log2(i + 2) for i, node in enumerate(best) if node in mine)
        ndcg.append(gain / sum(1 / np.log2(i + 2) for i in range(min(k, len(mine)))))
        places = sorted(allowed, key=lambda node: -scores[source, node])
        first.append(1 / (1 + min(places.index(node) for node in mine)))
    return {f"recall@{k}": float(np.mean(recall)), f"ndcg@{k}": float(np.mean(ndcg)), "mrr": float(np.mean(first))}


@pytest.mark.parametrize("part", ["valid", "test"])
@pytest.mark.parametrize("graph", [bipartite(), communities(), communities(directed=True)], ids=str)
def test_every_way_is_the_definition(graph, part) -> None:  # type: ignore[no-untyped-def]
    split = split_of(graph)
    score, block = products(ROWS)
    model = Model(Table(torch.from_numpy(ROWS)), build_decoder(DecoderSettings(kind="dot"), 8, directed=False))
    y = torch.from_numpy(ROWS)

    def by_model(pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        return score_pairs(model, y, None, torch.from_numpy(pairs))  # type: ignore[arg-type]

    expected = by_definition(split, ROWS @ ROWS.T, part, 10)
    best, ranks = searches(model, y)
    by_search = Outcome(by_model, best=best, ranks=ranks)
    for outcome in (Outcome(score), Outcome(score, block=block), by_search):
        found = ranked(outcome, split, part, ks=(10,), whole=True)
        assert {name: found.means[name] for name in expected} == pytest.approx(expected)
    found = ranked(by_search, split, part, ks=(10,))
    assert found.means["ndcg@10"] == pytest.approx(expected["ndcg@10"])
    assert "mrr" not in found.means, "a search for the best targets has no whole rankings"


@pytest.mark.parametrize("graph", [bipartite(), communities(), communities(directed=True)], ids=str)
def test_some_sources_are_drawn_by_the_seed_with_all_of_their_links(graph) -> None:  # type: ignore[no-untyped-def]
    split = split_of(graph)
    everything = held_out_links(split)
    for count in (3, 7):
        some = held_out_links(split, sources=count)
        asked = np.unique(some[:, 0])
        assert asked.size == count and np.array_equal(some, held_out_links(split, sources=count))
        assert np.array_equal(some, everything[np.isin(everything[:, 0], asked)])
        score, block = products(ROWS)
        assert np.array_equal(ranked(Outcome(score, block=block), split, sources=count).sources, asked)
    other = replace(split, seed=5)
    assert not np.array_equal(held_out_links(other, sources=3), held_out_links(split, sources=3))
    assert np.array_equal(held_out_links(split, sources=10_000), everything)
    assert not np.array_equal(held_out_links(split, "valid"), everything)


def test_ties_are_pessimistic_in_every_way() -> None:
    """One score for all pairs finds nothing, though a list of the best would hold some."""
    split = split_of(bipartite())
    same = np.ones((80, 2), dtype=np.float32)
    score, block = products(same)
    model = Model(Table(torch.from_numpy(same)), build_decoder(DecoderSettings(kind="dot"), 2, directed=False))
    best, ranks = searches(model, torch.from_numpy(same))
    by_model = score_pairs(model, torch.from_numpy(same), None, torch.tensor([[0, 50]]))  # type: ignore[arg-type]
    by_best = Outcome(lambda pairs: np.full(len(pairs), by_model[0]), best=best)
    outcomes = (Outcome(score, block=block), by_best, by_best._replace(best=None, ranks=ranks))
    for outcome in outcomes:
        assert ranked(outcome, split, ks=(5,)).means["recall@5"] == 0


def test_counts_of_candidates_agree() -> None:
    split = split_of(bipartite())
    score, block = products(ROWS)
    model = Model(Table(torch.from_numpy(ROWS)), build_decoder(DecoderSettings(kind="dot"), 8, directed=False))
    best, _ = searches(model, torch.from_numpy(ROWS))
    by_block, by_best = ranked(Outcome(score, block=block), split), ranked(Outcome(score, best=best), split)
    assert np.array_equal(by_block.num_candidates, by_best.num_candidates)
    assert np.array_equal(by_block.sources, by_best.sources)


def test_a_split_that_leaks_on_purpose_can_be_ranked() -> None:
    split = released_split(planted_graph(2, 20, inside=0.3, across=0.02), seed=0)
    score, block = products(ROWS[:40])
    assert 0 <= ranked(Outcome(score, block=block), split).means["recall@20"] <= 1


def test_a_model_that_looks_at_the_graph_has_no_search() -> None:
    class Looking(Model):
        def logits(self, *given, **more):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    decoder = build_decoder(DecoderSettings(kind="dot"), 8, directed=False)
    looking = Looking(Table(torch.from_numpy(ROWS)), decoder)
    assert searches(looking, torch.from_numpy(ROWS)) == (None, None)


def test_candidates_alone_may_be_scored() -> None:
    mask = np.array([False, False, True, True])
    whole = np.array([[0.0, 9, 1, 2], [9, 0, 2, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
    asked = {"num_nodes": 4, "candidates": mask, "ks": (1,)}
    both = [full_ranking(lambda s, t=t: t[s], [(0, 2), (1, 2)], **asked) for t in (whole, whole[:, mask])]  # type: ignore[misc, arg-type]
    assert both[0].means == both[1].means
    assert both[0].values["recall@1"].tolist() == [0, 1]


def test_names_of_metrics() -> None:
    assert is_ranking_metric("ndcg@20") and is_ranking_metric("recall@5") and is_ranking_metric("full-mrr")
    assert not any(map(is_ranking_metric, ("hits@20", "ndcg", "ndcg@0", "mrr")))
