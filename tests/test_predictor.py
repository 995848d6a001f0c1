"""LinkPredictor: scikit-learn's contract, and right answers about small graphs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts import PredictorContract, bipartite_graph, planted_graph, tiny
from yinyan.errors import (
    DivergedError,
    InputError,
    LeakError,
    NotFittedError,
    SettingsError,
    TrainingError,
    UnknownNodeError,
    YinYanError,
)
from yinyan.graph import Graph
from yinyan.predictor import LinkPredictor
from yinyan.settings import GROUPS, DecoderSettings, EncoderSettings, TrainingSettings
from yinyan.splits import Split, random_split
from yinyan.training import chosen as chosen_module


class TestUndirected(PredictorContract):
    """Integer ids, no features."""

    @staticmethod
    def make_graph() -> Graph:
        return planted_graph()


class TestDirected(PredictorContract):
    """Text ids, a direction to every link."""

    @staticmethod
    def make_graph() -> Graph:
        return planted_graph(directed=True, inside=0.15, ids=[f"page {row}" for row in range(40)])


class TestBipartite(PredictorContract):
    """Integers on one side and the same as text on the other."""

    @staticmethod
    def make_graph() -> Graph:
        return bipartite_graph([*range(15), *(str(row) for row in range(25))])


class TestWeightedWithFeatures(PredictorContract):
    """Weights on the links, numbers on the nodes, and ids beyond 64 bits."""

    @staticmethod
    def make_graph() -> Graph:
        rng = np.random.default_rng(1)
        plain = planted_graph()
        features = rng.normal(size=(40, 5)) + np.repeat([0, 2], 20)[:, None]
        weights = rng.uniform(0.5, 4, plain.num_edges)
        ids = [2**70 + row for row in range(40)]
        return Graph.from_arrays(plain.edges, ids=ids, features=features, weights=weights)


class TestSampledNegatives(PredictorContract):
    """Repelled by samples of non-links in the place of their mean."""

    @staticmethod
    def make_graph() -> Graph:
        return planted_graph()

    @staticmethod
    def params(**training: Any) -> dict[str, Any]:
        return tiny(encoder={"expected_negatives": False, "num_negatives": 2}, training=training)

    def test_says_how_far_a_score_moves_with_the_sample(self, model: LinkPredictor) -> None:
        assert 0 < model.metrics_["score_spread"] < 2
        assert "score_spread" not in LinkPredictor(**tiny()).fit(self.make_graph()).metrics_

    def test_several_samples_are_averaged(self, model: LinkPredictor) -> None:
        several = LinkPredictor(**self.params(inference_samples=8)).fit(self.make_graph())
        many = LinkPredictor(**self.params(inference_samples=64)).fit(self.make_graph())
        reference = many.embeddings_  # the same weights: training draws from streams of its own
        assert all(
            torch.equal(a, b)
            for a, b in zip(model.fitted_.model.parameters(), many.fitted_.model.parameters(), strict=True)
        )
        one_off = np.linalg.norm(model.embeddings_ - reference)
        assert 0 < np.linalg.norm(several.embeddings_ - reference) < 0.7 * one_off


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny()).fit(planted_graph())


# -- scikit-learn's contract ---------------------------------------------------------------------------------


def test_parameters_come_back_as_given() -> None:
    encoder = {"num_steps": 3}
    model = LinkPredictor(encoder=encoder, seed=5)
    shallow = model.get_params(deep=False)
    assert shallow["encoder"] is encoder
    assert set(shallow) == {"encoder", "decoder", "training", "calibration", "seed", "device", "threads"}
    assert model.get_params()["encoder__num_steps"] == 3
    assert LinkPredictor(**shallow).get_params() == model.get_params()


def test_single_settings_can_be_set() -> None:
    given = {"num_steps": 3}
    model = LinkPredictor(encoder=given)
    assert model.set_params(encoder__num_steps=2, training__epochs=4, seed=9, calibration="isotonic") is model
    assert model.encoder == {"num_steps": 2}
    assert model.training == {"epochs": 4}
    assert (model.seed, model.calibration) == (9, "isotonic")
    assert given == {"num_steps": 3}, "the caller's mapping is the caller's"
    model.set_params(**model.get_params())
    assert model.encoder == {"num_steps": 2}


def test_a_setting_of_a_settings_object_can_be_set() -> None:
    model = LinkPredictor(encoder=EncoderSettings(hidden_size=24)).set_params(encoder__num_steps=2)
    fitted = model.set_params(training=tiny()["training"]).fit(planted_graph()).fitted_
    assert (fitted.settings.encoder.hidden_size, fitted.settings.encoder.num_steps) == (24, 2)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"colour: unknown setting \(nearest: "):
        LinkPredictor().set_params(colour="red")


def test_settings_may_stand_without_their_group() -> None:
    model = LinkPredictor(num_steps=3, epochs=2, encoder={"hidden_size": 8})
    assert model.encoder == {"hidden_size": 8, "num_steps": 3}
    assert model.training == {"epochs": 2}
    assert model.set_params(num_steps=1).encoder == {"hidden_size": 8, "num_steps": 1}
    assert LinkPredictor(**model.get_params(deep=False)).get_params() == model.get_params()
    fitted = LinkPredictor(**tiny(), depth=3).fit(planted_graph()).fitted_
    assert fitted.settings.decoder.depth == 3


def test_a_setting_of_two_groups_needs_its_group() -> None:
    with pytest.raises(SettingsError, match=r"dropout: a setting of encoder and of decoder \(write encoder="):
        LinkPredictor(dropout=0.1)
    with pytest.raises(SettingsError, match=r"num_step: unknown setting \(nearest: 'num_steps'\)"):
        LinkPredictor(num_step=3)
    with pytest.raises(SettingsError, match=r"encoder\.num_stepz: unknown setting \(nearest: 'num_steps'\)"):
        LinkPredictor(encoder={"num_stepz": 3}).fit(planted_graph())


def test_clones(model: LinkPredictor) -> None:
    base = pytest.importorskip("sklearn.base")
    copy = base.clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.encoder is not model.encoder
    with pytest.raises(NotFittedError):
        copy.score((0, 1))
    settled = LinkPredictor(encoder=EncoderSettings(), decoder=DecoderSettings(), training=TrainingSettings())
    assert base.clone(settled).get_params() == settled.get_params()


VERBS: dict[str, Callable[[LinkPredictor], object]] = {
    "recommend": lambda model: model.recommend(0),
    "score": lambda model: model.score((0, 1)),
    "predict_proba": lambda model: model.predict_proba((0, 1)),
    "explain": lambda model: model.explain(0, 1),
    "embed": lambda model: model.embed(0),
    "embed_new": lambda model: model.embed_new(None, None, [(0, 1)]),
    "extended": lambda model: model.extended(["new"], None, [("new", 1)]),
    "save": lambda model: model.save("nowhere"),
    "graph_": lambda model: model.graph_,
    "embeddings_": lambda model: model.embeddings_,
    "metrics_": lambda model: model.metrics_,
}


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_answered_before_fit(verb: str) -> None:
    model = LinkPredictor()
    for kind in (NotFittedError, YinYanError, ValueError, AttributeError):
        with pytest.raises(kind, match=r"not fitted yet: call fit\(graph\) first"):
            VERBS[verb](model)
    assert not model.__sklearn_is_fitted__()


def test_fit_returns_the_predictor() -> None:
    model = LinkPredictor(**tiny())
    assert model.fit(planted_graph(), None) is model
    assert model.__sklearn_is_fitted__()


def test_a_second_fit_starts_from_scratch(model: LinkPredictor) -> None:
    again = LinkPredictor(**tiny()).fit(planted_graph(3, 12, seed=4)).fit(planted_graph())
    assert np.array_equal(again.embeddings_, model.embeddings_)


def test_repr_can_be_read(model: LinkPredictor) -> None:
    assert repr(LinkPredictor(seed=3)) == "LinkPredictor(calibration='platt', seed=3, device='auto')"


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002 - the point is the global state
    LinkPredictor(**tiny(encoder={"expected_negatives": False})).fit(planted_graph())
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


# -- parameters ----------------------------------------------------------------------------------------------

OTHER_VALUES: list[tuple[str, str, Any]] = [
    ("encoder", "inputs", "random"),
    ("encoder", "hidden_size", 12),
    ("encoder", "embedding_size", 5),
    ("encoder", "embedding_start", "spectral"),
    ("encoder", "num_layers", 2),
    ("encoder", "sign_hops", 1),
    ("encoder", "num_steps", 1),
    ("encoder", "step_size", "safe"),
    ("encoder", "anchoring", 2.0),
    ("encoder", "attraction", 0.5),
    ("encoder", "repulsion", 0.1),
    ("encoder", "learn_repulsion", "no"),
    ("encoder", "num_negatives", 0),
    ("encoder", "sampler", "source"),
    ("encoder", "expected_negatives", False),
    ("encoder", "sketch_size", 16),
    ("encoder", "margin", 0.001),
    ("encoder", "self_loops", True),
    ("encoder", "feature_dropout", 0.1),
    ("encoder", "node_dropout", 0.5),
    ("encoder", "dropout", 0.0),
    ("encoder", "output_norm", False),
    ("decoder", "kind", "dot"),
    ("decoder", "depth", 3),
    ("decoder", "width", 10),
    ("decoder", "residual", False),
    ("decoder", "norm", False),
    ("decoder", "dropout", 0.0),
    ("training", "epochs", 2),
    ("training", "batch_size", 40),
    ("training", "optimizer", "adagrad"),
    ("training", "learning_rate", 0.02),
    ("training", "weight_decay", 0.1),
    ("training", "schedule", "constant"),
    ("training", "warmup", 0.5),
    ("training", "clip_norm", 0.01),
    ("training", "loss", "hinge"),
    ("training", "loss_negatives", 1),
    ("training", "loss_sampler", "source"),
    ("training", "mask_targets", False),
    ("training", "valid_share", 0.3),
    ("training", "evaluate_every", 3),
    ("training", "averaging", 0.9),
]


@pytest.fixture(scope="module")
def featured() -> Graph:
    plain = planted_graph()
    features = np.random.default_rng(2).normal(size=(40, 4)).astype(np.float32)
    return Graph.from_arrays(plain.edges, num_nodes=40, features=features)


@pytest.fixture(scope="module")
def usual(featured: Graph) -> LinkPredictor:
    """Where the last of three epochs is the best, so that every setting of the loop leaves a trace."""
    return LinkPredictor(**tiny()).fit(featured)


@pytest.mark.parametrize(("group", "name", "value"), OTHER_VALUES, ids=[f"{g}.{n}" for g, n, _ in OTHER_VALUES])
def test_every_setting_matters(featured: Graph, usual: LinkPredictor, group: str, name: str, value: object) -> None:
    assert getattr(getattr(usual.fitted_.settings, group), name) != value
    other = LinkPredictor(**tiny(**{group: {name: value}})).fit(featured)
    assert getattr(getattr(other.fitted_.settings, group), name) == value
    pairs = PredictorContract.some_pairs(usual)
    scores = other.score(pairs)
    assert np.isfinite(scores).all()
    if name == "evaluate_every":
        assert [r.epoch for r in other.fitted_.history if r.auc is not None] == [3]
    else:
        assert not np.array_equal(scores, usual.score(pairs))


def test_no_setting_is_forgotten() -> None:
    """A new setting needs a line above, or a test of its own that is named here."""
    tested = {(group, name) for group, name, _ in OTHER_VALUES}
    tested |= {("decoder", "directed_maps"), ("decoder", "allow_symmetric")}  # test_direction_can_be_given_up
    tested |= {("decoder", "rerank")}  # test_reranked_answers.test_it_can_be_switched_off
    tested |= {("decoder", "heads")}  # test_decoder.TestMultiDot
    tested |= {("training", "missing_share")}  # test_all_pairs
    tested |= {("training", "n3")}  # test_answers
    tested |= {("encoder", "half_life")}  # test_recency
    tested |= {("encoder", "relation_maps")}  # test_relations
    tested |= {("training", "message_times"), ("training", "history_share")}  # test_time_checks
    tested |= {("training", "patience"), ("training", "min_gain")}  # test_patience_stops_early, test_loop.TestBest
    tested |= {("training", "valid_negatives")}  # test_validation_negatives_are_as_many_as_asked
    tested |= {("training", "inference_samples")}  # test_several_samples_are_averaged
    tested |= {("training", "selection")}  # test_the_selection_chooses_the_epoch
    tested |= {("training", "keep")}  # test_the_last_weights_can_be_kept
    tested |= {("training", "refuse_runaway")}  # test_layers_that_run_away_are_refused_unless_asked_for
    tested |= {("training", "node_order")}  # test_nodes_may_stand_in_another_order_while_training
    tested |= {("training", "refuse_oversize")}  # test_memory.test_a_refusal_can_be_waived
    tested |= {("encoder", "degree_column")}  # test_degree_column
    tested |= {("training", "moments")}  # test_adam, test_devices
    tested |= {("encoder", "storage"), ("encoder", "recompute")}  # test_encoder.TestStorage
    tested |= {("encoder", "base_norm")}  # test_hidden_layers_can_be_normalised
    assert tested == {(group, field.name) for group, kind in GROUPS.items() for field in dataclasses.fields(kind)}


def test_patience_stops_early() -> None:
    graph = planted_graph()
    still = {"epochs": 12, "learning_rate": 1e-9}  # nothing gets better after the first epoch
    assert len(LinkPredictor(**tiny(training={**still, "patience": 2})).fit(graph).fitted_.history) == 3
    assert len(LinkPredictor(**tiny(training={**still, "patience": 0})).fit(graph).fitted_.history) == 12


def test_the_last_weights_can_be_kept() -> None:
    training = {"epochs": 8, "learning_rate": 0.3, "schedule": "constant", "patience": 0}  # which soon spoils a model
    models = [
        LinkPredictor(**tiny(training={**training, "keep": keep})).fit(planted_graph()) for keep in ("best", "last")
    ]
    best, last = (model.fitted_ for model in models)
    assert best.best_epoch < 8
    assert [record.loss for record in best.history] == [record.loss for record in last.history]
    assert best.metrics["auc"] == best.history[best.best_epoch - 1].auc
    assert last.metrics["auc"] == last.history[-1].auc != best.metrics["auc"]


@pytest.mark.parametrize("num_layers", [1, 2])
def test_hidden_layers_can_be_normalised(featured: Graph, num_layers: int) -> None:
    plain, normalised = (
        LinkPredictor(**tiny(encoder={"num_layers": num_layers, "base_norm": value})).fit(featured)
        for value in (False, True)
    )
    pairs = PredictorContract.some_pairs(plain)
    assert np.array_equal(plain.score(pairs), normalised.score(pairs)) == (num_layers == 1)


@pytest.mark.parametrize("selection", ["balanced", "mrr", "auc", "hits@20"])
def test_the_selection_chooses_the_epoch(selection: str) -> None:
    training = {"epochs": 8, "learning_rate": 0.3, "schedule": "constant", "evaluate_every": 1, "patience": 0}
    fitted = LinkPredictor(**tiny(training={**training, "selection": selection})).fit(planted_graph()).fitted_
    judged = {
        "balanced": lambda record: record.hits + record.auc,
        "mrr": lambda record: record.mrr,
        "auc": lambda record: record.auc,
        "hits@20": lambda record: record.score,
    }[selection]
    assert [record.score for record in fitted.history] == [judged(record) for record in fitted.history]
    assert fitted.best_epoch == max(fitted.history, key=judged).epoch
    assert len({record.score for record in fitted.history}) > 1


def test_validation_negatives_are_as_many_as_asked() -> None:
    for count in (50, 120):
        fitted = LinkPredictor(**tiny(training={"valid_negatives": count})).fit(planted_graph()).fitted_
        assert len(fitted.valid_scores[1]) == count


def test_both_calibrations(model: LinkPredictor) -> None:
    other = LinkPredictor(**tiny(calibration="isotonic")).fit(planted_graph())
    pairs = PredictorContract.some_pairs(model)
    assert np.array_equal(model.score(pairs), other.score(pairs))
    assert not np.allclose(model.predict_proba(pairs), other.predict_proba(pairs))
    with pytest.raises(SettingsError, match="'calibration' needs to be 'platt' or 'isotonic' \\(got 'none'\\)"):
        LinkPredictor(calibration="none").fit(planted_graph())  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_seeds_are_integers(seed: object) -> None:
    with pytest.raises(SettingsError, match="'seed' needs to be an integer"):
        LinkPredictor(seed=seed).fit(planted_graph())  # type: ignore[arg-type]


def test_numpy_seeds_are_seeds(model: LinkPredictor) -> None:
    same = LinkPredictor(**tiny(seed=np.int64(0))).fit(planted_graph())
    assert np.array_equal(same.embeddings_, model.embeddings_)


def test_devices_are_checked() -> None:
    with pytest.raises(SettingsError, match="'device' needs to be"):
        LinkPredictor(device="abacus").fit(planted_graph())


def test_a_settings_object_fixes_its_group() -> None:
    whole = TrainingSettings(epochs=2, batch_size=30, valid_negatives=100)
    fitted = LinkPredictor(**tiny() | {"training": whole}).fit(planted_graph()).fitted_
    assert fitted.settings.training == whole


def test_direction_can_be_given_up() -> None:
    graph = planted_graph(directed=True, inside=0.15)
    with pytest.raises(SettingsError, match="allow_symmetric = true"):
        LinkPredictor(**tiny(decoder={"directed_maps": False})).fit(graph)
    model = LinkPredictor(**tiny(decoder={"directed_maps": False, "allow_symmetric": True})).fit(graph)
    assert model.score((0, 1)) == pytest.approx(model.score((1, 0)), abs=1e-6)


def test_features_and_weights_are_used(featured: Graph, usual: LinkPredictor) -> None:
    pairs = PredictorContract.some_pairs(usual)
    edges, features = featured.edges, featured.features
    moved = np.array(features)
    moved[0] += 1
    weights = np.linspace(0.1, 3, len(edges))
    for other in (
        Graph.from_arrays(edges, num_nodes=40, features=moved),
        Graph.from_arrays(edges, num_nodes=40, features=features, weights=weights),
    ):
        assert not np.allclose(LinkPredictor(**tiny()).fit(other).score(pairs), usual.score(pairs))


def test_the_unit_of_weights_does_not_matter(featured: Graph, usual: LinkPredictor) -> None:
    ones = Graph.from_arrays(
        featured.edges, num_nodes=40, features=featured.features, weights=np.full(featured.num_edges, 4.0)
    )
    pairs = PredictorContract.some_pairs(usual)
    np.testing.assert_allclose(LinkPredictor(**tiny()).fit(ones).score(pairs), usual.score(pairs), atol=1e-4)


# -- recommending --------------------------------------------------------------------------------------------


@given(data=st.data())
def test_recommend_equals_brute_force(model: LinkPredictor, data: st.DataObject) -> None:
    graph = model.graph_
    rows = st.integers(0, graph.num_nodes - 1)
    nodes = data.draw(st.lists(rows, max_size=4))
    among = data.draw(st.none() | st.lists(rows, max_size=20))
    k = data.draw(st.integers(1, 50))
    known = data.draw(st.booleans())
    linked = {pair for a, b in graph.edges.tolist() for pair in ((a, b), (b, a))}
    found = model.recommend(nodes, k, among=among, exclude_known=not known)
    everyone = range(graph.num_nodes) if among is None else sorted(set(among))
    place = 0
    for node in nodes:
        allowed = [other for other in everyone if other != node and (known or (node, other) not in linked)]
        scores = model.score([(node, other) for other in allowed])
        count = min(k, len(allowed))
        part = found[place : place + count]
        assert set(part.sources) <= {node}
        assert set(part.targets) <= set(allowed) and len(set(part.targets)) == count
        assert part.ranks.tolist() == list(range(1, count + 1))
        np.testing.assert_allclose(part.scores, np.sort(scores)[::-1][:count], atol=1e-5)
        place += count
    assert place == len(found)


def test_known_links_only_on_request(model: LinkPredictor) -> None:
    neighbours = set(model.graph_.neighbours(0).tolist())
    assert not neighbours & set(model.recommend(0, k=100).targets)
    assert neighbours <= set(model.recommend(0, k=100, exclude_known=False).targets)
    assert len(model.recommend(0, k=100)) == 40 - 1 - len(neighbours)


@pytest.mark.parametrize("k", [0, -1, True, False, 1.5, "3", None])
def test_k_is_a_positive_integer(model: LinkPredictor, k: object) -> None:
    with pytest.raises(InputError, match="'k' needs to be a positive integer \\(got "):
        model.recommend(0, k=k)  # type: ignore[arg-type]


def test_k_may_be_numpys(model: LinkPredictor) -> None:
    assert list(model.recommend(np.int64(0), k=np.int64(3))) == list(model.recommend(0, k=3))  # type: ignore[arg-type]


@pytest.mark.parametrize("heads", [1, 3])
def test_a_multi_dot_model_is_saved_searched_and_indexed(heads: int, tmp_path: Path) -> None:
    model = LinkPredictor(**tiny(decoder={"kind": "multi-dot", "heads": heads, "rerank": False})).fit(planted_graph())
    model.save(tmp_path / "model")
    loaded = LinkPredictor.load(tmp_path / "model", device="cpu")
    found = model.recommend([0, 30], k=5)
    assert list(found) == list(loaded.recommend([0, 30], k=5))
    one = model.recommend(0, k=5)
    assert one.scores == pytest.approx([model.score((0, target)) for target in one.targets], abs=1e-5)
    assert model.index("flashlight", recall=1.0, k=5).metadata.kind == "flashlight"
    if heads == 1:
        assert model.index("mips", recall=1.0, k=5).metadata.kind == "mips"
    else:
        with pytest.raises(SettingsError, match="multi-dot with one head"):
            model.index("mips")


def test_equal_scores_come_in_the_order_of_rows() -> None:
    model = LinkPredictor(**tiny(decoder={"kind": "dot"})).fit(planted_graph())
    with torch.no_grad():
        model.fitted_.embeddings.fill_(1.0)
    for k in (1, 4, 100):
        found = model.recommend(30, k=k)
        allowed = sorted(set(range(40)) - {30} - set(model.graph_.neighbours(30).tolist()))
        assert list(found.targets) == allowed[:k]


def test_nobody_is_asked_about(model: LinkPredictor) -> None:
    assert len(model.recommend([])) == 0
    assert len(model.recommend(0, among=[])) == 0
    assert model.score([]).shape == model.predict_proba([]).shape == (0,)
    assert model.embed([]).shape == (0, 16)


@pytest.mark.parametrize("nodes", [3.0, None])
def test_what_is_no_id_is_refused(model: LinkPredictor, nodes: Any) -> None:
    for ask in (model.recommend, model.embed, model.score):
        with pytest.raises(InputError, match=f"got {nodes}"):
            ask(nodes)
    with pytest.raises(InputError, match="got True, a bool"):
        model.recommend(True)


def test_pairs_have_two_ends(model: LinkPredictor) -> None:
    with pytest.raises(InputError, match=r"pair 0 needs two ids \(got \(3,\)\)"):
        model.score([3, 4])
    with pytest.raises(InputError, match=r"pair 1 needs two ids \(got \(3, 4, 5\)\)"):
        model.score([(1, 2), (3, 4, 5)])


def test_pairs_come_in_many_shapes(model: LinkPredictor) -> None:
    listed = model.score([(1, 2), (3, 4)])
    for pairs in (((1, 2), (3, 4)), [[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), iter([(1, 2), (3, 4)])):
        assert np.array_equal(model.score(pairs), listed)


def test_undirected_scores_are_symmetric(model: LinkPredictor) -> None:
    assert model.score((3, 30)) == pytest.approx(model.score((30, 3)), abs=1e-6)


def test_unknown_nodes_are_named_with_the_nearest() -> None:
    ids = [f"user{row:02d}" for row in range(40)]
    model = LinkPredictor(**tiny()).fit(planted_graph(ids=ids))
    for ask in (
        lambda: model.recommend("user4"),
        lambda: model.score(("user01", "user4")),
        lambda: model.explain("user4", "user01"),
        lambda: model.embed(["user01", "user4"]),
        lambda: model.recommend("user01", among=["user4"]),
    ):
        with pytest.raises(UnknownNodeError, match=r"node 'user4' is not in the graph \(40 nodes; nearest: 'user"):
            ask()


def test_text_and_integers_are_different_nodes() -> None:
    ids: list[int | str] = [7, "7", "007", *range(100, 137)]
    model = LinkPredictor(**tiny()).fit(planted_graph(ids=ids))
    vectors = model.embed([7, "7", "007"])
    assert len(np.unique(vectors, axis=0)) == 3
    for name, vector in zip([7, "7", "007"], vectors, strict=True):
        assert np.array_equal(model.embed(name), vector)
    assert model.recommend("7", k=1)[0].source == "7"
    with pytest.raises(UnknownNodeError, match=r"node '100' is not in the graph, but 100 \(an integer\) is"):
        model.recommend("100")


def test_bipartite_candidates_come_from_the_other_side() -> None:
    model = LinkPredictor(**tiny()).fit(bipartite_graph())
    assert set(model.recommend(0, k=50, exclude_known=False).targets) == set(range(15, 40))
    assert set(model.recommend(20, k=50, exclude_known=False).targets) == set(range(15))
    assert len(model.recommend(0, k=50, among=range(15))) == 0


def test_the_reverse_of_a_known_link_may_be_recommended() -> None:
    model = LinkPredictor(**tiny()).fit(planted_graph(directed=True, inside=0.15))
    graph = model.graph_
    single = next((a, b) for a, b in graph.edges.tolist() if not graph.has_edges([(b, a)])[0])
    assert single[1] not in model.recommend(single[0], k=100).targets
    assert single[0] in model.recommend(single[1], k=100).targets
    assert model.score(single) != pytest.approx(model.score(single[::-1]), abs=1e-4)


# -- learning ------------------------------------------------------------------------------------------------


def test_finds_planted_communities() -> None:
    graph = planted_graph(3, 30, inside=0.25, across=0.01)
    model = LinkPredictor(**tiny(training={"epochs": 25, "batch_size": 24})).fit(graph)
    assert model.metrics_["auc"] > 0.7
    found = model.recommend(list(range(90)), k=5)
    same = [row.source // 30 == row.target // 30 for row in found]
    assert np.mean(same) > 0.8  # by chance: 0.27


def test_learns_the_direction_of_links() -> None:
    """Every link runs from the first half to the second: the reverse is never one."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 20, 250), rng.integers(20, 40, 250)
    graph = Graph.from_arrays(np.unique(np.stack([source, target], 1), axis=0), num_nodes=40, directed=True)
    groups = {
        "encoder": {"num_steps": 1, "dropout": 0.0},
        "decoder": {"dropout": 0.0},
        "training": {"epochs": 25, "batch_size": 32, "learning_rate": 0.03},
    }
    model = LinkPredictor(**tiny(**groups)).fit(graph)
    forth = model.score([(a, b) for a in range(0, 20, 4) for b in range(20, 40, 4)])
    back = model.score([(b, a) for a in range(0, 20, 4) for b in range(20, 40, 4)])
    assert (forth > back).mean() > 0.9


