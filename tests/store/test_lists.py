"""Calibration in the store: the lists that it was measured on, and models that have none."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan.model.calibration import fit_calibration, shifted
from yinyan.predictor import LinkPredictor
from yinyan.store.lists import read_lists


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny()).fit(planted_graph())


def test_a_model_of_an_earlier_version_states_the_graphs_base_rate(model: LinkPredictor, tmp_path: Path) -> None:
    """Its calibration is for as many links as negatives; what it shows is not, and has to be restated."""
    old = LinkPredictor(**model.get_params(deep=False))
    pairs = fit_calibration(*model.fitted_.valid_scores, "platt")
    old.fitted_ = dataclasses.replace(model.fitted_, calibration=pairs, valid_lists=None)
    old.save(tmp_path / "model")
    facts = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    del facts["missing"]
    facts["calibration"] = {name: facts["calibration"][name] for name in ("method", "slope", "intercept")}
    (tmp_path / "model" / "model.json").write_text(json.dumps(facts), encoding="utf-8")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text(encoding="utf-8"))
    content = (tmp_path / "model" / "model.json").read_bytes()
    manifest["files"]["model.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    back = LinkPredictor.load(tmp_path / "model", device="cpu")
    assert back.base_rate_ == pytest.approx(model.base_rate_) and back.fitted_.valid_lists is None
    some = [(model.graph_.ids[0], model.graph_.ids[row]) for row in range(1, 6)]
    expected = shifted(pairs.probabilities(model.score(some)), model.base_rate_)
    np.testing.assert_allclose(back.predict_proba(some), expected, rtol=1e-9)


def test_lists_survive_a_reload(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    back, lists = LinkPredictor.load(tmp_path / "model").fitted_.valid_lists, model.fitted_.valid_lists
    assert back is not None and lists is not None and back.missing == lists.missing == 1
    for name in ("scores", "hits", "weights", "degrees", "ranks"):
        assert np.array_equal(getattr(back, name), getattr(lists, name)), name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"list_scores": np.zeros((2, 2), np.float32)}, "one dimension"),
        ({"list_hits": np.zeros(3, bool)}, "list_hits"),
        ({"list_weights": np.zeros(2)}, "positive"),
        ({"list_ranks": np.ones(2, np.int32)}, "list_ranks"),
    ],
)
def test_lists_are_checked(change: dict[str, Any], words: str) -> None:
    columns: dict[str, Any] = {
        "list_scores": np.zeros(2, np.float32),
        "list_hits": np.zeros(2, bool),
        "list_weights": np.ones(2),
        "list_degrees": np.ones(2, np.int64),
        "list_ranks": np.ones(2, np.int64),
    }
    assert read_lists(columns, 1.0) is not None and read_lists(columns, None) is None
    with pytest.raises(ValueError, match=words):
        read_lists(columns | change, 1.0)
    with pytest.raises(ValueError, match="'missing'"):
        read_lists(columns, -1.0)
