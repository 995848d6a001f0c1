"""Flashlight's rounds: they begin in the graph, meet no row twice, and end when nothing new is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contracts import IndexContract
from yinyan import Graph
from yinyan.retrieval.building import build_index
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index
from yinyan.retrieval.neighbourhoods import Neighbourhoods
from yinyan.retrieval.probing import Probing

PAIRS = np.array([(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6)])


class TestNeighbourhoods:
    around = Neighbourhoods.of(Graph.from_arrays(PAIRS, num_nodes=8))

    def test_neighbours_are_evenly_spaced_and_repeated_where_there_are_few(self) -> None:
        assert self.around.near(np.array([0, 4]), 2).tolist() == [[1, 2], [1, 1]]
        assert self.around.near(np.array([0]), 6).tolist() == [[1, 1, 2, 2, 3, 3]]

    def test_a_node_without_neighbours_or_beyond_the_graph_stands_for_itself(self) -> None:
        assert self.around.near(np.array([7, 20]), 2).tolist() == [[7, 7], [20, 20]]
        nothing = Neighbourhoods.of(Graph.from_arrays(np.empty((0, 2), np.int64), num_nodes=3))
        assert nothing.near(np.array([1]), 3).tolist() == [[1, 1, 1]]

    def test_neighbours_of_neighbours(self) -> None:
        assert sorted(set(self.around.beyond(np.array([0]), 3)[0].tolist())) == [0, 4, 5, 6]
        assert self.around.beyond(np.array([0, 7]), 3).shape == (2, 9)


class Trained(IndexContract):
    """A decoder of four layers that has learned rows in clusters."""

    __test__ = False
    kind, count, size = "flashlight", 5000, 24
    options = {"depth": 4, "residual": True, "norm": True}  # noqa: RUF012


@pytest.fixture(scope="module")
def index() -> Index:
    return build_index(Trained.graph(), Trained.decoder(), Trained.rows(), kind="flashlight", sample=16)


@pytest.fixture
def scored(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """(sources, .) candidates of each call that scores some."""
    calls: list[Any] = []
    scores = Probing._scores

    def noted(self: Probing, rows: Any, own: Any, candidates: Any) -> Any:
        calls.append(candidates)
        return scores(self, rows, own, candidates)

    monkeypatch.setattr(Probing, "_scores", noted)
    return calls


def search_of(index: Index, effort: Effort) -> Probing:
    assert isinstance(index.search, Probing)
    return index.search.with_efforts(Efforts({10: effort}))


def test_no_row_is_scored_twice_for_a_source(index: Index, scored: list[Any]) -> None:
    """Each round scored the best of the rounds before again, and found little else."""
    search_of(index, Effort(8, 40, 6)).top_k(index._state.snapshot, np.array([17]), 10)
    assert len(scored) >= 2, "the first round finds an answer, the second whether there is a better one"
    met = np.concatenate([call[0] for call in scored])
    assert np.unique(met[met >= 0]).size == (met >= 0).sum()


def test_a_source_whose_round_brings_nothing_new_is_done(index: Index, scored: list[Any]) -> None:
    sources = np.arange(60)
    search_of(index, Effort(8, 40, 6)).top_k(index._state.snapshot, sources, 10)
    active = [len(call) for call in scored]
    assert active[0] == 60 and active[-1] < 60 and active == sorted(active, reverse=True)
    scored.clear()
    search_of(index, Effort(8, 40, 1)).top_k(index._state.snapshot, sources, 10)
    assert [len(call) for call in scored] == [60], "one round is one round"


def test_the_search_begins_with_neighbours_of_neighbours(index: Index, scored: list[Any]) -> None:
    """A first query at the source's own row led some searches into cells without any partner."""
    state = index._state
    best = ExactSearch(state.decoder).top_k(state.snapshot, np.array([17]), 10)[0].rows
    hub = int(best[-1])
    pairs = np.array([(17, hub), *((hub, int(row)) for row in best[:-1])])
    around = Neighbourhoods.of(Graph.from_arrays(pairs, num_nodes=Trained.count))
    known = np.array([hub])
    few = search_of(index, Effort(1, 20, 2))
    found = few.top_k(state.snapshot, np.array([17]), 9, lambda row: known, None, around)[0].rows
    assert np.isin(best[:8], scored[0]).mean() >= 0.75, "they are scored before any cell is looked into"
    assert not np.isin([17, hub], scored[0]).any() and hub not in found
    pool = np.setdiff1d(np.arange(Trained.count), best[:1])
    scored.clear()
    found = few.top_k(state.snapshot, np.array([17]), 9, None, pool, around)[0].rows
    assert best[0] not in found and best[0] not in scored[0]


def test_answers_do_not_depend_on_the_batch(index: Index) -> None:
    sources = np.arange(300)
    for source, top in zip(sources[::60], index.top_k(sources, 10)[::60], strict=True):
        (alone,) = index.top_k(source, 10)
        assert np.array_equal(top.rows, alone.rows) and np.array_equal(top.scores, alone.scores)