def test_final_embeddings_see_the_held_out_links(model: LinkPredictor) -> None:
    fitted = model.fitted_
    assert fitted.protocol == "holdout"
    assert len(fitted.message_edges) == fitted.graph.num_edges


def test_a_split_keeps_its_test_links_from_the_model() -> None:
    graph = planted_graph(size=30)
    split = random_split(graph, seed=3)
    fitted = LinkPredictor(**tiny()).fit(graph, split=split).fitted_
    hidden = split.test_targets
    assert len(hidden) and not fitted.graph.has_edges(hidden).any()
    assert np.array_equal(fitted.graph.edges[fitted.message_edges], graph.edges[split.test_messages])
    assert fitted.graph.has_edges(split.valid_targets).all()


def test_a_split_of_another_graph_is_refused() -> None:
    with pytest.raises(InputError, match="the split was made from another graph"):
        LinkPredictor(**tiny()).fit(planted_graph(), split=random_split(planted_graph(), seed=0))


def test_graphs_that_cannot_be_learned_from_are_refused() -> None:
    one = Graph.from_arrays([[0, 1]], num_nodes=5)
    none = Graph.from_arrays(np.empty((0, 2), dtype=np.int64), num_nodes=5)
    for graph, count in ((one, 1), (none, 0)):
        with pytest.raises(InputError, match=f"the graph has {count} edge.* at least 10 are needed"):
            LinkPredictor(**tiny()).fit(graph)
    complete = Graph.from_arrays(list(itertools.combinations(range(12), 2)))
    with pytest.raises(YinYanError, match="the graph is complete: every pair is linked"):
        LinkPredictor(**tiny()).fit(complete)
    with pytest.raises(InputError, match=r"fit needs a yinyan\.Graph, a NetworkX graph, .* \(got list\)"):
        LinkPredictor(**tiny()).fit([(0, 1)])  # type: ignore[arg-type]


