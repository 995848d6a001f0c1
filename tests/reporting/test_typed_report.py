"""Reports of models with relations: a page of each relation, and what they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import yinyan
from typed_graphs import QUICK, shop
from yinyan import LinkPredictor
from yinyan.evaluation import Evaluation
from yinyan.metrics import roc_auc
from yinyan.reporting.report import evaluation_report, fit_report
from yinyan.reporting.typed_content import held_out_by_relation


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return yinyan.evaluate(shop(), predict=["buys", "follows"], peers=["cn"], model=LinkPredictor(**QUICK))


def data_of(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    start = text.index('id="report-data">') + len('id="report-data">')
    return json.loads(text[start : text.index("</script>", start)])


def test_of_an_evaluation(evaluation: Evaluation, tmp_path: Path) -> None:
    evaluation_report(tmp_path / "report.html", evaluation, title="A shop")
    page, summary = data_of(tmp_path / "report.html"), evaluation.to_dict()
    assert list(page["by_relation"]) == ["buys", "follows"]
    assert page["overall"] == pytest.approx(summary["metrics"]) and "filtered mrr" in page["overall"]
    assert page["overall_peers"].keys() == {"common neighbours"}
    for name, own in page["by_relation"].items():
        assert own["metrics"] == pytest.approx(summary["relations"][name])
        assert own["held_out"]["pairs"] == "test" and own["lists"]["edges"] == "test"
    assert [r["metrics"] for r in page["relations"] if not r["predicted"]] == [{}]


def test_curves_are_of_the_test_links_of_each_relation(evaluation: Evaluation) -> None:
    result = evaluation.results[0]
    tests = held_out_by_relation(result.model, result.split)  # type: ignore[arg-type]
    for name, tested in tests.items():
        assert roc_auc(*tested.scores) == pytest.approx(result.relations[name]["auc"])
        assert tested.lists is not None


def test_of_a_fit(evaluation: Evaluation, tmp_path: Path) -> None:
    model = evaluation.results[0].model
    assert model is not None
    fit_report(tmp_path / "report.html", model, title="A shop")
    page = data_of(tmp_path / "report.html")
    graph: Any = model.graph_
    assert page["map"]["types"] == ["person"] * 24 + ["product"] * 18
    for name, own in page["by_relation"].items():
        links = own["recommended"]["links"]
        assert len(links) == 15
        assert {(row["source_type"], row["target_type"]) for row in links} == {
            (graph.relations[name].source, graph.relations[name].target)
        }
        ends = np.array(own["predicted"])  # all nodes are on the map: places are rows
        assert [graph.nodes_at([row])[0][1] for row in ends[:, 1]] == [row["target"] for row in links]
    assert page["by_relation"]["buys"]["roc"] != page["by_relation"]["follows"]["roc"]
