"""Evaluation: figures carry their protocol, and no test link is seen before it is scored."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan import protocol
from yinyan.errors import InputError, SettingsError
from yinyan.fitting import Hooks
from yinyan.graph import Graph
from yinyan.metrics import roc_auc
from yinyan.peers import common_neighbours
from yinyan.predictor import LinkPredictor
from yinyan.protocol import PROTOCOLS, Evaluation, SeedResult, evaluate, heuristic_figures
from yinyan.splits import Split, random_split

METRICS = {"hits@1", "mrr", "auc", "ap"}  # few non-links, so a small K


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_graph(3, 20, inside=0.35)


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(seed=77))


@pytest.fixture(scope="module")
def one(graph: Graph, model: LinkPredictor) -> Evaluation:
    return evaluate(graph, dataset="planted", seeds=[4], model=model)


@pytest.fixture(scope="module")
def several(graph: Graph, model: LinkPredictor) -> Evaluation:
    return evaluate(graph, dataset="planted", seeds=(4, 5), protocol="clean+val", model=model)


def test_one_seed_in_plain_values(one: Evaluation) -> None:
    form = json.loads(json.dumps(one.to_dict()))
    assert set(form) == {"dataset", "protocol", "seed", "metrics", "peers"}
    assert (form["dataset"], form["protocol"], form["seed"]) == ("planted", "clean", 4)
    assert set(form["metrics"]) == METRICS
    assert set(form["peers"]) == {"cn", "aa", "ra"}
    assert all(set(figures) == METRICS for figures in form["peers"].values())


def test_several_seeds_in_plain_values(several: Evaluation) -> None:
    form = json.loads(json.dumps(several.to_dict()))
    assert set(form) == {"dataset", "protocol", "seeds", "metrics", "peers", "values"}
    assert (form["protocol"], form["seeds"]) == ("clean+val", [4, 5])
    for name, values in form["values"].items():
        assert len(values) == 2
        assert form["metrics"][name] == pytest.approx(np.mean(values))


def test_reads_as_a_table(one: Evaluation, several: Evaluation) -> None:
    lines = str(one).splitlines()
    assert lines[0] == "planted, protocol 'clean', test links, seed 4"
    assert lines[1].split() == ["hits@1", "mrr", "auc", "ap"]
    assert [line.split()[0] for line in lines[2:]] == ["yinyan", "cn", "aa", "ra"]
    assert f"{one.results[0].metrics['auc']:.4f}" in lines[2]
    assert "mean ± std of 2 seeds" in str(several)
    values = several.figures()["auc"]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in str(several)


def test_every_seed_has_a_split_and_a_model_of_its_own(several: Evaluation) -> None:
    first, second = several.results
    assert isinstance(first.split, Split) and isinstance(second.split, Split)
    assert (first.split.seed, second.split.seed) == (4, 5)
    assert first.model is not None and first.model.seed == 4
    assert not np.array_equal(first.split.test_targets, second.split.test_targets)


def test_figures_are_those_of_the_models_own_scores(one: Evaluation, graph: Graph) -> None:
    result = one.results[0]
    assert result.model is not None and result.split is not None
    links = result.model.score(graph.edges[result.split.test_targets])
    non_links = result.model.score(result.split.test_negatives)
    assert result.metrics["auc"] == pytest.approx(roc_auc(links, non_links), abs=1e-6)
    assert len(links) == len(non_links)


def test_the_same_seed_gives_the_same_figures(one: Evaluation, graph: Graph, model: LinkPredictor) -> None:
    assert evaluate(graph, dataset="planted", seeds=[4], model=model).to_dict() == one.to_dict()
    assert not model.__sklearn_is_fitted__(), "the model lends its settings only"


def test_settings_of_the_model_are_used(one: Evaluation) -> None:
    fitted = one.results[0].model
    assert fitted is not None
    assert fitted.fitted_.settings.training.epochs == 3
    assert fitted.fitted_.settings.encoder.hidden_size == 16


@pytest.mark.parametrize("name", PROTOCOLS)
def test_heuristics_see_the_messages_of_test_time_only(
    graph: Graph, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = random_split(graph, seed=1, validation_messages=name == "clean+val")
    seen: list[Graph] = []

    def watch(messages: Graph, pairs: Any) -> Any:
        seen.append(messages)
        return common_neighbours(messages, pairs)

    for method in ("common_neighbours", "adamic_adar", "resource_allocation"):
        monkeypatch.setattr(protocol, method, watch)
    figures = heuristic_figures(split)
    assert set(figures) == {"cn", "aa", "ra"}
    test_links = graph.edges[split.test_targets]
    valid_links = graph.edges[split.valid_targets]
    assert len(seen) == 6
    for messages in seen:
        assert messages.num_nodes == graph.num_nodes
        assert not messages.has_edges(test_links).any()
        assert messages.has_edges(valid_links).all() == (name == "clean+val")
        assert messages.has_edges(graph.edges[split.train_targets]).all()


def test_the_model_sees_no_test_link(one: Evaluation, several: Evaluation, graph: Graph) -> None:
    for evaluation in (one, several):
        for result in evaluation.results:
            assert result.model is not None and result.split is not None
            fitted = result.model.fitted_
            hidden = graph.edges[result.split.test_targets]
            assert not fitted.graph.has_edges(hidden).any()
            messages = fitted.graph.with_edges(fitted.message_edges)
            valid = graph.edges[result.split.valid_targets]
            assert messages.has_edges(valid).all() == (evaluation.protocol == "clean+val")


def test_the_mlp_stands_beside_on_request(graph: Graph, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Split, int]] = []

    def fit_mlp(split: Split, like: LinkPredictor, *, hooks: Hooks) -> LinkPredictor:
        asked.append((split, like.seed))
        blind = tiny(encoder={"num_steps": 0, "num_negatives": 0})
        return LinkPredictor(**blind, seed=like.seed).fit(split.graph, split=split, hooks=hooks)

    monkeypatch.setattr(protocol, "fit_mlp", fit_mlp)
    named: list[str] = []

    def hooks(what: str) -> Hooks:
        named.append(what)
        return Hooks()

    found = evaluate(graph, seeds=[2], mlp=True, model=model, hooks=hooks)
    assert named == ["yinyan", "mlp"]
    assert [seed for _, seed in asked] == [2]
    assert asked[0][0] is found.results[0].split
    assert set(found.to_dict()["peers"]) == {"cn", "aa", "ra", "mlp"}
    assert "mlp" in str(found)


def test_unknown_protocols_are_refused(graph: Graph) -> None:
    with pytest.raises(SettingsError, match=r"'protocol' needs to be one of clean, clean\+val \(got 'dirty'\)"):
        evaluate(graph, protocol="dirty")
    with pytest.raises(SettingsError, match="'seeds' needs at least one seed"):
        evaluate(graph, seeds=[])


def test_planted_communities_are_found() -> None:
    graph = planted_graph(3, 30, inside=0.3, across=0.01)
    longer = LinkPredictor(**tiny(training={"epochs": 20, "batch_size": 24}))
    result = evaluate(graph, seeds=[0], model=longer)
    assert result.results[0].metrics["auc"] > 0.7
    assert all(figures["auc"] > 0.7 for figures in result.results[0].peers.values())


def test_results_print_without_their_models(one: Evaluation) -> None:
    assert isinstance(one.results[0], SeedResult)
    assert "LinkPredictor" not in repr(one)


@pytest.mark.parametrize(("count", "k"), [(500, 100), (499, 10), (50, 10), (49, 1), (1, 1)])
def test_a_small_sample_of_non_links_gets_a_small_k(count: int, k: int) -> None:
    constant = protocol.figures_of(np.zeros(5), np.zeros(count))
    assert constant[f"hits@{k}"] == 0  # a constant scorer never looks good


def test_only_graphs_are_evaluated() -> None:
    with pytest.raises(InputError, match=r"needs a yinyan\.Graph \(got list\)"):
        evaluate([(0, 1)])  # type: ignore[arg-type]
