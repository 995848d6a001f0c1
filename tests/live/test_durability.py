"""Changes of the live graph: refused ones leave no trace, logged ones are never a reason not to start."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from serving_tools import served, tiny_predictor, two_rings
from yinyan import Client, Graph
from yinyan.errors import InputError, StoreError, YinYanError
from yinyan.live import compaction, course, planning, refresh, renewal
from yinyan.live.change_log import ChangeLog, log_path, verify_log
from yinyan.live.keeper import Made
from yinyan.live.names import Names
from yinyan.live.planning import planned
from yinyan.live.refresh import measured
from yinyan.live.renewal import LocalRenewal, WholeRenewal, fresh_embeddings
from yinyan.live.structure import Structure
from yinyan.service.answers import Wish, recommend
from yinyan.service.context import Room
from yinyan.service.options import Options


def links(*pairs: Any, kind: str = "add_links") -> dict[str, Any]:
    return {"kind": kind, "pairs": [list(pair) for pair in pairs]}


def nodes(*made: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "add_nodes", "nodes": list(made)}


@contextmanager
def opened(model: Path, **options: Any) -> Iterator[Room]:
    room = Room(Options(str(model), **options))
    try:
        yield room
    finally:
        room.close()


def make(room: Room, change: dict[str, Any]) -> Made:
    return room.keeper.submit(change).result(20)


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def with_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a number and a colour for each node."""
    folder = tmp_path_factory.mktemp("table") / "model"
    rng = np.random.default_rng(0)
    table = {
        "id": list(range(40)),
        "age": rng.normal(size=40).tolist(),
        "colour": [["red", "blue"][i % 2] for i in range(40)],
    }
    pairs = {"source": two_rings()[:, 0].tolist(), "target": two_rings()[:, 1].tolist()}
    graph = Graph.from_table(pairs, "source", "target", nodes=table, node_id="id", unmatched="keep")
    tiny_predictor(encoder={"inputs": "features"}).fit(graph).save(folder)
    return folder


@pytest.fixture(scope="module")
def with_matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix") / "model"
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    graph = Graph.from_arrays(two_rings(), features=features)
    tiny_predictor(encoder={"inputs": "features"}).fit(graph).save(folder)
    return folder


LARGE = [
    ("with_table", {"age": 1e20, "colour": "red"}),
    ("with_table", {"age": -1e300, "colour": "red"}),
    ("with_table", {"age": 10**18, "colour": "red"}),
    ("with_matrix", [1e22, 0, 0, 0, 0]),
    ("with_matrix", [-1e300, 0.5, 0, 0, 1e30]),
    ("with_matrix", [10**400, 0, 0, 0, 0]),
]
WRONG = [
    ("with_table", {"age": 1.0, "colour": ["red"]}, "'colour' needs text"),
    ("with_table", {"age": {"a": 1}, "colour": "red"}, "'age' needs numbers"),
    ("with_table", {"age": [[1.0]], "colour": "red"}, "'age' needs numbers"),
    ("with_table", {"age": 10**40, "colour": "red"}, "too large"),
    ("with_table", {"age": "old", "colour": "red"}, "'age' needs numbers"),
    ("with_table", {"age": 1.0}, "lacks the feature column 'colour'"),
    ("with_matrix", [[1.0, 0, 0, 0, 0]], "features"),
    ("with_matrix", ["a", 0, 0, 0, 0], "real numbers"),
    ("with_matrix", [float("nan"), 0, 0, 0, 0], "fill missing values"),
    ("with_matrix", {"age": 1}, "not fitted on named columns"),
]


