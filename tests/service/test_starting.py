"""A service starts: with settings of the environment, with progress, and with its address once it answers."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import typer
from safetensors.numpy import load_file, save_file

from command_line import run
from serving_tools import Child, tiny_predictor
from yinyan import Graph
from yinyan.cli import commands
from yinyan.cli import serve as serve_command
from yinyan.live import finder
from yinyan.live.change_log import ChangeLog, log_path
from yinyan.service.context import Room
from yinyan.service.options import Limits, Options

SAMPLES = {  # a value of each option in the environment, and what comes of it
    "host": ("::1", "::1"),
    "port": ("8123", 8123),
    "workers": ("3", 3),
    "api_keys": ("keys.txt", Path("keys.txt")),
    "read_only": ("1", True),
    "log": ("log.sqlite", Path("log.sqlite")),
    "carry_over": ("true", True),
    "accept_loss": ("yes", True),
    "proxy": ("10.0.0.5", "10.0.0.5"),
    "labels": ("labels.csv", Path("labels.csv")),
    "label_column": ("name", "name"),
    "no_labels": ("1", True),
    "id_column": ("key", "key"),
    "index": ("exact", "exact"),
    "recall": ("0.9", 0.9),
    "at_once": ("5", 5),
    "seconds": ("7.5", 7.5),
    "access_log": ("access.jsonl", Path("access.jsonl")),
}


def options_of_serve() -> list[Any]:
    group: Any = typer.main.get_command(commands.app)
    return [p for p in group.commands["serve"].params if p.opts[0].startswith("--") and p.name != "help"]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    """What the command line would serve with."""
    found: list[Options] = []
    monkeypatch.setattr(
        serve_command, "_service", lambda: (Limits, Options, lambda options, tell: found.append(options))
    )
    return found


def value_of(options: Options, name: str) -> Any:
    renamed = {"api_keys": "keys"}.get(name, name)
    return getattr(options.limits if name in ("at_once", "seconds") else options, renamed)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_option_can_be_set_in_the_environment(
    name: str, given: list[Options], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, wanted = SAMPLES[name]
    monkeypatch.setenv(f"YINYAN_{name.upper()}", text)
    assert run("serve", "model").code == 0
    assert value_of(given[0], name) == wanted != value_of(Options(Path("model")), name)


def test_the_command_line_comes_before_the_environment(given: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YINYAN_PORT", "8123")
    run("serve", "model", "--port", "9000", "--recall", "0.95")
    assert (given[0].port, given[0].recall) == (9000, 0.95)


def test_a_wrong_value_is_named_with_its_variable(given: list[Options], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YINYAN_RECALL", "98")
    ran = run("serve", "model")
    assert ran.code == 2 and "YINYAN_RECALL" in ran.err and not given


def test_help_and_guide_list_every_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("serve", "--help").out
    guide = (Path(__file__).parents[2] / "docs/guide/service.md").read_text(encoding="utf-8")
    names = [f"YINYAN_{p.name.upper()}" for p in options_of_serve()]
    assert len(names) >= len(SAMPLES)
    for name in names:
        assert name in shown, name
        assert f"`{name}`" in guide, name


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with enough nodes for lists of cells."""
    folder = tmp_path_factory.mktemp("larger") / "model"
    pairs = np.random.default_rng(0).integers(0, 1_200, (5_000, 2))
    graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=1_200)
    tiny_predictor(encoder={"num_negatives": 0}).fit(graph).save(folder)
    return folder


