"""Nodes in an order that keeps neighbours near each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yinyan import ordering
from yinyan.ordering import local_order


def spread(pairs: np.ndarray, order: np.ndarray) -> float:
    """How far apart the ends of links stand, on average."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return float(np.abs(np.diff(place[pairs], axis=1)).mean())


def shuffled(pairs: np.ndarray, num_nodes: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(num_nodes)[pairs]


def test_a_path_comes_out_straight() -> None:
    path = shuffled(np.stack([np.arange(99), np.arange(1, 100)], axis=1), 100)
    assert spread(path, local_order(path, 100)) == 1.0


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
    order = local_order(pairs, num_nodes)
    assert sorted(order.tolist()) == list(range(num_nodes))
    linked = np.isin(order, pairs)
    assert not np.any(np.diff(linked.astype(int)) > 0)  # none with a link after one without


def test_sides_stay_apart() -> None:
    pairs = np.array([[0, 4], [1, 3], [2, 5], [0, 5]])
    order = local_order(pairs, 6, np.array([0, 0, 0, 1, 1, 1], dtype=np.int8))
    assert sorted(order[:3].tolist()) == [0, 1, 2]


def test_a_graph_of_many_rounds_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_ROUNDS", 5)
    path = np.stack([np.arange(99), np.arange(1, 100)], axis=1)
    assert sorted(local_order(path, 100).tolist()) == list(range(100))
