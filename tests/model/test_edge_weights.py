"""Weights of messages that are learned from the features of edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts import tiny
from yinyan import Graph, InputError, LinkPredictor, SettingsError, random_split
from yinyan.model.edge_weights import EdgeWeights
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.tensors import message_graph
from yinyan.settings import EncoderSettings

CPU = torch.device("cpu")


def described(*, directed: bool = False, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 30, (150, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    features = rng.normal(size=(len(pairs), 2))
    return Graph.from_arrays(pairs, edge_features=features, num_nodes=30, directed=directed)


def encoder_of(num_edge_features: int = 2, **settings: object) -> Encoder:
    torch.manual_seed(0)
    chosen = {"inputs": "embeddings", "hidden_size": 5, "embedding_size": 4, "num_steps": 3, "output_norm": False}
    return Encoder(EncoderSettings(**{**chosen, **settings}), 30, 0, num_edge_features)  # type: ignore[arg-type]


def learned(encoder: Encoder) -> EdgeWeights:
    """Weights that say something."""
    assert encoder.edge_weights is not None
    torch.manual_seed(1)
    torch.nn.init.normal_(encoder.edge_weights.output.weight)
    return encoder.edge_weights


def double(graph: Graph) -> MessageGraph:
    messages = message_graph(graph, np.arange(graph.num_edges), CPU)
    assert messages.features is not None
    return MessageGraph.from_pairs(messages.pairs, 30, features=messages.features.double(), dtype=torch.float64)


class TestFunction:
    def test_is_positive_at_most_one_and_the_same_for_all_at_first(self) -> None:
        weights, x = EdgeWeights(3), torch.randn(20, 3)
        assert torch.equal(weights(x), torch.full((20,), 0.5))
        torch.nn.init.normal_(weights.output.weight)
        assert ((weights(x) > 0) & (weights(x) <= 1)).all() and weights(x).std() > 0.01

    def test_needs_the_columns_that_it_learned_from(self) -> None:
        for features, got in ((None, "none"), (torch.ones(4, 2), "2")):
            with pytest.raises(SettingsError, match=rf"from 3 edge features.*has {got}: read its edges"):
                EdgeWeights(3)(features)


class TestEnergy:
    def test_starts_as_the_plain_energy(self) -> None:
        messages = message_graph(described(), np.arange(described().num_edges), CPU)
        torch.testing.assert_close(encoder_of()(None, messages), encoder_of(0)(None, messages))

    def test_has_the_learned_weights_with_a_mean_of_one(self) -> None:
        messages, encoder = double(described()), encoder_of().double()
        own = learned(encoder)(messages.features)
        weighed = MessageGraph.from_pairs(messages.pairs, 30, weights=own.detach(), dtype=torch.float64)
        torch.testing.assert_close(encoder(None, messages), encoder_of(0).double()(None, weighed))
        assert float(encoder.recent(messages).weights.mean().detach()) == pytest.approx(1)

    @pytest.mark.parametrize("options", [{}, {"half_life": 50.0}, {"output_norm": True}, {"learn_repulsion": "no"}])
    @pytest.mark.parametrize("hide", [False, True])
    def test_the_gradient_of_the_function_is_that_of_the_embeddings(self, options: dict, hide: bool) -> None:  # type: ignore[type-arg]
        messages, encoder = double(described()), encoder_of(**options).double()
        messages.__dict__["ages"] = torch.arange(len(messages.pairs), dtype=torch.float64)
        start = learned(encoder).output.weight.detach().clone()
        hidden = torch.arange(len(messages.pairs)) < 20 if hide else None

        def output(weight: Tensor) -> Tensor:
            parameters = {"edge_weights.output.weight": weight}
            return torch.func.functional_call(encoder, parameters, (None, messages), {"hidden": hidden})

        weight = start.requires_grad_()
        assert torch.autograd.gradcheck(output, (weight,))
        (slope,) = torch.autograd.grad(output(weight).square().sum(), weight)
        assert float(slope.abs().max()) > 1e-6

    def test_both_directions_of_a_pair_weigh_alike(self) -> None:
        features = np.array([[1.0], [3.0], [7.0]])
        graph = Graph.from_arrays([(0, 1), (1, 0), (1, 2)], edge_features=features, directed=True)
        messages = message_graph(graph, np.arange(3), CPU)
        assert messages.features is not None and messages.features.tolist() == [[2.0], [7.0]]


NOISY = 120  # nodes


def noisy() -> dict[str, list[object]]:
    """Four communities; more than two edges in three are random, and a column marks these."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, NOISY, (20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    within = pairs[pairs[:, 0] % 4 == pairs[:, 1] % 4][:500]
    both = np.concatenate([within, pairs[10_000:11_200]])
    channel = np.array(["seen"] * 500 + ["bot"] * 1200)
    order = rng.permutation(len(both))
    return {
        "source": both[order, 0].tolist(),
        "target": both[order, 1].tolist(),
        "channel": channel[order].tolist(),
    }