@pytest.mark.parametrize(("name", "features"), LARGE)
def test_a_large_feature_does_not_stop_the_service_for_good(
    name: str, features: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It was answered 422 and logged all the same: every later change was refused, and no restart succeeded."""
    shutil.copytree(request.getfixturevalue(name), tmp_path / "model")
    with opened(tmp_path / "model") as room:
        try:
            clipped = make(room, nodes({"id": "x", "features": features, "neighbours": [3]})).clipped
        except YinYanError:  # beyond what a number may be: then nothing was logged
            assert room.now.version == 0
        else:
            assert clipped == ("x",)
            values = room.now.inputs.all_features()
            low, high = room.now.graph.feature_range  # type: ignore[misc]
            assert isinstance(values, np.ndarray) and (values[-1] >= low).all() and (values[-1] <= high).all()
        version = room.now.version
        assert make(room, links((0, 30))) == Made(1, version + 1)
        assert room.keeper.failure is None
    with opened(tmp_path / "model") as room:
        assert room.now.version == version + 1 and room.now.structure.has_link(0, 30)
        assert torch.isfinite(room.now.snapshot.merged()).all()


def test_the_answer_lists_nodes_whose_features_were_clipped(with_table: Path, tmp_path: Path) -> None:
    shutil.copytree(with_table, tmp_path / "model")
    with served(tmp_path / "model") as client:
        made = [{"id": name, "features": {"age": age, "colour": "red"}} for name, age in (("x", 1e20), ("y", 0.0))]
        answer = client.post("/v1/nodes", json={"nodes": made}).json()
        assert (answer["added"], answer["clipped"], answer["imputed"], answer["version"]) == (2, ["x"], [], 1)
        assert answer["remarks"] == [
            "features of 1 new node lie outside the range that training saw and were clipped to it: 'x'"
        ]


@pytest.mark.parametrize("name", ["with_table", "with_matrix"])
def test_a_node_without_its_features_gets_the_mean_and_a_remark(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Where a model reads features, a node without them was refused."""
    shutil.copytree(request.getfixturevalue(name), tmp_path / "model")
    good = {"id": "y", "features": {"age": 0.0, "colour": "red"} if name == "with_table" else [0.0] * 5}
    with served(tmp_path / "model") as service:
        answer = service.post("/v1/nodes", json={"nodes": [{"id": "x", "neighbours": [3]}, good]}).json()
        assert (answer["added"], answer["clipped"], answer["imputed"]) == (2, [], ["x"])
        assert len(answer["remarks"]) == 1 and "'x' (pass their features" in answer["remarks"][0]
        client = Client(str(service.base_url))
        with pytest.warns(UserWarning, match="'z'"):
            client.add_node("z", neighbours=[3])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client.add_node("w", features=good["features"], neighbours=[3])
        assert len(client.recommend("x", 3)) == 3
        known = service.room.now.graph  # type: ignore[attr-defined]
        grown = service.room.now.inputs.all_features()  # type: ignore[attr-defined]
        np.testing.assert_allclose(grown[known.num_nodes], known.features.mean(axis=0), atol=1e-5)
    with opened(tmp_path / "model") as room:  # and the same again from the change log
        np.testing.assert_array_equal(room.now.inputs.all_features(), grown)


@pytest.mark.parametrize(("name", "features", "message"), WRONG)
def test_a_value_of_a_wrong_type_is_named_with_column_and_node(
    name: str, features: Any, message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(request.getfixturevalue(name), tmp_path / "model")
    with opened(tmp_path / "model") as room:
        with pytest.raises(InputError, match=f"node 'x': .*{message}"):
            make(room, nodes({"id": "x", "features": features}))
        assert room.now.version == 0 and room.keeper._log.last() == 0


def test_an_odd_request_does_not_fail_its_neighbours(with_table: Path, tmp_path: Path) -> None:
    """One value of a wrong type rolled back up to 256 changes of other clients."""
    shutil.copytree(with_table, tmp_path / "model")
    with opened(tmp_path / "model") as room:
        entered: list[Any] = []
        for number in range(40):
            if number % 8 == 3:
                odd = nodes({"id": f"x{number}", "features": {"age": 1.0, "colour": [["red"]]}})
                entered.append((room.keeper.submit(odd), False))
            entered.append((room.keeper.submit(links((number % 20, 20 + number % 17))), True))
        for future, is_right in entered:
            assert (future.exception(20) is None) == is_right
        assert make(room, links((39, 2))).num == 1


def test_an_unforeseen_error_of_one_change_is_its_own(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any error but the library's own failed the whole batch; one while computing left the change in the log."""
    apply = WholeRenewal.apply

    def poisoned(self: WholeRenewal, after: Structure, effects: Any) -> Any:
        if any("x" in [node.id for node in effect.nodes] for effect in effects):
            raise ZeroDivisionError("poison")
        return apply(self, after, effects)

    monkeypatch.setattr(WholeRenewal, "apply", poisoned)
    with opened(model) as room:
        futures = [room.keeper.submit(links(("n00", f"n{i}"))) for i in range(22, 30)]
        wrong = room.keeper.submit(nodes({"id": "x", "neighbours": ["n00"]}))
        futures += [room.keeper.submit(links(("n01", f"n{i}"))) for i in range(22, 30)]
        assert [future.result(20).num for future in futures] == [1] * 16
        with pytest.raises(StoreError, match="nothing was changed"):
            wrong.result(20)
        assert "poison" in caplog.text and "Traceback" in caplog.text
        assert room.now.version == 16 and "x" not in room.now.structure.names
        monkeypatch.undo()
        assert make(room, nodes({"id": "x", "neighbours": ["n00"]})) == Made(1, 17)
        whole = fresh_embeddings(room.now)
        torch.testing.assert_close(room.now.snapshot.merged(), whole)


def test_numbers_that_are_none_are_refused_before_they_are_logged(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = WholeRenewal.apply

    def infinite(*args: Any) -> Any:
        rows, values = apply(*args)
        return rows, values / 0

    with opened(model) as room:
        monkeypatch.setattr(WholeRenewal, "apply", infinite)
        with pytest.raises(InputError, match="would not be finite"):
            make(room, links(("n00", "n30")))
        monkeypatch.undo()
        assert make(room, links(("n00", "n30"))) == Made(1, 1)


def test_what_cannot_be_applied_is_skipped_at_the_start(
    with_matrix: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A log with one change that cannot be made stopped every start."""
    model = tmp_path / "model"
    shutil.copytree(with_matrix, model)
    with opened(model):
        pass
    log = ChangeLog(log_path(model))
    with log.writing():
        log.append(links((0, 30)))
        log.append(
            nodes({"id": "bad", "features": ["a"]}, {"id": "good", "features": [0.0] * 5, "neighbours": ["bad", 3]})
        )
        log.append({"kind": "of another time", "pairs": [[1, 2]]})
        log.append(links((1, 31), ("bad", 2), (4, 4)))
    log.close()
    with caplog.at_level(logging.WARNING), opened(model) as room:
        assert room.now.version == 4 and room.keeper.failure is None
        names = room.now.structure.names
        assert "good" in names and "bad" not in names
        assert room.now.structure.has_link(0, 30) and room.now.structure.has_link(1, 31)
        assert "node 'bad'" in caplog.text and "change 3" in caplog.text
        assert make(room, links((2, 32))) == Made(1, 5)


def test_a_change_that_cannot_be_computed_is_skipped_at_the_start(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(model) as room:
        for number in range(20, 29):
            make(room, links(("n00", f"n{number}")))
    computed = course.Course.computed

    def poisoned(self: course.Course, draft: Any, version: int) -> Any:
        if any((0, 25) in effect.added for effect in draft.effects):
            raise ZeroDivisionError("poison")
        return computed(self, draft, version)

    monkeypatch.setattr(course.Course, "computed", poisoned)
    with opened(model) as room:
        assert room.now.version == 8  # one of them was a link already
        structure = room.now.structure
        assert [structure.has_link(0, row) for row in range(21, 29)] == [row != 25 for row in range(21, 29)]
        assert "is left out: poison" in caplog.text


def test_readiness_says_when_the_log_cannot_be_followed(model: Path) -> None:
    """A service whose log was damaged or replaced went on to say that it is ready."""
    with served(model) as client:
        assert client.get("/readyz").status_code == 200
        db = sqlite3.connect(log_path(model))
        db.execute("UPDATE facts SET value = '9' WHERE name = 'count'")
        db.commit()
        wait_for(lambda: client.get("/readyz").status_code == 503)
        assert "facts were altered" in client.get("/readyz").json()["detail"]
        db.execute("UPDATE facts SET value = '0' WHERE name = 'count'")
        db.commit()
        db.close()
        wait_for(lambda: client.get("/readyz").status_code == 200)


def test_two_services_on_one_model_directory_follow_one_log(model: Path) -> None:
    """The second one recommended pairs that were rejected at the first, and said that it was ready."""
    with opened(model) as one, opened(model) as other, opened(model, read_only=True) as reader:
        best = recommend(one.now, Wish(["n00"], 1))["results"][0]["recommendations"][0]["target"]
        version = make(one, links(("n00", best), kind="reject")).version
        for room in (other, reader):
            state = room.keeper.reached(version).result(10)
            found = recommend(state, Wish(["n00"], 40))["results"][0]["recommendations"]
            assert best not in [entry["target"] for entry in found]
        assert make(other, links(("n00", "n30"))).version == version + 1
        assert one.keeper.reached(version + 1).result(10).structure.has_link(0, 30)
        assert one.keeper.reached(1).done()
        waiting = one.keeper.reached(version + 2)
        assert not waiting.done()
        make(other, links(("n00", "n31")))
        assert waiting.result(10).version == version + 2


def test_a_follower_older_than_the_net_effect_opens_the_log_again(model: Path) -> None:
    with opened(model) as one:
        for number in range(21, 31):
            make(one, links(("n00", f"n{number}")))
        make(one, nodes({"id": "x", "neighbours": ["n00"], "label": "new"}))
        make(one, links(("n00", "n25"), kind="remove_links"))
        late = opened(model)
        other = late.__enter__()
        other.keeper._log.was_written = lambda: False  # type: ignore[method-assign]  # it sleeps
        for number in range(21, 31):
            make(one, links(("n01", f"n{number}")))
        assert compaction.compact(log_path(model), keep=2).changes == 20
        before = one.now.snapshot.merged().clone()
        del other.keeper._log.was_written
        state = other.keeper.reached(22).result(10)
        assert state.structure.pairs().tolist() == one.now.structure.pairs().tolist()
        assert make(other, links(("n02", "n31"))) == Made(1, 23)
        late.__exit__(None, None, None)
    with opened(model) as again:
        assert again.now.version == 23 and again.now.structure.names.label(40) == "new"
        make(again, links(("n02", "n31"), kind="remove_links"))
        torch.testing.assert_close(again.now.snapshot.merged(), before, atol=1e-5, rtol=1e-4)
    assert verify_log(log_path(model)) == []


def test_a_log_that_has_grown_is_compacted_in_the_background(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_GROWN", 20), ("_KEPT", 5)):
        monkeypatch.setattr(compaction, name, value)
    monkeypatch.setattr(compaction.compact, "__kwdefaults__", {"keep": 5, "directed": None})
    monkeypatch.setattr("yinyan.live.keeper._COMPACT", 10)
    with opened(model) as room:
        for number in range(40):
            kind = "remove_links" if number % 2 else "add_links"
            make(room, links(("n00", "n30"), kind=kind))
        wait_for(lambda: room.keeper._log.facts().base > 0)
        version = make(room, links(("n00", "n31"))).version
        assert version == 41
    with opened(model) as again:
        assert again.now.version == 41 and again.now.structure.moved_links == 1


def test_the_command_line_compacts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from yinyan.cli import main

    with opened(model) as room:
        for number in range(20, 40):
            make(room, links(("n00", f"n{number}")))
        with pytest.raises(SystemExit) as stopped:  # beside a service that runs
            main(["compact", str(model), "--keep", "3", "--json"])
        assert stopped.value.code == 0
        assert json.loads(capsys.readouterr().out)["changes"] == room.now.version - 3
        assert make(room, links(("n01", "n30"))).num == 1
    with pytest.raises(SystemExit) as stopped:
        main(["compact", str(model), "--log", str(model.parent / "none")])
    assert stopped.value.code == 1 and "there is no change log" in capsys.readouterr().err


def test_names_of_a_change_that_was_rolled_back_are_unknown(model: Path) -> None:
    with opened(model) as room:
        base = room.now.structure
        one, _ = planned(base, nodes({"id": "x"}, {"id": "y"}))
        abandoned, _ = planned(one, nodes({"id": "gone", "label": "gone"}))
        after, _ = planned(one, nodes({"id": "z"}))
        for structure, known in ((base, ""), (one, "xy"), (abandoned, "xyg"), (after, "xyz")):
            assert structure.names.new_ids == [{"g": "gone"}.get(name, name) for name in known]
            assert ("gone" in structure.names) == (structure is abandoned)
        assert after.names.row("z") == abandoned.names.row("gone") == 42 and after.names.label(42) is None


def test_a_change_copies_no_names(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link took 486 ms after 60,000 added nodes, because all names were copied."""
    with opened(model) as room:
        structure, _ = planned(
            room.now.structure, nodes(*({"id": f"x{i}", "neighbours": ["n00"]} for i in range(3_000)))
        )
        store = structure.names._rows
        after, _ = planned(structure, nodes({"id": "last"}))
        assert after.names._rows is store and after.names.newer._items is structure.names.newer._items
        monkeypatch.setattr(Names, "extended", None)  # a link does not touch them
        linked, _ = planned(after, links(("last", "n01")))
        assert linked.names is after.names


def test_a_replay_makes_one_pass_for_many_changes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 changes took 59 s to replay, one by one."""
    log = ChangeLog(log_path(model))
    with log.writing():
        for number in range(3_000):
            log.append(nodes({"id": f"x{number}", "neighbours": ["n00", f"x{number - 1}" if number else "n01"]}))
            log.append(links((f"x{number}", "n02")))
    log.close()
    calls: dict[str, int] = {"passes": 0, "structures": 0}
    fresh, joined = renewal._fresh, planning.joined

    def counting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            calls[name] += 1
            return work(*args)

        return counted

    monkeypatch.setattr(renewal, "_fresh", counting("passes", fresh))
    monkeypatch.setattr(planning, "joined", counting("structures", joined))
    with opened(model) as room:
        assert room.now.version == 6_000 and room.now.num_nodes == 3_040
        assert calls["passes"] <= 1 and calls["structures"] == 1
        assert room.now.structure.num_links == len(two_rings()) + 9_000


@pytest.mark.parametrize(
    ("local", "options"),
    [(False, {}), (True, {}), (True, {"sampler": "source", "sketch_size": 8})],
)
def test_answers_stay_those_of_a_fresh_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool, options: dict[str, Any]
) -> None:
    """After 3,194 changes the ten best links overlapped by 0.77 with those of a pass over the whole graph."""
    if local:
        monkeypatch.setattr(renewal, "_SMALL", 0)
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 300, (1_200, 2))
    graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=300)
    encoder = {"hidden_size": 16, "embedding_size": 16, "num_steps": 3, **options}
    tiny_predictor(encoder=encoder).fit(graph).save(tmp_path / "model")
    overlaps: list[float] = []
    with opened(tmp_path / "model", index="exact") as room:
        for step in range(20):
            for number in range(1 + 4 * (step % 3)):  # one at a time and some together
                a, b = rng.choice(300, 2, replace=False).tolist()
                near = room.now.structure.neighbours(a).tolist()
                change = [
                    links((a, b)),
                    nodes({"id": f"x{step}.{number}", "neighbours": [a, b]}),
                    links((a, near[0] if near and near[0] < 300 else b), kind="remove_links"),
                ][(step + number) % 3]
                last = room.keeper.submit(change)
            last.result(20)
            state = room.now
            overlaps.append(measured(state, fresh_embeddings(state), 40).overlap)
        assert isinstance(room.keeper._course.prepare(), LocalRenewal if local else WholeRenewal)
        assert np.mean(overlaps) >= 0.98 and min(overlaps) >= (0.95 if local else 1.0)


def test_rows_are_computed_anew_in_the_background_and_the_drift_is_measured(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "_SMALL", 0)
    begun, go_on = threading.Event(), threading.Event()
    run = refresh.Refresher._run

    def slow(self: refresh.Refresher, state: Any) -> None:
        begun.set()
        go_on.wait(10)
        run(self, state)

    monkeypatch.setattr(refresh.Refresher, "_run", slow)
    with opened(model) as room:
        room.keeper._refresher.share = 0.06
        for number in range(21, 25):
            make(room, nodes({"id": f"x{number}", "neighbours": ["n00", f"n{number}"]}))
            if begun.is_set():
                break
        before = measured(room.now, fresh_embeddings(room.now))
        assert before.largest > 1e-5
        version = make(room, links(("n01", "n35"))).version  # while the pass is under way
        go_on.set()
        wait_for(lambda: room.gauges()["yinyan_embedding_drift_max"][1] > 0)
        gauges = room.gauges()
        assert gauges["yinyan_embedding_drift_mean"][1] == pytest.approx(before.mean, rel=1e-3)
        assert gauges["yinyan_top10_overlap"][1] == pytest.approx(before.overlap)
        assert room.now.version == version and room.now.structure.has_link(1, 35)
        after = measured(room.now, fresh_embeddings(room.now))
        assert after.mean < before.mean  # only the last change is followed row by row


def test_the_share_of_changes_between_passes_adapts() -> None:
    made = refresh.Refresher()
    start = made.share
    made._adapt(0.96)
    assert made.share < 0.5 * start
    lower = made.share
    made._adapt(1.0)
    assert lower < made.share < 1.2 * lower


def test_writes_wait_for_a_pass_that_they_outrun(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_SMALL", 0)
    waited, go_on = [], threading.Event()
    run, wait = refresh.Refresher._run, refresh.Refresher.wait

    def slow(self: refresh.Refresher, state: Any) -> None:
        go_on.wait(10)
        run(self, state)

    def noted(self: refresh.Refresher, seconds: float) -> None:
        waited.append(seconds)
        go_on.set()
        wait(self, seconds)

    monkeypatch.setattr(refresh.Refresher, "_run", slow)
    monkeypatch.setattr(refresh.Refresher, "wait", noted)
    with opened(model) as room:
        room.keeper._refresher.share = 0.05
        for number in range(21, 40):
            make(room, links(("n01", f"n{number}")))
        assert waited and set(waited) == {10.0}
        assert measured(room.now, fresh_embeddings(room.now)).largest < 0.05
