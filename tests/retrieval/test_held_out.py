"""Recommended lists of held-out edges against brute force, and the sources that they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph
from yinyan import Graph
from yinyan.model.decoder import DotDecoder
from yinyan.retrieval.held_out import LIST_LENGTH, held_out_lists, num_asked
from yinyan.settings import DecoderSettings

KINDS = ["undirected", "directed", "bipartite"]


def graph_of(kind: str) -> Graph:
    rng = np.random.default_rng(1)
    if kind == "bipartite":
        pairs = np.argwhere(rng.random((15, 25)) < 0.25) + np.array([0, 15])
        return Graph.from_arrays(pairs, num_nodes=40, sides=np.repeat([0, 1], [15, 25]))
    pairs = np.argwhere(np.triu(rng.random((40, 40)) < 0.2, 1))
    return Graph.from_arrays(pairs, num_nodes=40, directed=kind == "directed")


def lists_of(graph: Graph, **options: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    held = np.sort(rng.choice(graph.num_edges, 20, replace=False))
    known = np.setdiff1d(np.arange(graph.num_edges), held)
    y = torch.from_numpy(rng.normal(size=(graph.num_nodes, 4)).astype(np.float32))
    decoder = DotDecoder(4, DecoderSettings(kind="dot"), directed=False)
    found = held_out_lists(decoder, y, graph, known, graph.edges[held], seed=0, missing=1.0, **options)
    return found, (y @ y.T).numpy(), known, graph.edges[held]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_best_new_partners_of_every_source(kind: str) -> None:
    graph = graph_of(kind)
    found, _, known, held = lists_of(graph)
    y_scores = lists_of(graph)[1]
    seen, hidden = (np.zeros((40, 40), bool) for _ in range(2))
    for matrix, pairs in ((seen, graph.edges[known]), (hidden, held)):
        matrix[pairs[:, 0], pairs[:, 1]] = True
        if not graph.directed:
            matrix |= matrix.T
    expected_hits = expected_rows = 0
    for source in range(40):
        allowed = ~seen[source] & (np.arange(40) != source)
        if kind == "bipartite":
            allowed &= (np.arange(40) >= 15) != (source >= 15)
        best = np.argsort(-np.where(allowed, y_scores[source], -np.inf), kind="stable")[: min(10, allowed.sum())]
        expected_hits += hidden[source, best].sum()
        expected_rows += best.size
    assert found.scores.size == expected_rows and found.hits.sum() == expected_hits > 0
    assert (found.weights == 1).all(), "every source was asked"
    assert found.ranks.max() == LIST_LENGTH and (found.scores[found.ranks == 1].size) == 40


def test_degrees_are_those_of_the_source_among_known_edges() -> None:
    graph = graph_of("undirected")
    found, _, known, _ = lists_of(graph)
    degrees = np.bincount(graph.edges[known].ravel(), minlength=40)
    assert sorted(found.degrees[found.ranks == 1]) == sorted(degrees)


@pytest.mark.parametrize("count", [12, 30])
def test_some_sources_stand_for_all(count: int) -> None:
    """Weights add up to the number of sources, of those with held-out edges and of the others."""
    found, _, _, held = lists_of(graph_of("undirected"), count=count)
    first = found.ranks == 1
    assert first.sum() == count and found.weights[first].sum() == pytest.approx(40)
    with_hits = np.unique(held).size
    weights = np.unique(found.weights[first])
    assert any(found.weights[first][found.weights[first] == w].sum() == pytest.approx(with_hits) for w in weights)


def test_the_same_seed_asks_the_same_sources() -> None:
    graph = graph_of("undirected")
    one, two = (lists_of(graph, count=10)[0] for _ in range(2))
    assert np.array_equal(one.scores, two.scores) and np.array_equal(one.hits, two.hits)


def test_sources_asked_grow_with_the_edges_up_to_a_limit() -> None:
    assert num_asked(50, 1_000) == 50
    assert num_asked(1_000_000, 1_000) == 128
    assert num_asked(10_000, 30_000) == 600
    assert num_asked(10_000, 10_000_000) == 1_024


def test_planted_lists_have_hits() -> None:
    graph = planted_graph(2, 15)
    found = lists_of(graph)[0]
    assert 0 < found.hits.sum() < found.scores.size
