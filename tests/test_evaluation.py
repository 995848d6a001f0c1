"""Evaluation: figures carry their protocol, and no test link is seen before it is scored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan import evaluation
from yinyan.auditing import audit
from yinyan.datasets.dataset import Dataset
from yinyan.errors import InputError, LeakError, SettingsError
from yinyan.evaluation import (
    PROTOCOLS,
    Evaluation,
    Ranking,
    SeedResult,
    evaluate,
    evaluate_seed,
    figures_of,
    held_out_scores,
    make_split,
    mean_and_spread,
    negatives_in_words,
)
from yinyan.graph import Graph
from yinyan.metrics import roc_auc
from yinyan.model.fitted import Fitted
from yinyan.peers import METHODS, Outcome, Task, contract, method
from yinyan.peers.full_ranking import ranked
from yinyan.peers.heuristics import common_neighbours
from yinyan.predictor import LinkPredictor
from yinyan.reproduce.stand_ins import stand_in
from yinyan.splits import Split, random_split
from yinyan.training.hooks import Hooks

METRICS = {"hits@1", "mrr", "auc", "ap"}  # few negatives, so a small K
HEURISTICS = [name for name, card in METHODS.items() if card.family == "heuristic"]


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


def test_figures_are_those_of_the_models_own_scores(one: Evaluation) -> None:
    result = one.results[0]
    assert result.model is not None and result.split is not None
    links = result.model.score(result.split.test_targets)
    non_links = result.model.score(result.split.test_negatives)
    assert result.metrics["auc"] == pytest.approx(roc_auc(links, non_links), abs=1e-6)
    assert result.scores is not None and np.allclose(result.scores[0], links, atol=1e-5)
    assert len(links) == len(non_links)


def test_the_same_seed_gives_the_same_figures(one: Evaluation, graph: Graph, model: LinkPredictor) -> None:
    assert evaluate(graph, dataset="planted", seeds=[4], model=model).to_dict() == one.to_dict()
    assert not model.__sklearn_is_fitted__(), "the model lends its settings only"


def test_settings_of_the_model_are_used(one: Evaluation) -> None:
    fitted = one.results[0].model
    assert fitted is not None
    assert fitted.fitted_.settings.training.epochs == 3
    assert fitted.fitted_.settings.encoder.hidden_size == 16


@pytest.mark.parametrize("name", HEURISTICS)
@pytest.mark.parametrize("chosen", ["clean", "clean+val"])
def test_heuristics_see_the_messages_of_test_time_only(graph: Graph, name: str, chosen: str) -> None:
    split = make_split(graph, chosen, 1)
    links = [split.train_targets, *([split.valid_targets] if chosen == "clean+val" else [])]
    seen = Graph.from_arrays(np.concatenate(links), num_nodes=graph.num_nodes)
    alone = replace(split, graph=seen, test_messages=np.arange(seen.num_edges))
    for expected, given in zip(*(held_out_scores(method(name)(Task(s)).score, s) for s in (alone, split)), strict=True):
        np.testing.assert_allclose(given, expected)
    if name == "cn":
        np.testing.assert_allclose(given, common_neighbours(seen, split.test_negatives))


def test_the_model_sees_no_test_link(one: Evaluation, several: Evaluation) -> None:
    for found in (one, several):
        for result in found.results:
            assert result.model is not None and result.split is not None
            fitted = result.model.fitted_
            assert not fitted.graph.has_edges(result.split.test_targets).any()
            messages = fitted.graph.with_edges(fitted.message_edges)
            assert messages.has_edges(result.split.valid_targets).all() == (found.protocol == "clean+val")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Fitted]:
    """What peers train, as they do."""
    seen: list[Fitted] = []
    real = contract.fit_model

    def watched(*args: Any, **options: Any) -> Fitted:
        seen.append(real(*args, **options))
        return seen[-1]

    monkeypatch.setattr(contract, "fit_model", watched)
    return seen


def test_peers_are_chosen_by_name(graph: Graph, model: LinkPredictor, trained: list[Fitted]) -> None:
    named: list[str] = []

    def hooks(what: str) -> Hooks:
        named.append(what)
        return Hooks()

    found = evaluate(graph, seeds=[2], peers=("katz", "mlp"), model=model, hooks=hooks)
    assert named == ["yinyan", "mlp"], "heuristics have nothing to tell"
    assert list(found.to_dict()["peers"]) == ["katz", "mlp"]
    assert [line.split()[0] for line in str(found).splitlines()[2:]] == ["yinyan", "katz", "mlp"]
    assert [fitted.seed for fitted in trained] == [2]
    assert found.results[0].split is not None
    assert not trained[0].graph.has_edges(found.results[0].split.test_targets).any()


def test_a_peer_gets_the_split_the_seed_and_the_settings(
    graph: Graph, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Task] = []

    def peer(task: Task) -> Outcome:
        asked.append(task)
        return Outcome(lambda pairs: pairs.sum(axis=1).astype(np.float64))

    monkeypatch.setattr(evaluation, "method", lambda name: peer)
    found = evaluate(graph, seeds=[2, 3], peers=["gcn"], model=model)
    assert [task.seed for task in asked] == [2, 3]
    assert [task.split for task in asked] == [result.split for result in found.results]
    assert asked[0].settings == {group: tiny()[group] for group in ("encoder", "decoder", "training")}
    assert asked[0].device == "cpu"
    split = asked[0].split
    expected = roc_auc(split.test_targets.sum(axis=1), split.test_negatives.sum(axis=1))
    assert found.results[0].peers["gcn"]["auc"] == pytest.approx(expected)


def test_no_peers(graph: Graph, model: LinkPredictor) -> None:
    assert evaluate(graph, seeds=[4], peers=(), model=model).to_dict()["peers"] == {}


def test_settings_reach_peers_but_never_undo_what_makes_them(graph: Graph, trained: list[Fitted]) -> None:
    asked = LinkPredictor(**tiny(encoder={"num_steps": 8, "num_negatives": 2, "hidden_size": 12}))
    evaluate_seed(graph, protocol="clean", seed=0, peers=("mlp", "yinyan-without-negatives"), model=asked)
    blind, without = (fitted.settings for fitted in trained)
    assert (blind.encoder.num_steps, blind.encoder.num_negatives) == (0, 0)
    assert (without.encoder.num_steps, without.encoder.num_negatives) == (8, 0)
    for settings in (blind, without):
        assert settings.encoder.hidden_size == 12
        assert settings.training.epochs == 3


def test_unknown_peers_are_refused_before_anything_is_trained(
    graph: Graph, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LinkPredictor, "fit", lambda *given, **options: pytest.fail("it trained"))
    with pytest.raises(SettingsError, match=r"there is no method 'catz' \(nearest: 'katz'; all: yinyan, "):
        evaluate(graph, peers=("cn", "catz"), model=model)


@pytest.mark.parametrize("name", METHODS)
def test_every_card_leads_to_a_method(name: str) -> None:
    assert callable(method(name)) and METHODS[name].words and METHODS[name].family


def test_unknown_protocols_are_refused(graph: Graph) -> None:
    with pytest.raises(SettingsError, match=r"'protocol' needs to be one of clean, clean\+val, .*\(got 'dirty'\)"):
        evaluate(graph, protocol="dirty")
    with pytest.raises(SettingsError, match="'seeds' needs at least one seed"):
        evaluate(graph, seeds=[])


class TestProtocols:
    @pytest.mark.parametrize("name", PROTOCOLS)
    def test_every_one_makes_an_audited_split(self, name: str) -> None:
        data = stand_in("ogbl-collab")  # with times, and with parts
        split = make_split(data, name, 3)
        assert split.protocol == name and split.seed == 3
        leaks = audit(split, raises=False).leaks
        assert bool(leaks) == bool(split.leaks) == (name == "released")
        if name != "released":
            messages = data.graph.with_edges(split.test_messages)
            assert not messages.has_edges(split.test_targets).any()
            assert messages.has_edges(split.train_targets).all()
            assert messages.has_edges(split.valid_targets).all() == name.endswith("+val")
            assert not data.graph.with_edges(split.valid_messages).has_edges(split.valid_targets).any()

    def test_times_and_parts_are_needed_where_they_are(self, graph: Graph) -> None:
        with pytest.raises(InputError, match="needs the times of the edges"):
            make_split(graph, "temporal", 0)
        with pytest.raises(InputError, match="'official' needs data that come with a split"):
            make_split(graph, "official", 0)
        with pytest.raises(InputError, match="'official' needs data that come with a split"):
            make_split(Dataset("planted", graph, None, "hits@100"), "official+val", 0)

    def test_a_split_that_leaks_is_refused_unless_the_data_mean_it(self, model: LinkPredictor) -> None:
        data = stand_in("ogbl-collab")
        assert data.parts is not None
        test = np.concatenate([data.parts.test, data.parts.train[:5]])
        leaking = replace(data, parts=replace(data.parts, test=test))
        with pytest.raises(LeakError, match="leak"):
            make_split(leaking, "official", 0)
        with pytest.raises(LeakError):
            evaluate(leaking, protocol="official", model=model)
        meant = replace(leaking, leaks="authors who wrote together before do so again")
        split = make_split(meant, "official", 0)
        assert split.leaks == meant.leaks
        assert "LEAKS: authors who wrote together before do so again" in split.describe()
        assert make_split(meant, "clean", 0).leaks == "", "the fixed split's words are not another's"

    def test_the_released_one_is_labelled_wherever_it_is_shown(self, graph: Graph, model: LinkPredictor) -> None:
        found = evaluate(graph, dataset="planted", protocol="released", seeds=[0], peers=("cn",), model=model)
        lines = str(found).splitlines()
        assert lines[0].startswith("planted, protocol 'released'")
        assert lines[-1].startswith("LEAKS: ")
        assert found.to_dict()["protocol"] == "released"
        assert "LEAKS" not in str(replace(found, protocol="clean"))


class TestData:
    def test_full_rankings_come_first_where_data_are_judged_by_them(self, model: LinkPredictor) -> None:
        found = evaluate(stand_in("citeulike"), protocol="official", peers=("ra", "popularity"), model=model).results[0]
        names = ["ndcg@20", "recall@20", "hits@10", "mrr", "auc", "ap"]
        assert list(found.metrics) == list(found.peers["ra"]) == list(found.peers["popularity"]) == names
        assert found.model is not None and found.split is not None
        by_pairs = ranked(Outcome(found.model.score_rows), found.split).means
        assert found.metrics["ndcg@20"] == pytest.approx(by_pairs["ndcg@20"], abs=1e-6)

    def test_bring_their_name_and_their_metric(self, model: LinkPredictor) -> None:
        found = evaluate(stand_in("ogbl-collab"), protocol="official+val", peers=("ra",), model=model)
        assert str(found).startswith("ogbl-collab, protocol 'official+val'")
        assert list(found.results[0].metrics) == list(found.results[0].peers["ra"]) == ["hits@50", "mrr", "auc", "ap"]

    def test_links_with_non_links_of_their_own_are_ranked_among_them(self, model: LinkPredictor) -> None:
        data = stand_in("heart-citeseer")
        result = evaluate(data, protocol="official", peers=("cn",), model=model).results[0]
        assert result.scores is not None and result.split is not None
        links, own = result.scores
        assert own.shape == (len(links), 25)
        better, equal = (own > links[:, None]).sum(axis=1), (own == links[:, None]).sum(axis=1)
        assert list(result.metrics) == ["mrr", "hits@1", "auc", "ap"]
        assert result.metrics["mrr"] == pytest.approx(np.mean(1 / (1 + better + equal / 2)))
        seen = result.split.graph.with_edges(result.split.test_messages)
        expected = (
            common_neighbours(seen, result.split.test_targets),
            common_neighbours(seen, result.split.test_negatives.reshape(-1, 2)).reshape(own.shape),
        )
        assert result.peers["cn"] == figures_of(*expected, "mrr")

    def test_any_predictor_can_be_measured_by_its_scores(self) -> None:
        split = make_split(stand_in("heart-citeseer"), "official", 0)
        links, own = held_out_scores(lambda pairs: pairs[:, 0] * 1000.0 + pairs[:, 1], split)
        assert np.array_equal(links, split.test_targets @ np.array([1000.0, 1.0]))
        assert np.array_equal(own, split.test_negatives @ np.array([1000.0, 1.0]))


class TestWords:
    def test_non_links(self, graph: Graph) -> None:
        split = random_split(graph, seed=0)
        assert negatives_in_words(split) == f"{len(split.test_targets)} shared negatives"
        own = make_split(stand_in("heart-citeseer"), "official", 0)
        assert negatives_in_words(own) == "25 own negatives per link"

    def test_mean_and_spread(self) -> None:
        assert mean_and_spread([0.5]) == "0.5000"
        assert mean_and_spread([1.0, 2.0, 3.0], digits=2) == "2.00 ± 1.00"


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
    constant = evaluation.figures_of(np.zeros(5), np.zeros(count))
    assert constant[f"hits@{k}"] == 0  # a constant scorer never looks good


def test_only_graphs_are_evaluated() -> None:
    with pytest.raises(InputError, match=r"needs a yinyan\.Graph, a NetworkX graph, .* \(got list\)"):
        evaluate([(0, 1)])  # type: ignore[arg-type]


class TestRanking:
    """Full ranking: the test links of some nodes among the best of all nodes."""

    def test_equals_brute_force(self, graph: Graph) -> None:
        split = make_split(graph, "clean", 0)
        table = np.random.default_rng(0).normal(size=(graph.num_nodes, graph.num_nodes))
        ranking = Ranking(k=3, sources=10_000)
        hidden = {(int(a), int(b)) for a, b in split.test_targets} | {(int(b), int(a)) for a, b in split.test_targets}
        known = {(int(a), int(b)) for a, b in graph.edges[split.test_messages]}
        found = 0
        for a in {a for a, _ in hidden}:
            others = [b for b in range(graph.num_nodes) if b != a and (a, b) not in known and (b, a) not in known]
            best = sorted(others, key=lambda b: -table[a, b])[:3]
            found += sum((a, b) in hidden for b in best)
        outcome = Outcome(lambda pairs: table[pairs[:, 0], pairs[:, 1]])
        assert ranking.recall(outcome, split) == pytest.approx(found / len(hidden))
        assert {(int(a), int(b)) for a, b in ranking.held_out(split)} == hidden

    def test_equal_scores_find_nothing(self, graph: Graph) -> None:
        split = make_split(graph, "clean", 0)
        assert Ranking(k=3).recall(Outcome(lambda pairs: np.zeros(len(pairs))), split) == 0
        assert Ranking(k=graph.num_nodes).recall(Outcome(lambda pairs: np.zeros(len(pairs))), split) == 1

    def test_the_seed_draws_the_nodes(self, graph: Graph) -> None:
        split = make_split(graph, "clean", 0)
        few = Ranking(sources=5).held_out(split)
        assert len(np.unique(few[:, 0])) == 5
        assert np.array_equal(few, Ranking(sources=5).held_out(split))
        assert not np.array_equal(few, Ranking(sources=5).held_out(make_split(graph, "clean", 1)))

    def test_ends_of_different_kinds_are_asked_from_one_side(self) -> None:
        rows = [(u, i) for u in range(12) for i in range(8) if (u + i) % 3]
        table = {"user": [f"u{u}" for u, _ in rows], "item": [f"i{i}" for _, i in rows]}
        split = make_split(Graph.from_table(table, bipartite=True), "clean", 0)
        assert np.array_equal(np.sort(Ranking().held_out(split), axis=0), np.sort(split.test_targets, axis=0))
        assert Ranking(k=8).recall(Outcome(lambda pairs: np.zeros(len(pairs))), split) == 1  # eight items at most

    @pytest.mark.parametrize("k", [1, 10])
    def test_lists_of_the_best_give_the_figures_of_all_pairs(self, graph: Graph, model: LinkPredictor, k: int) -> None:
        split, ranking = make_split(graph, "clean", 0), Ranking(k=k)
        fitted = LinkPredictor(**model.get_params(deep=False)).fit(graph, split=split)
        asked: list[int] = []
        best, _ = contract.searches(fitted.fitted_.model, fitted.fitted_.embeddings)

        def counted(sources: Any, *rest: Any) -> Any:
            asked.extend(sources)
            return best(sources, *rest)  # type: ignore[misc]

        by_lists = ranking.recall(Outcome(fitted.score_rows, best=counted), split)
        assert by_lists == pytest.approx(ranking.recall(Outcome(fitted.score_rows), split), abs=1e-12)
        assert asked == sorted(set(ranking.held_out(split)[:, 0]))

    def test_ours_is_ranked_without_scoring_all_pairs(
        self, graph: Graph, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scored: list[int] = []
        score_rows = LinkPredictor.score_rows

        def counted(self: LinkPredictor, pairs: Any) -> Any:
            scored.append(len(pairs))
            return score_rows(self, pairs)

        monkeypatch.setattr(LinkPredictor, "score_rows", counted)
        evaluate_seed(graph, protocol="clean", seed=0, peers=(), model=model, ranking=Ranking(k=3))
        assert sum(scored) < 4 * graph.num_edges < graph.num_nodes**2

    def test_ours_and_every_peer_are_measured_alike(self, graph: Graph, model: LinkPredictor) -> None:
        result = evaluate_seed(graph, protocol="clean", seed=0, peers=("cn", "mlp"), model=model, ranking=Ranking(k=3))
        assert list(result.found) == ["yinyan", "cn", "mlp"]
        assert result.model is not None and result.split is not None
        assert result.found["yinyan"] == Ranking(k=3).recall(Outcome(result.model.score_rows), result.split)
        twice = Evaluation("graph", "clean", (result, replace(result, found={**result.found, "cn": 1.0})))
        assert twice.found()["cn"] == pytest.approx((result.found["cn"] + 1) / 2)
        assert evaluate_seed(graph, protocol="clean", seed=0, peers=(), model=model).found == {}


class TestFullRanking:
    def test_its_figures_come_first_for_ours_and_for_peers(self, graph: Graph, model: LinkPredictor) -> None:
        plain = evaluate(graph, peers=("cn",), model=model).results[0]
        found = evaluate(graph, peers=("cn",), model=model, full_ranking=True).results[0]
        names = ["full-mrr", "ndcg@10", "recall@10"]
        assert list(found.metrics) == list(found.peers["cn"]) == [*names, *plain.metrics]
        assert {name: found.metrics[name] for name in plain.metrics} == plain.metrics
        assert found.model is not None and found.split is not None
        by_pairs = ranked(Outcome(found.model.score_rows), found.split, ks=(10,), whole=True).means
        assert found.metrics["full-mrr"] == pytest.approx(by_pairs["mrr"], abs=1e-9)
        few = evaluate(graph, peers=(), model=model, full_ranking=True, sources=4).results[0]
        assert few.metrics["full-mrr"] != found.metrics["full-mrr"]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"engine": "dask", "full_ranking": True}, "'engine' needs to be 'local' or 'ray' .got 'dask'"),
            ({"shards": 2, "full_ranking": True}, "'shards' is an option of the engine 'ray'"),
            ({"sources": 0, "full_ranking": True}, "'sources' needs to be a positive integer .got 0"),
            ({"engine": "ray", "shards": 0, "full_ranking": True}, "'shards' needs to be a positive integer .got 0"),
            ({"sources": 5}, "'sources' is an option of full ranking"),
            ({"engine": "ray"}, "'engine' is an option of full ranking"),
        ],
    )
    def test_options_that_do_not_fit_are_refused_before_anything_is_trained(
        self, given: dict[str, Any], said: str, graph: Graph, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(LinkPredictor, "fit", lambda *_, **__: pytest.fail("it was trained"))
        with pytest.raises(SettingsError, match=said):
            evaluate(graph, peers=(), model=model, **given)
