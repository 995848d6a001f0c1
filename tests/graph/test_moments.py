"""The graph as it was at a moment."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from yinyan import Graph, InputError
from yinyan.graph.moments import moment, moment_in_words, with_nodes

FIRST_OF_MAY = 1083369600  # 2004-05-01 00:00 UTC


@pytest.mark.parametrize(
    "value",
    [
        "2004-05-01",
        "2004-05-01 00:00",
        "2004-05-01T00:00:00Z",
        str(FIRST_OF_MAY),
        FIRST_OF_MAY,
        date(2004, 5, 1),
        datetime(2004, 5, 1),
        datetime(2004, 5, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        np.datetime64("2004-05-01"),
        np.int64(FIRST_OF_MAY),
    ],
)
def test_a_moment_is_written_in_many_ways(value: object) -> None:
    assert moment(value) == FIRST_OF_MAY


@pytest.mark.parametrize("value", [None, True, "soon", float("nan"), np.datetime64("NaT"), [2004]])
def test_what_is_no_moment_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="'as_of' needs to be a number, or a date such as"):
        moment(value)


def test_moments_in_words() -> None:
    assert moment_in_words(FIRST_OF_MAY) == "2004-05-01"
    assert moment_in_words(FIRST_OF_MAY + 61) == "2004-05-01 00:01:01"
    assert moment_in_words(2004) == "2004"
    assert moment_in_words(0.5) == "0.5"


def test_as_of_leaves_out_later_edges_and_nodes_that_come_later() -> None:
    graph = Graph.from_arrays(
        [(0, 1), (1, 2), (2, 3)],
        ids=["a", "b", "c", "d", "lone"],
        times=[1, 2, 3],
        weights=[1.0, 2.0, 3.0],
        features=np.arange(10.0).reshape(5, 2),
        attributes={"name": ["A", "B", "C", "D", "L"]},
    )
    seen = graph.as_of(2)
    assert seen.ids.take(range(4)) == ["a", "b", "c", "lone"]  # a node without edges is not later
    assert seen.edges.tolist() == [[0, 1], [1, 2]]
    assert seen.times is not None and seen.times.tolist() == [1, 2]
    assert seen.weights is not None and seen.weights.tolist() == [1, 2]
    assert isinstance(seen.features, np.ndarray) and seen.features[-1].tolist() == [8, 9]
    assert seen.attributes is not None and len(seen.attributes) == 4
    assert seen.notes[-1] == "as of 2: 1 later edge and 1 node without an earlier one are left out"
    assert graph.num_edges == 3  # the whole one is as it was


def test_as_of_keeps_sides_and_directions() -> None:
    bipartite = Graph.from_arrays([(0, 2), (1, 3)], times=[1, 5], sides=[0, 0, 1, 1])
    seen = bipartite.as_of(1)
    assert seen.sides is not None and seen.sides.tolist() == [0, 1] and seen.edges.tolist() == [[0, 1]]
    directed = Graph.from_arrays([(1, 0), (0, 2)], times=[1, 5], directed=True).as_of(1)
    assert directed.directed and directed.edges.tolist() == [[1, 0]]


def test_as_of_names_its_cure() -> None:
    with pytest.raises(InputError, match="'as_of' needs the times of the edges"):
        Graph.from_arrays([(0, 1)]).as_of(3)
    with pytest.raises(InputError, match=r"no edge is as early as 3 .*the first is at 2004-05-01"):
        Graph.from_arrays([(0, 1)], times=[FIRST_OF_MAY]).as_of(3)


def test_edges_between_some_nodes() -> None:
    graph = Graph.from_arrays([(0, 1), (1, 2), (0, 3)], times=[1, 2, 3])
    part = with_nodes(graph, [0, 1, 3])
    assert part.edges.tolist() == [[0, 1], [0, 2]] and part.ids.take(range(3)) == [0, 1, 3]
