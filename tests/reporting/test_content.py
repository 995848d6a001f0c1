"""What the model page shows, as plain values."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contracts import planted_graph
from yinyan import LinkPredictor, random_split
from yinyan.metrics import average_precision, roc_auc
from yinyan.model.calibration import fit_calibration
from yinyan.model.fitted import Fitted
from yinyan.reporting import content
from yinyan.reporting.content import context_edges, map_of, model_content
from yinyan.reporting.reliability import lists_of_test


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    sizes: dict[str, Any] = {"encoder": {"hidden_size": 8, "embedding_size": 8}, "decoder": {"width": 8}}
    return LinkPredictor(**sizes, training={"epochs": 2}).fit(planted_graph(2, 15)).fitted_


def test_is_json_with_all_that_is_known(fitted: Fitted) -> None:
    page = json.loads(json.dumps(model_content(fitted), allow_nan=False))
    assert page["model"]["num_nodes"] == 30 and page["model"]["num_links"] == fitted.graph.num_edges
    assert page["metrics"] == pytest.approx(fitted.metrics)
    assert page["settings"] == json.loads(json.dumps(fitted.settings.to_dict()))
    assert [epoch["epoch"] for epoch in page["training"]] == [1, 2] and page["best_epoch"] == fitted.best_epoch
    assert page["energy"] == list(fitted.energy) and page["split"] == fitted.split_text
    assert set(page["versions"]) == {"yinyan", "torch", "python"}


def test_charts_are_of_the_validation_pairs(fitted: Fitted) -> None:
    page = model_content(fitted)
    positive, negative = fitted.valid_scores
    counts = {"num_positives": len(positive), "num_negatives": len(negative)}
    assert page["held_out"] == {"pairs": "validation", **counts}
    assert page["roc"]["area"] == pytest.approx(roc_auc(positive, negative))
    assert page["precision_recall"]["area"] == pytest.approx(average_precision(positive, negative))
    assert sum(page["histogram"]["positives"]) == pytest.approx(1, abs=1e-4)


def test_calibration_is_measured_on_the_recommended_lists(fitted: Fitted) -> None:
    """Once on one negative per edge, where a stated 99.8 % held, and not where it was shown."""
    page, lists = model_content(fitted), fitted.valid_lists
    assert lists is not None and page["probabilities"]["base_rate"] == fitted.base_rate
    assert page["probabilities"]["missing_share"] == pytest.approx(0.1, abs=0.02), "as many as validation held out"
    assert sum(each["count"] for each in page["reliability"]) == lists.scores.size
    assert all(each["low"] <= each["observed"] <= each["high"] for each in page["reliability"])
    described = page["lists"]
    assert (described["edges"], described["length"], described["num_sources"]) == ("validation", 10, 30)
    assert described["num_hits"] == lists.hits.sum() and 0 <= described["error"] < 1
    groups = described["by_degree"]
    assert sum(group["count"] for group in groups) == lists.scores.size
    assert [group["least"] for group in groups] == sorted(group["least"] for group in groups)
    assert all(one["most"] < two["least"] for one, two in itertools.pairwise(groups))


def test_or_on_lists_of_test_edges() -> None:
    graph = planted_graph(2, 15)
    split = random_split(graph, seed=0)
    fitted = LinkPredictor(training={"epochs": 2}).fit(graph, split=split).fitted_
    lists = lists_of_test(fitted, split)
    assert lists is not None
    page = model_content(fitted, test_lists=lists)
    assert page["lists"]["edges"] == "test" and page["lists"]["num_hits"] == lists.hits.sum() > 0
    # of a split with test edges, these are what is missing
    assert page["probabilities"]["missing_share"] == pytest.approx(len(split.test_targets) / fitted.graph.num_edges)
    share = np.average(lists.hits, weights=lists.weights)
    bins = page["reliability"]
    assert sum(b["observed"] * b["count"] for b in bins) / sum(b["count"] for b in bins) == pytest.approx(
        share, abs=0.02
    )


def test_a_model_of_an_earlier_version_has_no_lists(fitted: Fitted) -> None:
    old = replace(fitted, valid_lists=None, calibration=fit_calibration(*fitted.valid_scores, "platt"))
    page = model_content(old)
    assert page["lists"] is None and page["reliability"] == []
    assert page["probabilities"]["base_rate"] == pytest.approx(fitted.base_rate)


def test_or_of_the_test_pairs(fitted: Fitted) -> None:
    page = model_content(fitted, test=(np.array([1.0, 2.0]), np.array([0.0])))
    assert page["held_out"]["pairs"] == "test" and page["held_out"]["num_positives"] == 2
    assert page["roc"]["area"] == 1


def test_without_held_out_pairs_there_are_no_charts(fitted: Fitted) -> None:
    none = np.empty(0, np.float32)
    page = model_content(replace(fitted, valid_scores=(none, none)))
    assert page["held_out"] is page["histogram"] is page["roc"] is page["precision_recall"] is None


def test_what_is_not_finite_is_none(fitted: Fitted) -> None:
    page = model_content(replace(fitted, metrics={"mrr": float("nan")}, energy=(1.0, float("inf"))))
    assert page["metrics"] == {"mrr": None} and page["energy"] == [1.0, None]


def test_the_map_is_of_embeddings_not_of_sketches(fitted: Fitted) -> None:
    """Sketches, whose numbers are larger, once decided where nodes stand on the report's map."""
    size = fitted.settings.encoder.hidden_size
    assert fitted.embeddings.shape[1] > size, "there are sketches"
    assert map_of(fitted).landmarks.shape == (30, size)


def test_edges_behind_the_map_join_nodes_that_are_on_it(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([1, 4, 5, 9, 20, 29])
    edges = fitted.graph.edges
    expected = {tuple(pair) for pair in edges.tolist() if set(pair) <= set(rows.tolist())}
    assert {tuple(rows[pair]) for pair in context_edges(edges, rows, seed=0)} == expected
    monkeypatch.setattr(content, "_CONTEXT", 10)
    assert len(context_edges(edges, np.arange(30), seed=0)) == 10
