"""Shards in Ray actors: the same answers as in one process, also after an actor was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts import planted_graph, tiny
from yinyan import LinkPredictor, evaluate
from yinyan.cli import main
from yinyan.cli.bulk import recommend_all
from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.reproduce.stand_ins import stand_in
from yinyan.retrieval import ray_shards as module
from yinyan.retrieval.queries import is_linear
from yinyan.retrieval.sharded_index import ShardedIndex
from yinyan.retrieval.shards import ShardedSearch

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


@pytest.mark.parametrize("in_parts", [False, True])
def test_the_answers_of_one_process(cluster: Any, saved: Path, tmp_path: Path, in_parts: bool) -> None:
    """Also of a model in parts, of which each actor opens its own: others are not there for it."""
    model = LinkPredictor.load(saved)
    if in_parts:
        saved = tmp_path / "parts"
        model.save(saved, max_shard_bytes=400)
        (saved / "graph.safetensors").unlink()
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


def test_an_index_over_actors_outlives_one_of_them(
    cluster: Any, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lists are made anew, and the answers are the same; the recall that was measured is stated."""
    monkeypatch.setattr("yinyan.cli.bulk._INDEXED", 5)
    model = LinkPredictor.load(saved)
    with model.sharded(saved, shards=2):
        index = model.index("mips" if is_linear(model.fitted_.model.decoder) else "flashlight", k=4)
        assert isinstance(index, ShardedIndex) and index.metadata.recall_at(4) is not None
        recommend_all(model, tmp_path / "undisturbed.parquet", 4, index=index)
        killed: list[int] = []

        def kill_one(done: int, total: int) -> None:
            if not killed:
                killed.append(_an_actor())
                os.kill(killed[0], signal.SIGKILL)

        recommend_all(model, tmp_path / "links", 4, index=index, at_once=2, on_progress=kill_one)
        found = model.recommend(0, k=4, index=index)
    assert killed and found.recall == index.metadata.recall_at(4)
    whole = pq.read_table(tmp_path / "undisturbed.parquet")
    assert pq.read_table(sorted((tmp_path / "links").glob("*.parquet"))).equals(whole)
    assert not isinstance(model.index("exact"), ShardedIndex), "its own index is back"


@pytest.mark.parametrize("directed", [False, True])
def test_full_rankings_have_the_figures_of_one_process(cluster: Any, directed: bool) -> None:
    graph, model = planted_graph(directed=directed), LinkPredictor(**tiny())
    alone = evaluate(graph, model=model, peers=(), full_ranking=True, sources=9)
    found = evaluate(graph, model=model, peers=(), full_ranking=True, sources=9, engine="ray", shards=2)
    assert list(found.results[0].metrics)[:3] == ["full-mrr", "ndcg@10", "recall@10"]
    assert found.results[0].metrics == alone.results[0].metrics


def test_data_that_are_judged_by_full_ranking_need_no_flag(cluster: Any) -> None:
    data, model = stand_in("citeulike"), LinkPredictor(**tiny())
    alone = evaluate(data, protocol="official", model=model, peers=())
    found = evaluate(data, protocol="official", model=model, peers=(), engine="ray", shards=2)
    assert next(iter(found.results[0].metrics)) == "ndcg@20" and found.results[0].metrics == alone.results[0].metrics


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the process of an actor in /proc")
def test_an_actor_that_is_killed_in_an_evaluation_is_replaced(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows were in memory only: they are sent again."""
    monkeypatch.setattr("yinyan.peers.full_ranking._SOURCES", 4)
    graph, model = planted_graph(), LinkPredictor(**tiny())
    alone = evaluate(graph, model=model, peers=(), full_ranking=True)
    killed, calls = [], []
    reaching = ShardedSearch.reaching

    def disturbed(self: ShardedSearch, *given: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            killed.append(_an_actor())
            os.kill(killed[0], signal.SIGKILL)
        return reaching(self, *given)

    monkeypatch.setattr(ShardedSearch, "reaching", disturbed)
    found = evaluate(graph, model=model, peers=(), full_ranking=True, engine="ray", shards=2)
    assert killed and len(calls) > 3
    assert found.results[0].metrics == alone.results[0].metrics


def test_the_commands_give_the_same_on_ray(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    edges = np.random.default_rng(0).integers(0, 30, size=(150, 2))
    Path("edges.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in edges.tolist() if a != b))
    small = ["--set", "encoder.hidden_size=8", "--set", "encoder.embedding_size=8", "--epochs", "2"]
    asked = ["evaluate", "edges.csv", *small, "--peers", "", "--full-ranking", "-q", "--json"]
    assert _printed(capsys, *asked, "--engine", "ray", "--shards", "2") == _printed(capsys, *asked)
    _printed(capsys, "fit", "edges.csv", "--out", "model", *small, "-q", "--json")
    on_ray = ["--engine", "ray", "--shards", "2"]
    found = _printed(capsys, "recommend", "model", "--all", "-k", "3", "--out", "exact", "--exact", *on_ray, "--json")
    assert (found["search"], found["recall"]) == ("exact", 1.0)
    found = _printed(capsys, "recommend", "model", "--all", "-k", "3", "--out", "links", "--index", *on_ray, "--json")
    assert found["recall"] == 1.0 and found["rows"] == sum(
        pq.read_metadata(part).num_rows for part in (tmp_path / "exact").glob("*.parquet")
    )
    found = _printed(capsys, "best-links", "model", "-k", "4", *on_ray, "--json")
    assert found == _printed(capsys, "best-links", "model", "-k", "4", "--json")


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    printed = capsys.readouterr()
    assert stopped.value.code in (0, None), printed.err
    return json.loads(printed.out)


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
    source = module.SavedRows.of(saved, 40)._replace(path=str(other))
    actor = cluster.remote(module._ShardActor).remote(source, 0, 20, None, 1)
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


def test_more_actors_than_processors_are_refused(cluster: Any, saved: Path) -> None:
    """Ray waited for the third without end, and without a word."""
    model = LinkPredictor.load(saved)
    with (
        pytest.raises(InputError, match="3 actors of 1 thread need as many processors, and the Ray cluster has 2"),
        model.sharded(saved, shards=3),
    ):
        pass


def test_the_extra_is_named_where_ray_is_absent(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with (
        pytest.raises(MissingExtraError, match=r"yinyan\[cluster\]"),
        LinkPredictor.load(saved).sharded(saved),
    ):
        pass
