"""The charts."""

from __future__ import annotations

import numpy as np
import pytest
from report_pages import page

from yinyan.reporting.charts import reliability_figure
from yinyan.reporting.curves import reliability_bins


@pytest.mark.parametrize("base_rate", [1e-6, 0.01, 0.5])
def test_certain_probabilities_are_drawn(base_rate):
    pytest.importorskip("matplotlib")
    svg = reliability_figure(reliability_bins([1.0, 1.0], [0.0, 0.0], base_rate=base_rate), label="sure")
    assert "nan" not in svg and "inf" not in svg


@pytest.mark.parametrize(
    "fields",
    [
        {"positive_scores": [1.0], "negative_scores": [1.0]},
        {"positive_scores": [np.inf, 1.0], "negative_scores": [-np.inf]},
        {"positive_scores": [np.inf], "negative_scores": [-np.inf]},
        {"history": [{"epoch": 1, "loss": float("nan"), "auc": 0.5}], "best_epoch": 1},
        {"history": [{"loss": 1.0}]},
        {"energy": [1.0, float("inf"), 2.0]},
    ],
)
def test_extremes_are_drawn(tmp_path, fields):
    pytest.importorskip("matplotlib")
    assert "<figure" in page(tmp_path, **fields)
