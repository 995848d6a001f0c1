"""Runs that are stopped, killed, disturbed or mixed up: they go on, or are refused by name, and nothing is lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from preparing_tables import SMALL, assert_same_graph, edge_table, node_table, write_files
from yinyan import Graph, InputError, StoreError, prepare, read_prepared
from yinyan.distributed.prepared import read_manifest
from yinyan.preparing import tasks

STAGES = (
    *("read-edges", "read-nodes", "number", "fit-features", "send-edges", "merge-edges", "split", "audit", "partition"),
    *("send-features", "place-ids", "place-edges", "halve-edges", "write-parts"),
)


ALONE = ("read-nodes", "split", "partition", "fit-features", "send-features")  # stages of one task here


class KilledError(BaseException):
    """A stop that nobody catches."""


def killer(stage: str, *, after: bool) -> Callable[..., Any]:
    """The tasks of a stage, of which the last is stopped before or after it wrote its files."""
    real = tasks._finish

    def finish(function: Any, given: Any) -> Any:
        place, task = given
        others = len(list(place.parent.glob("*.json")))
        if place.parent.name == stage and others >= (0 if stage in ALONE else 1):
            if after:
                function(place, task)
            raise KilledError
        return real(function, given)

    return finish


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    table = edge_table()
    nodes = node_table(Graph.from_table(table))
    return write_files(table, folder / "edges", 4), write_files(nodes, folder / "nodes", 4)


def run(tables: tuple[Path, Path], out: Path, **options: Any) -> Any:
    chosen = {"parts": 2, "protocol": "clean", "memory": SMALL, **options}
    return prepare(tables[0], out, nodes=tables[1], **chosen)


@pytest.fixture(scope="module")
def straight(tables: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("straight") / "out"
    run(tables, out)
    return out


@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_is_killed_in_every_stage_goes_on(
    tables: tuple[Path, Path], straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    out, met = tmp_path / "out", set()
    for stage in STAGES:
        with monkeypatch.context() as patch:
            patch.setattr(tasks, "_finish", killer(stage, after=after))
            with pytest.raises(KilledError):
                run(tables, out)
        met.add(stage)
        assert not (out / "manifest.json").exists()
        with pytest.raises(StoreError, match="unfinished, repeat its command"):
            read_prepared(out)
    said: list[str] = []
    run(tables, out, tell=said.append)
    assert met == set(STAGES) and sum("done before" in line for line in said) == len(STAGES) - 1
    assert read_manifest(out).content["files"] == read_manifest(straight).content["files"]  # every checksum
    assert sorted(entry.name for entry in out.iterdir()) == ["edges", "features.json", "manifest.json", "nodes"]
    run(tables, out, tell=said.append)
    assert "is prepared already" in said[-1]


def test_a_process_that_is_killed_leaves_nothing_in_the_way(
    tables: tuple[Path, Path], straight: Path, tmp_path: Path
) -> None:
    script = (
        "import os, signal, sys\nfrom yinyan import prepare\n"
        "def tell(text):\n    if text.startswith('merge-edges'): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"prepare({str(tables[0])!r}, {str(tmp_path / 'out')!r}, nodes={str(tables[1])!r}, parts=2, protocol='clean', "
        f"memory={SMALL}, tell=tell)\n"
    )
    source = str(Path(tasks.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": source}, check=False)
    assert done.returncode == -signal.SIGKILL
    run(tables, tmp_path / "out")
    assert read_manifest(tmp_path / "out").content["files"] == read_manifest(straight).content["files"]


def test_a_full_disk_is_said_and_a_later_run_goes_on(tables: tuple[Path, Path], straight: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
        with pytest.raises(StoreError, match=r"cannot write '.*': the file would pass the size limit"):
            run(tables, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    run(tables, tmp_path / "out")
    assert read_manifest(tmp_path / "out").content["files"] == read_manifest(straight).content["files"]


def test_other_options_do_not_continue_a_run(
    tables: tuple[Path, Path], straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_finish", killer("number", after=False))
        with pytest.raises(KilledError):
            run(tables, tmp_path / "out", parts=3)
    with pytest.raises(StoreError, match=r"unfinished preparation of other files or with other options.*--restart"):
        run(tables, tmp_path / "out")
    run(tables, tmp_path / "out", restart=True)
    assert read_manifest(tmp_path / "out").content["files"] == read_manifest(straight).content["files"]
    with pytest.raises(StoreError, match=r"prepared from other files or with other options"):
        run(tables, tmp_path / "out", seed=1)
    run(tables, tmp_path / "out", seed=1, restart=True)
    assert read_manifest(tmp_path / "out").content["seed"] == 1


def test_a_folder_of_somebody_else_is_left_alone(tables: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for restart in (False, True):
        with pytest.raises(StoreError, match=r"holds other files \('notes.txt'\)"):
            run(tables, tmp_path, restart=restart)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.fixture
def copied(straight: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(straight, tmp_path / "copy"))


def test_parts_of_two_graphs_are_not_mixed(tables: tuple[Path, Path], copied: Path, tmp_path: Path) -> None:
    run(tables, tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other/edges/part-00001.parquet", copied / "edges/part-00001.parquet")
    with pytest.raises(StoreError, match=r"part-00001.parquet' is of another preparation .* parts of two graphs"):
        read_prepared(copied)


def test_missing_and_damaged_files_are_named(copied: Path) -> None:
    path = copied / "nodes/part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[100] ^= 255
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"part-00000.parquet' is damaged"):
        read_prepared(copied, verify=True)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreError, match=r"part-00000.parquet' is damaged"):
        read_prepared(copied)
    path.unlink()
    with pytest.raises(StoreError, match=r"lacks 'nodes/part-00000.parquet'"):
        read_prepared(copied)
    (copied / "manifest.json").write_text(json.dumps({"format": 2, "files": {}}))
    with pytest.raises(StoreError, match=r"has format 2 \(expected 1\)"):
        read_prepared(copied)


def test_two_runs_at_once_are_refused(tables: tuple[Path, Path], tmp_path: Path) -> None:
    def again(text: str) -> None:
        if text.startswith("number"):
            with pytest.raises(StoreError, match="is in use by process"):
                run(tables, tmp_path / "out")

    run(tables, tmp_path / "out", tell=again)
    assert (tmp_path / "out/manifest.json").exists()


def test_ray_gives_the_same_files(tables: tuple[Path, Path], straight: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        run(tables, tmp_path / "out", engine="ray")
        assert read_manifest(tmp_path / "out").content["files"] == read_manifest(straight).content["files"]
        (tmp_path / "bad.csv").write_text("source,target\na,b\nNULL,c\n")
        with pytest.raises(InputError, match=r"bad.csv, column 'source': the id in row 2"):
            prepare(tmp_path / "bad.csv", tmp_path / "no", parts=1, engine="ray")
    finally:
        ray.shutdown()
    assert_same_graph(read_prepared(tmp_path / "out")[0], read_prepared(straight)[0])
