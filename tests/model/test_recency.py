"""Messages that weigh less the older they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts import tiny
from yinyan import Graph, LinkPredictor, SettingsError, temporal_split
from yinyan.model.encoder import Encoder, EncoderInput
from yinyan.model.messages import MessageGraph
from yinyan.model.recency import HalfLife, decayed, rescaled
from yinyan.model.sketches import Sketches
from yinyan.model.tensors import message_graph
from yinyan.settings import EncoderSettings

CPU = torch.device("cpu")


def dated(*, directed: bool = False, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 40, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_arrays(pairs, times=rng.integers(0, 1000, len(pairs)), num_nodes=40, directed=directed)


def double(messages: MessageGraph) -> MessageGraph:
    assert messages.ages is not None
    return MessageGraph.from_pairs(messages.pairs, messages.num_nodes, ages=messages.ages.double(), dtype=torch.float64)


def encoder_of(**settings: object) -> Encoder:
    torch.manual_seed(0)
    chosen = {"inputs": "embeddings", "hidden_size": 5, "embedding_size": 4, "num_steps": 3, "output_norm": False}
    return Encoder(EncoderSettings(**{**chosen, **settings}), 40, 0)  # type: ignore[arg-type]


def test_a_link_of_one_half_life_weighs_half() -> None:
    decays = decayed(torch.tensor([0.0, 10.0, 20.0]), 10.0)
    torch.testing.assert_close(decays, torch.tensor([1.0, 0.5, 0.25]))
    torch.testing.assert_close(rescaled(decays), decays * 3 / 1.75)


def test_only_differences_of_age_count() -> None:
    ages = torch.tensor([3.0, 7.0, 50.0])
    torch.testing.assert_close(decayed(ages + 1000, 9.0), decayed(ages, 9.0))


def test_hidden_links_count_nothing_and_may_be_younger() -> None:
    ages, hidden = torch.tensor([0.0, 5.0, 15.0]), torch.tensor([True, False, False])
    shown = decayed(ages, 10.0, hidden)
    torch.testing.assert_close(shown[1:], decayed(ages[1:], 10.0))
    torch.testing.assert_close(rescaled(shown, hidden)[1:], rescaled(shown[1:]))
    everything = torch.ones(3, dtype=torch.bool)
    assert rescaled(decayed(ages, 10.0, everything), everything).isfinite().all()


def test_extreme_half_lives_are_finite() -> None:
    ages = torch.tensor([0.0, 1e9, 2e9])
    assert decayed(ages, 1e-9).tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(decayed(ages, 1e30), torch.ones(3))


def test_ages_of_two_directions_are_those_of_the_younger() -> None:
    graph = Graph.from_arrays([(0, 1), (1, 0), (1, 2)], times=[5, 9, 2], directed=True)
    messages = message_graph(graph, np.arange(3), CPU)
    assert messages.ages is not None and messages.ages.tolist() == [0, 7]


def test_the_energy_has_the_decayed_weights() -> None:
    messages = double(message_graph(dated(), np.arange(dated().num_edges), CPU))
    encoder = encoder_of(half_life=200.0).double()
    weighed = MessageGraph.from_pairs(messages.pairs, 40, weights=decayed(messages.ages, 200.0), dtype=torch.float64)
    plain = encoder_of().double()
    y, same = (e(None, m) for e, m in ((encoder, messages), (plain, weighed)))
    torch.testing.assert_close(y, same)
    assert not torch.allclose(y, plain(None, messages)), "age counts"


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("hide", [False, True])
def test_the_gradient_of_the_half_life_is_that_of_the_embeddings(norm: bool, hide: bool) -> None:
    messages = double(message_graph(dated(), np.arange(dated().num_edges), CPU))
    encoder = encoder_of(half_life="learned", output_norm=norm).double()
    half_life = encoder.learned_half_life
    assert half_life is not None and messages.ages is not None
    half_life.unit.fill_(float(messages.ages.mean()))
    hidden = messages.ages < 100 if hide else None

    def output(power: Tensor) -> Tensor:
        half_life.power.data.copy_(power.detach())
        parameters = {"learned_half_life.power": power}
        return torch.func.functional_call(encoder, parameters, (None, messages), {"hidden": hidden})

    power = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(output, (power,))
    (slope,) = torch.autograd.grad(output(power).square().sum(), power)
    assert abs(float(slope)) > 1e-6


@pytest.mark.parametrize("shown", [0, 1, 5])
def test_gradients_are_finite_where_nodes_have_no_visible_link(shown: int) -> None:
    """The first steps of a training by time see hardly any message: the loss became NaN."""
    messages = message_graph(dated(), np.arange(dated().num_edges), CPU)
    encoder = encoder_of(half_life="learned", expected_negatives=True)
    hidden = torch.arange(len(messages.pairs)) >= shown
    encoder(None, messages, hidden=hidden).square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())
    assert encoder.learned_half_life is not None and encoder.learned_half_life.power.grad is not None


def test_a_learned_half_life_embeds_as_one_that_is_given() -> None:
    messages = message_graph(dated(), np.arange(dated().num_edges), CPU)
    learned, given = encoder_of(half_life="learned"), encoder_of(half_life=300.0)
    assert learned.learned_half_life is not None
    learned.learned_half_life.unit.fill_(300.0)
    torch.testing.assert_close(learned(None, messages), given(None, messages))
    y, energies = learned.watched(EncoderInput(None, messages))
    assert energies[1] < energies[0]
    torch.testing.assert_close(y, given(None, messages))


def test_it_starts_at_the_mean_age_and_is_kept() -> None:
    half_life = HalfLife()
    assert float(half_life(torch.tensor([0.0, 10.0, 20.0]))) == pytest.approx(10)
    assert float(half_life(torch.tensor([500.0]))) == pytest.approx(10), "as in the first step"
    assert math.isfinite(float(HalfLife()(torch.zeros(3))))


@pytest.mark.parametrize("half_life", [150.0, "learned"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_model_with_a_half_life_is_fitted_saved_and_grown(
    half_life: object, directed: bool, tmp_path: object
) -> None:
    graph = dated(directed=directed)
    model = LinkPredictor(**tiny(encoder={"half_life": half_life}, training={"epochs": 2})).fit(graph)
    model.save(f"{tmp_path}/model")
    again = LinkPredictor.load(f"{tmp_path}/model")
    assert again.settings_.encoder.half_life == half_life
    np.testing.assert_array_equal(again.score([(0, 1), (2, 3)]), model.score([(0, 1), (2, 3)]))
    assert len(model.extended(["new"], None, [("new", 0)]).recommend("new", k=2)) == 2
    if half_life == "learned":
        assert abs(float(model.fitted_.encoder.learned_half_life.power)) > 0  # type: ignore[union-attr]


def test_a_graph_without_times_has_no_half_life() -> None:
    plain = Graph.from_arrays(dated().edges)
    with pytest.raises(SettingsError, match=r"encoder\.half_life: needs the times of the edges"):
        LinkPredictor(**tiny(encoder={"half_life": 5.0})).fit(plain)


def test_recent_messages_win_where_the_world_changes() -> None:
    """Two communities are shuffled half way: what came before says nothing."""
    rng = np.random.default_rng(0)
    pairs, times = [], []
    for half, order in enumerate((np.arange(60), rng.permutation(60))):
        side = np.empty(60, dtype=int)
        side[order[:30]], side[order[30:]] = 0, 1
        drawn = rng.integers(0, 60, (4000, 2))
        kept = drawn[(side[drawn[:, 0]] == side[drawn[:, 1]]) & (drawn[:, 0] != drawn[:, 1])][:500]
        pairs.append(kept)
        times.append(half * 500 + np.arange(len(kept)))
    graph = Graph.from_arrays(np.concatenate(pairs), times=np.concatenate(times), num_nodes=60)
    split = temporal_split(graph, seed=0)

    def auc(**encoder: object) -> float:
        plain = {"inputs": "random", "num_steps": 4, **encoder}
        model = LinkPredictor(**tiny(encoder=plain, training={"epochs": 15, "batch_size": 100}))
        return model.fit(graph, split=split).metrics_["auc"]

    assert auc(half_life=60.0) > auc() + 0.02


class TestSketches:
    """With a half-life, links count in the sketches as much as their age says."""

    aged = message_graph(dated(), np.arange(dated().num_edges), CPU)
    messages = aged.weighed(decayed(aged.ages, 200.0))

    def matrix(self) -> Tensor:
        adjacency = torch.zeros(40, 40)
        a, b = self.messages.pairs.T
        assert self.messages.decays is not None
        adjacency[a, b] = adjacency[b, a] = self.messages.decays
        return adjacency

    def test_they_are_products_of_the_decayed_matrix(self) -> None:
        sketches, matrix = Sketches(64), self.matrix()
        r = sketches.signs(40, CPU)
        near, degrees = matrix @ r, matrix.sum(1)
        far = matrix @ near - matrix.square().sum(1)[:, None] * r
        scarce = matrix @ (r / degrees.clamp(min=1).sqrt()[:, None])
        wanted = torch.cat([near, scarce, far, degrees.log1p()[:, None]], dim=1)
        torch.testing.assert_close(sketches.of(self.messages), wanted)

    def test_gates_that_are_open_or_shut(self) -> None:
        sketches, (a, b) = Sketches(64), self.messages.pairs[0].tolist()
        rows, columns = torch.tensor([a, b]), torch.tensor([b, a])
        gated = sketches.gated(self.messages, torch.tensor([a, b]), rows, columns)
        torch.testing.assert_close(gated(torch.ones(2)), sketches.of(self.messages)[[a, b]])
        hidden = torch.zeros(len(self.messages.pairs), dtype=torch.bool)
        hidden[0] = True
        torch.testing.assert_close(gated(torch.zeros(2)), sketches.of(self.messages, hidden)[[a, b]])

    def test_an_explanation_adds_up(self) -> None:
        model = LinkPredictor(**tiny(encoder={"half_life": 200.0, "sketch_size": 16}, training={"epochs": 2}))
        why = model.fit(dated()).explain(0, 1)
        assert why.score_alone + sum(c.amount for c in why.contributions) + why.residue == pytest.approx(why.score)
        assert why.score == pytest.approx(model.score((0, 1)), abs=1e-4)
