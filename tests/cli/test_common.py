"""Ctrl-C and going on afterwards, for each command that takes long; and what else the commands share."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from command_line import TINY, refused, run, start, wait_until, works, write_links
from yinyan import Graph, LinkPredictor, evaluation
from yinyan.cli import common
from yinyan.errors import SettingsError, StoppedError, StoreError
from yinyan.progress import Progress

LONG = tuple(
    part
    for text in (
        *("encoder.hidden_size=16", "decoder.width=16"),
        *("training.batch_size=100", "training.epochs=60", "training.patience=0"),
    )
    for part in ("--set", text)
)


def stopped(*arguments: object, cwd: Path, when: Any) -> str:
    """Standard error of a command that was sent one Ctrl-C when `when()` came true."""
    process = start(*arguments, cwd=cwd)
    try:
        wait_until(when, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, (out, err)
    assert out == ""
    assert "Traceback" not in err
    assert "stopping at the next safe point (Ctrl-C again stops at once)" in err
    return err


def lines_in(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


class TestFit:
    def test_stop_and_resume_equals_a_straight_run(self, tmp_path: Path) -> None:
        links = write_links(tmp_path / "links.csv")
        log = tmp_path / "model.checkpoint" / "state.jsonl"
        err = stopped("fit", links, *LONG, cwd=tmp_path, when=lambda: lines_in(log) >= 3)
        last = err.splitlines()[-1]
        assert last.startswith("training was stopped in epoch ") and "the same command and --resume" in last
        assert sorted(p.name for p in tmp_path.iterdir()) == ["links.csv", "model.checkpoint"]
        assert (tmp_path / "model.checkpoint" / "state.safetensors").exists()

        resumed = works("fit", links, *LONG, "--resume", "--out", tmp_path / "model")
        assert "epoch 60/60" in resumed.err
        works("fit", links, *LONG, "--out", tmp_path / "straight", "-q")
        for name in ("embeddings", "weights", "graph"):
            first = load_file(tmp_path / "model" / f"{name}.safetensors")
            second = load_file(tmp_path / "straight" / f"{name}.safetensors")
            assert first.keys() == second.keys()
            assert all(np.array_equal(first[key], second[key]) for key in first), name
        kept = (tmp_path / "model" / "training.jsonl").read_text(encoding="utf-8")
        assert kept == (tmp_path / "straight" / "training.jsonl").read_text(encoding="utf-8")
        assert not (tmp_path / "model.checkpoint").exists()

    def test_resuming_needs_something_of_this_run(self, tmp_path: Path) -> None:
        links = write_links(tmp_path / "links.csv")
        model = LinkPredictor(training={"epochs": 3, "batch_size": 50}, encoder={"hidden_size": 8}, seed=0)
        assert "nothing to resume" in refused("fit", links, *TINY, "--out", tmp_path / "m", "--resume")
        graph = Graph.from_table(links)
        stop_soon(model, graph, tmp_path / "m")
        assert "of another run" in refused("fit", links, *TINY, "--out", tmp_path / "m", "--resume")
        assert (tmp_path / "m.checkpoint" / "state.safetensors").exists(), "a refusal loses nothing"

    def test_a_stopped_run_becomes_a_model(self, tmp_path: Path) -> None:
        links = write_links(tmp_path / "links.csv")
        command = ("fit", links, *LONG, "--out", "m")
        log = tmp_path / "m.checkpoint" / "state.jsonl"
        err = stopped(*command, cwd=tmp_path, when=lambda: lines_in(log) >= 3)
        assert err.splitlines()[-1].endswith("and --resume, or save the best so far with --resume --finish")
        whole = ("fit", links, *LONG, "--out", tmp_path / "m")
        assert "add --resume" in refused(*whole, "--finish")
        done = works(*whole, "--resume", "--finish")
        assert "training   stopped after" in done.err and "are kept" in done.err
        assert 3 <= len(LinkPredictor.load(tmp_path / "m").fitted_.history) < 60
        assert not (tmp_path / "m.checkpoint").exists()
        assert "there is nothing to resume" in refused(*whole, "--resume", "--finish")

    def test_keep_best_saves_at_once(self, tmp_path: Path) -> None:
        """Ctrl-C left a checkpoint and no model."""
        links = write_links(tmp_path / "links.csv")
        log = tmp_path / "m.checkpoint" / "state.jsonl"
        process = start("fit", links, *LONG, "--out", "m", "--keep-best", cwd=tmp_path)
        wait_until(lambda: lines_in(log) >= 3, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "saved the model in 'm'" in out and "are kept" in err
        assert 3 <= len(LinkPredictor.load(tmp_path / "m").fitted_.history) < 60
        assert not (tmp_path / "m.checkpoint").exists()

    def test_an_old_model_outlives_a_stopped_run(self, tmp_path: Path) -> None:
        links = write_links(tmp_path / "links.csv")
        works("fit", links, *TINY, "--out", tmp_path / "m", "-q")
        before = (tmp_path / "m" / "manifest.json").read_bytes()
        stop_soon(LinkPredictor(training={"epochs": 3, "batch_size": 50}), Graph.from_table(links), tmp_path / "m")
        assert (tmp_path / "m" / "manifest.json").read_bytes() == before
        assert works("info", tmp_path / "m", "--json").json["best_epoch"] in (1, 2)


def stop_soon(model: LinkPredictor, graph: Graph, out: Path) -> None:
    """A fit that gets its Ctrl-C with the first epoch."""

    class Interrupting(Progress):
        def advance(self, done: int, text: str = "") -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(StoppedError, match="--resume"):
        common.run_fit(model, graph, out, Interrupting(), resume=False)


class TestEvaluate:
    def test_finished_seeds_are_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        links = write_links(tmp_path / "links.csv")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        folder = tmp_path / "here" / "links.evaluation.checkpoint"
        command = ("evaluate", links, *LONG, "--seeds", "2", "--json")

        def second_seed_runs() -> bool:
            return any(lines_in(log) >= 2 for log in folder.glob("*-seed-1-yinyan.jsonl"))

        err = stopped(*command, cwd=tmp_path / "here", when=second_seed_runs)
        assert err.splitlines()[-1].endswith("the same command and --resume")
        assert [p.name[16:] for p in sorted(folder.glob("*.json"))] == ["-seed-0.json"]
        assert [p.name[16:] for p in sorted(folder.glob("*.safetensors"))] == ["-seed-1-yinyan.safetensors"]

        assert "of another run" in refused(*command, "--protocol", "clean+val", "--resume")
        resumed = works(*command, "--resume")
        assert "seed 0: figures kept from the stopped run" in resumed.err
        assert not folder.exists()
        assert resumed.json == works(*command, "-q").json

    def test_there_is_always_a_model_to_draw(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Fewer seeds than the stopped run had finished: the last of them runs again."""
        monkeypatch.chdir(tmp_path)
        graph = Graph.from_table(write_links(tmp_path / "links.csv"))
        model = LinkPredictor(encoder={"hidden_size": 8}, decoder={"width": 8}, training={"epochs": 1})
        real, ran = evaluation.evaluate_seed, []

        def stop_after_two(*args: Any, seed: int, **kwargs: Any) -> Any:
            ran.append(seed)
            if len(ran) == 3:
                raise StoppedError("stopped")
            return real(*args, seed=seed, **kwargs)

        monkeypatch.setattr(evaluation, "evaluate_seed", stop_after_two)
        plan = {"dataset": "links", "protocol": "clean", "peers": ("cn",)}
        with pytest.raises(StoppedError):
            common.run_evaluation(model, graph, common.Plan(seeds=(0, 1, 2), resume=False, **plan), Progress())
        again = common.run_evaluation(model, graph, common.Plan(seeds=(0, 1), resume=True, **plan), Progress())
        assert ran == [0, 1, 2, 1]
        assert [result.model is not None for result in again.results] == [False, True]
        assert [list(result.peers) for result in again.results] == [["cn"], ["cn"]]

    def test_other_peers_are_another_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        graph = Graph.from_table(write_links(tmp_path / "links.csv"))
        model = LinkPredictor(encoder={"hidden_size": 8}, decoder={"width": 8}, training={"epochs": 1})

        def stop(*args: Any, **kwargs: Any) -> Any:
            raise StoppedError("stopped")

        real = evaluation.evaluate_seed
        first = common.Plan("links", "clean", (0, 1), ("cn",), resume=False)
        monkeypatch.setattr(evaluation, "evaluate_seed", lambda *a, **k: real(*a, **k) if k["seed"] == 0 else stop())
        with pytest.raises(StoppedError):
            common.run_evaluation(model, graph, first, Progress())
        with pytest.raises(StoreError, match="of another run"):
            common.run_evaluation(model, graph, replace(first, peers=("cn", "aa"), resume=True), Progress())


