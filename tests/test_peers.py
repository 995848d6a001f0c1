"""Peers: heuristics equal their definitions, and the MLP is blind to the graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts import planted_graph
from yinyan.fitting import Hooks, embed_graph
from yinyan.graph import Graph
from yinyan.peers import adamic_adar, common_neighbours, fit_mlp, heuristics, resource_allocation
from yinyan.predictor import LinkPredictor
from yinyan.splits import random_split
from yinyan.tensors import feature_tensor, message_graph

Pair = tuple[int, int]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small, perhaps directed with links both ways, some nodes without any."""
    directed = draw(st.booleans())
    node = st.integers(0, 9)
    pairs = draw(st.sets(st.tuples(node, node).filter(lambda pair: pair[0] != pair[1]), max_size=30))
    chosen = pairs if directed else {(min(pair), max(pair)) for pair in pairs}
    edges = np.array(sorted(chosen), dtype=np.int64).reshape(-1, 2)
    return Graph.from_arrays(edges, num_nodes=12, directed=directed)


def by_sets(graph: Graph, pairs: list[Pair]) -> dict[str, list[float]]:
    """The definitions, over sets of neighbours in either direction."""
    around: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for a, b in graph.edges.tolist():
        around[a].add(b)
        around[b].add(a)
    common = [around[a] & around[b] for a, b in pairs]
    return {
        "cn": [float(len(shared)) for shared in common],
        "aa": [sum(1 / math.log(len(around[node])) for node in shared) for shared in common],
        "ra": [sum(1 / len(around[node]) for node in shared) for shared in common],
    }


@pytest.mark.parametrize("block", [1, 5, 5_000_000])
@given(graph=graphs(), pairs=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda p: p[0] != p[1])))
def test_heuristics_equal_their_definitions(block: int, graph: Graph, pairs: list[Pair]) -> None:
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    expected = by_sets(graph, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heuristics, "_BLOCK", block)
        for name, method in (("cn", common_neighbours), ("aa", adamic_adar), ("ra", resource_allocation)):
            np.testing.assert_allclose(method(graph, rows), expected[name], rtol=1e-12, err_msg=name)


def test_by_hand() -> None:
    """A square with one diagonal, and a node apart: 1 and 3 share 0 and 2, which have three neighbours each."""
    graph = Graph.from_arrays([(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], num_nodes=5)
    pairs = np.array([(1, 3), (0, 2), (1, 4)])
    assert common_neighbours(graph, pairs).tolist() == [2, 2, 0]
    assert adamic_adar(graph, pairs) == pytest.approx([2 / math.log(3), 2 / math.log(2), 0])
    assert resource_allocation(graph, pairs) == pytest.approx([2 / 3, 1, 0])


def test_a_link_both_ways_is_one_neighbour() -> None:
    graph = Graph.from_arrays([(0, 1), (1, 0), (1, 2), (2, 1)], num_nodes=3, directed=True)
    pairs = np.array([(0, 2), (2, 0)])
    assert common_neighbours(graph, pairs).tolist() == [1, 1]
    assert resource_allocation(graph, pairs).tolist() == [0.5, 0.5]
    assert adamic_adar(graph, pairs) == pytest.approx([1 / math.log(2)] * 2)


def test_no_links_and_no_pairs() -> None:
    empty = Graph.from_arrays(np.empty((0, 2), dtype=np.int64), num_nodes=4)
    nothing = np.empty((0, 2), dtype=np.int64)
    for method in (common_neighbours, adamic_adar, resource_allocation):
        assert method(empty, np.array([(0, 1), (2, 3)])).tolist() == [0, 0]
        assert method(planted_graph(), nothing).shape == (0,)


@pytest.mark.parametrize("with_features", [True, False])
def test_the_mlp_does_not_look_at_the_graph(with_features: bool) -> None:
    plain = planted_graph(size=10, inside=0.4)
    features = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32) if with_features else None
    graph = Graph.from_arrays(plain.edges, num_nodes=20, features=features)
    epochs: list[int] = []
    hooks = Hooks(on_epoch=lambda record: epochs.append(record.epoch))
    like = LinkPredictor(seed=2, encoder={"hidden_size": 16}, training={"epochs": 2, "learning_rate": 0.01})
    model = fit_mlp(random_split(graph, seed=0), like, hooks=hooks)
    fitted = model.fitted_
    assert fitted.settings.encoder.hidden_size == 16  # as asked for
    assert fitted.settings.training.learning_rate == 0.01
    assert fitted.settings.encoder.dropout == 0.3  # its own, since nothing was asked for
    assert fitted.settings.encoder.num_steps == 0
    assert fitted.settings.encoder.inputs == ("features" if with_features else "embeddings")
    assert epochs and fitted.seed == 2
    device = torch.device("cpu")
    for chosen in (np.arange(0), np.arange(graph.num_edges)):
        messages = message_graph(graph, chosen, device)
        y = embed_graph(fitted.model, feature_tensor(features, device), messages, fitted.settings, 2)
        assert torch.equal(y, fitted.embeddings)
    if with_features:
        assert fitted.model.encoder.base.table is None, "two nodes with equal features are equal to it"
