"""Runs of cells: each once, in one process or several, stopped and gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from small_recipes import made_up, table, without_times

from yinyan import __version__
from yinyan.errors import DivergedError, StoppedError, StoreError
from yinyan.peers import Outcome, Task
from yinyan.reproduce import Cell, Job, Result, kept_results, measuring, read_recipe, run_cells
from yinyan.reproduce.running import result_file, run_and_keep


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "results", smoke=True)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells that ran, with made-up figures."""
    seen: list[Cell] = []

    def measure(cell: Cell, **options: Any) -> Result:
        seen.append(cell)
        return made_up(cell, 50.0 + cell.seed)

    monkeypatch.setattr(measuring, "measure", measure)
    return seen


def asked(times: int) -> Callable[[], bool]:
    """A Ctrl-C that comes after `times` questions."""
    left = iter([False] * times)
    return lambda: next(left, True)


def test_a_finished_cell_is_not_run_again(job: Job, ran: list[Cell]) -> None:
    cells = list(table().cells())
    run_cells(cells[:4], job)
    assert ran == cells[:4]
    seen: list[tuple[str, int, int]] = []
    run_cells(cells, job, on_done=lambda result, done, total: seen.append((result.cell.summary, done, total)))
    assert ran == cells
    assert [(done, total) for _, done, total in seen] == [(n, 5) for n in range(1, 6)]
    assert seen[0][0] == cells[4].summary
    run_cells(cells, job)
    assert len(ran) == len(cells)


def test_results_come_back_as_they_were(job: Job, ran: list[Cell]) -> None:
    cells = list(table().cells())
    assert kept_results(cells, job) == []
    run_cells(cells[:3], job)
    assert kept_results(cells, job) == [made_up(cell) for cell in cells[:3]]


def test_a_table_keeps_its_runs_in_one_file_a_line_each(job: Job, ran: list[Cell]) -> None:
    cells = list(table().cells())
    run_cells(cells, job)
    path = result_file(cells[0], job)
    assert path == job.folder / "cells" / "small.jsonl"
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    content = next(line for line in lines if line["cell"]["method"] == "cn")
    assert content["version"] == __version__ and content["figure"] == 50.0
    assert content["cell"]["row"] == "common neighbours" and content["cell"]["settings"] == {}
    assert len(lines) == len(cells)
    assert {p.name for p in path.parent.iterdir()} == {path.name, ".lock"}


def test_the_file_does_not_depend_on_the_order_of_the_runs(tmp_path: Path, ran: list[Cell]) -> None:
    cells, texts = list(table().cells()), set()
    for name, some in (("one", cells), ("other", cells[::-1])):
        job = Job(tmp_path / name, smoke=True)
        run_cells(some, job)
        texts.add(result_file(cells[0], job).read_text(encoding="utf-8"))
    assert len(texts) == 1


def test_the_digest_of_a_kept_cell_does_not_depend_on_the_settings_that_the_library_has(job: Job) -> None:
    """Committed runs stay valid while settings come and go: only what a recipe overrides counts."""
    cell = next(c for c in table().cells() if c.row == "ours")
    line = {**asdict(made_up(cell)), "version": "0.0.1"}
    line["cell"]["settings"]["training"] = {"a_setting_of_the_past": 3}
    path = result_file(cell, job)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert kept_results([cell], job) == []
    past = replace(cell, settings=line["cell"]["settings"])
    assert kept_results([past], job) == [made_up(past)]


def test_tables_share_their_runs(job: Job, ran: list[Cell]) -> None:
    first, second = list(table().cells()), list(table(name="other").cells())
    run_cells([*first, *second], job)
    assert len(ran) == len(first)
    found = kept_results(second, job)
    assert [result.cell for result in found] == second, "a shared run is shown under the table's own names"


def test_a_stop_leaves_what_is_done(job: Job, ran: list[Cell]) -> None:
    cells = list(table().cells())
    with pytest.raises(StoppedError, match=r"stopped after 2 of 9 runs; the same command goes on from there"):
        run_cells(cells, job, should_stop=asked(2))
    assert ran == cells[:2]
    run_cells(cells, job)
    assert ran == cells


def test_a_stop_after_the_last_cell_is_none(job: Job, ran: list[Cell]) -> None:
    run_cells(list(table().cells()), job, should_stop=asked(9))
    assert len(ran) == 9


def test_a_damaged_result_is_named_with_its_cure(job: Job, ran: list[Cell]) -> None:
    cells = list(table().cells())[:2]
    run_cells(cells, job)
    path = result_file(cells[0], job)
    first, second = path.read_bytes().splitlines()
    for damaged in (second[:40], b"", b"[]", b"{}", b"null", b"<<<<<<< HEAD", b"\xff\xfe\x00"):
        path.write_bytes(first + b"\n" + damaged + b"\n")
        for use in (kept_results, run_cells):
            with pytest.raises(
                StoreError, match=r"line 2 of '.*small.jsonl' is not a whole result: delete it, and the"
            ):
                use(cells, job)
    path.write_bytes(first + b"\n")
    run_cells(cells, job)
    assert len(ran) == 3
    assert path.read_bytes().splitlines() == [first, second]


