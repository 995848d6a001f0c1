"""The loop: it learns, hides what it predicts, stops, goes on as if it had not, and keeps the best."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from yinyan.errors import TrainingError
from yinyan.graph import Graph
from yinyan.metrics import hits_at_rate, mrr, roc_auc
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import Encoder
from yinyan.model.fitted import EpochRecord
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, decode, score_pairs
from yinyan.randomness import Streams
from yinyan.sampling import KnownPairs
from yinyan.settings import DecoderSettings, EncoderSettings, TrainingSettings
from yinyan.splits import random_split
from yinyan.training.data import TrainingData, draw_loss_negatives, training_data
from yinyan.training.loop import TrainingState, build_optimizer, learning_rate, selection_score, settle, train, validate

CPU = torch.device("cpu")
NODES = 60
# every setting that matters is named, so that a better default breaks no test
ENCODER: dict[str, Any] = {
    "inputs": "both",
    "hidden_size": 16,
    "embedding_size": 8,
    "num_layers": 1,
    "num_steps": 2,
    "step_size": 0.5,
    "anchoring": 0.5,
    "attraction": 1.0,
    "repulsion": 0.3,
    "learn_repulsion": "softplus",
    "num_negatives": 1,
    "expected_negatives": True,
    "margin": None,
    "feature_dropout": 0.5,
    "dropout": 0.5,
    "output_norm": True,
}
TRAINING: dict[str, Any] = {
    "averaging": 0.0,
    "epochs": 3,
    "batch_size": 60,
    "learning_rate": 0.005,
    "weight_decay": 1e-4,
    "schedule": "cosine",
    "warmup": 0.05,
    "clip_norm": 1.0,
    "loss": "paper",
    "loss_negatives": 3,
    "loss_sampler": "global",
    "mask_targets": True,
    "evaluate_every": 1,
    "patience": 20,
}


def planted(*, directed: bool = False) -> Graph:
    """Three groups of twenty with many links within and few between, and features that say nothing of them."""
    rng = np.random.default_rng(0)
    group = np.arange(NODES) % 3
    pairs = np.array([(i, j) for i in range(NODES) for j in range(NODES) if i < j or (directed and i != j)])
    share = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 0.35, 0.01)
    features = rng.normal(size=(NODES, 4)).astype(np.float32)
    return Graph.from_arrays(
        pairs[rng.random(len(pairs)) < share], num_nodes=NODES, features=features, directed=directed
    )


@pytest.fixture(scope="module")
def data() -> TrainingData:
    graph = planted()
    return training_data(graph, random_split(graph, seed=1, valid_negatives=300), CPU)


@pytest.fixture(scope="module")
def directed_data() -> TrainingData:
    graph = planted(directed=True)
    return training_data(graph, random_split(graph, seed=1, valid_negatives=300), CPU)


def build(seed: int = 0, *, directed: bool = False, **options: Any) -> Model:
    torch.manual_seed(seed)
    decoder = DecoderSettings(depth=2, width=16, residual=True, norm=True, dropout=0.3)
    encoder = {**ENCODER, **options}
    return Model(Encoder(EncoderSettings(**encoder), NODES, 4), build_decoder(decoder, 16, directed=directed))


def settings(**options: Any) -> TrainingSettings:
    return TrainingSettings(**{**TRAINING, **options})


def run(data: TrainingData, model: Model | None = None, seed: int = 5, **options: Any) -> tuple[Model, TrainingState]:
    model = model or build()
    return model, train(model, data, settings(**options), Streams(seed, CPU))


def scores(model: Model, data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        y = model.encoder(data.features, data.messages, negatives=torch.Generator().manual_seed(0))
    return decode(model.decoder, y, data.valid_links), decode(model.decoder, y, data.valid_non_links)


def weights(model: Model) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class TestLearning:
    def test_training_beats_an_untrained_model(self, data: TrainingData) -> None:
        before = roc_auc(*scores(build(), data))
        trained, state = run(data, epochs=25, learning_rate=0.02)
        after = roc_auc(*scores(trained, data))
        assert after > before + 0.1
        assert after > 0.75
        assert state.history[-1].loss < state.history[0].loss

    def test_directed_training_learns_too(self, directed_data: TrainingData) -> None:
        trained, _ = run(directed_data, build(directed=True), epochs=25, learning_rate=0.02)
        assert roc_auc(*scores(trained, directed_data)) > 0.75

    @pytest.mark.parametrize("loss", ["paper", "auc", "hinge", "logrank", "infonce", "hardest"])
    def test_every_loss_falls(self, data: TrainingData, loss: str) -> None:
        _, state = run(data, loss=loss, epochs=10, learning_rate=0.02)
        assert state.history[-1].loss < state.history[0].loss

    @pytest.mark.parametrize(("loss", "moves"), [("infonce", False), ("logrank", False), ("paper", True)])
    def test_rounding_moves_no_constant(self, data: TrainingData, loss: str, moves: bool) -> None:
        """Adam scaled rounding errors up to its rate: scores of other processors were .02 apart after three epochs."""
        model = build()
        assert model.decoder.constant is not None
        before = model.decoder.constant.detach().clone()
        trained, _ = run(data, model, loss=loss, epochs=3, learning_rate=0.02)
        assert (not torch.equal(trained.decoder.constant, before)) == moves
        assert all(weight.grad is None for weight in trained.parameters()), "it grew from step to step and was clipped"

    @pytest.mark.parametrize("batch_size", [0, 50, 10_000])
    def test_without_masking_any_batch_runs(self, data: TrainingData, batch_size: int) -> None:
        steps: list[int] = []
        train(
            build(),
            data,
            settings(batch_size=batch_size, mask_targets=False, epochs=2),
            Streams(5, CPU),
            on_step=lambda state: steps.append(state.position) or True,
        )
        count = len(data.targets)
        assert len(steps) == 2 * (math.ceil(count / 50) if batch_size == 50 else 1)
        assert steps[-1] == count

    def test_history_and_reports(self, data: TrainingData) -> None:
        seen: list[EpochRecord] = []
        state = train(build(), data, settings(evaluate_every=2), Streams(5, CPU), on_epoch=seen.append)
        assert seen == state.history
        assert [record.epoch for record in seen] == [1, 2, 3]
        assert [record.hits is None for record in seen] == [True, False, False]  # the last epoch is always judged
        assert all(record.repulsion is not None for record in seen[1:])
        assert state.finished
        assert state.epoch == 3

    def test_same_seed_same_model(self, data: TrainingData) -> None:
        first, again, other = run(data)[0], run(data)[0], run(data, seed=6)[0]
        assert same(weights(first), weights(again))
        assert not same(weights(first), weights(other))

    # two values of every setting of the loop, and what must be set beside them for a run to differ
    @pytest.mark.parametrize(
        ("name", "first", "second", "beside"),
        [
            ("epochs", 2, 3, {"evaluate_every": 9}),
            ("batch_size", 60, 30, {}),
            ("learning_rate", 0.005, 0.01, {}),
            ("weight_decay", 0.0, 0.5, {}),
            ("schedule", "cosine", "linear", {}),
            ("warmup", 0.0, 0.5, {}),
            ("clip_norm", 0.0, 0.01, {}),
            ("loss", "paper", "auc", {}),
            ("loss_negatives", 1, 3, {}),
            ("loss_sampler", "global", "source", {}),
            ("mask_targets", True, False, {}),
        ],
    )
    def test_each_setting_matters(
        self, data: TrainingData, name: str, first: Any, second: Any, beside: dict[str, Any]
    ) -> None:
        made = [weights(run(data, **{"epochs": 2, "evaluate_every": 9, **beside, name: v})[0]) for v in (first, second)]
        assert not same(*made)


class TestMasking:
    @pytest.fixture
    def seen(self, monkeypatch: pytest.MonkeyPatch) -> list[Tensor | None]:
        """The masks that the message graph was asked for."""
        masks: list[Tensor | None] = []
        original = MessageGraph.terms

        def spy(self: MessageGraph, *args: Any, hidden: Tensor | None = None) -> Any:
            masks.append(hidden)
            return original(self, *args, hidden=hidden)

        monkeypatch.setattr(MessageGraph, "terms", spy)
        return masks

    def test_each_batch_hides_its_own_links(self, data: TrainingData, seen: list[Tensor | None]) -> None:
        batches: list[Tensor] = []

        def note(state: TrainingState) -> bool:
            assert state.order is not None
            start = sum(len(batch) for batch in batches)
            batches.append(state.order[start : state.position])
            return True

        train(build(), data, settings(epochs=1), Streams(5, CPU), on_step=note)
        masks, validation = seen[: len(batches)], seen[len(batches) :]
        assert validation == [None]  # nothing hides at validation
        assert len(masks) == len(batches) == math.ceil(len(data.targets) / 60)
        for mask, batch in zip(masks, batches, strict=True):
            assert mask is not None
            assert mask.sum() == len(batch)
            hidden = {frozenset(pair) for pair in data.messages.pairs[mask].tolist()}
            assert hidden == {frozenset(pair) for pair in data.targets[batch].tolist()}
        assert sorted(torch.cat(batches).tolist()) == list(range(len(data.targets)))

    def test_a_link_that_passes_no_message_hides_none(self, data: TrainingData, seen: list[Tensor | None]) -> None:
        places = data.pair_of_target.clone()
        places[::2] = -1
        orders: list[Tensor] = []
        train(
            build(),
            replace(data, pair_of_target=places),
            settings(epochs=1),
            Streams(5, CPU),
            on_step=lambda state: orders.append(state.order) or True,
        )
        expected = {place for place in places[orders[0][:60]].tolist() if place >= 0}
        assert seen[0] is not None
        assert 0 < len(expected) < 60
        assert set(seen[0].nonzero().flatten().tolist()) == expected

    def test_a_directed_batch_hides_reversed_links(
        self, directed_data: TrainingData, seen: list[Tensor | None]
    ) -> None:
        orders: list[Tensor] = []
        train(
            build(directed=True),
            directed_data,
            settings(epochs=1),
            Streams(5, CPU),
            on_step=lambda state: orders.append(state.order) is None and False,  # type: ignore[arg-type]
        )
        batch, mask = orders[0][:60], seen[0]
        assert mask is not None
        visible = {frozenset(pair) for pair in directed_data.messages.pairs[~mask].tolist()}
        assert not visible & {frozenset(pair) for pair in directed_data.targets[batch].tolist()}

    def test_no_mask_if_not_asked_for(self, data: TrainingData, seen: list[Tensor | None]) -> None:
        run(data, epochs=1, mask_targets=False)
        assert seen
        assert all(mask is None for mask in seen)

    def test_hiding_is_what_stops_copying(self, data: TrainingData) -> None:
        """A model that sees its targets fits them better in training than one that must predict them."""
        losses = [
            run(data, build(feature_dropout=0.0, dropout=0.0), mask_targets=mask, epochs=15, learning_rate=0.02)[1]
            for mask in (False, True)
        ]
        assert losses[0].history[-1].loss < losses[1].history[-1].loss

    @pytest.mark.parametrize("batch_size", [0, 10_000])
    def test_hiding_everything_is_refused(self, data: TrainingData, batch_size: int) -> None:
        count = len(data.targets)
        with pytest.raises(TrainingError, match=rf"covers all {count} training links.*at most {count // 2}"):
            run(data, batch_size=batch_size)


def run_one_step(data: TrainingData, **options: Any) -> tuple[Model, TrainingState]:
    model = build()
    return model, train(model, data, settings(**options), Streams(5, CPU), on_step=lambda _: False)


class TestStopAndResume:
    """Stop after any step, rebuild everything from what was saved, go on: the same to the last bit."""

    options: ClassVar[dict[str, Any]] = {"num_negatives": 2, "expected_negatives": False}  # every stream is in use
    chosen = settings(epochs=3, batch_size=80, learning_rate=0.01, patience=0)

    def straight(self, data: TrainingData) -> tuple[Model, TrainingState]:
        model = build(**self.options)
        return model, train(model, data, self.chosen, Streams(5, CPU))

    def interrupted(
        self, data: TrainingData, stop_after: int, chosen: TrainingSettings
    ) -> tuple[Model, TrainingState, int]:
        model, streams = build(**self.options), Streams(5, CPU)
        optimizer = build_optimizer(model, chosen)
        steps = 0

        def stop(_: TrainingState) -> bool:
            nonlocal steps
            steps += 1
            return steps != stop_after

        state = train(model, data, chosen, streams, optimizer=optimizer, on_step=stop)
        saved = copy.deepcopy((weights(model), optimizer.state(), streams.state(), state))

        fresh_model, fresh_streams = build(seed=99, **self.options), Streams(99, CPU)
        fresh_model.load_state_dict(saved[0])
        fresh_optimizer = build_optimizer(fresh_model, chosen)
        fresh_optimizer.restore(saved[1])
        fresh_streams.restore(saved[2])
        ended = train(fresh_model, data, chosen, fresh_streams, state=saved[3], optimizer=fresh_optimizer)
        return fresh_model, ended, steps

    def test_equals_a_straight_run_wherever_it_stops(self, data: TrainingData) -> None:
        model, state = self.straight(data)
        per_epoch = math.ceil(len(data.targets) / 80)
        assert per_epoch > 1
        for stop_after in range(1, 3 * per_epoch + 1):  # the last step of an epoch and of the run included
            other, ended, steps = self.interrupted(data, stop_after, self.chosen)
            assert steps == stop_after
            assert ended.history == state.history, stop_after
            assert (ended.best_epoch, ended.best_score) == (state.best_epoch, state.best_score)
            assert same(weights(model), weights(other)), stop_after

    def test_stopping_at_the_end_of_an_epoch(self, data: TrainingData) -> None:
        """Resumed there, the loop had no learning rate to record."""
        chosen = settings(epochs=2, batch_size=0, mask_targets=False)
        _, ended, _ = self.interrupted(data, 1, chosen)
        assert [record.epoch for record in ended.history] == [1, 2]
        assert ended.history[0].learning_rate == learning_rate(chosen, 0, 2)

    def test_a_stopped_run_is_not_finished(self, data: TrainingData) -> None:
        state = train(build(), data, settings(), Streams(5, CPU), on_step=lambda _: False)
        assert not state.finished
        assert state.position == 60
        assert state.history == []

    def test_a_finished_run_stays_finished(self, data: TrainingData) -> None:
        model, state = run(data)
        before = weights(model)
        model.load_state_dict(weights(build(seed=99)))
        again = train(model, data, settings(), Streams(99, CPU), state=state)
        assert again.epoch == 3
        assert same(before, weights(model))


class TestBest:
    @pytest.mark.parametrize("learning_rate", [0.01, 0.3])  # the second soon spoils the model
    def test_weights_are_those_that_validated_best(self, data: TrainingData, learning_rate: float) -> None:
        model, state = run(data, epochs=8, learning_rate=learning_rate, clip_norm=0.0, schedule="constant")
        best = max(state.history, key=lambda record: record.score or 0.0)
        assert state.best_epoch == best.epoch
        assert state.best_score == best.score
        positive, negative = scores(model, data)
        assert hits_at_rate(positive, negative, 0.1) == best.hits
        assert roc_auc(positive, negative) == best.auc
        assert mrr(positive, negative) == best.mrr
        assert same(weights(model), state.best_weights.tensors())

    def test_best_weights_do_not_follow_the_live_ones(self, data: TrainingData) -> None:
        """In the released code they did: the best was always the last."""
        model, state = run(data)
        kept = copy.deepcopy(state.best_weights.tensors())
        for parameter in model.parameters():
            parameter.data.add_(1.0)
        assert same(kept, state.best_weights.tensors())

    def test_hits_and_auc_choose(self) -> None:
        positive = np.array([5.0, 4.0, 3.0, 2.0], np.float32)
        negative = np.array([4.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], np.float32)
        assert selection_score(positive, negative, "balanced") == 0.25 + 37 / 40
        assert selection_score(positive, negative, "auc") == 37 / 40
        assert selection_score(positive, negative, "mrr") == pytest.approx((1 + 3 / 2) / 4)
        assert selection_score(positive, np.append(negative, [0.0] * 10).astype(np.float32), "hits@20") == 1.0

    @pytest.mark.parametrize("selection", ["mrr", "auc", "hits@20"])
    def test_a_metric_can_choose_alone(self, data: TrainingData, selection: str) -> None:
        model, state = run(data, epochs=5, selection=selection)
        positive, negative = scores(model, data)
        assert state.best_score == selection_score(positive, negative, selection)
        assert state.best_score == max(record.score or 0.0 for record in state.history)

    def test_links_are_ranked_among_their_own_non_links(self, data: TrainingData) -> None:
        own = data.valid_non_links[: 5 * len(data.valid_links)].reshape(-1, 5, 2)
        links = data.valid_links[: len(own)]
        model, state = run(replace(data, valid_links=links, valid_non_links=own), epochs=2, selection="mrr")
        y = model.encoder(data.features, data.valid_messages, negatives=Streams(5, CPU)["message_negatives"])
        positive, negative = (score_pairs(model, y, data.messages, pairs) for pairs in (links, own))
        assert negative.shape == (len(links), 5)
        ranks = 1 + (negative > positive[:, None]).sum(axis=1)
        assert state.best_score == pytest.approx((1 / ranks).mean())

    def test_validation_links_may_have_messages_of_their_own(self, data: TrainingData) -> None:
        fewer = MessageGraph.from_pairs(data.messages.pairs[::2], NODES)
        _, usual = run(data)
        _, other = run(replace(data, valid_messages=fewer))
        assert [record.loss for record in other.history] == [record.loss for record in usual.history]
        assert [record.auc for record in other.history] != [record.auc for record in usual.history]

    def test_patience_stops(self, data: TrainingData) -> None:
        frozen = {"learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 30}
        _, state = run(data, patience=2, **frozen)
        assert state.finished
        assert state.epoch == state.best_epoch + 2 < 30
        assert state.waited == 2

    def test_patience_counts_validations(self, data: TrainingData) -> None:
        _, state = run(data, patience=2, evaluate_every=3, learning_rate=1e-12, weight_decay=0.0, epochs=30)
        assert state.epoch == state.best_epoch + 6

    def test_gains_within_the_noise_are_no_progress(self, data: TrainingData) -> None:
        """A converged run went on, as long as its score crept up by less than validation can measure."""
        slow = {"learning_rate": 2e-4, "weight_decay": 0.0, "epochs": 30, "patience": 3, "schedule": "constant"}
        every, some = (run(data, min_gain=gain, **slow)[1] for gain in (0.0, 2.0))
        assert some.epoch < every.epoch
        assert some.best_score == max(record.score or 0 for record in some.history)  # and the best is kept all the same
        first = some.history[0]
        assert first.noise == pytest.approx(np.sqrt(first.hits * (1 - first.hits) / len(data.valid_links)))
        assert all(r.score <= first.score + 2 * r.noise for r in some.history[1:])  # type: ignore[operator]

    def test_a_run_that_is_nearly_done_is_not_cut_short(self, data: TrainingData) -> None:
        still = {"learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 20, "patience": 18}
        assert run(data, min_gain=0.0, **still)[1].epoch == 19
        assert run(data, min_gain=0.5, **still)[1].epoch == 20
        assert run(data, min_gain=0.5, **{**still, "patience": 17})[1].epoch == 18  # nine tenths are not yet nearly all

    @pytest.mark.parametrize("keep", ["best", "last"])
    def test_a_run_can_be_ended_where_it_stands(self, data: TrainingData, keep: str) -> None:
        model, chosen, streams = build(), settings(keep=keep, epochs=20, averaging=0.9), Streams(5, CPU)
        state = train(model, data, chosen, streams, on_step=lambda now: now.epoch < 4)
        assert not state.finished and len(state.history) == 4
        live = weights(model)
        settle(model, lambda record: validate(model, data, record, chosen, streams), chosen, state)
        wanted = state.best_weights.tensors() if keep == "best" else {**live, **state.average}
        assert state.finished and same(weights(model), wanted)

    def test_a_run_that_was_never_validated_can_be_ended_too(self, data: TrainingData) -> None:
        model, chosen, streams = build(), settings(), Streams(5, CPU)
        state = train(model, data, chosen, streams, on_step=lambda now: False)
        settle(model, lambda record: validate(model, data, record, chosen, streams), chosen, state)
        assert (state.best_epoch, len(state.history), state.best_score) == (0, 1, state.history[0].score)

    def test_no_patience_never_stops(self, data: TrainingData) -> None:
        _, state = run(data, patience=0, learning_rate=1e-12, weight_decay=0.0, epochs=8)
        assert state.epoch == 8


class TestSchedule:
    def rates(self, **options: Any) -> list[float]:
        chosen = settings(**{"learning_rate": 1.0, "warmup": 0.0, **options})
        return [learning_rate(chosen, step, 10) for step in range(10)]

    def test_constant(self) -> None:
        assert self.rates(schedule="constant") == [1.0] * 10

    def test_linear(self) -> None:
        assert self.rates(schedule="linear") == pytest.approx([1 - step / 10 for step in range(10)])

    def test_cosine(self) -> None:
        wanted = [0.5 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
        assert self.rates(schedule="cosine") == pytest.approx(wanted)

    def test_warmup(self) -> None:
        rates = self.rates(schedule="constant", warmup=0.4)
        assert rates == pytest.approx([1 / 5, 2 / 5, 3 / 5, 4 / 5] + [1.0] * 6)

    @pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
    def test_after_warmup_comes_the_top_and_never_zero(self, schedule: str) -> None:
        rates = self.rates(schedule=schedule, warmup=0.4)
        assert max(rates) == rates[4] == pytest.approx(1.0)
        assert min(rates) > 0
        assert self.rates(schedule=schedule, warmup=1.0)[-1] == pytest.approx(10 / 11)

    def test_the_optimiser_is_given_it(self, data: TrainingData) -> None:
        model, chosen = build(), settings(epochs=4, warmup=0.5)
        optimizer, given = build_optimizer(model, chosen), []
        update = optimizer.step

        def step(rate: float) -> None:
            given.append(rate)
            update(rate)

        optimizer.step = step  # type: ignore[method-assign]
        train(model, data, chosen, Streams(5, CPU), optimizer=optimizer)
        assert given == [learning_rate(chosen, step, len(given)) for step in range(len(given))]

    def test_history_tells_the_last_of_each_epoch(self, data: TrainingData) -> None:
        _, state = run(data, epochs=4)
        per_epoch = math.ceil(len(data.targets) / 60)
        wanted = [learning_rate(settings(epochs=4), per_epoch * epoch - 1, 4 * per_epoch) for epoch in (1, 2, 3, 4)]
        assert [record.learning_rate for record in state.history] == wanted


class TestDivergence:
    def test_names_the_cure(self, data: TrainingData) -> None:
        with pytest.raises(TrainingError, match=r"the loss became nan.*encoder\.step_size.*'safe'.*learning_rate"):
            run(data, build(step_size=1e30, num_steps=6))

    def test_is_noticed_at_validation(self, data: TrainingData) -> None:
        model = build()

        def spoil(_: TrainingState) -> bool:
            model.decoder.output.bias.data.fill_(math.nan)  # type: ignore[operator, union-attr]
            return True

        with pytest.raises(TrainingError, match=r"validation scores are not finite.*encoder\.step_size"):
            train(model, data, settings(batch_size=0, mask_targets=False), Streams(5, CPU), on_step=spoil)

    @pytest.mark.parametrize("runaway", [{"step_size": 30.0}, {"repulsion": 60.0, "learn_repulsion": "no"}], ids=str)
    def test_is_noticed_where_normalisation_hides_it(self, data: TrainingData, runaway: dict[str, object]) -> None:
        model = build(num_steps=6, output_norm=True, **runaway)
        with pytest.raises(TrainingError, match=r"the energy diverges: from .* in the layers.*encoder\.step_size"):
            run(data, model)

    def test_leaves_the_weights_finite(self, data: TrainingData) -> None:
        model = build(step_size=1e30, num_steps=6)
        with pytest.raises(TrainingError):
            run(data, model)
        assert all(value.isfinite().all() for value in weights(model).values())


class TestLossNegatives:
    @pytest.mark.parametrize("sampler", ["global", "source"])
    @pytest.mark.parametrize("count", [1, 4])
    def test_are_never_training_links(self, data: TrainingData, sampler: str, count: int) -> None:
        chosen = settings(loss_sampler=sampler, loss_negatives=count)
        drawn = draw_loss_negatives(data.known, data.targets, chosen, torch.Generator().manual_seed(0))
        assert drawn.shape == (len(data.targets), count, 2)
        assert not data.known.contains(drawn.view(-1, 2)).any()
        assert (drawn[..., 0] != drawn[..., 1]).all()
        kept = (drawn[..., 0] == data.targets[:, :1]).all()
        assert bool(kept) == (sampler == "source")

    def test_know_training_links_only(self, data: TrainingData) -> None:
        assert data.known.contains(data.targets).all()
        assert not data.known.contains(data.valid_links).any()
        assert data.known.keys.numel() == len(data.targets)

    def test_cannot_avoid_what_is_held_out(self) -> None:
        """Where held-out links are all that is left, they are drawn: nobody told the sampler."""
        pairs = torch.triu_indices(7, 7, offset=1).T
        held_out, training = pairs[:2], pairs[2:]
        known = KnownPairs.from_pairs(training, 7)
        drawn = draw_loss_negatives(known, training, settings(), torch.Generator().manual_seed(0)).view(-1, 2)
        assert {frozenset(pair) for pair in drawn.tolist()} == {frozenset(pair) for pair in held_out.tolist()}

    @pytest.mark.parametrize("sampler", ["global", "source"])
    def test_directed_ones_hold_the_reverse_where_it_is_no_link(self, sampler: str) -> None:
        links = torch.tensor([[0, 1], [1, 0], [2, 3], [4, 2]])
        known = KnownPairs.from_pairs(links, 30, directed=True)
        chosen = settings(loss_negatives=3, loss_sampler=sampler)
        drawn = draw_loss_negatives(known, links, chosen, torch.Generator().manual_seed(0))
        assert drawn[2:, -1].tolist() == [[3, 2], [2, 4]]
        assert not known.contains(drawn.view(-1, 2)).any()  # the reverse of (0, 1) is a link

    def test_undirected_ones_hold_no_reverse(self, data: TrainingData) -> None:
        drawn = draw_loss_negatives(data.known, data.targets, settings(), torch.Generator().manual_seed(0))
        assert not (drawn[:, -1] == data.targets.flip(1)).all(1).any()

    def test_are_fresh_at_every_step(self, data: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
        drawn: list[Tensor] = []

        def spy(*args: Any) -> Tensor:
            drawn.append(draw_loss_negatives(*args))
            return drawn[-1]

        monkeypatch.setattr("yinyan.training.loop.draw_loss_negatives", spy)
        run(data, batch_size=0, mask_targets=False, epochs=3)
        assert len(drawn) == 3
        assert not torch.equal(drawn[0], drawn[1])


class TestDecode:
    def test_blocks_do_not_matter(self, data: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
        model = build()
        whole = scores(model, data)[1]
        monkeypatch.setattr("yinyan.model.scoring.BLOCK", 7)
        assert np.allclose(scores(model, data)[1], whole, atol=1e-6)
        assert whole.dtype == np.float32
        assert whole.shape == (300,)

    def test_no_pairs(self) -> None:
        assert decode(build().decoder, torch.zeros(3, 16), torch.empty(0, 2, dtype=torch.long)).shape == (0,)


def test_validation_does_not_drop_out(data: TrainingData) -> None:
    """A record equals a plain forward pass, whatever the dropout rates."""
    model, state = run(data, build(dropout=0.9, feature_dropout=0.9), epochs=1)
    assert roc_auc(*scores(model, data)) == state.history[0].auc


class TestAveraging:
    def test_is_the_running_mean_of_the_weights(self, data: TrainingData) -> None:
        model, chosen = build(), settings(averaging=0.9, epochs=2)
        seen: list[dict[str, Tensor]] = []

        def note(_: TrainingState) -> bool:
            seen.append({name: value.detach().clone() for name, value in model.named_parameters()})
            return True

        state = train(model, data, chosen, Streams(5, CPU), on_step=note)
        mean = seen[0]
        for step, now in enumerate(seen[1:], start=1):
            kept = min(0.9, (1 + step) / (10 + step))
            mean = {name: kept * mean[name] + (1 - kept) * now[name] for name in mean}
        for name, value in state.average.items():
            torch.testing.assert_close(value, mean[name])

    def test_the_best_weights_are_averaged_ones(self, data: TrainingData) -> None:
        model, state = run(data, averaging=0.9, epochs=1)
        for name, value in model.named_parameters():
            assert torch.equal(value, state.average[name])

    def test_the_live_weights_go_on_untouched(self, data: TrainingData) -> None:
        finals = []
        for averaging in (0.0, 0.9):
            model = build()
            live: list[Tensor] = []
            hooks = {"on_step": lambda _, m=model, kept=live: kept.append(m.encoder.base.bias.detach().clone()) is None}
            train(model, data, settings(averaging=averaging, epochs=3), Streams(5, CPU), **hooks)
            finals.append(live[-1])
        assert torch.equal(*finals)


def test_the_same_run_twice_on_two_threads_is_the_same(data: TrainingData) -> None:
    """Fails where gradients of repeated rows are added by atomics (`y[pairs]` in the place of `index_select`)."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ends = [weights(run(data, build(), loss_negatives=400, epochs=2)[0]) for _ in range(3)]
    finally:
        torch.set_num_threads(before)
    for other in ends[1:]:
        assert all(torch.equal(ends[0][name], value) for name, value in other.items())