def test_a_graph_with_one_pair_free_can_be_learned_from() -> None:
    pairs = list(itertools.combinations(range(12), 2))[:-1]
    model = LinkPredictor(**tiny()).fit(Graph.from_arrays(pairs))
    assert list(model.recommend(10).targets) == [11]
    assert len(model.recommend(0)) == 0


def test_divergence_names_its_cure() -> None:
    with pytest.raises(TrainingError, match=r"Lower encoder\.step_size \(or set it to 'safe'\)"):
        LinkPredictor(**tiny(encoder={"step_size": 1e9, "num_steps": 8})).fit(planted_graph())


def test_a_batch_of_all_links_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"training\.batch_size: .* or mask_targets = false"):
        LinkPredictor(**tiny(training={"batch_size": 0})).fit(planted_graph())
    whole = {"batch_size": 0, "mask_targets": False}
    assert LinkPredictor(**tiny(training=whole)).fit(planted_graph()).metrics_["auc"] > 0


def test_the_energy_falls_with_safe_steps() -> None:
    model = LinkPredictor(**tiny(encoder={"step_size": "safe", "num_steps": 3})).fit(planted_graph())
    assert model.energy_trace() == pytest.approx(list(model.fitted_.energy))
    longer = model.energy_trace(num_steps=10)
    assert len(longer) == 11
    assert all(after < before for before, after in zip(longer, longer[1:], strict=False))
    for wrong in (-1, 2.5):
        with pytest.raises(InputError, match="'num_steps' needs to be an integer from 0 on"):
            model.energy_trace(wrong)  # type: ignore[arg-type]


