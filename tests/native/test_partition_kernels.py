"""Parts of a graph with few links between them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from contracts import planted_graph
from yinyan.native import graph_kernels, partition_kernels

pytestmark = pytest.mark.skipif(
    partition_kernels.why_not() is not None, reason=f"no compiled kernels: {partition_kernels.why_not()}"
)


def parts_of(edges: NDArray[np.int64], n: int, parts: int, slack: float = 1.05) -> NDArray[np.int64]:
    indptr, columns = graph_kernels.symmetric_rows_of_blocks(lambda: [torch.from_numpy(edges)], n)
    cost = indptr.diff().double() + 1
    return partition_kernels.partition(indptr, columns, cost, parts, slack).numpy().astype(np.int64)


def cut(edges: NDArray[np.int64], owner: NDArray[np.int64]) -> float:
    return float((owner[edges[:, 0]] != owner[edges[:, 1]]).mean())


@pytest.mark.parametrize("parts", [2, 4])
def test_planted_communities_are_found_wherever_their_nodes_stand(parts: int) -> None:
    graph = planted_graph(8, 40, inside=0.3, across=0.005)
    moved = np.random.default_rng(0).permutation(graph.num_nodes)
    owner = parts_of(moved[graph.edges], graph.num_nodes, parts)
    planted = (np.arange(graph.num_nodes) // 40)[np.argsort(moved)] * parts // 8
    # the planted parts may cost more than allowed, and so cut an edge or two less
    assert cut(moved[graph.edges], owner) <= 1.05 * cut(moved[graph.edges], planted)


@pytest.mark.parametrize("slack", [1.02, 1.3])
def test_no_part_costs_more_than_allowed(slack: float) -> None:
    graph = planted_graph(6, 50)
    owner = parts_of(graph.edges, graph.num_nodes, 4, slack)
    degrees = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes) + 1
    assert np.bincount(owner, weights=degrees, minlength=4).max() <= slack * degrees.sum() / 4


def test_a_path_and_a_grid_are_cut_in_few_places() -> None:
    path = np.stack([np.arange(9_999), np.arange(1, 10_000)], axis=1)
    assert (np.diff(parts_of(path, 10_000, 4)) != 0).sum() <= 12
    across = np.arange(3_600).reshape(60, 60)
    grid = np.concatenate(
        [
            np.stack([across[:, :-1].ravel(), across[:, 1:].ravel()], 1),
            np.stack([across[:-1].ravel(), across[1:].ravel()], 1),
        ]
    )
    owner = parts_of(grid, 3_600, 4)
    assert (owner[grid[:, 0]] != owner[grid[:, 1]]).sum() <= 2 * 120  # four squares have 120


@pytest.mark.parametrize("n", [1, 3, 50])
def test_no_part_is_empty_without_a_link(n: int) -> None:
    for parts in range(1, n + 1):
        owner = parts_of(np.empty((0, 2), np.int64), n, parts)
        assert set(owner.tolist()) == set(range(parts))


def test_hubs_and_unlinked_nodes() -> None:
    star = np.stack([np.zeros(500, np.int64), np.arange(1, 501)], axis=1)
    owner = parts_of(star, 700, 3)
    assert set(owner.tolist()) == {0, 1, 2}


def test_the_answer_is_the_same_again() -> None:
    graph = planted_graph(5, 60, across=0.03)
    first, second = (parts_of(graph.edges, graph.num_nodes, 3) for _ in range(2))
    assert np.array_equal(first, second)


def test_more_parts_than_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"between 1 and the number of nodes, 2 \(got 3\)"):
        parts_of(np.array([[0, 1]]), 2, 3)
