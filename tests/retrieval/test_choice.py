"""Exact search or an index: the choice on both sides of its threshold, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from yinyan import LinkPredictor
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import build_decoder
from yinyan.retrieval import building, choice
from yinyan.retrieval.budgets import recall_of
from yinyan.retrieval.choice import Chooser, described, estimated_costs
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

NODES = 600


@pytest.fixture
def chooser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chooser]:
    """Of a graph that counts as large, whose exact queries take a second each."""
    for module in (choice, building):
        monkeypatch.setattr(module, "EXACT_BELOW", 100)
    torch.manual_seed(0)
    decoder = build_decoder(DecoderSettings(width=16), 16, directed=False, sketch_size=8).requires_grad_(False)
    y = torch.randn(NODES, 16 + 25)
    graph = Graph.from_arrays(np.random.default_rng(0).integers(0, NODES, (900, 2)), num_nodes=NODES)
    made = Chooser(graph, decoder, y)
    made.note_exact(10, 10.0)
    return made


def threshold(chooser: Chooser) -> int:
    """The number of sources from which on an index pays, those asked before counted."""
    return next(s for s in range(1, 10**6) if estimated_costs(NODES, 41, s, 1.0).index_pays)


def test_an_index_is_built_from_the_threshold_on(chooser: Chooser) -> None:
    pays_at = threshold(chooser) - 10  # ten were asked for before
    lines: list[str] = []
    assert chooser.choose(pays_at - 1, 5, tell=lines.append) is None
    assert lines[-1].endswith("every node is scored")
    built = chooser.choose(pays_at, 5)
    assert built is not None
    assert chooser.choose(1, 5) is built, "an index at hand costs nothing"
    assert chooser.choose(10**9, 5, "exact") is None


def test_questions_add_up(chooser: Chooser) -> None:
    half = threshold(chooser) // 2 + 1
    assert chooser.choose(half, 5) is None
    chooser.note_exact(half, float(half))
    assert chooser.choose(half, 5) is not None


def test_few_sources_and_small_graphs_are_not_even_timed(chooser: Chooser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chooser, "_exact_seconds", lambda self: pytest.fail("timed"))
    assert chooser.choose(choice._LEAST - 11, 5) is None
    monkeypatch.setattr(choice, "EXACT_BELOW", NODES + 1)
    assert chooser.choose(10**9, 5) is None


def test_an_index_can_be_asked_for(chooser: Chooser) -> None:
    built = chooser.choose(1, 5, "index")
    assert built is not None
    sources = np.arange(0, NODES, 7)
    truth = ExactSearch(chooser.decoder).top_k(Snapshot.of(chooser.embeddings), sources, 5)
    assert recall_of(built.top_k(sources, 5), truth) >= 0.95
    with pytest.raises(SettingsError, match="'search' needs to be one of auto, exact, index"):
        chooser.choose(1, 5, "fast")


def test_exact_time_is_measured_where_nothing_was_asked(chooser: Chooser) -> None:
    fresh = Chooser(chooser.graph, chooser.decoder, chooser.embeddings)
    assert 0 < fresh._exact_seconds() < 1


def test_costs_grow_as_they_should() -> None:
    few, many = (estimated_costs(200_000, 225, sources, 0.05) for sources in (300, 200_000))
    assert not few.index_pays
    assert many.index_pays
    assert few.build == many.build < estimated_costs(1_000_000, 225, 300, 0.25).build
    assert many.exact == 200_000 * 0.05


def test_recall_is_reported_between_and_beyond_what_was_measured(chooser: Chooser) -> None:
    built = chooser.choose(1, 5, "index")
    assert built is not None
    facts = built.metadata
    if facts.effort is None:
        pytest.skip("exact was faster")
    at = {each.k: each.recall for each in facts.per_k}
    assert facts.recall_at(10) == at[10]
    assert facts.recall_at(15) == min(at[10], at[20])
    assert facts.recall_at(100_000) is None
    assert f"recall@10 {at[10]:.4f}" in described(built, 10)
    assert "not measured" in described(built, 100_000)
    assert described(None, 10) == "search: exact, every candidate was scored"


class TestPredictor:
    @pytest.fixture
    def model(self, monkeypatch: pytest.MonkeyPatch) -> LinkPredictor:
        for module in (choice, building):
            monkeypatch.setattr(module, "EXACT_BELOW", 100)
        edges = np.random.default_rng(0).integers(0, NODES, (3000, 2))
        return LinkPredictor(hidden_size=16, epochs=1).fit(Graph.from_arrays(edges, num_nodes=NODES))

    def test_every_search_answers(self, model: LinkPredictor) -> None:
        nodes = list(range(0, NODES, 5))
        exact, auto, by_index = (model.recommend(nodes, 5, search=s) for s in ("exact", "auto", "index"))
        assert exact.recall == auto.recall == 1.0
        assert exact.targets == auto.targets
        assert by_index.recall is not None
        shared = set(zip(exact.sources, exact.targets, strict=True)) & set(
            zip(by_index.sources, by_index.targets, strict=True)
        )
        assert len(shared) >= 0.9 * len(exact)
        assert model.recommend(nodes, 5).targets == by_index.targets, "the index is kept"
        assert model.recommend(nodes[:2], 5, among=[7, 8]).recall == 1.0
        assert model.recommend(nodes, 5, search="exact").targets == exact.targets

    def test_best_links_by_an_index(self, model: LinkPredictor) -> None:
        exact, found = (model.best_links(10, search=s) for s in ("exact", "index"))
        assert exact.recall == 1.0
        assert found.recall is not None
        assert found.scores[0] <= exact.scores[0]
        assert exact[:3].recall == 1.0

    def test_another_model_has_no_index(self, model: LinkPredictor) -> None:
        model.recommend(0, search="index")
        assert model._chooser.index is not None
        model.fit(model.graph_)
        assert model._chooser.index is None