def test_a_split_that_leaks_is_refused_before_training() -> None:
    graph = planted_graph()
    split = random_split(graph, seed=0)
    leaking = dataclasses.replace(split, test_messages=np.arange(graph.num_edges))
    with pytest.raises(LeakError, match="scored-by-itself"):
        LinkPredictor(**tiny()).fit(graph, split=leaking)
    LinkPredictor(**tiny()).fit(graph, split=dataclasses.replace(leaking, leaks="on purpose"))


def test_layers_that_run_away_are_refused_unless_asked_for() -> None:
    wild = {"encoder": {"repulsion": 20.0, "learn_repulsion": "no", "step_size": 1.0, "num_steps": 8}}
    with pytest.raises(DivergedError, match="the energy diverges"):
        LinkPredictor(**tiny(**wild)).fit(planted_graph())
    accepting = LinkPredictor(**tiny(**wild, training={"refuse_runaway": False})).fit(planted_graph())
    assert np.isfinite(accepting.embeddings_).all()


def test_the_holdout_of_fit_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every split is audited, but the one that fit makes itself once was not."""
    made = chosen_module.holdout_split

    def leaking(*args: Any, **options: Any) -> Split:
        split = made(*args, **options)
        return dataclasses.replace(split, valid_messages=np.arange(split.graph.num_edges))

    monkeypatch.setattr(chosen_module, "holdout_split", leaking)
    with pytest.raises(LeakError, match="scored-by-itself"):
        LinkPredictor(**tiny()).fit(planted_graph())
