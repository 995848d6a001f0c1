"""Shards in Ray actors: the same answers as in one process, also after an actor was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts import planted_graph, tiny
from yinyan import LinkPredictor
from yinyan.cli.bulk import recommend_all
from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.retrieval import ray_shards as module

if os.environ.get("YINYAN_CLUSTER") != "required":
    pytest.importorskip("ray", reason="Ray is not installed (extra cluster)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One cluster of this machine for all tests here."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = planted_graph()
    path = tmp_path_factory.mktemp("ray") / "model"
    LinkPredictor(**tiny(), seed=0).fit(graph).save(path)
    return path


def test_the_answers_of_one_process(cluster: Any, saved: Path) -> None:
    model = LinkPredictor.load(saved)
    alone = model.recommend(list(range(40)), k=4, search="exact")
    with model.sharded(saved, shards=2):
        found = model.recommend(list(range(40)), k=4, search="exact")
        best = model.best_links(7, search="exact")
    assert found.targets == alone.targets
    assert np.array_equal(found.scores, alone.scores)
    assert np.array_equal(found.probabilities, alone.probabilities)
    assert best.targets == model.best_links(7, search="exact").targets
    assert model.recommend(0, k=4, search="exact").targets == alone.targets[:4], "its own search is back"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the process of an actor in /proc")
def test_a_killed_actor_is_replaced(cluster: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yinyan.cli.bulk._BLOCK", 5)
    model = LinkPredictor.load(saved)
    recommend_all(model, tmp_path / "alone.parquet", 4)
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:
        if not killed:
            killed.append(_an_actor())
            os.kill(killed[0], signal.SIGKILL)

    with model.sharded(saved, shards=2):
        count = recommend_all(model, tmp_path / "links", 4, at_once=2, on_progress=kill_one)
    whole = pq.read_table(tmp_path / "alone.parquet")
    parts = sorted((tmp_path / "links").glob("*.parquet"))
    assert len(parts) == 8 and count == whole.num_rows
    assert pq.read_table(parts).equals(whole), "nothing lost, nothing doubled"


def _an_actor() -> int:
    """The process of one actor, by the title that Ray gives it."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if entry.read_bytes().startswith(b"ray::_ShardActor"):
                return int(entry.parent.name)
    raise AssertionError("no actor runs")


def test_a_host_with_another_model_is_refused(cluster: Any, saved: Path, tmp_path: Path) -> None:
    model = LinkPredictor.load(saved)
    other = tmp_path / "other"
    LinkPredictor(**tiny(), seed=1).fit(model.graph_).save(other)
    copy = tmp_path / "copy"
    shutil.copytree(saved, copy)
    actor = cluster.remote(module._ShardActor).remote(str(other), module.model_mark(copy), 0, 20, 1)
    with pytest.raises(cluster.exceptions.RayError, match="is another one than that of the command"):
        cluster.get(actor.ready.remote())
    with pytest.raises(StoreError), model.sharded(tmp_path / "absent", shards=1):
        pass


def test_shards_are_a_positive_number(saved: Path) -> None:
    with (
        pytest.raises(InputError, match="'shards' needs to be a positive integer"),
        LinkPredictor.load(saved).sharded(saved, shards=0),
    ):
        pass


def test_the_extra_is_named_where_ray_is_absent(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with (
        pytest.raises(MissingExtraError, match=r"yinyan\[cluster\]"),
        LinkPredictor.load(saved).sharded(saved),
    ):
        pass
