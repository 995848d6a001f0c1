"""Reports: what is in the file, and that it needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from yinyan import Graph, LinkPredictor, evaluate
from yinyan.errors import StoreError
from yinyan.evaluation import Evaluation, SeedResult
from yinyan.reporting import report
from yinyan.reporting.report import evaluation_report, fit_report, kept_run, write_report

TINY: dict[str, Any] = {
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "decoder": {"width": 8},
    "training": {"epochs": 1},
}
HOSTILE = "</script><script>alert(1)</script><!--\"'&\n\u2028\x00\ud800 \U0001f98a"


def graph(*, directed: bool = False) -> Graph:
    pairs = [(a, (a + s) % 30) for a in range(30) for s in (1, 3, 7)]
    return Graph.from_arrays(np.array(pairs), ids=[f"n{i}" for i in range(30)], directed=directed)


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def model(request: pytest.FixtureRequest) -> LinkPredictor:
    return LinkPredictor(**TINY).fit(graph(directed=request.param))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(graph(), dataset="ring", seeds=(0, 1), model=LinkPredictor(**TINY))


def content_of(path: Path) -> dict[str, Any]:
    """The data in a report."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


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


class TestContent:
    def test_of_a_fit(self, model: LinkPredictor, tmp_path: Path) -> None:
        fit_report(tmp_path / "r.html", model, title="Ring")
        content = content_of(tmp_path / "r.html")
        assert content["name"] == "Ring" and content["model"]["num_links"] == 90
        assert content["metrics"] == pytest.approx(model.metrics_) and "peers" not in content
        assert content["held_out"]["pairs"] == "validation"

    def test_recommends_the_best_links_with_their_probability(self, model: LinkPredictor, tmp_path: Path) -> None:
        fit_report(tmp_path / "r.html", model, title="Ring")
        recommended = content_of(tmp_path / "r.html")["recommended"]
        best = model.best_links(15)
        links = recommended["links"]
        assert recommended["num_asked"] == 30
        assert [(each["source"], each["target"]) for each in links] == list(
            zip(best.sources, best.targets, strict=True)
        )
        assert [each["score"] for each in links] == pytest.approx(best.scores.tolist())
        chances = model.predict_proba([(each["source"], each["target"]) for each in links])
        assert [each["probability"] for each in links] == pytest.approx(chances.tolist())

    def test_the_map_holds_their_ends(self, model: LinkPredictor, tmp_path: Path) -> None:
        fit_report(tmp_path / "r.html", model, title="Ring")
        content = content_of(tmp_path / "r.html")
        ids, links = content["map"]["ids"], content["recommended"]["links"]
        assert [(ids[a], ids[b]) for a, b in content["map"]["predicted"]] == [(x["source"], x["target"]) for x in links]
        assert np.isfinite([content["map"]["x"], content["map"]["y"]]).all()
        assert len(content["map"]["edges"]) == model.graph_.num_edges

    def test_of_a_large_graph_some_nodes_are_asked_and_drawn(
        self, model: LinkPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(report, "_PAIRS", 60)
        monkeypatch.setattr(report, "_POINTS", 5)
        fit_report(tmp_path / "r.html", model, title="Ring")
        content = content_of(tmp_path / "r.html")
        links, places = content["recommended"]["links"], content["map"]
        assert content["recommended"]["num_asked"] == 2
        ends = {x["source"] for x in links} | {x["target"] for x in links}
        assert ends <= set(places["ids"]) and len(places["ids"]) <= 5 + len(ends)

    def test_of_a_node_that_is_linked_to_all(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        star = [(0, b) for b in range(1, 20)] + [(a, a + 1) for a in range(1, 19)]
        wheel = LinkPredictor(**TINY).fit(Graph.from_arrays(np.array(star)))
        drawn = report._drawn
        monkeypatch.setattr(
            report, "_drawn", lambda *given: np.array([0]) if given[-1] == "best links" else drawn(*given)
        )
        fit_report(tmp_path / "r.html", wheel, title="Wheel")
        content = content_of(tmp_path / "r.html")
        assert content["recommended"]["links"] == content["map"]["predicted"] == []

    def test_of_an_evaluation(self, evaluation: Evaluation, tmp_path: Path) -> None:
        evaluation_report(tmp_path / "r.html", evaluation, title="Ring")
        content, summary = content_of(tmp_path / "r.html"), evaluation.to_dict()
        assert content["metrics"] == pytest.approx(summary["metrics"])
        assert list(content["peers"]) == ["common neighbours", "Adamic-Adar", "resource allocation"]
        assert content["peers"]["Adamic-Adar"] == pytest.approx(summary["peers"]["aa"])
        assert content["num_seeds"] == 2 and content["seed"] == 0 and content["protocol"] == "clean"
        assert content["held_out"]["pairs"] == "test"
        assert content["held_out"]["num_positives"] == content["held_out"]["num_negatives"] == 18


class TestFile:
    def test_texts_cannot_become_markup(self, tmp_path: Path) -> None:
        write_report(tmp_path / "r.html", {"name": HOSTILE, "notes": [HOSTILE], HOSTILE: {"id": HOSTILE}})
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "alert(1)</script>" not in text and "<script>alert" not in text and "\u2028" not in text
        assert content_of(tmp_path / "r.html")["notes"] == [HOSTILE]
        assert text.count("<script") == 2

    def test_a_text_like_a_placeholder_is_only_text(self, tmp_path: Path) -> None:
        write_report(tmp_path / "r.html", {"name": "{{data}} {{title}} {{script}}"})
        assert content_of(tmp_path / "r.html") == {"name": "{{data}} {{title}} {{script}}"}
        assert "<title>{{data}} {{title}} {{script}}</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")

    def test_the_policy_allows_its_own_script_and_style_only(self, tmp_path: Path) -> None:
        write_report(tmp_path / "r.html", {"name": "t"})
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy is not None and policy[1].startswith("default-src 'none'; ")
        for tag, directive in (("style", "style-src"), ("script", "script-src")):
            inline = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            assert inline is not None
            digest = base64.b64encode(hashlib.sha256(inline[1].encode()).digest()).decode()
            assert f"{directive} 'sha256-{digest}'" in policy[1]
        assert not re.search(r"\s(src|href|style|on\w+)=", text.split("<script")[0])

    def test_the_same_content_gives_the_same_bytes(self, model: LinkPredictor, tmp_path: Path) -> None:
        for name in ("one.html", "two.html"):
            fit_report(tmp_path / name, model, title="Ring")
        assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()

    def test_a_failed_write_leaves_the_old_page(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target = tmp_path / "report.html"
        target.write_text("old")

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", fail)
        with pytest.raises(StoreError, match=r"report\.html.*free some space"):
            write_report(target, {"name": "new"})
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="its folder does not exist"):
            write_report(tmp_path / "nowhere" / "report.html", {"name": "t"})
