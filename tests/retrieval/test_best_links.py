"""The best new links of a graph are those that a look at all pairs finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError, StoppedError, UnknownNodeError


def two_sides() -> Graph:
    rng = np.random.default_rng(0)
    return Graph.from_table({"a": rng.integers(0, 15, 60), "b": 100 + rng.integers(0, 20, 60)}, bipartite=True)


MADE = {
    "plain": lambda: planted_graph(2, 15),
    "directed": lambda: planted_graph(2, 15, directed=True, inside=0.2),
    "sides": two_sides,
}


@pytest.fixture(scope="module", params=list(MADE))
def model(request: pytest.FixtureRequest) -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(MADE[request.param]())


def brute_force(model: LinkPredictor) -> list[tuple[float, int, int]]:
    """All pairs that are no links, best first."""
    graph, found = model.graph_, []
    linked = set(map(tuple, graph.edges.tolist()))
    for a in range(graph.num_nodes):
        for b in range(graph.num_nodes):
            ordered = a < b or graph.directed
            if a == b or not ordered or (a, b) in linked:
                continue
            if graph.sides is None or graph.sides[a] != graph.sides[b]:
                found.append((-float(model.score_rows(np.array([[a, b]]))[0]), a, b))
    return sorted(found)


@pytest.mark.parametrize("k", [1, 7, 60])
def test_equals_a_look_at_all_pairs(model: LinkPredictor, k: int) -> None:
    found, ids = model.best_links(k), model.graph_.ids
    expected = brute_force(model)[:k]
    np.testing.assert_allclose(found.scores, [-score for score, _, _ in expected], atol=1e-5)
    assert {(ids.row(r.source), ids.row(r.target)) for r in found} == {(a, b) for _, a, b in expected}
    assert found.ranks.tolist() == list(range(1, k + 1))


def test_fewer_only_where_fewer_exist(model: LinkPredictor) -> None:
    everything = brute_force(model)
    assert len(model.best_links(len(everything) + 50)) == len(everything)


@pytest.mark.parametrize("k", [1, 20, 500])
def test_of_some_nodes(model: LinkPredictor, k: int) -> None:
    graph = model.graph_
    rows = [0, 3, graph.num_nodes - 1]  # of both sides, where there are two
    starts = {(a, b) for _, a, b in brute_force(model) if a in rows or (b in rows and not graph.directed)}
    expected = [-score for score, a, b in brute_force(model) if (a, b) in starts][:k]
    found = model.best_links(k, nodes=graph.ids.take([*rows, 3]))
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    assert {(graph.ids.row(r.source), graph.ids.row(r.target)) for r in found} <= starts


def test_of_a_node_that_is_not_there(model: LinkPredictor) -> None:
    with pytest.raises(UnknownNodeError, match="not in the graph"):
        model.best_links(3, nodes=["nobody"])


def test_by_an_index(model: LinkPredictor) -> None:
    index = model.index("exact", k=5)
    assert list(model.best_links(9, index=index)) == list(model.best_links(9))


def test_the_index_itself_means_the_same(model: LinkPredictor) -> None:
    index = model.index("exact", k=5)
    assert list(index.best_links(9)) == list(model.best_links(9))
    gone = model.graph_.ids.row(model.best_links(1)[0].source)
    index.remove([gone])
    found = index.best_links(9)
    assert len(found) == 9 and model.graph_.ids[gone] not in {*found.sources, *found.targets}


def test_probabilities_stand_beside_the_scores(model: LinkPredictor) -> None:
    found = model.best_links(5)
    assert found.probabilities is not None
    pairs = list(zip(found.sources, found.targets, strict=True))
    np.testing.assert_allclose(found.probabilities, model.predict_proba(pairs), atol=1e-6)
    part = found[1:3].probabilities
    assert part is not None and part.tolist() == found.probabilities[1:3].tolist()
    assert found.to_arrow().column_names == ["source", "target", "score", "rank", "probability"]


def test_progress_and_stopping(model: LinkPredictor) -> None:
    seen: list[tuple[int, int]] = []
    model.best_links(3, on_progress=lambda done, total: seen.append((done, total)))
    n = model.graph_.num_nodes
    assert seen and all(0 < done <= total == n for done, total in seen)
    with pytest.raises(StoppedError, match="mining was stopped"):
        model.best_links(3, should_stop=lambda: True)


@pytest.mark.parametrize("k", [0, -2, True, 1.5])
def test_impossible_counts(model: LinkPredictor, k: Any) -> None:
    with pytest.raises(InputError, match="'k' needs to be a positive integer"):
        model.best_links(k)
