"""A run tells what it does, stops when asked, and goes on as if it never had."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph, tiny
from yinyan.errors import StoppedError, StoreError, TrainingError
from yinyan.graph import Graph
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.tensors import message_graph
from yinyan.predictor import LinkPredictor
from yinyan.splits import holdout_split
from yinyan.training import fit as fitting
from yinyan.training.data import training_data
from yinyan.training.fingerprints import graph_fingerprint
from yinyan.training.hooks import Hooks

SAMPLED = {"expected_negatives": False, "num_negatives": 2}  # so that every stream of random numbers is in use


def fit(graph: Graph | None = None, *, hooks: Hooks | None = None, seed: int = 0, **groups: Any) -> Fitted:
    groups = {"encoder": SAMPLED, "training": {"epochs": 4, "batch_size": 30}, **groups}
    return LinkPredictor(**tiny(**groups, seed=seed)).fit(graph or planted_graph(), hooks=hooks).fitted_


def stop_after(steps: int) -> Callable[[], bool]:
    asked = iter(range(1, steps + 1))
    return lambda: next(asked, steps) >= steps


@pytest.fixture(scope="module")
def straight() -> Fitted:
    return fit()


@pytest.mark.parametrize("steps", [1, 4, 5, 11])  # 4 steps an epoch: within one, and at the end of one
def test_stop_and_resume_equals_a_straight_run(straight: Fitted, tmp_path: Path, steps: int) -> None:
    file = tmp_path / "deep" / "run.safetensors"
    with pytest.raises(StoppedError, match=rf"stopped in epoch \d; its state is in '{file}'"):
        fit(hooks=Hooks(should_stop=stop_after(steps), checkpoint=file))
    torch.manual_seed(99)  # what else happens in between must not matter
    done: list[int] = []
    resumed = fit(hooks=Hooks(checkpoint=file, resume=True, on_start=lambda epochs, start: done.append(start)))
    assert done == [(steps - 1) // 4]
    assert torch.equal(resumed.embeddings, straight.embeddings)
    for name, value in straight.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name
    assert resumed.history == straight.history
    assert resumed.best_epoch == straight.best_epoch
    assert resumed.calibration == straight.calibration
    assert resumed.metrics == straight.metrics


def test_the_running_average_goes_on_too(tmp_path: Path) -> None:
    training = {"epochs": 4, "batch_size": 30, "averaging": 0.9}
    file = tmp_path / "run.safetensors"
    with pytest.raises(StoppedError):
        fit(hooks=Hooks(should_stop=stop_after(6), checkpoint=file), training=training)
    resumed = fit(hooks=Hooks(checkpoint=file, resume=True), training=training)
    assert torch.equal(resumed.embeddings, fit(training=training).embeddings)


def test_stopping_twice_changes_nothing(straight: Fitted, tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    for steps in (3, 6):
        with pytest.raises(StoppedError):
            fit(hooks=Hooks(should_stop=stop_after(steps), checkpoint=file, resume=True))
    assert torch.equal(fit(hooks=Hooks(checkpoint=file, resume=True)).embeddings, straight.embeddings)


def test_a_crash_loses_little(straight: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_CHECKPOINT_SECONDS", -1.0)  # at every step
    monkeypatch.setattr(fitting, "_CHECKPOINT_SHARE", math.inf)

    def crash(figures: object, epoch: int) -> None:
        if epoch == 2:
            raise RuntimeError("the power fails")

    file = tmp_path / "run.safetensors"
    with pytest.raises(RuntimeError, match="the power fails"):
        fit(hooks=Hooks(trackers=[crash], checkpoint=file))
    seen: list[int] = []
    resumed = fit(hooks=Hooks(checkpoint=file, resume=True, on_epoch=lambda record: seen.append(record.epoch)))
    assert seen == [2, 3, 4]
    assert torch.equal(resumed.embeddings, straight.embeddings)


def test_a_stop_without_a_checkpoint_says_so() -> None:
    with pytest.raises(StoppedError, match=r"^training was stopped in epoch 1$"):
        fit(hooks=Hooks(should_stop=lambda: True))


def test_nothing_to_resume_from_starts_anew(straight: Fitted, tmp_path: Path) -> None:
    again = fit(hooks=Hooks(checkpoint=tmp_path / "none.safetensors", resume=True))
    assert torch.equal(again.embeddings, straight.embeddings)


def test_a_checkpoint_is_ignored_unless_asked_for(straight: Fitted, tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    with pytest.raises(StoppedError):
        fit(hooks=Hooks(should_stop=stop_after(3), checkpoint=file))
    starts: list[int] = []
    again = fit(hooks=Hooks(checkpoint=file, on_start=lambda epochs, start: starts.append(start)))
    assert starts == [0]
    assert torch.equal(again.embeddings, straight.embeddings)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"encoder": {**SAMPLED, "num_steps": 3}},
        {"training": {"epochs": 5, "batch_size": 30}},
        {"graph": planted_graph(seed=1)},
    ],
    ids=["seed", "encoder", "training", "graph"],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    file = tmp_path / "run.safetensors"
    with pytest.raises(StoppedError):
        fit(hooks=Hooks(should_stop=stop_after(2), checkpoint=file))
    before = file.read_bytes()
    with pytest.raises(StoreError, match="is of another run: its graph, settings or seed differ"):
        fit(**changed, hooks=Hooks(checkpoint=file, resume=True))
    assert file.read_bytes() == before


def test_trackers_get_figures_and_a_step() -> None:
    first: list[tuple[dict[str, float], int]] = []
    second: list[int] = []
    hooks = Hooks(
        trackers=[lambda figures, step: first.append((dict(figures), step)), lambda figures, step: second.append(step)]
    )
    fitted = fit(hooks=hooks)
    assert [step for _, step in first] == second == [1, 2, 3, 4]
    for (figures, _), record in zip(first, fitted.history, strict=True):
        assert set(figures) == {"loss", "learning_rate", "hits", "mrr", "auc", "repulsion", "score", "noise"}
        assert all(isinstance(value, float) for value in figures.values())
        assert figures["loss"] == record.loss
        assert figures["auc"] == record.auc


def test_figures_that_are_not_known_are_not_told() -> None:
    told: list[set[str]] = []
    training = {"epochs": 2, "batch_size": 30, "evaluate_every": 2}
    fit(hooks=Hooks(trackers=[lambda figures, step: told.append(set(figures))]), training=training)
    assert told[0] == {"loss", "learning_rate"}
    assert "auc" in told[1]


def test_the_model_is_described_before_training() -> None:
    order: list[str] = []
    fit(hooks=Hooks(tell=order.append, on_start=lambda epochs, start: order.append(f"start {epochs} {start}")))
    assert order[-1] == "start 4 0"
    assert [text.partition(": ")[0] for text in order[:-1]] == ["model", "training", "memory", "time"]


def test_history_and_best_epoch(straight: Fitted) -> None:
    assert [record.epoch for record in straight.history] == [1, 2, 3, 4]
    scores = [(record.hits or 0) + (record.auc or 0) for record in straight.history]
    assert straight.best_epoch == 1 + int(np.argmax(scores))
    assert straight.seconds > 0
    assert len(straight.energy) == 1 + straight.settings.encoder.num_steps


def test_metrics_are_those_of_the_validation_scores(straight: Fitted) -> None:
    positive, negative = straight.valid_scores
    beaten = (positive[:, None] > negative[None]) + 0.5 * (positive[:, None] == negative[None])
    assert straight.metrics["auc"] == pytest.approx(beaten.mean())
    assert set(straight.metrics) == {"hits@10%", "mrr", "auc", "ap", "score_spread"}


def test_embeddings_that_are_not_finite_are_refused(straight: Fitted) -> None:
    fitted = fit(planted_graph(size=12))
    with torch.no_grad():
        next(fitted.model.encoder.parameters()).fill_(float("inf"))
    messages = message_graph(fitted.graph, fitted.message_edges, torch.device("cpu"))
    with pytest.raises(TrainingError, match=r"Lower encoder\.step_size"):
        embed_graph(fitted.model, None, messages, fitted.settings, 0)


def test_fingerprints_tell_graphs_apart() -> None:
    plain = planted_graph()
    features = np.ones((40, 3), dtype=np.float32)
    weights = np.ones(plain.num_edges, dtype=np.float32)
    graphs = [
        plain,
        replace(plain, directed=True),
        plain.with_edges(np.arange(plain.num_edges - 1)),
        replace(plain, weights=weights),
        replace(plain, weights=2 * weights),
        replace(plain, features=features),
        replace(plain, features=2 * features),
    ]
    prints = [graph_fingerprint(graph) for graph in graphs]
    assert len(set(prints)) == len(graphs)
    assert graph_fingerprint(planted_graph()) == prints[0]


def bipartite_graph() -> Graph:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(15, size=160), 15 + rng.integers(25, size=160)], axis=1), axis=0)
    return Graph.from_arrays(pairs, num_nodes=40, sides=np.repeat([0, 1], [15, 25]))


@pytest.mark.parametrize("sides", [None, "bipartite"])
def test_nodes_may_stand_in_another_order_while_training(sides: str | None) -> None:
    graph = planted_graph() if sides is None else bipartite_graph()
    encoder = {"inputs": "both" if graph.features is not None else "embeddings", "dropout": 0.0, "feature_dropout": 0.0}
    still = {"epochs": 1, "batch_size": 30, "learning_rate": 1e-12}  # so that the orders can be compared
    given, local = (fit(graph, encoder=encoder, training={**still, "node_order": o}) for o in ("given", "local"))
    assert our_encoder(given.model).base.table is not None
    torch.testing.assert_close(local.embeddings, given.embeddings, rtol=1e-4, atol=1e-4)
    assert local.metrics["auc"] == pytest.approx(given.metrics["auc"], abs=1e-4)
    moved = fit(graph, encoder=encoder, training={"epochs": 3, "batch_size": 30, "node_order": "local"})
    data = training_data(
        moved.graph, holdout_split(graph, seed=0, valid_share=0.1, valid_negatives=9), torch.device("cpu")
    )
    again = embed_graph(
        moved.model, data.features, message_graph(moved.graph, moved.message_edges, torch.device("cpu")),
        moved.settings, moved.seed,
    )  # fmt: skip
    assert torch.equal(again, moved.embeddings)


class TestKeepingTheBest:
    def test_a_stopped_run_keeps_the_best_so_far(self, tmp_path: Path) -> None:
        """Ctrl-C after hours left a checkpoint and no model."""
        said: list[str] = []
        file = tmp_path / "run.safetensors"
        stopped = {"should_stop": stop_after(9), "checkpoint": file}
        kept = fit(hooks=Hooks(keep_best=True, tell=said.append, **stopped))
        assert 1 <= len(kept.history) < 4
        assert said[-1] == (
            f"training: stopped after {len(kept.history)} epoch{'s' * (len(kept.history) > 1)} of 4: "
            f"the weights of epoch {kept.best_epoch} are kept"
        )
        with pytest.raises(StoppedError):
            fit(hooks=Hooks(should_stop=stop_after(9), checkpoint=file))
        finished = fit(hooks=Hooks(checkpoint=file, resume=True, finish=True))  # the same from its checkpoint
        assert torch.equal(finished.embeddings, kept.embeddings)
        assert finished.history == kept.history and finished.best_epoch == kept.best_epoch

    def test_even_before_the_first_validation(self) -> None:
        said: list[str] = []
        kept = fit(hooks=Hooks(keep_best=True, should_stop=lambda: True, tell=said.append))
        assert (len(kept.history), kept.best_epoch) == (1, 0)
        assert said[-1] == "training: stopped after 0 epochs of 4: the present weights are kept"
        assert np.isfinite(kept.embeddings.numpy()).all()

    def test_a_run_that_nobody_stops_is_as_ever(self, straight: Fitted) -> None:
        assert torch.equal(fit(hooks=Hooks(keep_best=True)).embeddings, straight.embeddings)


def test_a_run_that_stops_by_itself_says_why() -> None:
    said: list[str] = []
    still = {"epochs": 20, "batch_size": 30, "learning_rate": 1e-9, "patience": 3, "min_gain": 0.5}
    fitted = fit(hooks=Hooks(tell=said.append), training=still)
    assert len(fitted.history) == 4
    assert said[-1].startswith("training: stopped after 4 epochs: 3 validations in a row brought no more than noise")


def test_steps_and_the_forecast_are_reported() -> None:
    done: list[float] = []
    seconds: list[float] = []
    fit(hooks=Hooks(on_step=done.append, on_forecast=seconds.append))
    assert done == sorted(done) and done[-1] == 4.0
    assert len(done) > 4 and 0 < done[0] < 1
    assert len(seconds) == 1 and seconds[0] > 0