class TestFit:
    def test_edges_that_a_column_marks_as_noise_weigh_less(self) -> None:
        """And pairs of one community score above others, which without the column they hardly do."""
        found = {}
        for columns in (("channel",), None):
            graph = Graph.from_table(noisy(), "source", "target", weight=False, time=False, edge_features=columns)
            split, group = random_split(graph, seed=0), np.array(graph.ids.take(np.arange(NOISY))) % 4
            params = tiny(encoder={"inputs": "embeddings", "num_steps": 4}, training={"epochs": 20, "batch_size": 200})
            model = LinkPredictor(**params).fit(graph, split=split)
            ids = graph.ids

            def scores(pairs: np.ndarray, *, same: bool) -> np.ndarray:
                chosen = pairs[(group[pairs[:, 0]] == group[pairs[:, 1]]) == same]  # noqa: B023
                return np.asarray(model.score([(ids[a], ids[b]) for a, b in chosen]))  # noqa: B023

            links, others = scores(split.test_targets, same=True), scores(split.test_negatives, same=False)
            found[columns] = float((links[:, None] > others[None]).mean())
            weights = model.fitted_.encoder.edge_weights  # type: ignore[union-attr]
            if columns is None:
                assert weights is None
                continue
            assert weights is not None and graph.edge_encoder is not None
            assert graph.edge_encoder.plans[0].categories == ("bot", "seen")
            with torch.no_grad():
                own = weights(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
            assert own[0] < 0.2 * own[1], "a random edge weighs less"
        assert found["channel",] > 0.9 > 0.8 > found[None]

    @pytest.mark.parametrize("directed", [False, True])
    def test_is_saved_and_grown(self, directed: bool, tmp_path: Path) -> None:
        graph = described(directed=directed)
        model = LinkPredictor(**tiny(encoder={"sketch_size": 8}, training={"epochs": 2})).fit(graph)
        model.save(tmp_path / "model")
        again = LinkPredictor.load(tmp_path / "model")
        assert again.graph_.edge_features is not None
        np.testing.assert_array_equal(again.graph_.edge_features, graph.edge_features)
        np.testing.assert_array_equal(again.score([(0, 1), (2, 3)]), model.score([(0, 1), (2, 3)]))
        grown = model.extended(["new"], None, [("new", 0)])
        assert grown.graph_.edge_features is not None and len(grown.recommend("new", k=2)) == 2
        why = model.explain(0, 1)
        assert why.score_alone + sum(c.amount for c in why.contributions) + why.residue == pytest.approx(why.score)


class TestTables:
    def test_columns_become_features_and_merged_edges_have_their_mean(self) -> None:
        table = {"a": ["x", "y", "z", "y"], "b": ["y", "z", "x", "x"], "km": [1.0, 5.0, 9.0, 3.0], "road": list("pqpq")}
        graph = Graph.from_table(table, "a", "b", edge_features=["km", "road"])
        assert graph.edge_features is not None and graph.edge_features.shape == (3, 3)
        assert [use.role for use in graph.columns] == ["source", "target", "edge feature", "edge feature"]
        assert "3 edge features" in graph.describe() and "features averaged" in graph.describe()
        merged = graph.edge_features[graph.find_edges(np.array([[0, 1]]))[0]]
        scale = np.array([1.0, 5.0, 9.0, 3.0])
        assert merged[0] == pytest.approx((2.0 - scale.mean()) / scale.std(), abs=1e-5)
        assert merged[1:].tolist() == [0.5, 0.5]
        assert graph.with_edges([0]).edge_features is not None
        assert graph.with_edges([0]).edge_features.shape == (1, 3)  # type: ignore[union-attr]

    def test_numbers_of_a_text_file_are_numbers(self, tmp_path: Path) -> None:
        rows = [f"{i},{i + 1},{i / 7:.3f},{'ab'[i % 2]}" for i in range(40)]
        (tmp_path / "edges.csv").write_text("\n".join(["source,target,km,kind", *rows]))
        graph = Graph.from_table(tmp_path / "edges.csv", edge_features=["km", "kind"])
        assert graph.edge_features is not None and graph.edge_features.shape == (40, 3)
        assert graph.edge_features[:, 0].std() == pytest.approx(1, abs=1e-3)

    def test_a_guessed_weight_gives_way(self) -> None:
        table = {"source": [0, 1, 2], "target": [1, 2, 0], "weight": [1.0, 2.0, 5.0]}
        graph = Graph.from_table(table, edge_features=["weight"])
        assert graph.weights is None and graph.edge_features is not None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"edge_features": ["lenght"]}, "lenght"),
            ({"edge_features": ["source"]}, "'source' of the edge table is the source already"),
            ({"edge_features": ["weight"], "weight": "weight"}, "is the weight already"),
            ({"edge_features": ["same"]}, "no column of 'same' can be used"),
        ],
    )
    def test_columns_that_cannot_be_are_refused(self, options: dict, message: str) -> None:  # type: ignore[type-arg]
        table = {"source": [0, 1, 2], "target": [1, 2, 0], "weight": [1.0, 2.0, 5.0], "same": [3, 3, 3]}
        with pytest.raises(InputError, match=message):
            Graph.from_table(table, **options)

    @pytest.mark.parametrize("features", [[1.0, 2.0], [[1.0]], [["a"], ["b"]], [[np.nan], [1.0]]])
    def test_arrays_of_another_shape_are_refused(self, features: object) -> None:
        with pytest.raises(InputError, match="edge_features"):
            Graph.from_arrays([(0, 1), (1, 2)], edge_features=features)
