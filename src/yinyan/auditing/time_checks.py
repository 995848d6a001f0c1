"""Leaks from the future: messages that are later than what they help to predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing.findings import Log
from yinyan.auditing.material import NAMES, Material
from yinyan.errors import InputError
from yinyan.splits import Split
from yinyan.text import counted

if TYPE_CHECKING:
    from yinyan.settings import Settings

__all__ = ["check_steps", "messages_come_before"]


def messages_come_before(material: Material, log: Log) -> None:
    """Under a temporal protocol no message is as late as the first link that it helps to predict."""
    graph = material.graph
    if not material.temporal or graph is None or graph.times is None:
        return
    count = 0
    for part, messages in material.messages.items():
        if not len(material.targets[part]) or not len(messages):
            continue
        first = graph.times[graph.find_edges(material.targets[part])].min()
        late = graph.times[graph.find_edges(messages)] >= first
        tally = material.tally_marked(messages, late)
        log.found("future", tally, f"messages at {NAMES[part]} that are not earlier than the first {NAMES[part]} link")
        count += len(messages)
    log.looked(f"times of {counted(count, 'message')}, against those of the links that they help to predict")


def check_steps(split: Split, settings: Settings | None, seed: int, log: Log) -> None:
    """Each step of an epoch: is a message that it sees as late as one of its targets?

    Times are looked up in the graph, not in what the training made of them.
    """
    import torch

    from yinyan.randomness import Streams
    from yinyan.training.data import training_data
    from yinyan.training.defaults import suggest
    from yinyan.training.loop import batch_size_of
    from yinyan.training.past import hidden_messages, order_of_epoch, step_size_of

    graph, device = split.graph, torch.device("cpu")
    if graph.times is None:
        raise InputError("an audit of steps needs the times of the edges (name their column: time='date')")
    data = training_data(graph, split, device)
    training = (settings or suggest(graph, len(split.train_targets)).settings).training
    stride = step_size_of(data, training, batch_size_of(training, len(split.train_targets)))
    order = order_of_epoch(data, training, stride, Streams(seed, device)["batches"])
    message_times = _first_times(split, data.messages.pairs.numpy())
    target_times = graph.times[graph.find_edges(split.train_targets)]
    early = np.zeros(len(target_times), dtype=np.bool_)
    steps = order.split(stride)
    for batch in steps:
        hidden = hidden_messages(data, training, batch)
        seen = message_times if hidden is None else message_times[~hidden.numpy()]
        if len(seen):
            early[batch.numpy()] = target_times[batch.numpy()] <= seen.max()
    pairs = split.train_targets
    example = None
    if early.any():
        a, b = pairs[int(early.argmax())].tolist()
        example = graph.ids[a], graph.ids[b]
    tally = int(early.sum()), max(1, len(pairs)), example
    log.found("future", tally, "training links that a step predicts from messages as late as they are, or later")
    log.looked(
        f"messages of {counted(len(steps), 'step')}, which is one epoch: against the times of {len(pairs):,} links"
    )


def _first_times(split: Split, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """(m,) when each message pair was first there in training, in either direction."""
    graph = split.graph
    times = np.full(graph.num_edges + 1, np.inf)  # the last is that of no edge
    times[split.train_messages] = 0 if graph.times is None else graph.times[split.train_messages]
    found: NDArray[np.float64] = np.minimum(times[graph.find_edges(pairs)], times[graph.find_edges(pairs[:, ::-1])])
    return found
