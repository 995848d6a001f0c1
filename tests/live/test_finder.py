from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving_tools import tiny_predictor
from yinyan import Graph
from yinyan.live import finder
from yinyan.service.answers import Wish, recommend
from yinyan.service.context import Room
from yinyan.service.options import Options


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with enough nodes for an index to choose among."""
    folder = tmp_path_factory.mktemp("larger") / "model"
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 1_500, (6_000, 2)), axis=1), axis=0)
    graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=1_500)
    tiny_predictor(encoder={"num_negatives": 0}).fit(graph).save(folder)
    return folder


def targets(room: Room, node: Any, k: int = 10) -> list[Any]:
    return [r["target"] for r in recommend(room.now, Wish([node], k))["results"][0]["recommendations"]]


def test_an_index_follows_the_graph_and_is_built_again(
    larger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(larger, tmp_path / "model")
    monkeypatch.setattr(finder, "_CHURN", 0.01)
    exact = Room(Options(str(tmp_path / "model"), index="exact", log=str(tmp_path / "exact.sqlite")))
    quick = Room(Options(str(tmp_path / "model"), index="flashlight"))
    try:
        assert quick.now.served.finder.describe()["kind"] == "flashlight"
        first = quick.now.served.finder._index  # type: ignore[attr-defined]
        overlap = []
        for step in range(12):
            changes = [
                {"kind": "add_links", "pairs": [[step, 1_499 - 3 * step]]},
                {"kind": "add_nodes", "nodes": [{"id": f"new{step}", "neighbours": [step, step + 1]}]},
            ]
            for room in (exact, quick):
                for change in changes:
                    room.keeper.submit(change).result(20)
            for node in (step, f"new{step}"):
                mine, truth = targets(quick, node), targets(exact, node)
                assert len(mine) == len(truth) == 10
                overlap.append(len(set(mine) & set(truth)) / 10)
            assert 1_499 - 3 * step not in targets(quick, step, 100)  # a link now
        assert np.mean(overlap) > 0.9, overlap
        deadline = time.monotonic() + 20
        while quick.now.served.finder._fresh is None and time.monotonic() < deadline:  # type: ignore[attr-defined]
            if quick.now.served.finder._index is not first:  # type: ignore[attr-defined]
                break
            time.sleep(0.01)
        quick.keeper.submit({"kind": "add_links", "pairs": [[700, 900]]}).result(20)
        assert quick.now.served.finder._index is not first  # type: ignore[attr-defined]
        assert 900 not in targets(quick, 700, 100)
    finally:
        exact.close()
        quick.close()


def test_a_saved_index_is_used_if_it_fits(larger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from yinyan import LinkPredictor

    shutil.copytree(larger, tmp_path / "model")
    LinkPredictor.load(tmp_path / "model", device="cpu").index("flashlight").save(tmp_path / "model")
    built: list[str] = []
    build = finder.build_index
    monkeypatch.setattr(finder, "build_index", lambda *a, **o: built.append(o["kind"]) or build(*a, **o))
    for kind, wanted, makes in (("auto", "flashlight", 0), ("flashlight", "flashlight", 0), ("exact", "exact", 1)):
        room = Room(Options(str(tmp_path / "model"), index=kind, read_only=True))
        assert room.now.served.finder.describe()["kind"] == wanted
        room.close()
        assert len(built) == makes
    tiny_predictor(encoder={"num_negatives": 0}, training={"epochs": 1}).fit(
        LinkPredictor.load(tmp_path / "model", device="cpu").graph_
    ).save(tmp_path / "model")  # the old index moves along with the new model
    room = Room(Options(str(tmp_path / "model"), index="flashlight", read_only=True))
    assert len(targets(room, 0)) == 10 and len(built) == 2
    room.close()


def test_processes_share_one_index(larger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = finder.build_index
    monkeypatch.setattr(finder, "build_index", lambda *a, **o: built.append(o["kind"]) or build(*a, **o))
    (tmp_path / "shared").mkdir()
    for _ in range(2):
        options = Options(
            str(larger), index="flashlight", shared=str(tmp_path / "shared"), log=str(tmp_path / "log.sqlite")
        )
        Room(options).close()
    assert built == ["flashlight"]
