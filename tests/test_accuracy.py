"""Accuracy on real data, under the clean protocol (`make accuracy`)."""

import pytest

import yinyan
from yinyan.datasets import bundled_cora
from yinyan.errors import MissingExtraError


@pytest.mark.slow
def test_cora_reaches_its_bar_and_beats_the_heuristics() -> None:
    try:
        graph = bundled_cora()
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    evaluation = yinyan.evaluate(graph, dataset="cora", protocol="clean", seeds=(0, 1, 2))
    found = evaluation.to_dict()
    assert found["metrics"]["hits@100"] >= 0.85
    for peer in ("cn", "aa", "ra"):
        assert found["metrics"]["hits@100"] > found["peers"][peer]["hits@100"]
        assert found["metrics"]["auc"] > found["peers"][peer]["auc"]
