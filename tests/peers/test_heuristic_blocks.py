"""Blocks of heuristics: every row of them is what the function of pairs gives."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from peer_contract import bipartite, communities, split_of

from contracts import planted_graph
from yinyan.graph import Graph
from yinyan.peers import METHODS, Task, heuristic_blocks, method, walk_sums
from yinyan.peers.heuristic_blocks import BLOCKS, HeuristicBlocks

ALONE = Graph.from_arrays([(0, 1), (1, 2), (2, 3), (0, 2)], num_nodes=6)  # two nodes without an edge
GRAPHS = [communities(), bipartite(), communities(directed=True), ALONE, Graph.from_arrays([], num_nodes=4)]


def grid(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return np.stack(np.meshgrid(sources, targets, indexing="ij"), axis=-1).reshape(-1, 2)


def test_every_heuristic_has_blocks() -> None:
    assert set(BLOCKS) == {name for name, card in METHODS.items() if card.family == "heuristic"}


@pytest.mark.parametrize("most", [1, 4_000_000])
@pytest.mark.parametrize("graph", GRAPHS, ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_the_scores_of_pairs(name: str, graph: Graph, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heuristic_blocks, "_ENTRIES", most)
    monkeypatch.setattr(walk_sums, "_BLOCK", most)
    module, _, function = METHODS[name].home.partition(":")
    score = getattr(import_module(f"yinyan.peers.{module}"), function)
    sources = np.arange(graph.num_nodes - 1, -1, -3)
    targets = np.arange(0, graph.num_nodes, 2)
    pairs = grid(sources, targets)
    found = HeuristicBlocks(graph).scores(name, sources, targets)
    apart = (pairs[:, 0] != pairs[:, 1]).reshape(found.shape)
    expected = score(graph, pairs).reshape(found.shape)
    np.testing.assert_allclose(found[apart], expected[apart], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", BLOCKS)
def test_all_targets_unless_some_are_named(name: str) -> None:
    graph = planted_graph(2, 10, inside=0.4, across=0.05)
    blocks = HeuristicBlocks(graph)
    everyone = np.arange(graph.num_nodes)
    np.testing.assert_array_equal(blocks.scores(name, everyone[:3]), blocks.scores(name, everyone[:3], everyone))
    assert blocks.scores(name, everyone[:0]).shape == (0, graph.num_nodes)


@pytest.mark.parametrize("name", BLOCKS)
def test_methods_give_blocks_of_the_messages_of_test_time(name: str) -> None:
    split = split_of(communities())
    outcome = method(name)(Task(split))
    assert outcome.block is not None
    sources, targets = np.array([3, 70]), np.array([0, 5, 60])
    expected = outcome.score(grid(sources, targets)).reshape(2, 3)
    np.testing.assert_allclose(outcome.block(sources, targets), expected, rtol=1e-9, atol=1e-12)
