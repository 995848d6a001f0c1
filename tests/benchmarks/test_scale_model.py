"""The model on paper: its formulas at sizes where the answer is known, its constants, and the page made of it."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"


@pytest.fixture(scope="module")
def model() -> ModuleType:
    sys.path.insert(0, str(SPEED))
    try:
        spec = importlib.util.spec_from_file_location("scale_model", SPEED / "scale_model.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(SPEED))
    return made


def test_the_page_has_the_tables_of_the_kept_runs(model: ModuleType) -> None:
    page = model.PAGE.read_text(encoding="utf-8")
    assert model.filled(page, model.tables()) == page, "run: python benchmarks/speed/scale_model.py --page"


def test_a_missing_run_is_named(model: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "KEPT", tmp_path)
    with pytest.raises(SystemExit, match=r"train\.json' is missing: make it with the command"):
        model.constants()


def test_rows_at_the_boundary(model: ModuleType) -> None:
    assert model.boundary_rows(100, 1, 5) == 0
    assert model.boundary_rows(100, 2, 5) == 100, "every node is needed by the other rank once"
    assert model.boundary_rows(100, 2, 0.25) == 25
    assert model.boundary_rows(100, 4, 1) == pytest.approx(100)
    assert model.boundary_rows(100, 4, 1e9) == pytest.approx(300), "by all others at most"
    assert model.boundary_rows(100, 10**6, 7) == pytest.approx(700, rel=1e-3), "one row per edge at last"


def test_the_run_of_prepare_comes_back(model: ModuleType) -> None:
    known, run = model.constants(), json.loads((model.KEPT / "preparing.json").read_text(encoding="utf-8"))
    largest = run["runs"][-1]
    found = model.plan(known, largest["nodes"], largest["edges"], run["parts"])
    assert found.boundary * run["parts"] == pytest.approx(largest["boundary_rows"])


def test_a_rank_has_its_share(model: ModuleType) -> None:
    known = model.constants()
    one, two, four = (model.plan(known, 1e8, 1e9, ranks) for ranks in (1, 2, 4))
    assert one.wire == one.boundary == 0 and one.compute == pytest.approx(4 * four.compute)
    assert one.bytes == pytest.approx(known.vectors * 1e8 * 128 * 4 + 60e9)
    assert four.bytes < two.bytes < one.bytes
    assert four.wire == pytest.approx(2 * 3 * four.boundary * 512), "forward and backward, three layers"


def test_the_fewest_ranks_with_room_are_chosen(model: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    known = model.constants()
    found = model.least_plan(known, 1e8, 1e9)
    assert found.bytes <= model.RANK_GIB * 2**30 < model.plan(known, 1e8, 1e9, found.ranks // 2).bytes
    assert math.log2(found.ranks) == int(math.log2(found.ranks))
    monkeypatch.setattr(model, "MOST_RANKS", 2)
    assert model.least_plan(known, 1e8, 1e9) is None


def test_the_train_run_comes_back(model: ModuleType) -> None:
    known, run = model.constants(), json.loads((model.KEPT / "train.json").read_text(encoding="utf-8"))
    sizes = run["sizes"]
    one = model.plan(known, sizes["nodes"], sizes["links"], 1)
    assert one.bytes / 2**30 == pytest.approx(run["peak_gigabytes"])


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (7200, "2 h"), (86_400 * 3, "3 days")])
def test_durations_have_a_unit_that_suits(model: ModuleType, seconds: float, text: str) -> None:
    assert model.duration(seconds) == text


def test_a_page_without_its_mark_is_refused(model: ModuleType) -> None:
    with pytest.raises(SystemExit, match="needs the mark"):
        model.filled("nothing", {"training": "| a |"})