def test_runs_that_end_together_are_all_kept(job: Job, ran: list[Cell]) -> None:
    """Workers, and other commands, keep their results in the same file."""
    cells = list(table().cells(20))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda cell: run_and_keep(cell, job), cells))
    assert [result.cell for result in kept_results(cells, job)] == cells


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named_with_its_cure(job: Job, ran: list[Cell]) -> None:
    cell = next(iter(table().cells()))
    (job.folder / "cells").mkdir(parents=True, mode=0o500)
    with pytest.raises(StoreError, match="permission is denied"):
        run_cells([cell], job)


def test_an_unexpected_error_is_no_result(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = list(table().cells())

    def measure(cell: Cell, **options: Any) -> Result:
        if cell == cells[1]:
            raise RuntimeError("a bug")
        return made_up(cell)

    monkeypatch.setattr(measuring, "measure", measure)
    with pytest.raises(RuntimeError, match="a bug"):
        run_cells(cells, job)
    assert [result.cell for result in kept_results(cells, job)] == cells[:1]


class TestMeasure:
    def test_a_smoke_run_says_that_it_is_one(self) -> None:
        cell = next(c for c in table().cells() if c.row == "ours")
        result = measuring.measure(cell, device="cpu", threads=0, smoke=True)
        assert result.figure == pytest.approx(100 * result.figures["hits@100"])
        assert set(result.figures) == {"hits@100", "mrr", "auc", "ap"}
        assert result.validation is not None and result.seconds > 0 and result.failure == ""
        assert result.protocol.startswith("stand-in for cora / released / ")
        assert result.protocol.endswith(" shared negatives / hits@100 / seed 0")

    def test_full_rankings(self) -> None:
        cells = {cell.method: cell for cell in read_recipe("recommenders").cells(1) if cell.data == "ml-1m"}
        for name in ("lightgcn-as-published", "popularity"):
            result = measuring.measure(cells[name], device="cpu", threads=0, smoke=True)
            assert set(result.figures) == {"ndcg@20", "recall@20"}
            assert result.figure == pytest.approx(100 * result.figures["ndcg@20"])
            assert result.protocol == "stand-in for ml-1m / official / full ranking / ndcg@20 / seed 0"

    def test_a_diverging_training_is_a_result_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def diverges(task: Task) -> Outcome:
            raise DivergedError("the loss is not finite: lower training.learning_rate")

        monkeypatch.setattr(measuring, "method", lambda name: diverges)
        result = measuring.measure(next(iter(table().cells())), device="cpu", threads=0, smoke=True)
        assert result.figure is None and result.figures == {} and result.validation is None
        assert result.failure == "the loss is not finite: lower training.learning_rate"

    def test_settings_that_really_diverge(self) -> None:
        text = 'title = "x"\nmetric = "hits@100"\nsource = "x"\nprotocols = ["clean"]\n[[row]]\nname = "x"\n'
        text += 'method = "yinyan"\non.cora = { encoder = { step_size = 1000.0, num_steps = 16, repulsion = 9.0 } }\n'
        result = measuring.measure(next(iter(table(text).cells())), device="cpu", threads=0, smoke=True)
        assert result.figure is None and "step_size" in result.failure

    def test_rows_can_be_normalised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sums: dict[bool, Any] = {}
        measuring._data.cache_clear()
        for normalised in (False, True):
            features = measuring._data("pubmed", True, normalised).graph.features
            sums[normalised] = features.sum(axis=1)  # type: ignore[union-attr]
        assert sums[True] == pytest.approx(1.0, abs=1e-3)
        assert sums[False] != pytest.approx(1.0, abs=1e-3)


class TestWorkers:
    def test_two_give_what_one_gives(self, tmp_path: Path) -> None:
        cells = [cell for cell in table().cells() if cell.protocol == "clean"]
        found = []
        for workers in (1, 2):
            job = Job(tmp_path / str(workers), threads=1, smoke=True)
            seen: list[int] = []
            run_cells(cells, job, workers=workers, on_done=lambda result, done, total, seen=seen: seen.append(done))
            assert seen == list(range(1, len(cells) + 1))
            found.append([without_times(result) for result in kept_results(cells, job)])
        assert found[0] == found[1] and len(found[0]) == len(cells)
        run_cells(cells, Job(tmp_path / "2", smoke=True), workers=2, on_done=lambda *given: pytest.fail("ran again"))

    def test_a_stop_finishes_the_running_ones(self, tmp_path: Path) -> None:
        cells = [cell for cell in table().cells(4) if cell.method == "cn"]
        job = Job(tmp_path, threads=1, smoke=True)
        with pytest.raises(StoppedError, match=r"stopped after 2 of 12 runs; the same command goes on from there"):
            run_cells(cells, job, workers=2, should_stop=asked(2))
        assert [result.cell for result in kept_results(cells, job)] == cells[:2]

    def test_a_second_ctrl_c_does_not_wait_for_them(self, tmp_path: Path) -> None:
        def impatient(result: Result, done: int, total: int) -> None:
            raise KeyboardInterrupt

        cells = [cell for cell in table().cells(4) if cell.method == "cn"]
        with pytest.raises(KeyboardInterrupt):
            run_cells(cells, Job(tmp_path, threads=1, smoke=True), workers=2, on_done=impatient)
        assert len(kept_results(cells, Job(tmp_path, smoke=True))) < len(cells)
