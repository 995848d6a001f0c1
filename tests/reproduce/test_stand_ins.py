"""Stand-ins: as small as can be, and of the kind of the data set that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.datasets.knowledge import SIZES
from yinyan.datasets.recommender import LAYOUTS
from yinyan.datasets.seal import FILES
from yinyan.evaluation import make_split
from yinyan.graph.feature_matrix import SparseFeatures
from yinyan.peers.knowledge_graphs import FILTERED
from yinyan.reproduce import read_recipe, recipe_names
from yinyan.reproduce.stand_ins import _KINDS, knowledge_stand_in, stand_in

RECIPES = [read_recipe(name) for name in recipe_names()]
PLAIN = [recipe for recipe in RECIPES if recipe.metric not in FILTERED]  # of graphs without relations
USED = sorted({cell.data for recipe in PLAIN for cell in recipe.cells(1)})


@pytest.mark.parametrize("name", USED)
def test_every_data_set_of_a_recipe_has_one(name: str) -> None:
    assert name in _KINDS
    data = stand_in(name)
    graph = data.graph
    assert data.name == name and data.metric == _KINDS[name][1]
    assert graph.num_nodes == 120 and graph.num_edges > 200
    recommender = name in LAYOUTS
    bare = {"ogbl-ddi", "collegemsg", "lastfm-friends", "lastfm-listens", "email-enron", *FILES, *SIZES}
    assert (graph.features is None) == (name in bare or recommender)
    assert (graph.num_left is not None) == (name == "lastfm-listens" or recommender)
    assert graph.directed == (name == "ogbl-citation2" or name in SIZES)
    assert (graph.weights is not None) == (name == "ogbl-collab")
    assert (graph.times is not None) == (name in ("ogbl-collab", "collegemsg"))
    assert (data.parts is not None) == (name.startswith(("ogbl-", "heart-")) or recommender)


@pytest.mark.parametrize("name", USED)
def test_every_protocol_that_recipes_use_splits_it(name: str) -> None:
    protocols = {cell.protocol for recipe in PLAIN for cell in recipe.cells(1) if cell.data == name}
    for protocol in protocols:
        assert len(make_split(stand_in(name), protocol, 0).test_targets) > 50


def test_is_the_same_every_time() -> None:
    first, second = stand_in("ogbl-citation2"), stand_in("ogbl-citation2")
    assert np.array_equal(first.graph.edges, second.graph.edges)
    assert first.parts is not None and second.parts is not None
    assert np.array_equal(first.parts.test_negatives, second.parts.test_negatives)  # type: ignore[arg-type]


def test_links_have_non_links_of_their_own_where_the_metric_ranks_them_so() -> None:
    parts = stand_in("heart-citeseer").parts
    assert parts is not None and parts.test_negatives is not None
    assert parts.test_negatives.shape == (len(parts.test), 25, 2)
    assert (parts.test_negatives[:, :, 0] == parts.test[:, :1]).all()
    shared = stand_in("ogbl-ddi").parts
    assert shared is not None and shared.test_negatives is not None and shared.test_negatives.ndim == 2


def test_features_are_sparse_or_dense_as_the_originals() -> None:
    assert isinstance(stand_in("cora").graph.features, SparseFeatures)
    assert isinstance(stand_in("ogbl-ppa").graph.features, np.ndarray)


def test_knowledge_graphs_have_relations_and_parts() -> None:
    data = knowledge_stand_in("wn18rr")
    assert data.name == "stand-in for wn18rr" and len(data.graph.relations) == 3
    assert len(data.known) == data.graph.num_edges == 360 and len(data.test) == len(data.valid) == 36
    assert sum(len(part.test) for part in data.parts().values()) == 36