def test_names_of_methods() -> None:
    assert common.names("cn, aa ,cn,,ra") == ("cn", "aa", "ra")
    assert common.names("") == ()
    with pytest.raises(SettingsError, match=r"there is no method 'catz' \(nearest: 'katz'"):
        common.names("cn,catz")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with nodes enough for several parts."""
    folder = tmp_path_factory.mktemp("large")
    links = write_links(folder / "links.csv", nodes=3000, each=2)
    works(
        "fit",
        links,
        *TINY,
        "--set",
        "training.epochs=1",
        "--set",
        "training.batch_size=2000",
        "--out",
        folder / "m",
        "-q",
    )
    return folder / "m"


class TestRecommendAll:
    def test_parts_are_kept(self, model: Path, tmp_path: Path) -> None:
        parts = tmp_path / "links.parquet.parts"
        command = ("recommend", model, "--all", "-k", "3")
        err = stopped(
            *command, "--out", "links.parquet", cwd=tmp_path, when=lambda: len(list(parts.glob("0*.parquet"))) >= 1
        )
        assert "of 3,000 nodes; the finished parts are in 'links.parquet.parts'" in err
        assert err.splitlines()[-1].endswith("The same command goes on from there")
        assert [p.name for p in tmp_path.iterdir()] == ["links.parquet.parts"]
        works(*command, "--out", tmp_path / "links.parquet")
        works(*command, "--out", tmp_path / "straight.parquet", "-q")
        assert pq.read_table(tmp_path / "links.parquet").equals(pq.read_table(tmp_path / "straight.parquet"))
        assert (tmp_path / "links.parquet").read_bytes() == (tmp_path / "straight.parquet").read_bytes()

    def test_a_second_signal_stops_at_once(self, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real, calls = LinkPredictor.recommend, []

        def interrupted(self: LinkPredictor, *args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                pytest.fail("it went on")
            return real(self, *args, **kwargs)

        monkeypatch.setattr(LinkPredictor, "recommend", interrupted)
        ran = run("recommend", model, "--all", "-k", "1", "--out", tmp_path / "links.csv", "-q")
        assert ran.code == 130 and ran.out == ""
        assert ran.err == "stopped at once. The same command goes on from there\n"
        assert [p.name for p in tmp_path.iterdir()] == ["links.csv.parts"]
        assert [p.name for p in (tmp_path / "links.csv.parts").glob("*.parquet")] == ["000000000000.parquet"]


def test_ctrl_c_while_a_table_is_read_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Graph:
        raise KeyboardInterrupt

    monkeypatch.setattr(Graph, "from_table", interrupted)
    ran = run("fit", tmp_path / "links.csv", "--out", tmp_path / "m")
    assert ran == (130, "", "")
    assert list(tmp_path.iterdir()) == []
