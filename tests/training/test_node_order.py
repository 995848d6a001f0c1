"""Nodes in an order that keeps neighbours near each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan.native import graph_kernels
from yinyan.training.node_order import local_order


def spread(pairs: np.ndarray, order: np.ndarray) -> float:
    """How far apart the ends of links stand, on average."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return float(np.abs(np.diff(place[pairs], axis=1)).mean())


def shuffled(pairs: np.ndarray, num_nodes: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(num_nodes)[pairs]


needs_kernels = pytest.mark.skipif(graph_kernels.library() is None, reason="no compiled kernels")


@needs_kernels
def test_a_path_comes_out_straight() -> None:
    path = shuffled(np.stack([np.arange(99), np.arange(1, 100)], axis=1), 100)
    assert spread(path, local_order(path, 100)) == 1.0


@needs_kernels
def test_communities_come_together() -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(50, size=4_000)
    pairs = shuffled(group[:, None] * 20 + rng.integers(20, size=(4_000, 2)), 1_000)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    assert spread(pairs, local_order(pairs, 1_000)) < 0.1 * spread(pairs, np.arange(1_000))


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_is_a_permutation(case: tuple[int, list[tuple[int, int]]]) -> None:
    num_nodes, listed = case
    pairs = np.array([pair for pair in listed if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2)
    assert sorted(local_order(pairs, num_nodes).tolist()) == list(range(num_nodes))


@pytest.mark.usefixtures("kernels")
def test_sides_stay_apart() -> None:
    pairs = np.array([[0, 4], [1, 3], [2, 5], [0, 5]])
    order = local_order(pairs, 6, np.array([0, 0, 0, 1, 1, 1], dtype=np.int8))
    assert sorted(order[:3].tolist()) == [0, 1, 2]


def test_without_kernels_nodes_stay_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_kernels, "library", lambda: None)
    assert local_order(np.array([[0, 4], [1, 3]]), 5).tolist() == [0, 1, 2, 3, 4]


@needs_kernels
class TestCommunities:
    @staticmethod
    def rows(pairs: np.ndarray, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
        indptr, columns, _ = graph_kernels.symmetric_rows(torch.from_numpy(pairs), num_nodes, places=False)
        return indptr, columns

    @staticmethod
    def cliques(count: int, size: int) -> np.ndarray:
        one = np.stack(np.triu_indices(size, 1), axis=1)
        ring = np.stack([np.arange(count) * size, (np.arange(count) + 1) % count * size + 1], axis=1)
        return np.concatenate([*(one + size * k for k in range(count)), ring])

    def test_cliques_in_a_ring_are_told_apart(self) -> None:
        labels = graph_kernels.communities(*self.rows(self.cliques(12, 8), 96), largest=1000, rounds=10).view(12, 8)
        assert bool((labels == labels[:, :1]).all())
        assert labels[:, 0].unique().numel() == 12

    @pytest.mark.parametrize("largest", [1, 3, 8, 20])
    def test_none_is_larger_than_allowed(self, largest: int) -> None:
        labels = graph_kernels.communities(*self.rows(self.cliques(12, 8), 96), largest=largest, rounds=10)
        assert int(labels.unique(return_counts=True)[1].max()) <= largest

    def test_the_walk_goes_ring_by_ring(self) -> None:
        tree = np.array([[k, (k - 1) // 2] for k in range(1, 31)])
        walk = graph_kernels.breadth_first(*self.rows(tree, 33)).tolist()
        depth = {15: 0}  # the first leaf: fewest links, lowest number
        for _ in range(31):
            for a, b in [*tree.tolist(), *tree[:, ::-1].tolist()]:
                if a in depth:
                    depth.setdefault(b, depth[a] + 1)
        assert walk[0] == 15
        assert [depth[node] for node in walk[:31]] == sorted(depth.values())
        assert sorted(walk[31:]) == [31, 32]
