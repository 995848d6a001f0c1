"""What a reproduction leaves behind: pages, pictures, and a list of what there is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_recipes import CURVES, made_up, table

from yinyan.errors import MissingExtraError
from yinyan.reproduce import Job, Recipe, Result, pages, read_recipe, recipe_names, run_cells
from yinyan.reproduce.pages import recipe_list, write_pages
from yinyan.reproduce.plots import draw

PNG = b"\x89PNG\r\n\x1a\n"


def results_of(recipe: Recipe, *, leave_out: str = "") -> list[Result]:
    return [made_up(cell, 40.0 + 3 * cell.seed) for cell in recipe.cells() if cell.row != leave_out]


class TestPicture:
    @pytest.fixture(autouse=True)
    def _matplotlib(self) -> None:
        pytest.importorskip("matplotlib")

    @pytest.mark.parametrize("text", [None, CURVES], ids=["bars", "curves"])
    def test_is_a_png(self, text: str | None) -> None:
        recipe = table(text) if text else table()
        whole = draw(recipe, results_of(recipe))
        assert whole.startswith(PNG) and len(whole) > 5000
        assert draw(recipe, results_of(recipe)) == whole, "the same results make the same picture"
        assert draw(recipe, results_of(recipe, leave_out=recipe.rows[0].name)) != whole

    @pytest.mark.parametrize("text", [None, CURVES], ids=["bars", "curves"])
    def test_missing_and_diverged_values_leave_gaps(self, text: str | None) -> None:
        recipe = table(text) if text else table()
        assert draw(recipe, []).startswith(PNG)
        assert draw(recipe, [made_up(cell, None) for cell in recipe.cells()]).startswith(PNG)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[plots\]'"):
        draw(table(), [])


class TestPages:
    def test_page_json_and_picture(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        written = write_pages(table(), results_of(table()), Job(tmp_path / "new"))
        assert [path.name for path in written] == ["small.md", "small.json", "small.png"]
        page = written[0].read_text(encoding="utf-8")
        assert page.startswith("# A small table\n") and "![A small table](small.png)" in page
        assert "Made by `yinyan reproduce small`." in page
        assert json.loads(written[1].read_text(encoding="utf-8"))["recipe"] == "small"
        assert written[2].read_bytes().startswith(PNG)

    def test_without_matplotlib_there_is_no_picture(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pages, "find_spec", lambda name: None)
        written = write_pages(table(), results_of(table()), Job(tmp_path))
        assert [path.name for path in written] == ["small.md", "small.json"]
        assert "![" not in written[0].read_text(encoding="utf-8")

    def test_nothing_run_makes_a_page_without_a_picture(self, tmp_path: Path) -> None:
        assert [path.suffix for path in write_pages(table(), [], Job(tmp_path))] == [".md", ".json"]

    def test_nobody_takes_a_smoke_run_for_results(self, tmp_path: Path) -> None:
        written = write_pages(table(), results_of(table()), Job(tmp_path, smoke=True))
        page = written[0].read_text(encoding="utf-8")
        assert page.startswith("# A small table (smoke run on small stand-ins)\n")
        assert "`yinyan reproduce small --smoke`" in page
        assert "smoke run" in json.loads(written[1].read_text(encoding="utf-8"))["title"]


def test_the_list_counts_what_was_run(tmp_path: Path) -> None:
    job = Job(tmp_path, smoke=True)
    listed = {name: (title, state) for name, title, state in recipe_list(job)}
    assert list(listed) == recipe_names()
    assert listed["main"] == ("Main results", f"0 of {len(list(read_recipe('main').cells()))} runs")
    assert listed["ppa"][1] == "0 of 20 runs; needs ogbl-ppa and a GPU"
    cell = next(c for c in read_recipe("ddi").cells() if c.method == "cn")
    run_cells([cell], job)
    assert {name: state for name, _, state in recipe_list(job)}["ddi"] == "1 of 8 runs"
