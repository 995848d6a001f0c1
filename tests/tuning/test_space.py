"""The search spaces: small, valid, around the defaults, and without what the caller fixed."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from contracts import bipartite_graph, planted_graph
from yinyan import EncoderSettings, Graph
from yinyan.training.defaults import suggest
from yinyan.tuning.space import Dimension, grouped_by_path, space_of, value_at


def featured(width: int) -> Graph:
    return planted_graph(features=np.random.default_rng(0).random((40, width), dtype=np.float32))


GRAPHS = {
    "without features": planted_graph(),
    "bipartite, without features": bipartite_graph(),
    "directed, without features": planted_graph(directed=True),
    "with few features": featured(4),
    "with features": featured(150),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_each_kind_of_graph_has_a_space_with_its_defaults(kind: str) -> None:
    base = suggest(GRAPHS[kind], GRAPHS[kind].num_edges).settings
    space = space_of(GRAPHS[kind], base, {})
    assert space.kind == kind
    assert 5 <= len(space.dimensions) <= 10
    for each in space.dimensions:
        assert each.default == value_at(base, each.path)
        assert each.default in each.choices or each.low <= float(each.default) <= each.high


def test_a_large_graph_has_a_space_of_its_own() -> None:
    graph = planted_graph()
    base = suggest(graph, 2_000_000).settings
    space = space_of(graph, base, {})
    assert space.kind == "large, without features"
    assert {"training.epochs", "training.loss_negatives"} <= {each.path for each in space.dimensions}


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_proposal_is_a_valid_setting(kind: str) -> None:
    base = suggest(GRAPHS[kind], GRAPHS[kind].num_edges).settings
    space = space_of(GRAPHS[kind], base, {})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask()
        values = {each.path: each.suggested(trial) for each in space.dimensions}
        assert base.updated(grouped_by_path(values)) != base


def test_what_is_given_is_not_searched() -> None:
    graph = planted_graph()
    base = suggest(graph, graph.num_edges).settings
    paths = {each.path for each in space_of(graph, base, {"encoder": {"num_steps": 3}}).dimensions}
    assert "encoder.num_steps" not in paths and "encoder.node_dropout" in paths
    paths = {each.path for each in space_of(graph, base, {"encoder": EncoderSettings()}).dimensions}
    assert paths and not any(path.startswith("encoder.") for path in paths)


def test_proposals_have_three_digits_and_defaults_are_exact() -> None:
    dimension = Dimension("training.learning_rate", 0.0081234, 0.002, 0.03, log=True)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial({dimension.path: dimension.default})
    assert dimension.suggested(study.ask()) == 0.0081234
    other = dimension.suggested(study.ask())
    assert float(f"{other:.3g}") == other
