"""Lists of validation edges: whose candidates they are, and the epoch that is chosen by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.splits import random_split
from yinyan.training import data as training_data_module
from yinyan.training.data import num_listed, training_data

CPU = torch.device("cpu")


def lists_of(graph: Graph) -> tuple[np.ndarray, np.ndarray, object]:
    split = random_split(graph, seed=0)
    data = training_data(graph, split, CPU, ranked=True)
    assert data.is_rival.numel() == num_listed(split)
    return data.valid_lists.numpy(), data.is_rival.numpy(), split


@pytest.mark.parametrize("directed", [False, True])
def test_candidates_are_all_nodes_but_known_partners(directed: bool) -> None:
    graph = planted_graph(directed=directed)
    pairs, is_rival, split = lists_of(graph)
    n = graph.num_nodes
    known = np.zeros((n, n), dtype=bool)
    tested = graph.find_edges(split.test_targets)  # type: ignore[attr-defined]
    for a, b in np.delete(graph.edges, tested, axis=0):
        known[a, b] = True
        known[b, a] |= not directed
    held_out = split.valid_targets  # type: ignore[attr-defined]
    ends = held_out if directed else np.concatenate([held_out, held_out[:, ::-1]])
    assert sorted(map(tuple, pairs[:, 0].tolist())) == sorted(map(tuple, ends.tolist()))
    for (source, _), candidates, rivals in zip(pairs[:, 0], pairs[:, 1:], is_rival, strict=True):
        assert candidates.tolist() == [[source, other] for other in range(n)]
        assert rivals.tolist() == (~known[source] & (np.arange(n) != source)).tolist()  # test edges are rivals


def test_candidates_of_a_side_are_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    edges = np.argwhere(rng.random((15, 25)) < 0.3) + np.array([0, 15])
    graph = Graph.from_arrays(edges, num_nodes=40, sides=np.repeat([0, 1], [15, 25]))
    for most in (500, 12):  # all nodes, and drawn ones
        monkeypatch.setattr(training_data_module, "MOST_CANDIDATES", most)
        pairs, is_rival, _ = lists_of(graph)
        assert pairs.shape[1] == 1 + min(most, 40)
        source, candidate = pairs[:, 1:, 0], pairs[:, 1:, 1]
        assert ((source < 15) != (candidate < 15))[is_rival].all()
        assert is_rival.any(axis=1).all()
        assert most == 500 or ((source < 15) != (candidate < 15)).all()


def test_without_lists_none_are_made() -> None:
    graph = planted_graph()
    assert training_data(graph, random_split(graph, seed=0), CPU).valid_lists.numel() == 0


@pytest.mark.parametrize("selection", ["ranking", "balanced"])
def test_the_best_epoch_is_that_of_the_selection(selection: str) -> None:
    training = {"selection": selection, "epochs": 8, "patience": 0, "valid_share": 0.2}
    fitted = LinkPredictor(**tiny(training=training)).fit(planted_graph()).fitted_
    scores = [record.score for record in fitted.history]
    assert fitted.best_epoch == 1 + int(np.argmax(scores))
    for record in fitted.history:
        assert record.score is not None and record.auc is not None and record.hits is not None
        rest = record.score - record.auc
        if selection == "balanced":
            assert rest == pytest.approx(record.hits)
        else:
            assert 0 < rest < 2  # a mean reciprocal rank and a share
            assert rest != pytest.approx(record.hits)
