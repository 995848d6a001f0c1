"""Exact counts around pairs against sums over dense matrices, compiled and not."""

from __future__ import annotations

import numpy as np
import pytest

from contracts import planted_graph
from yinyan.model import shared_neighbours
from yinyan.model.shared_neighbours import CompressedLists, shared_columns


def dense_columns(a: np.ndarray, source: int, other: int, most: int) -> list[float]:
    """The columns of one pair by their definitions; the edge between the two is taken out of paths."""
    degrees = a.sum(1)
    common = np.flatnonzero(a[source] * a[other])
    paths = 0.0
    for u in np.flatnonzero(a[source]):
        for v in np.flatnonzero(a[u] * a[other]):
            if u != other and v != source and max(degrees[u], degrees[v]) <= most:
                paths += (degrees[u] * degrees[v]) ** -0.5
    counts = [
        common.size,
        sum(1 / np.log(degrees[w]) for w in common if degrees[w] > 1),
        (1 / degrees[common]).sum(),
        paths,
    ]
    union = degrees[source] + degrees[other] - common.size
    scaled = np.log1p(np.array(counts) * [1, 2, 20, 10])
    return [*scaled, common.size / max(union, 1)]


@pytest.mark.parametrize("most", [4096, 8])
@pytest.mark.parametrize("directed", [False, True])
def test_columns_are_those_of_dense_sums(
    kernels: str, monkeypatch: pytest.MonkeyPatch, most: int, directed: bool
) -> None:
    monkeypatch.setattr(shared_neighbours, "_MOST", most)
    graph = planted_graph(directed=directed)
    n = graph.num_nodes
    a = np.zeros((n, n))
    a[graph.edges[:, 0], graph.edges[:, 1]] = a[graph.edges[:, 1], graph.edges[:, 0]] = 1
    assert a.sum(1).max() > 8 or directed
    sources = np.array([0, 7, 39])
    others = [np.delete(np.arange(n), source) for source in sources]  # edges among them
    starts = np.array([0, n - 1, 2 * n - 2, 3 * n - 3])
    lists = CompressedLists.from_pairs(graph.edges, n)
    found = shared_columns(lists, sources, starts, np.concatenate(others))
    both = [(source, other) for source, some in zip(sources, others, strict=True) for other in some]
    wanted = [dense_columns(a, source, other, most) for source, other in both]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_columns_are_symmetric(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_neighbours, "_MOST", 6)
    graph = planted_graph()
    lists = CompressedLists.from_pairs(graph.edges, graph.num_nodes)
    everyone = np.arange(graph.num_nodes)
    starts, all_of_all = everyone.size * np.arange(everyone.size + 1), np.tile(everyone, everyone.size)
    found = shared_columns(lists, everyone, starts, all_of_all).reshape(everyone.size, everyone.size, -1)
    off = ~np.eye(everyone.size, dtype=bool)
    np.testing.assert_allclose(found[off], found.transpose(1, 0, 2)[off], rtol=1e-5)


def test_no_pairs_and_lone_nodes(kernels: str) -> None:
    lists = CompressedLists.from_pairs(np.array([[0, 1]]), 4)
    none = shared_columns(lists, np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))
    assert none.shape == (0, shared_neighbours.NUM_COLUMNS)
    lone = shared_columns(lists, np.array([2]), np.array([0, 2]), np.array([0, 3]))
    assert not lone.any()
    assert not CompressedLists.from_pairs(np.empty((0, 2), np.int64), 3).degrees(np.arange(3)).any()
