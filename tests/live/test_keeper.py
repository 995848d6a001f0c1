from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from serving_tools import tiny_predictor, two_rings
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError, StoreError, UnknownNodeError
from yinyan.live.change_log import log_path
from yinyan.live.keeper import Made
from yinyan.live.renewal import WholeRenewal
from yinyan.live.structure import ConflictError
from yinyan.service.answers import Wish, embed, explain, recommend, score
from yinyan.service.context import Room
from yinyan.service.options import Options


def links(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"kind": "add_links", "pairs": [list(pair) for pair in pairs]}


def opened(model: Path, **options: Any) -> Room:
    return Room(Options(str(model), **options))


def make(room: Room, change: dict[str, Any]) -> Made:
    return room.keeper.submit(change).result(20)


def embedded_again(predictor: LinkPredictor, graph: Graph) -> np.ndarray[Any, Any]:
    """All rows of a changed graph, by the model's own encoder."""
    from dataclasses import replace

    from yinyan.model.fitted import embed_graph
    from yinyan.model.tensors import feature_tensor, message_graph

    fitted = replace(predictor.fitted_, graph=graph)
    cpu = fitted.embeddings.device
    messages = message_graph(graph, np.arange(graph.num_edges), cpu)
    y = embed_graph(fitted.model, feature_tensor(graph.features, cpu), messages, fitted.settings, fitted.seed)
    return y.numpy()


