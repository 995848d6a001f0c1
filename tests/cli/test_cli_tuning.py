"""`yinyan tune`: a settings file that `fit --settings` takes, and a search that goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import TINY, refused, works
from contracts import planted_graph


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "edges.csv"
    graph = planted_graph(2, 30)
    path.write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in graph.edges))
    return path


def test_writes_settings_that_fit_takes_and_goes_on(edges: Path) -> None:
    out = edges.with_name("found.toml")
    options = ("--out", out, "--seeds", 2, *TINY, "--set", "training.valid_negatives=200")
    ran = works("tune", edges, "--trials", 2, *options)
    assert "2 on seed 0" in ran.out and f"--settings {out}" in ran.out
    assert out.with_name("found.trials").is_dir()
    fitted = works("fit", edges, "--settings", out, "--out", edges.with_name("model"))
    assert "saved the model" in fitted.out
    again = works("tune", edges, "--trials", 3, *options, "--json")
    assert len(again.json["trials"]) == 3
    assert again.json["settings"]["encoder"]["hidden_size"] == 8
    lines = [line for line in again.err.splitlines() if line.startswith("trial ")]
    assert len(lines) == 1, "the two trials of the first run are kept"
    other = refused("tune", edges, *options, "--seed", 3)
    assert "of another search" in other
    json.dumps(again.json)


def test_fits_and_reports_what_was_found(edges: Path) -> None:
    out, model, page = (edges.with_name(name) for name in ("three.toml", "tuned-model", "page.html"))
    ran = works("tune", edges, "--trials", 2, "--seeds", 2, "--out", out, "--fit", model, "--report", page, *TINY)
    assert f"saved the model in '{model}'" in ran.out
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content = json.loads(found[1])["tuning"]
    assert len(content["trials"]) == 2 and content["verdict"] in ran.out
    assert "add --fit MODEL" in refused("tune", edges, "--out", out, "--report", page)


def test_a_directory_is_no_place_for_settings(edges: Path) -> None:
    assert "is a directory" in refused("tune", edges, "--out", edges.parent)
