"""A model that is hardly better than chance says so."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import TINY, run, write_links
from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.model.quality import weakness
from yinyan.reporting.content import model_content


@pytest.mark.parametrize(("auc", "weak"), [(0.3, True), (0.5, True), (0.599, True), (0.6, False), (0.99, False)])
def test_by_its_auc(auc: float, weak: bool) -> None:
    said = weakness({"auc": auc})
    assert (said is not None) == weak
    assert said is None or (f"validation AUC {auc:.3f}, where 0.5 is chance. Check" in said)
    assert weakness({}) is None


def test_a_fit_of_random_edges_warns_and_so_does_saving_it(tmp_path: Path) -> None:
    pairs = np.random.default_rng(0).integers(0, 200, (500, 2))
    with pytest.warns(UserWarning, match="hardly better than chance: validation AUC 0") as told:
        model = LinkPredictor(**tiny()).fit(Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]]))
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="hardly better than chance") as told:
        model.save(tmp_path / "model")
    assert told[0].filename == __file__
    assert "hardly better than chance" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "hardly better than chance" in model_content(model.fitted_)["notes"][0]


def test_a_good_model_does_not(tmp_path: Path) -> None:
    model = LinkPredictor(**tiny()).fit(planted_graph())
    model.fitted_ = replace(model.fitted_, metrics={**model.metrics_, "auc": 0.9})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model")
    assert "chance" not in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert not any("chance" in note for note in model_content(model.fitted_)["notes"])


def test_the_command_line_says_it_once(tmp_path: Path) -> None:
    links = write_links(tmp_path / "links.csv")
    ran = run("fit", links, *TINY, "--out", tmp_path / "m")
    lines = [line for line in ran.err.splitlines() if "hardly better than chance" in line]
    assert len(lines) == 1 and lines[0].startswith("warning: the model ranks held-out edges")
    assert "warning" not in run("fit", links, *TINY, "--out", tmp_path / "m", "-q").err