@pytest.fixture
def place(larger: Path, tmp_path: Path) -> Path:
    shutil.copytree(larger, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The recalls that indexes were built for."""
    recalls: list[float] = []
    build = finder.build_index
    monkeypatch.setattr(
        finder, "build_index", lambda *given, **more: recalls.append(more["budget"].recall) or build(*given, **more)
    )
    return recalls


def started(model: Path, **options: Any) -> list[str]:
    """The lines that a start prints."""
    said: list[str] = []
    room = Room(Options(model, read_only=True, **{"index": "flashlight", "recall": 0.7, **options}), tell=said.append)
    try:
        assert room.now.served.finder.describe()["kind"] == options.get("index", "flashlight")
    finally:
        room.close()
    return [line for line in said if not line.startswith("still ")]  # what a slow machine says every few seconds


def test_an_index_built_at_the_start_is_kept_for_the_next(place: Path, built: list[float]) -> None:
    """Every start built it again, for a minute, and printed nothing."""
    first = started(place)
    assert (place / "index.safetensors").is_file()
    assert first[0] == f"reading the model '{place}'" and re.fullmatch(r"reading the model .* took [\d.]+ s", first[1])
    assert first[2] == "building an index (kind flashlight, recall 0.7)"
    assert re.fullmatch(r"building an index .* took [\d.]+ s", first[3])
    assert first[4] == f"the index is kept in '{place / 'index.safetensors'}': the next start reads it"
    assert started(place)[2] == f"the index in '{place / 'index.safetensors'}' is used"
    assert started(place, recall=None)[2].endswith("is used")  # nothing was asked for that it does not keep
    assert built == [0.7]


def test_another_recall_is_another_index(place: Path, built: list[float]) -> None:
    started(place)
    said = started(place, recall=0.5)
    assert "not used: it was built for a recall of 0.7, and 0.5 was asked for" in said[2]
    assert built == [0.7, 0.5]


def test_an_index_of_an_earlier_version_is_built_again(
    place: Path, built: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    started(place)
    file = place / "index.safetensors"
    save_file(load_file(file), file, metadata={"index": '{"format": 2}'})
    assert started(place)[-1].startswith("the index is kept in")
    assert "the saved index is not used" in caplog.text and "format version 2" in caplog.text
    assert built == [0.7, 0.7]


def test_a_directory_that_cannot_be_written_to_is_no_reason_to_stop(
    place: Path, built: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(index: Any, folder: Path) -> None:
        if folder == place:
            raise finder.StoreError("cannot write: permission is denied")
        save(index, folder)

    save = finder.Index.save
    monkeypatch.setattr(finder.Index, "save", refused)
    assert started(place)[-1].startswith("the index is not kept, and the next start builds it again: cannot write")
    (tmp_path / "shared").mkdir()
    assert "is kept in" in started(place, shared=tmp_path / "shared")[-1]  # for the other processes
    assert started(place, shared=tmp_path / "shared")[2].endswith("is used")
    assert built == [0.7, 0.7]


def test_an_exact_search_of_a_small_graph_is_not_kept(model: Path) -> None:
    said = started(model, index="exact", recall=None)
    assert said[2:] == ["building an index (kind exact, recall 0.98)", said[3]] and "took" in said[3]
    assert not (model / "index.safetensors").exists()


def test_a_replay_is_announced(model: Path) -> None:
    log = ChangeLog(log_path(model))
    room = Room(Options(model, index="exact"))
    log.close()
    room.keeper.submit({"kind": "add_links", "pairs": [["n00", "n30"]]}).result(20)
    room.close()
    said = started(model, index="exact", recall=None)
    assert said[-2] == "replaying 1 change" and re.fullmatch(r"replaying 1 change took [\d.]+ s", said[-1])


def printed(service: Child, pattern: str, seconds: float = 40) -> re.Match[str]:
    """The first line of a service that matches, as soon as it is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        text = service.errors.read_text() if service.errors.exists() else ""
        found = re.search(pattern, text)
        if found:
            return found
        assert service.process.is_alive(), text
        time.sleep(0.002)
    raise AssertionError(f"{pattern!r} was not printed within {seconds} s: {text}")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_address_is_printed_when_it_answers(model: Path, child: Callable[..., Child], workers: int) -> None:
    """With several processes it was printed before any of them listened, and port 0 as 0."""
    service = child(model, "--workers", str(workers), "--port", "0", "--access-log", os.devnull)
    address = printed(service, r"serving .* at (http://127\.0\.0\.1:\d+)\n")[1]
    with httpx.Client(base_url=address, trust_env=False, timeout=20) as client:
        assert client.get("/readyz").status_code == 200  # at the first try
    lines = service.errors.read_text().splitlines()
    assert lines[0] == f"reading the model '{model}'" and "exact index of 40 nodes" in "".join(lines)
    assert service.stop() in (0, -15)
