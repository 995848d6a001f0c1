"""The commands of researchers: tables made again, methods and data sets listed."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, refused, run, start, wait_until, works
from yinyan.datasets import NAMES
from yinyan.peers.registry import METHODS, PEERS
from yinyan.reproduce import measuring, read_recipe, recipe_names
from yinyan.reproduce.stand_ins import stand_in

TABLES = ("lambda", "citation2", "ppa", "collab")
DATA = ("citeseer", "ogbl-citation2", "ogbl-ppa", "ogbl-collab")
COMMAND = ("reproduce", *TABLES, "--smoke", "--data", ",".join(DATA))
PICTURES = [".png"] if find_spec("matplotlib") else []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A figure and three tables of data sets that are not at hand, on stand-ins."""
    out = tmp_path_factory.mktemp("made") / "results"
    return out, works(*COMMAND, "--out", out)


def kept_cells(folder: Path) -> list[dict[str, Any]]:
    """The cells of the kept runs."""
    lines = [line for path in (folder / "cells").glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line)["cell"] for line in lines]


class TestReproduce:
    def test_the_list_names_every_table(self, tmp_path: Path) -> None:
        out = works("reproduce", "--list", "--out", tmp_path).out
        lines = {line.split()[0]: line for line in out.splitlines()[1:]}
        assert list(lines) == recipe_names()
        for name, words in {
            "main": "Main results",
            "cflp": "Hits@20",
            "samplers": "Samplers",
            "lambda": "Learned and fixed weights",
            "proportions": "Proportion",
            "random-features": "Random features",
            "negatives": "without negative edges",
            "gnns": "graph neural networks",
            "heart": "HeaRT",
            "ddi": "ogbl-ddi",
        }.items():
            assert words in lines[name]
        assert lines["collab"].rstrip().endswith("0 of 10 runs; needs ogbl-collab and a GPU")
        assert list(tmp_path.iterdir()) == []

    def test_the_list_in_json(self, tmp_path: Path) -> None:
        listed = works("reproduce", "--list", "--json", "--out", tmp_path).json
        assert [entry["recipe"] for entry in listed] == recipe_names()
        assert set(listed[0]) == {"recipe", "title", "state"}

    def test_pages_are_written_and_shown(self, made: tuple[Path, Ran]) -> None:
        out, ran = made
        folder = out / "smoke"
        expected = {f"{name}{suffix}" for name in TABLES for suffix in (".md", ".json", *PICTURES)}
        assert {path.name for path in folder.iterdir()} == expected | {"cells", "README.md", "verdicts.md"}
        assert (folder / "lambda.md").read_text(encoding="utf-8") in ran.out
        assert ran.out.endswith(f"the pages are in '{folder}'\n")
        cells = [cell for name in TABLES for cell in read_recipe(name).cells(1) if cell.data in DATA]
        assert len(kept_cells(folder)) == len({cell.digest for cell in cells})
        assert f"run {len(cells)}/{len(cells)}   collab: " in ran.err
        page = (folder / "collab.md").read_text(encoding="utf-8")
        assert "(smoke run on small stand-ins)" in page and "| ogbl-collab | YinYanGNN | 66.10 |" in page
        runs = json.loads((folder / "citation2.json").read_text(encoding="utf-8"))["rows"][0]["results"]["official"]
        assert runs[0]["protocol"].endswith(" / official / 25 own negatives per link / mrr / seed 0")

    def test_an_index_names_every_table(self, made: tuple[Path, Ran]) -> None:
        index = (made[0] / "smoke" / "README.md").read_text(encoding="utf-8")
        assert index.startswith("# Smoke runs on small stand-ins: no results\n")
        assert "| [ogbl-collab](collab.md) | 1 of 10 runs |" in index
        assert "| Main results (`main`) | 0 of " in index
        assert all(f"{name}.md" in index for name in TABLES)
        assert len([line for line in index.splitlines() if line.startswith("|")]) == len(recipe_names()) + 2

    def test_verdicts_are_written_too(self, made: tuple[Path, Ran]) -> None:
        page = (made[0] / "smoke" / "verdicts.md").read_text(encoding="utf-8")
        assert page.startswith("# Verdicts on published values (smoke run on small stand-ins)\n")
        assert "## [ogbl-collab](collab.md)" in page and "## Main results (`main`)" in page
        collab = next(line for line in page.splitlines() if line.startswith("| ogbl-collab, Hits@50 | YinYanGNN |"))
        assert "| 66.10 | official+val |" in collab and "(1) |" in collab and "| not run |" not in collab
        assert "| cora, Hits@100 | GAE | 89.01 ± 1.32 | clean | not run |  | not run |  |" in page
        assert "(verdicts.md)" in (made[0] / "smoke" / "README.md").read_text(encoding="utf-8")
        assert "Made by `yinyan reproduce NAME --smoke`, together" in page

    def test_a_second_time_nothing_runs(self, made: tuple[Path, Ran]) -> None:
        out, first = made
        cells = {path: path.stat().st_mtime_ns for path in (out / "smoke" / "cells").iterdir()}
        again = works(*COMMAND, "--out", out)
        assert again.out == first.out and again.err == ""
        assert {path: path.stat().st_mtime_ns for path in (out / "smoke" / "cells").iterdir()} == cells

    def test_only_some_data_with_workers(self, tmp_path: Path) -> None:
        common = ("reproduce", "cflp", "--smoke", "--data", "cora, citeseer", "--out", tmp_path)
        ran = works(*common, "--workers", "2", "--json")
        assert list(ran.json) == ["cflp"]
        assert [Path(path).suffix for path in ran.json["cflp"]] == [".md", ".json", *PICTURES]
        page = Path(ran.json["cflp"][0]).read_text(encoding="utf-8")
        rows = [line.split("|")[1:6] for line in page.splitlines() if line.startswith("| pubmed")]
        assert rows and all("not run" in " ".join(cells[3:]) for cells in rows)
        assert {cell["data"] for cell in kept_cells(tmp_path / "smoke")} == {"citeseer", "cora"}
        assert "run 8/8   cflp: " in ran.err

    def test_figures_of_one_row(self, tmp_path: Path) -> None:
        """One row, one data set and one protocol in JSON: the figures themselves, as fractions."""
        common = ("reproduce", "negatives", "--smoke", "--dataset", "cora", "--out", tmp_path, "--json")
        assert list(works(*common, "--protocol", "clean").json) == ["negatives"]  # two rows: the pages
        found = works("reproduce", "accuracy", *common[2:], "--protocol", "clean").json
        assert set(found["hits@100"]) == {"mean", "std", "values"}
        assert 0 <= found["hits@100"]["mean"] <= 1 and len(found["hits@100"]["values"]) == 1
        told = refused("reproduce", "main", "--smoke", "--protocol", "muddy", "--out", tmp_path)
        assert "--protocol needs to be among" in told and "'muddy'" in told

    def test_only_some_methods(self, tmp_path: Path) -> None:
        """By full ranking: the page names the first row, though ours was not run."""
        common = ("reproduce", "head", "--smoke", "--data", "usair,fb15k-237,citeulike,cora", "--out", tmp_path)
        page = works(*common, "--method", "cn, katz").out
        assert {cell["method"] for cell in kept_cells(tmp_path / "smoke")} == {"cn", "katz"}
        assert {cell["sources"] for cell in kept_cells(tmp_path / "smoke")} == {2000}
        assert "| usair | first by" not in page and "| not run |" in page
        assert "--method needs to be among" in refused(*common, "--method", "kats")

    def test_some_seeds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Real runs, on a stand-in that the loader gives in the place of the data."""
        measuring._data.cache_clear()
        monkeypatch.setattr(measuring, "load", stand_in)
        common = ("reproduce", "ddi", "--out", tmp_path, "--quiet")
        recipe = read_recipe("ddi")
        monkeypatch.setattr("yinyan.reproduce.read_recipe", lambda name: replace(recipe, rows=recipe.rows[1:]))
        works(*common, "--seeds", "2")
        runs = sorted((cell["method"], cell["data"], cell["seed"]) for cell in kept_cells(tmp_path))
        assert runs == sorted((r.method, "ogbl-ddi", s) for r in recipe.rows[1:] for s in (0, 1))
        row = next(r for r in json.loads((tmp_path / "ddi.json").read_text("utf-8"))["rows"] if r["method"] == "cn")
        assert [found["seed"] for found in row["results"]["official"]] == [0, 1]
        assert row["results"]["official"][0]["protocol"].startswith("ogbl-ddi / official / ")
        measuring._data.cache_clear()

    def test_what_is_not_there_is_refused(self, tmp_path: Path) -> None:
        said = refused("reproduce", "mian", "--out", tmp_path)
        assert "there is no recipe 'mian' (nearest: 'main'" in said
        assert "name a table (yinyan reproduce --list shows them), or pass --all" in refused("reproduce")
        said = refused("reproduce", "collab", "--smoke", "--data", "cora", "--out", tmp_path)
        assert "--data needs to be among ogbl-collab (got 'cora')" in said
        assert run("reproduce", "main", "--workers", "0").code == 2
        assert list(tmp_path.iterdir()) == []

    def test_a_damaged_result_is_one_line(self, tmp_path: Path) -> None:
        works("reproduce", "collab", "--smoke", "--out", tmp_path, "--quiet")
        kept = tmp_path / "smoke" / "cells" / "collab.jsonl"
        kept.write_text('{"figure": 1', encoding="utf-8")
        said = refused("reproduce", "collab", "--smoke", "--out", tmp_path, "--quiet")
        assert kept.name in said and "delete it" in said

    def test_ctrl_c_leaves_a_thin_table_and_the_way_on(self, tmp_path: Path) -> None:
        process = start("reproduce", "lambda", "--smoke", "--out", tmp_path / "r", cwd=tmp_path)
        try:
            wait_until(lambda: (tmp_path / "r" / "smoke" / "cells" / "lambda.jsonl").exists(), process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130 and out == "" and "Traceback" not in err
        assert err.splitlines()[-1].startswith("stopped after ")
        assert err.splitlines()[-1].endswith(" of 32 runs; the same command goes on from there")
        assert "not run" in (tmp_path / "r" / "smoke" / "lambda.md").read_text(encoding="utf-8")
        assert (tmp_path / "r" / "smoke" / "README.md").exists()


def test_methods() -> None:
    lines = works("methods").out.splitlines()
    assert lines[0].split() == ["method", "family", "words"]
    assert [line.split()[0] for line in lines[1:-2]] == list(METHODS)
    assert lines[-1] == f"{len(PEERS)} peers, {len(METHODS) - len(PEERS)} variants of ours"
    listed = works("methods", "--json").json
    assert [entry["method"] for entry in listed] == list(METHODS)
    assert listed[0] == {"method": "yinyan", "family": "ours", "words": METHODS["yinyan"].words}


def test_ours_do_not_count_as_peers() -> None:
    """28 methods, three of them ours, once were called 28 peers."""
    assert [name for name in METHODS if name not in PEERS] == [n for n in METHODS if n.startswith("yinyan")]
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert "28 methods" not in readme
    counts = re.findall(r"\b(\d+) (?:other methods|peers)", readme)
    assert {int(count) for count in counts} <= {len(PEERS)}


def test_datasets() -> None:
    assert works("datasets").out.splitlines() == list(NAMES)
    assert works("datasets", "--json").json == list(NAMES)
    assert {"cora", "citeseer", "pubmed", "ogbl-ddi", "ogbl-citation2", "heart-citeseer"} <= set(NAMES)


def test_pages_of_what_was_run(tmp_path: Path) -> None:
    out = works("reproduce", "collab", "--smoke", "--pages", "--out", tmp_path / "r").out
    assert "not run" in out
    assert not (tmp_path / "r" / "smoke" / "cells").exists()
