"""A planted message from the future is found, in a split and in the steps of a training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from yinyan import Graph, InputError, LeakError, Settings, audit, audit_steps, random_split, temporal_split
from yinyan.randomness import Streams
from yinyan.training import past
from yinyan.training.data import TrainingData, training_data
from yinyan.training.past import hidden_messages, num_predicted, order_of_epoch, step_size_of


def dated(*, directed: bool = False, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 40, (400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_arrays(pairs, times=rng.integers(0, 100, len(pairs)), num_nodes=40, directed=directed)


def settings(**training: object) -> Settings:
    return Settings().updated({"training": {"batch_size": 30, **training}})


@pytest.mark.parametrize("part", ["valid", "test"])
def test_a_planted_future_message_of_a_split_is_found(part: str) -> None:
    graph = dated()
    split = temporal_split(graph, seed=0, valid_as_messages=True)
    assert "messages, against those of the links" in str(audit(split))
    assert graph.times is not None
    # not the targets themselves, which another check finds: an edge of the test part among earlier messages
    latest = int(np.argmax(graph.times))
    messages = getattr(split, f"{part}_messages")
    targets = getattr(split, f"{part}_targets")
    targets = targets[graph.find_edges(targets) != latest]
    planted = replace(split, **{f"{part}_messages": np.union1d(messages, latest), f"{part}_targets": targets})
    found = [f for f in audit(planted, raises=False).leaks if "messages at" in f.words]
    assert [f.count for f in found] == [1]
    with pytest.raises(LeakError, match="future"):
        audit(planted)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_no_step_sees_the_future(directed: bool, mask: bool) -> None:
    split = temporal_split(dated(directed=directed), seed=0)
    found = audit_steps(split, settings(mask_targets=mask))
    assert found.findings == () and "messages of" in found.checked[0]


def test_a_training_that_lets_the_future_in_is_refused() -> None:
    split = temporal_split(dated(), seed=0)
    with pytest.raises(LeakError, match="the training has 1 leak\nfuture: training links that a step predicts"):
        audit_steps(split, settings(message_times="all"))
    # a split at random has no order in time: its steps are refused as well
    assert audit_steps(random_split(dated(), seed=0), settings(), raises=False).leaks


def test_a_planted_future_message_of_a_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message of one step is not hidden, as a fault of the code would have it."""
    split = temporal_split(dated(), seed=0)

    def faulty(data: TrainingData, training: object, batch: torch.Tensor) -> torch.Tensor:
        hidden = hidden_messages(data, settings().training, batch)
        assert hidden is not None and data.message_times is not None
        hidden[data.message_times.argmax()] = False
        return hidden

    monkeypatch.setattr(past, "hidden_messages", faulty)
    assert [f.kind for f in audit_steps(split, settings(), raises=False).leaks] == ["future"]


def test_only_splits_of_graphs_with_times_are_looked_at() -> None:
    with pytest.raises(InputError, match="needs the times of the edges"):
        audit_steps(random_split(replace(dated(), times=None), seed=0))
    with pytest.raises(InputError, match="needs a Split"):
        audit_steps(dated())  # type: ignore[arg-type]


@pytest.mark.parametrize("history", [0.0, 0.5])
def test_batches_are_cut_by_time_and_come_in_random_order(history: float) -> None:
    split, chosen = temporal_split(dated(), seed=0), settings(history_share=history).training
    data = training_data(split.graph, split, torch.device("cpu"))
    assert data.target_times is not None
    count = num_predicted(data, chosen)
    assert count == len(split.train_targets) - int(history * len(split.train_targets))
    stride = step_size_of(data, chosen, 30)
    assert -(-count // stride) == -(-len(split.train_targets) // 30), "as many steps as without a history"
    streams = [Streams(seed, torch.device("cpu"))["batches"] for seed in (0, 1)]
    orders = [order_of_epoch(data, chosen, stride, stream) for stream in streams]
    for order in orders:
        assert len(order.unique()) == len(order) == count
        left = torch.ones(len(data.target_times), dtype=torch.bool)
        left[order] = False
        assert not left.any() or data.target_times[left].max() <= data.target_times[order].min()
    spans = [(int(t.min()), int(t.max())) for t in data.target_times[orders[0]].split(stride)]
    assert all(a[1] <= b[0] for a, b in zip(sorted(spans), sorted(spans)[1:], strict=False))
    assert spans != sorted(spans) and not torch.equal(*orders)
    assert count % stride == 0 or spans[-1] == min(spans), "the earliest are few, and come last"
