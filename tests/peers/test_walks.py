"""Random walks step along links, and in the proportions that p and q ask for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from contracts import planted_graph
from yinyan.peers.walks import WalkGraph, walk

# 0 - 1 - 2 - 0 is a triangle; 3 hangs on 1, and 4 on 3; 5 has no link
LINKS = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [3, 4]])


def small(weights: np.ndarray | None = None) -> WalkGraph:
    return WalkGraph.from_links(LINKS, 6, weights)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), (4.0, 0.25)])
def test_every_step_is_a_link(p: float, q: float) -> None:
    graph = planted_graph(2, 20)
    walked = WalkGraph.from_links(graph.edges, graph.num_nodes)
    starts = np.repeat(np.flatnonzero(walked.degrees), 5)
    nodes = walk(walked, starts, 12, p, q, np.random.default_rng(0))
    assert nodes.shape == (len(starts), 12) and np.array_equal(nodes[:, 0], starts)
    steps = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    assert graph.has_edges(steps).all()


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), (4.0, 0.25), (2.0, 2.0), (0.5, 1.0)])
def test_second_steps_have_the_right_proportions(p: float, q: float) -> None:
    """From 0 to 1, then: back to 0 (1/p), to 2, which 0 is linked to (1), or to 3, which it is not (1/q)."""
    nodes = walk(small(), np.zeros(60_000, dtype=np.int64), 3, p, q, np.random.default_rng(1))
    ends = nodes[nodes[:, 1] == 1, 2]
    wanted = {0: 1 / p, 2: 1.0, 3: 1 / q}
    check_proportions(Counter(ends.tolist()), wanted)


def test_weights_are_obeyed_at_every_step() -> None:
    """Weights of 0-1, 1-2, 2-0, 3-1, 3-4."""
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    nodes = walk(small(weights), np.zeros(60_000, dtype=np.int64), 3, 0.5, 2.0, np.random.default_rng(1))
    check_proportions(Counter(nodes[:, 1].tolist()), {1: 1.0, 2: 3.0})
    check_proportions(Counter(nodes[nodes[:, 1] == 1, 2].tolist()), {0: 1.0 / 0.5, 2: 2.0, 3: 4.0 / 2.0})


def check_proportions(counts: Counter[int], wanted: dict[int, float]) -> None:
    """Chi-square: its mean is the degrees of freedom, and 20 with at most 2 of them is one case in 20,000."""
    assert set(counts) == set(wanted)
    scale = counts.total() / sum(wanted.values())
    assert sum((counts[node] - share * scale) ** 2 / (share * scale) for node, share in wanted.items()) < 20


def test_repeated_and_reversed_links_add_up() -> None:
    links = np.array([[0, 1], [1, 0], [0, 2]])
    graph = WalkGraph.from_links(links, 3, np.array([1.0, 2.0, 1.0], dtype=np.float32))
    assert graph.degrees.tolist() == [2, 1, 1]
    nodes = walk(graph, np.zeros(40_000, dtype=np.int64), 2, 1.0, 1.0, np.random.default_rng(0))
    check_proportions(Counter(nodes[:, 1].tolist()), {1: 3.0, 2: 1.0})


def test_what_is_linked() -> None:
    graph = small()
    assert graph.linked(np.array([0, 0, 4, 5]), np.array([2, 3, 3, 5])).tolist() == [True, False, True, False]
    assert graph.degrees.tolist() == [2, 3, 2, 2, 1, 0] and graph.num_nodes == 6


def test_the_seed_decides() -> None:
    starts = np.zeros(100, dtype=np.int64)
    first, again, other = (walk(small(), starts, 8, 0.5, 2.0, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize("length", [1, 2])
def test_short_walks(length: int) -> None:
    assert walk(small(), np.array([0, 4]), length, 0.5, 2.0, np.random.default_rng(0)).shape == (2, length)
