"""Nodes in an order that keeps neighbours near each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from yinyan import native, ordering
from yinyan.ordering import local_order


def spread(pairs: np.ndarray, order: np.ndarray) -> float:
    """How far apart the ends of links stand, on average."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return float(np.abs(np.diff(place[pairs], axis=1)).mean())


def shuffled(pairs: np.ndarray, num_nodes: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(num_nodes)[pairs]


@pytest.mark.usefixtures("kernels")
def test_a_path_comes_out_straight() -> None:
    path = shuffled(np.stack([np.arange(99), np.arange(1, 100)], axis=1), 100)
    assert spread(path, local_order(path, 100)) == 1.0


@pytest.mark.usefixtures("kernels")
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
    for order in (local_order(pairs, num_nodes), ordering._by_rings(pairs, num_nodes)):
        assert sorted(order.tolist()) == list(range(num_nodes))
        linked = np.isin(order, pairs)
        assert not np.any(np.diff(linked.astype(int)) > 0)  # none with a link after one without


@pytest.mark.usefixtures("kernels")
def test_sides_stay_apart() -> None:
    pairs = np.array([[0, 4], [1, 3], [2, 5], [0, 5]])
    order = local_order(pairs, 6, np.array([0, 0, 0, 1, 1, 1], dtype=np.int8))
    assert sorted(order[:3].tolist()) == [0, 1, 2]


def test_a_graph_of_many_rounds_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_ROUNDS", 5)
    path = np.stack([np.arange(99), np.arange(1, 100)], axis=1)
    assert sorted(ordering._by_rings(path, 100).tolist()) == list(range(100))


@pytest.mark.skipif(native.library() is None, reason="no compiled kernels")
class TestCommunities:
    @staticmethod
    def rows(pairs: np.ndarray, num_nodes: int) -> tuple[torch.Tensor, torch.Tensor]:
        indptr, columns, _ = native.symmetric_rows(torch.from_numpy(pairs), num_nodes, places=False)
        return indptr, columns

    @staticmethod
    def cliques(count: int, size: int) -> np.ndarray:
        one = np.stack(np.triu_indices(size, 1), axis=1)
        ring = np.stack([np.arange(count) * size, (np.arange(count) + 1) % count * size + 1], axis=1)
        return np.concatenate([*(one + size * k for k in range(count)), ring])

    def test_cliques_in_a_ring_are_told_apart(self) -> None:
        labels = native.communities(*self.rows(self.cliques(12, 8), 96), largest=1000, rounds=10).view(12, 8)
        assert bool((labels == labels[:, :1]).all())
        assert labels[:, 0].unique().numel() == 12

    @pytest.mark.parametrize("largest", [1, 3, 8, 20])
    def test_none_is_larger_than_allowed(self, largest: int) -> None:
        labels = native.communities(*self.rows(self.cliques(12, 8), 96), largest=largest, rounds=10)
        assert int(labels.unique(return_counts=True)[1].max()) <= largest

    def test_the_walk_goes_ring_by_ring(self) -> None:
        tree = np.array([[k, (k - 1) // 2] for k in range(1, 31)])
        walk = native.breadth_first(*self.rows(tree, 33)).tolist()
        depth = {15: 0}  # the first leaf: fewest links, lowest number
        for _ in range(31):
            for a, b in [*tree.tolist(), *tree[:, ::-1].tolist()]:
                if a in depth:
                    depth.setdefault(b, depth[a] + 1)
        assert walk[0] == 15
        assert [depth[node] for node in walk[:31]] == sorted(depth.values())
        assert sorted(walk[31:]) == [31, 32]
