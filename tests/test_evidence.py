from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from yinyan import Graph, LinkPredictor, evaluate, evidence
from yinyan.evidence import best_links, evaluation_report, fit_report, kept_run
from yinyan.protocol import Evaluation, SeedResult
from yinyan.reporting import ReportContent

TINY: dict[str, Any] = {
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "decoder": {"width": 8},
    "training": {"epochs": 1},
}


def graph(*, directed: bool = False) -> Graph:
    pairs = [(a, (a + s) % 30) for a in range(30) for s in (1, 3, 7)]
    return Graph.from_arrays(np.array(pairs), ids=[f"n{i}" for i in range(30)], directed=directed)


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def model(request: pytest.FixtureRequest) -> LinkPredictor:
    return LinkPredictor(**TINY).fit(graph(directed=request.param))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(graph(), dataset="ring", seeds=(0, 1), model=LinkPredictor(**TINY))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[ReportContent]:
    """What the report is made from, without drawing it."""
    contents: list[ReportContent] = []
    monkeypatch.setattr(evidence, "write_report", lambda path, content: contents.append(content))
    return contents


class TestBestLinks:
    def test_are_the_best_of_all_where_every_node_is_asked(self, model: LinkPredictor) -> None:
        found = best_links(model, 5)
        ids = model.graph_.ids.take(range(30))
        best = {}
        for row in model.recommend(ids, 30):
            key = (row.source, row.target) if model.graph_.directed else frozenset((row.source, row.target))
            best.setdefault(key, row.score)
        assert [link.score for link in found] == pytest.approx(sorted(best.values(), reverse=True)[:5], abs=1e-6)

    def test_are_new_and_each_pair_once(self, model: LinkPredictor) -> None:
        found = best_links(model, 1000)
        known = model.graph_
        rows = [known.ids.rows([link.source, link.target]) for link in found]
        assert not known.has_edges(rows).any()
        keys = [(a, b) if known.directed else tuple(sorted((a, b))) for a, b, _, _ in found]
        assert len(keys) == len(set(keys)) > 30

    def test_carry_their_probability(self, model: LinkPredictor) -> None:
        found = best_links(model, 4)
        expected = model.predict_proba([(link.source, link.target) for link in found])
        assert [link.probability for link in found] == pytest.approx(expected.tolist())

    def test_ask_some_nodes_only(self, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(evidence, "_ASKED", 2)
        assert len({link.source for link in best_links(model, 1000)}) == 2


class TestKeptRun:
    def test_is_the_first_that_ran_here(self, evaluation: Evaluation) -> None:
        first, second = evaluation.results
        resumed = Evaluation("ring", "clean", (SeedResult(0, first.metrics, first.peers), second))
        assert kept_run(resumed).model is second.model
        assert kept_run(evaluation).model is first.model

    def test_none_is_an_error(self, evaluation: Evaluation) -> None:
        first = evaluation.results[0]
        with pytest.raises(ValueError, match="no model to draw"):
            kept_run(Evaluation("ring", "clean", (SeedResult(0, first.metrics, first.peers),)))


class TestReports:
    def test_of_a_fit(self, model: LinkPredictor, written: list[ReportContent], tmp_path: Path) -> None:
        fit_report(tmp_path / "r.html", model, title="Ring")
        content = written[0]
        assert content.title == "Ring" and content.subtitle == "30 nodes, 90 links"
        assert content.metrics == model.metrics_ and content.peers == {}
        assert [record["epoch"] for record in content.history] == [1]
        assert len(content.energy) == model.fitted_.settings.encoder.num_steps + 1
        predicted, names = np.asarray(content.predicted), model.graph_.ids
        assert len(predicted) == len(content.recommendations)
        assert [r[0] for r in content.recommendations] == names.take(predicted[:, 0]), "all nodes are on the map"
        assert content.settings == model.fitted_.settings.to_dict()

    def test_of_an_evaluation(self, evaluation: Evaluation, written: list[ReportContent], tmp_path: Path) -> None:
        evaluation_report(tmp_path / "r.html", evaluation, title="Ring")
        content = written[0]
        assert content.metrics == evaluation.to_dict()["metrics"]
        assert list(content.peers) == ["common neighbours", "Adamic-Adar", "resource allocation"]
        assert content.peers["Adamic-Adar"] == evaluation.to_dict()["peers"]["aa"]
        assert content.facts["protocol"].startswith("clean: ")
        positive, negative = content.positive_scores, content.negative_scores
        assert np.size(positive) == np.size(negative) == 18
        assert written[0].subtitle.endswith("figures are means of 2 seeds, pictures are of seed 0")

    def test_given_links_are_shown(self, evaluation: Evaluation, written: list[ReportContent], tmp_path: Path) -> None:
        links = best_links(kept_run(evaluation).model, 3)
        evaluation_report(tmp_path / "r.html", evaluation, title="Ring", recommended=links)
        assert list(written[0].recommendations) == links

    def test_known_links_behind_the_map_are_thinned(
        self, model: LinkPredictor, written: list[ReportContent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(evidence, "_CONTEXT", 10)
        fit_report(tmp_path / "r.html", model, title="Ring")
        assert np.shape(written[0].links) == (10, 2)
        assert model.graph_.has_edges(written[0].links).all()


def test_the_map_is_of_embeddings_not_of_sketches(
    model: LinkPredictor, written: list[ReportContent], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Sketches, whose numbers are larger, once decided where nodes stand on the report's map."""
    widths: list[int] = []
    real = evidence.map_2d

    def watched(embeddings: Any, **options: Any) -> Any:
        widths.append(embeddings.shape[1])
        return real(embeddings, **options)

    monkeypatch.setattr(evidence, "map_2d", watched)
    fit_report(tmp_path / "report.html", model, title="ring")
    assert widths == [8] and model.embeddings_.shape[1] > 8
