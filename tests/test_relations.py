"""Models of relations from end to end: fits, questions, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import yinyan
from typed_graphs import QUICK, one_kind, shop
from yinyan import Graph, LinkPredictor, TypedGraph
from yinyan.errors import InputError, SettingsError, UnknownNodeError, YinYanError
from yinyan.model.typed_fitted import TypedFitted
from yinyan.splits.typed_split import typed_split

FEW = {**QUICK["training"], "batch_size": 7}  # of graphs of few edges


def fitted(graph: TypedGraph, predict: Any = None, **options: Any) -> LinkPredictor:
    return LinkPredictor(**{**QUICK, **options}).fit(graph, predict=predict)


@pytest.fixture(scope="module")
def graph() -> TypedGraph:
    return shop()


@pytest.fixture(scope="module")
def model(graph: TypedGraph) -> LinkPredictor:
    return fitted(graph)


@pytest.fixture(scope="module")
def buyers(graph: TypedGraph) -> LinkPredictor:
    return fitted(graph, "buys", training={**QUICK["training"], "epochs": 25, "learning_rate": 0.01})


class TestOneRelationAndOneTypeIsThePlainModel:
    """Bit for bit: weights, embeddings, figures and answers."""

    @pytest.mark.parametrize(
        ("options", "made"),
        [
            ({}, {}),
            ({"training": {"epochs": 2}}, {"features": True}),
            ({"training": {"epochs": 2}}, {"directed": True}),
            ({"training": {"epochs": 2, "loss_sampler": "source"}, "encoder": {"learn_repulsion": "softplus"}}, {}),
        ],
    )
    def test_fits_are_equal(self, options: dict[str, Any], made: dict[str, bool]) -> None:
        plain_graph, typed_graph = one_kind(**made)
        chosen = {"training": {"epochs": 2}, **options}
        plain = LinkPredictor(**chosen).fit(plain_graph)
        typed = LinkPredictor(**chosen).fit(typed_graph, predict="links")
        assert plain.settings_ == typed.settings_
        np.testing.assert_array_equal(plain.embeddings_, typed.embeddings_)
        assert plain.metrics_ == typed.metrics_
        pairs = [(0, 1), (2, 9), (5, 30)]
        np.testing.assert_array_equal(plain.score(pairs), typed.score(pairs))
        np.testing.assert_array_equal(plain.predict_proba(pairs), typed.predict_proba(pairs))
        found, other = plain.recommend([0, 7], k=5), typed.recommend([0, 7], k=5)
        assert found.targets == other.targets
        np.testing.assert_array_equal(found.scores, other.scores)


class TestQuestions:
    def test_candidates_are_of_the_right_type(self, graph: TypedGraph, model: LinkPredictor) -> None:
        found = model.recommend(("person", "3"), relation="buys", k=30)
        bought = {t for s, t in _edges(graph, "buys") if s == "3"}
        assert set(found.targets) == {str(j) for j in range(18)} - bought
        assert set(found.sources) == {"3"}
        people = model.recommend(("product", "3"), relation="buys", k=30)
        assert set(people.targets) == {str(i) for i in range(24)} - {s for s, t in _edges(graph, "buys") if t == "3"}

    def test_scores_follow_the_lists(self, model: LinkPredictor) -> None:
        found = model.recommend([("person", "3"), ("person", "4")], relation="views", k=4)
        pairs = list(zip(found.sources, found.targets, strict=True))
        np.testing.assert_allclose(model.score(pairs, relation="views"), found.scores, rtol=1e-4, atol=1e-5)
        chances = model.predict_proba(pairs, relation="views")
        np.testing.assert_allclose(chances, found.probabilities, rtol=1e-4)
        assert isinstance(model.score(("3", "4"), relation="views"), float)

    def test_relations_score_differently(self, model: LinkPredictor) -> None:
        assert model.score(("3", "4"), relation="views") != model.score(("3", "4"), relation="buys")

    def test_direction_counts_where_there_is_one(self, model: LinkPredictor) -> None:
        forth, back = (model.score(pair, relation="follows") for pair in (("3", "5"), ("5", "3")))
        assert forth != back

    def test_typed_pairs_may_be_written_either_way(self, model: LinkPredictor) -> None:
        one = model.score((("person", "3"), ("product", "4")), relation="buys")
        assert model.score(("3", "4"), relation="buys") == pytest.approx(one)

    def test_it_learns_who_buys_what(self, graph: TypedGraph, buyers: LinkPredictor) -> None:
        found = buyers.recommend([("person", str(i)) for i in range(24)], relation="buys", k=3)
        same = [int(s) % 2 == int(t) % 2 for s, t in zip(found.sources, found.targets, strict=True)]
        assert np.mean(same) > 0.8

    def test_one_predicted_relation_needs_no_name(self, buyers: LinkPredictor) -> None:
        named = buyers.recommend(("person", "3"), relation="buys", k=3)
        assert buyers.recommend(("person", "3"), k=3).targets == named.targets
        triple = buyers.recommend(("person", "3"), relation=("person", "buys", "product"), k=3)
        assert triple.targets == named.targets

    def test_among_and_where(self, model: LinkPredictor) -> None:
        some = model.recommend(("person", "3"), relation="buys", among=["1", "2", "5"], exclude_known=False)
        assert set(some.targets) == {"1", "2", "5"}
        titled = model.recommend(
            ("person", "3"), relation="buys", where="candidate.title = 'thing 7'", exclude_known=False
        )
        assert titled.targets == ("7",)
        assert titled.target_labels == ("thing 7",)

    def test_labels_name_nodes(self, model: LinkPredictor) -> None:
        by_id = model.recommend(("product", "7"), relation="buys", k=2)
        assert model.recommend("thing 7", relation="buys", k=2).targets == by_id.targets

    def test_best_links_and_similar(self, model: LinkPredictor) -> None:
        best = model.best_links(5, relation="follows")
        assert len(best) == 5
        assert (np.diff(best.scores) <= 0).all()
        near = model.similar(("product", "3"), k=4, relation="buys")
        assert len(near) == 4
        assert "3" not in near.targets

    def test_rows_and_base_rates(self, graph: TypedGraph, model: LinkPredictor, buyers: LinkPredictor) -> None:
        rows = np.array([[3, 24 + 4]])  # of the view, people first
        assert model.score_rows(rows, relation="buys")[0] == pytest.approx(model.score(("3", "4"), relation="buys"))
        assert buyers.base_rate_ == buyers.recommend(("person", "3"), k=1).base_rate
        with pytest.raises(InputError, match="predicts several relations: name one"):
            model.base_rate_  # noqa: B018

    def test_best_links_between_two_types_occur_once(self, model: LinkPredictor) -> None:
        """Also where the decoder knows directions, because another relation has one."""
        best = model.best_links(40, relation="buys")
        assert set(best.source_types or ()) == {"person"} and set(best.target_types or ()) == {"product"}
        assert len(set(zip(best.sources, best.targets, strict=True))) == 40
        found = model.recommend([("person", str(i)) for i in range(24)], k=18, relation="buys")
        assert best.scores.tolist() == pytest.approx(sorted(found.scores.tolist(), reverse=True)[:40], abs=1e-5)

    def test_embeddings_by_type(self, graph: TypedGraph, model: LinkPredictor) -> None:
        row = graph.row_of("product", "3")
        np.testing.assert_array_equal(model.embed(("product", "3")), model.embeddings_[row])
        assert model.embed([("product", "3"), ("person", "3")]).shape[0] == 2

    def test_explanations_add_up_by_relation(self, model: LinkPredictor) -> None:
        why = model.explain("3", "4", relation="buys")
        total = why.score_alone + sum(c.amount for c in why.contributions) + why.residue + why.shared
        assert total == pytest.approx(why.score, abs=1e-5)
        assert why.score == pytest.approx(model.score(("3", "4"), relation="buys"), abs=1e-4)
        assert set(why.by_relation()) == {"buys", "views", "follows"}
        attracting = sum(c.amount for c in why.contributions if c.kind == "attracts")
        assert sum(why.by_relation().values()) == pytest.approx(attracting)
        assert "relation" in repr(why)
        assert why.to_dict()["contributions"][0]["relation"] in ("buys", "views", "follows", None)  # type: ignore[index]

    def test_messages_of_other_relations_count(self, graph: TypedGraph) -> None:
        """The same fit without the views gives other scores: they are messages."""
        one = fitted(graph, "buys")
        other = fitted(graph.with_edges({"views": []}), "buys")
        assert one.score(("3", "4")) != other.score(("3", "4"))


class TestNewNodes:
    def test_one_relation_and_one_type_grows_as_the_plain_model(self) -> None:
        plain_graph, typed_graph = one_kind()
        plain, typed = (LinkPredictor(**QUICK).fit(graph) for graph in (plain_graph, typed_graph))
        edges = [(99, 0), (99, 3), (100, 99)]
        one, other = (who.extended([99, 100], None, edges) for who in (plain, typed))
        np.testing.assert_allclose(one.embeddings_, other.embeddings_, rtol=1e-5, atol=1e-6)
        assert one.recommend(99, k=4).targets == other.recommend(99, k=4).targets

    def test_a_new_product_is_recommended_to_those_who_buy_alike(self, buyers: LinkPredictor) -> None:
        edges = [(str(i), "new") for i in range(0, 12, 2)]
        grown = buyers.extended(["new"], None, edges, type="product", relation="buys")
        found = grown.recommend(("product", "new"), k=6, relation="buys")
        assert not {person for person, _ in edges} & set(found.targets)
        assert np.mean([int(person) % 2 == 0 for person in found.targets]) >= 0.8
        assert len(buyers.graph_.nodes["product"].ids) == 18  # type: ignore[attr-defined]
        vectors = buyers.embed_new(["new"], None, edges, type="product", relation="buys")
        np.testing.assert_array_equal(vectors[0], grown.embed(("product", "new")))

    def test_edges_of_several_relations_and_features(self, model: LinkPredictor, tmp_path: Path) -> None:
        edges = {"buys": [("ann", "3"), ("ann", "5")], "follows": [("ann", "7"), ("9", "ann")], "views": []}
        features = {"age": [33.0], "group": [1.0]}
        grown = model.extended(["ann"], features, edges, type="person")
        assert set(grown.recommend(("person", "ann"), k=30, relation="buys").targets).isdisjoint({"3", "5"})
        assert grown.explain("9", "ann", relation="follows").is_link
        grown.save(tmp_path / "grown")
        again = LinkPredictor.load(tmp_path / "grown")
        assert again.score(("ann", "4"), relation="buys") == grown.score(("ann", "4"), relation="buys")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"relation": None}, "name the relation of the new edges"),
            ({"type": None}, "name the type of the new nodes"),
            ({"type": "shop"}, "there is no node type 'shop'"),
            ({"relation": "bys"}, "nearest: 'buys'"),
            ({"type": "person", "relation": "buys", "edges": [("x", "1")]}, "'x' is not in the graph"),
            ({"edges": [("1", "3")]}, "joins two known nodes"),
            ({"ids": ["3"]}, "'3' is a 'product' already"),
            ({"relation": "follows"}, "joins no nodes of type 'product'"),
            ({"edges": [("1", "new", "2")]}, "needs two ends"),
            ({"edges": [(("product", "new"), "1")]}, "are (source, target)"),
            ({"features": [[1.0]]}, "has no features"),
            ({"edges": {"buys": [("1", "new")]}}, "leave 'relation' out"),
        ],
    )
    def test_what_is_refused(self, model: LinkPredictor, change: dict[str, Any], words: str) -> None:
        given: dict[str, Any] = {"type": "product", "relation": "buys", "ids": ["new"], "features": None}
        given |= {"edges": [("1", "new")], **change}
        with pytest.raises(YinYanError, match=re.escape(words)):
            model.extended(given.pop("ids"), given.pop("features"), given.pop("edges"), **given)

    def test_types_of_a_plain_model(self) -> None:
        model = LinkPredictor(**QUICK).fit(one_kind()[0])
        with pytest.raises(InputError, match="leave 'type' out"):
            model.extended([99], None, [(99, 0)], type="person")


def test_the_energy_falls(model: LinkPredictor) -> None:
    trace = model.energy_trace()
    assert trace == pytest.approx(list(_whole(model).energy), rel=1e-4)
    assert len(model.energy_trace(5)) == 6


class TestMaps:
    def test_a_model_with_maps_of_relations(self, graph: TypedGraph, tmp_path: Path) -> None:
        model = fitted(graph, "buys", encoder={**QUICK["encoder"], "relation_maps": True})
        assert len(model.recommend(("person", "3"), k=2)) == 2
        maps: Any = _whole(model).model.encoder
        assert maps.relation_map.abs().max() > 0
        with pytest.raises(SettingsError, match="explanations need relations without maps"):
            model.explain("3", "4")
        model.save(tmp_path / "model")
        again = LinkPredictor.load(tmp_path / "model")
        assert again.score(("3", "4")) == model.score(("3", "4"))

    def test_of_one_relation(self) -> None:
        model = LinkPredictor(**{**QUICK, "encoder": {**QUICK["encoder"], "relation_maps": True}}).fit(one_kind()[1])
        assert np.isfinite(model.embeddings_).all()


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("relation", "words"),
        [
            ("bys", "nearest: 'buys'"),
            ("views", "not predicted by this model"),
            (("product", "buys", "person"), "no re"),
        ],
    )
    def test_unknown_relations(self, buyers: LinkPredictor, relation: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            buyers.recommend(("person", "3"), relation=relation)

    def test_a_relation_must_be_named_where_there_are_several(self, model: LinkPredictor) -> None:
        with pytest.raises(InputError, match="predicts several relations: name one"):
            model.recommend(("person", "3"))

    def test_an_id_of_two_types_needs_its_type(self, model: LinkPredictor) -> None:
        with pytest.raises(InputError, match=r"'3' is a 'person' and a 'product': name its type"):
            model.recommend("3", relation="buys")
        assert len(model.recommend("3", relation="follows", k=2)) == 2  # one type only

    def test_unknown_nodes_and_types(self, model: LinkPredictor) -> None:
        with pytest.raises(UnknownNodeError, match="'x99' is not in the graph"):
            model.recommend("x99", relation="buys")
        with pytest.raises(UnknownNodeError):
            model.score(("3", "23"), relation="buys")  # a person, but no product
        with pytest.raises(InputError, match="joins no nodes of type 'shop'"):
            model.recommend([("shop", "3")], relation="buys")

    def test_what_knows_no_relations_says_so(self, graph: TypedGraph, model: LinkPredictor, tmp_path: Path) -> None:
        calls = [
            lambda: yinyan.random_split(graph, seed=0),  # type: ignore[arg-type]
            lambda: yinyan.temporal_split(graph, seed=0),  # type: ignore[arg-type]
            lambda: model.index(),
            lambda: model.extended(["new"], None, [("new", "3")]),
            lambda: graph.edges,
        ]
        for call in calls:
            with pytest.raises(InputError, match="relation"):
                call()

    def test_relations_of_plain_graphs(self) -> None:
        plain, _ = one_kind()
        with pytest.raises(InputError, match="leave it out, or make the graph with"):
            LinkPredictor(**QUICK).fit(plain, predict="links")
        model = LinkPredictor(**QUICK).fit(plain)
        with pytest.raises(InputError, match="leave 'relation' out"):
            model.recommend(0, relation="links")

    def test_losses_over_all_pairs(self, graph: TypedGraph) -> None:
        with pytest.raises(SettingsError, match="loss_sampler"):
            fitted(graph, training={"loss_sampler": "shared"})

    def test_symmetric_decoders_of_directed_relations(self, graph: TypedGraph) -> None:
        with pytest.raises(SettingsError, match="relation 'follows' is directed"):
            fitted(graph, ["follows", "buys"], decoder={"directed_maps": False})


class TestOddRelations:
    def test_a_relation_with_three_edges(self) -> None:
        edges = {
            ("a", "many", "a"): {"source": list(range(30)), "target": [(i + 1) % 30 for i in range(30)]},
            ("a", "few", "a"): {"source": [0, 3, 5], "target": [9, 12, 20]},
        }
        model = fitted(Graph.from_tables(edges), training=FEW)
        assert "relation 'few' has 3 edges, fewer than 10: none is held out" in _whole(model).split_text
        assert len(model.recommend(0, relation="few", k=3)) == 3
        assert 0 < model.predict_proba((0, 1), relation="few") < 1

    def test_only_small_relations(self) -> None:
        with pytest.raises(InputError, match="no predicted relation has 10 edges"):
            fitted(Graph.from_triples([(0, "r", 1), (1, "r", 2), (2, "s", 3)]))

    def test_a_relation_without_edges(self, graph: TypedGraph) -> None:
        model = fitted(graph.with_edges({"views": []}))
        assert "relation 'views' has no edges" in _whole(model).split_text
        assert len(model.recommend(("person", "3"), relation="views", k=2)) == 2

    def test_a_type_without_edges(self) -> None:
        nodes = {"node": {"id": list(range(30))}, "shop": {"id": ["s1", "s2"], "size": [1.0, 2.0]}}
        table = {"source": list(range(30)), "target": [(i + 1) % 30 for i in range(30)]}
        graph = Graph.from_tables({("node", "near", "node"): table}, nodes, unmatched="keep")
        assert "type 'shop' is in no relation: 2 nodes without an edge" in graph.notes
        model = fitted(graph, training=FEW)
        assert np.isfinite(model.embed(("shop", "s1"))).all()

    def test_a_relation_that_links_every_pair(self) -> None:
        everyone = [(i, j) for i in range(12) for j in range(2)]
        some = [(i, (i * 5 + j) % 12) for i in range(12) for j in range(1, 3)]
        edges = {
            ("a", "all", "b"): {"source": [i for i, _ in everyone], "target": [j for _, j in everyone]},
            ("a", "some", "a"): {"source": [i for i, _ in some], "target": [j for _, j in some]},
        }
        graph = Graph.from_tables(edges)
        with pytest.raises(InputError, match="relation 'all' links every pair that it can"):
            fitted(graph, ["all", "some"])
        assert _whole(fitted(graph, training=FEW)).predicted == ("some",)

    def test_hub_nodes(self) -> None:
        """One node has every edge of a relation: sampling negatives ends, and answers are finite."""
        hub = {"source": [0] * 39, "target": list(range(1, 40))}
        ring = {"source": list(range(40)), "target": [(i + 1) % 40 for i in range(40)]}
        model = fitted(
            Graph.from_tables({"hub": hub, "ring": ring}), training={**QUICK["training"], "loss_sampler": "source"}
        )
        assert not len(model.recommend(0, relation="hub"))
        assert np.isfinite(model.recommend(1, relation="hub", k=5).scores).all()

    def test_a_relation_without_test_edges_is_not_measured(self, graph: TypedGraph) -> None:
        few = graph.with_edges({"follows": [0, 1, 2]})
        split = typed_split(few, seed=0)
        assert not len(split.parts["follows"].test_targets)
        result = yinyan.evaluate(few, peers=[], model=LinkPredictor(**QUICK))
        assert set(result.results[0].relations) == {"buys", "views"}


def test_target_edges_are_hidden_from_their_own_relation_only() -> None:
    """A pair that is linked in two relations: predicting one hides its message, and not the other's."""
    from yinyan.training.typed_data import typed_data

    graph = shop()
    split = typed_split(graph, seed=0)
    data = typed_data(split, torch.device("cpu"), ranked=False)
    relation = data.messages.relation_of_pair  # type: ignore[attr-defined]
    numbers = list(graph.relations)
    for (source, target, number), place in zip(data.targets.tolist(), data.pair_of_target.tolist(), strict=True):
        assert numbers[int(relation[place])] == split.predicted[number]
        assert set(data.messages.pairs[place].tolist()) == {source, target}


def test_held_out_edges_pass_no_messages() -> None:
    graph = shop()
    split = typed_split(graph, ["buys", "follows"], seed=0)
    for name, part in split.parts.items():
        tested = part.graph.find_edges(np.concatenate([part.test_targets, part.valid_targets]))
        for when in ("train", "valid", "test"):
            assert not np.isin(tested, split.messages(when)[name]).any()
    assert len(split.messages("train")["views"]) == len(graph.relations["views"].edges)


def _edges(graph: TypedGraph, name: str) -> list[tuple[Any, Any]]:
    relation = graph.relations[name]
    first, second = (graph.nodes[kind].ids for kind in (relation.source, relation.target))
    return list(zip(first.take(relation.edges[:, 0]), second.take(relation.edges[:, 1]), strict=True))


def _whole(model: LinkPredictor) -> TypedFitted:
    found: Any = model.fitted_
    assert isinstance(found, TypedFitted)
    return found
