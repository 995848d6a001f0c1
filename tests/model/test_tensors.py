"""Graphs as tensors: devices by name, features as they are, directions merged and hidden together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.model.operators import SparseMatrix
from yinyan.model.tensors import feature_tensor, message_graph, pick_device
from yinyan.splits import holdout_split, random_split, released_split
from yinyan.training.data import training_data

CPU = torch.device("cpu")


# -- devices -------------------------------------------------------------------------------------------------


def test_the_cpu_is_always_there() -> None:
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type in ("cuda", "mps", "cpu")


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_the_fastest(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto").type == expected


@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps"])
def test_an_absent_device_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(SettingsError, match=rf"'device' is '{name}', and torch finds none here \(use 'auto' or 'cpu'"):
        pick_device(name)


@pytest.mark.parametrize("name", ["abacus", "", "CPU", "meta", None, 3.5])
def test_an_unknown_device_is_refused(name: Any) -> None:
    with pytest.raises(SettingsError, match=r"'device' needs to be 'auto', 'cpu', 'cuda' or 'mps' \(got "):
        pick_device(name)


# -- features ------------------------------------------------------------------------------------------------


def test_features_keep_their_form() -> None:
    dense = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert feature_tensor(None, CPU) is None
    plain = feature_tensor(dense, CPU)
    assert isinstance(plain, torch.Tensor)
    assert np.array_equal(plain.numpy(), dense)
    indptr, columns = np.array([0, 2, 3]), np.array([0, 2, 1])
    sparse = feature_tensor(SparseFeatures(indptr, columns, np.array([1, 2, 3], np.float32), 4), CPU)
    assert isinstance(sparse, SparseMatrix)
    assert sparse.product(torch.eye(4)).tolist() == [[1, 0, 2, 0], [0, 3, 0, 0]]


# -- messages ------------------------------------------------------------------------------------------------


def test_both_directions_are_one_message_link() -> None:
    edges = [(0, 1), (1, 0), (1, 2), (3, 2)]
    graph = Graph.from_arrays(edges, num_nodes=4, directed=True, weights=[1.0, 2.0, 4.0, 5.0])
    messages = message_graph(graph, np.arange(4), CPU)
    assert messages.pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    np.testing.assert_allclose(messages.weights, np.array([3, 4, 5]) / 4)  # added, then scaled to mean 1
    assert message_graph(graph, np.array([1]), CPU).pairs.tolist() == [[0, 1]]


def test_undirected_links_are_taken_as_they_are() -> None:
    graph = planted_graph()
    chosen = np.array([0, 3, 7])
    messages = message_graph(graph, chosen, CPU)
    assert np.array_equal(messages.pairs.numpy(), graph.edges[chosen])
    assert messages.weights.tolist() == [1, 1, 1]
    assert messages.num_nodes == 40
    assert message_graph(graph, np.empty(0, dtype=np.int64), CPU).pairs.shape == (0, 2)


def reciprocal() -> Graph:
    """Every third link has its reverse."""
    plain = planted_graph(directed=True, inside=0.15)
    back = plain.edges[::3, ::-1]
    return Graph.from_arrays(np.unique(np.concatenate([plain.edges, back]), axis=0), num_nodes=40, directed=True)


@pytest.mark.parametrize("directed", [False, True])
def test_a_target_hides_its_pair_whatever_its_direction(directed: bool) -> None:
    graph = reciprocal() if directed else planted_graph()
    data = training_data(graph, holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=50), CPU)
    pairs = data.messages.pairs[data.pair_of_target]
    assert torch.equal(pairs, data.targets.sort(dim=1).values)
    if directed:
        assert len(data.messages.pairs) < len(data.targets), "some pairs have two directions"


@pytest.mark.parametrize("directed", [False, True])
def test_training_sees_training_links_only(directed: bool) -> None:
    graph = reciprocal() if directed else planted_graph()
    split = random_split(graph, seed=0)
    data = training_data(graph, split, CPU)
    train = {tuple(edge) for edge in split.train_targets.tolist()}
    assert {tuple(pair) for pair in data.targets.tolist()} == train
    either = train | {(b, a) for a, b in train}
    assert {tuple(pair) for pair in data.messages.pairs.tolist()} <= either
    held_out = np.concatenate([split.valid_targets, split.test_targets])
    assert not data.known.contains(torch.from_numpy(held_out)).any()
    assert data.known.contains(data.targets).all()
    assert np.array_equal(data.valid_links.numpy(), split.valid_targets)
    assert np.array_equal(data.valid_non_links.numpy(), split.valid_negatives)
    assert not graph.has_edges(split.valid_negatives).any()


def test_targets_keep_their_order_and_hide_their_pair() -> None:
    """Under the released protocol a link is often a target twice, in both directions."""
    graph = planted_graph()
    split = released_split(graph, seed=0)
    data = training_data(graph, split, CPU)
    assert np.array_equal(data.targets.numpy(), split.train_targets)
    assert torch.equal(data.messages.pairs[data.pair_of_target], data.targets.sort(dim=1).values)
    assert data.known.contains(torch.from_numpy(split.test_targets)).all(), "training's sampler knows what it may not"


def test_a_target_that_passes_no_message_has_no_place() -> None:
    graph = planted_graph()
    split = random_split(graph, seed=0)
    fewer = replace(split, train_messages=split.train_messages[::2])
    places = training_data(graph, fewer, CPU).pair_of_target
    assert (places[1::2] == -1).all()
    assert places[::2].tolist() == list(range(len(fewer.train_messages)))


def test_validation_has_the_messages_that_the_split_gives_it() -> None:
    graph = planted_graph()
    split = random_split(graph, seed=0)
    same = training_data(graph, split, CPU)
    assert same.valid_messages is same.messages, "made once"
    other = training_data(graph, replace(split, valid_messages=split.train_messages[5:]), CPU)
    assert np.array_equal(other.valid_messages.pairs.numpy(), graph.edges[split.train_messages[5:]])
    assert torch.equal(other.messages.pairs, same.messages.pairs)


def test_links_may_have_non_links_of_their_own() -> None:
    graph = planted_graph()
    split = random_split(graph, seed=0)
    own = np.random.default_rng(0).integers(40, size=(len(split.valid_targets), 3, 2))
    assert np.array_equal(training_data(graph, replace(split, valid_negatives=own), CPU).valid_non_links.numpy(), own)