SETTINGS: dict[str, dict[str, Any]] = {
    "by rows": {"encoder": {"num_negatives": 0}},  # nothing is frozen: equal to a whole embedding
    "sketches": {"encoder": {"num_negatives": 0, "sketch_size": 16}},
    "margin": {"encoder": {"margin": 1.0}},  # all rows each time
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("directed", [False, True])
def test_answers_follow_the_graph(tmp_path: Path, name: str, directed: bool) -> None:
    ids = [f"n{i}" for i in range(40)]
    pairs = two_rings()
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    options: dict[str, Any] = {**SETTINGS[name], "decoder": {"directed_maps": directed}}
    predictor = tiny_predictor(**options).fit(Graph.from_arrays(pairs, ids=ids, features=features, directed=directed))
    predictor.save(tmp_path / "model")
    room = opened(tmp_path / "model")
    try:
        make(room, links(("n0", "n30"), ("n1", "n31")))
        make(room, {"kind": "remove_links", "pairs": [["n0", "n1"]]})
        kept = [tuple(p) for p in pairs.tolist() if set(p) != {0, 1} or (directed and tuple(p) == (1, 0))]
        changed = Graph.from_arrays(np.array([*kept, (0, 30), (1, 31)]), ids=ids, features=features, directed=directed)
        wanted = embedded_again(predictor, changed)
        np.testing.assert_allclose(room.now.snapshot.merged().numpy(), wanted, atol=5e-4 * np.abs(wanted).max())
        assert room.now.structure.pairs().tolist() == changed.edges.tolist()
        assert room.now.structure.num_links == changed.num_edges
        np.testing.assert_array_equal(room.now.structure.degrees, changed.degrees)
        told = explain(room.now, [("n0", "n5")])["explanations"][0]
        stored = score(room.now, [("n0", "n5")])["scores"][0]["score"]
        assert told["score"] == pytest.approx(stored, abs=1e-4)
    finally:
        room.close()


def test_a_new_node_is_embedded_as_the_predictor_would(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    predictor = tiny_predictor(encoder={"num_negatives": 0, "inputs": "features"}).fit(
        Graph.from_arrays(two_rings(), features=features)
    )
    predictor.save(tmp_path / "model")
    fresh = np.linspace(-1, 1, 5).astype(np.float32)
    wanted = predictor.extended(["new"], fresh[None], [("new", 3), ("new", 4)])
    room = opened(tmp_path / "model")
    try:
        node = {"id": "new", "features": fresh.tolist(), "neighbours": [3, 4], "label": "a label"}
        assert make(room, {"kind": "add_nodes", "nodes": [node]}) == Made(1, 1)
        found = embed(room.now, ["new", 3])["embeddings"]
        np.testing.assert_allclose(found[0]["vector"], wanted.embed("new"), atol=1e-5)
        assert [r["target"] for r in recommend(room.now, Wish(["new"], 5))["results"][0]["recommendations"]] == [
            row.target for row in wanted.recommend("new", 5)
        ]
        told = explain(room.now, [("new", 9)])["explanations"][0]
        assert told["score"] == pytest.approx(wanted.score(("new", 9)), abs=1e-4)
        with pytest.raises(ConflictError, match="already in the graph"):
            make(room, {"kind": "add_nodes", "nodes": [node]})
        with pytest.raises(InputError, match="shape"):
            make(room, {"kind": "add_nodes", "nodes": [{"id": "other", "features": [1.0]}]})
    finally:
        room.close()


def test_an_explanation_after_a_change_computes_the_inputs_of_new_nodes_alone(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    predictor = tiny_predictor(encoder={"inputs": "both"}).fit(Graph.from_arrays(two_rings(), features=features))
    predictor.save(tmp_path / "model")
    room = opened(tmp_path / "model")
    try:
        explain(room.now, [(0, 9)])
        kept = room.now.served.base
        make(room, {"kind": "add_nodes", "nodes": [{"id": "new", "features": [0.5] * 5, "neighbours": [3, 4]}]})
        encoder, given, messages, _, f = room.now.evidence()
        assert kept is not None and f is not None and room.now.served.base is kept
        assert torch.equal(f[:40], kept)
        with torch.no_grad():
            wanted = encoder.base(given, encoder.terms(messages, None))
        torch.testing.assert_close(f, wanted, atol=1e-6, rtol=1e-5)
    finally:
        room.close()


@pytest.mark.parametrize("inputs", ["embeddings", "random"])
def test_a_replayed_log_gives_the_same_rows(tmp_path: Path, inputs: str) -> None:
    tiny_predictor(encoder={"inputs": inputs}).fit(Graph.from_arrays(two_rings())).save(tmp_path / "model")
    room = opened(tmp_path / "model")
    make(room, links((0, 25), (1, 26)))
    make(room, {"kind": "add_nodes", "nodes": [{"id": "x", "neighbours": [3]}, {"id": "y", "neighbours": ["x", 5]}]})
    make(room, {"kind": "add_nodes", "nodes": [{"id": "z", "neighbours": ["y"], "label": "last"}]})
    make(room, links(("z", 8)))
    make(room, {"kind": "remove_links", "pairs": [["y", 5], [0, 25]]})
    make(room, {"kind": "reject", "pairs": [[0, 9], [1, 9]]})
    make(room, {"kind": "take_back", "pairs": [[1, 9]]})
    before, after_version = room.now.snapshot.merged().clone(), room.now.version
    room.close()
    again = opened(tmp_path / "model")
    try:
        assert again.now.version == after_version == 7
        np.testing.assert_allclose(again.now.snapshot.merged().numpy(), before.numpy(), atol=1e-5)
        assert again.now.structure.names.label(42) == "last"
        assert again.now.structure.num_rejected == 1 and again.now.structure.rejected.has(0, 9)
        assert 9 not in [r["target"] for r in recommend(again.now, Wish([0], 40))["results"][0]["recommendations"]]
    finally:
        again.close()


def test_changes_may_be_sent_twice(model: Path) -> None:
    room = opened(model)
    try:
        assert make(room, links(("n00", "n30"))) == Made(1, 1)
        assert make(room, links(("n30", "n00"), ("n00", "n01"))) == Made(0, 1)
        assert make(room, {"kind": "remove_links", "pairs": [["n00", "n33"]]}) == Made(0, 1)
    finally:
        room.close()


def test_a_wrong_change_loses_nothing_and_spoils_nobody_elses(model: Path) -> None:
    room = opened(model)
    try:
        right, wrong = room.keeper.submit(links(("n00", "n30"))), room.keeper.submit(links(("n00", "nobody")))
        also = room.keeper.submit(links(("n02", "n32")))
        assert right.result(20).num == also.result(20).num == 1
        with pytest.raises(UnknownNodeError, match="'nobody' is not in the graph"):
            wrong.result(20)
        with pytest.raises(InputError, match="to itself"):
            make(room, links(("n00", "n00")))
        assert room.now.version == 2
    finally:
        room.close()


def test_a_reader_keeps_its_moment(model: Path) -> None:
    room = opened(model)
    try:
        moment = room.now
        before = score(moment, [("n00", "n30")])
        make(room, links(("n00", "n30")))
        make(room, {"kind": "add_nodes", "nodes": [{"id": "x", "neighbours": ["n00"]}]})
        assert score(moment, [("n00", "n30")]) == before
        assert moment.structure.num_nodes == 40 and room.now.structure.num_nodes == 41
        assert score(room.now, [("n00", "n30")]) != before
    finally:
        room.close()


def test_reads_do_not_wait_for_writes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()
    apply = WholeRenewal.apply

    def slow(*args: Any) -> Any:
        entered.set()
        leave.wait(10)
        return apply(*args)

    monkeypatch.setattr(WholeRenewal, "apply", slow)
    room = opened(model)
    try:
        future = room.keeper.submit(links(("n00", "n30")))
        assert entered.wait(10)
        assert score(room.now, [("n00", "n30")])["version"] == 0  # answered while the change is being made
        leave.set()
        assert future.result(10).version == 1
    finally:
        leave.set()
        room.close()


def test_a_log_of_another_model_is_refused_with_a_cure(models: Path, model: Path) -> None:
    room = opened(model)
    make(room, links(("n00", "n30"), ("n00", "n31")))
    room.close()
    ids = [f"n{i:02d}" for i in range(31)]  # without n31
    tiny_predictor(training={"epochs": 1}).fit(
        Graph.from_arrays([(a, b) for a, b in two_rings().tolist() if max(a, b) < 31], ids=ids)
    ).save(model)
    with pytest.raises(StoreError, match=r"another model .* --carry-over .* --log"):
        opened(model)
    room = opened(model, carry_over=True)  # what fits is applied
    try:
        assert room.now.structure.has_link(0, 30) and room.now.structure.added_links == 1
    finally:
        room.close()
    opened(model).close()  # it is this model's log from now on


def test_a_read_only_service_refuses_changes_and_knows_earlier_ones(model: Path) -> None:
    room = opened(model)
    make(room, links(("n00", "n30")))
    room.close()
    room = opened(model, read_only=True)
    try:
        assert room.now.version == 1 and room.now.structure.has_link(0, 30)
        with pytest.raises(ConflictError, match="read-only"):
            room.keeper.submit(links(("n00", "n32")))
    finally:
        room.close()


def test_a_failed_commit_changes_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = opened(model)
    try:
        monkeypatch.setattr(room.keeper._log, "append", _full)
        with pytest.raises(StoreError, match="nothing changed"):
            make(room, links(("n00", "n30")))
        monkeypatch.undo()
        assert room.now.version == 0 and not room.now.structure.has_link(0, 30)
        assert make(room, links(("n00", "n30"))) == Made(1, 1)
    finally:
        room.close()


def _full(change: Any) -> int:
    import sqlite3

    raise sqlite3.OperationalError("database or disk is full")


def test_bipartite_graphs_keep_their_sides(tmp_path: Path) -> None:
    pairs = [(i, 10 + (i + step) % 10) for i in range(10) for step in (0, 1, 3)]
    graph = Graph.from_arrays(pairs, sides=[0] * 10 + [1] * 10)
    tiny_predictor().fit(graph).save(tmp_path / "model")
    room = opened(tmp_path / "model")
    try:
        assert make(room, {"kind": "add_nodes", "nodes": [{"id": "item", "neighbours": [0, 1]}]}).num == 1
        found = recommend(room.now, Wish([5], 30))["results"][0]["recommendations"]
        assert {r["target"] for r in found} <= {*range(10, 20), "item"} and len(found) == 8
        assert {r["target"] for r in recommend(room.now, Wish(["item"], 30))["results"][0]["recommendations"]} == set(
            range(2, 10)
        )
        with pytest.raises(InputError, match="one side"):
            make(room, links((0, 1)))
        with pytest.raises(ConflictError, match="second side"):
            make(room, {"kind": "add_nodes", "nodes": [{"id": "user", "neighbours": [12]}]})
    finally:
        room.close()


def test_the_log_lies_beside_the_model(model: Path) -> None:
    room = opened(model)
    make(room, links(("n00", "n30")))
    room.close()
    assert log_path(model) == model.parent / "model.changes.sqlite" and log_path(model).exists()
    assert LinkPredictor.load(model).graph_.num_edges == len(two_rings())  # the model itself is as it was


def test_new_nodes_with_lists_and_texts_of_tokens(tmp_path: Path) -> None:
    """The service's nodes pass the stored encoder of multi-hot columns, many at once or one by one."""
    ids = [f"n{i}" for i in range(40)]
    edges = {"source": [ids[a] for a, _ in two_rings()], "target": [ids[b] for _, b in two_rings()]}
    tags = ["a|b", "b", "a|c", "c|b|a", "b|c", "a", "c", "b|a"] * 5
    graph = Graph.from_table(edges, nodes={"id": ids, "tags": tags}, unmatched="keep")
    tiny_predictor().fit(graph).save(tmp_path / "model")
    room = opened(tmp_path / "model")
    try:
        given = {"x": ["c", "a"], "y": ["a", "unknown", "c"]}
        nodes = [{"id": name, "features": {"tags": tokens}, "neighbours": ["n3"]} for name, tokens in given.items()]
        make(room, {"kind": "add_nodes", "nodes": nodes})
        rows = room.now.inputs.features.listed()
        assert all(np.array_equal(np.asarray(part)[:, :3], [[1, 0, 1]]) for part in rows[1:]) and len(rows) == 3
        with pytest.raises(InputError, match="column 'tags' needs text or lists of text"):
            make(room, {"kind": "add_nodes", "nodes": [{"id": "z", "features": {"tags": 1.5}, "neighbours": ["n3"]}]})
    finally:
        room.close()
