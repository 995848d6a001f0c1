"""Batches by time: the edges of a step are predicted from earlier ones only."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.settings import TrainingSettings
from yinyan.training.data import TrainingData

__all__ = ["hidden_messages", "hides_future", "marked", "num_predicted", "order_of_epoch", "step_size_of"]


def hides_future(data: TrainingData, settings: TrainingSettings) -> bool:
    """Whether a step sees earlier edges only: unless set, where the split is by time."""
    return data.target_times is not None and settings.message_times != "all"


def num_predicted(data: TrainingData, settings: TrainingSettings) -> int:
    """How many targets an epoch has: where steps see the past only, the earliest are messages and no targets."""
    count = data.targets.shape[0]
    return count - int(settings.history_share * count) if hides_future(data, settings) else count


def step_size_of(data: TrainingData, settings: TrainingSettings, batch_size: int) -> int:
    """Targets per step: fewer where fewer are predicted, so that an epoch has as many steps as without a history.

    The shorter the stretch of time of a step, the younger are the messages that it sees.
    """
    count = data.targets.shape[0]
    return max(1, math.ceil(batch_size * num_predicted(data, settings) / max(1, count)))


def order_of_epoch(data: TrainingData, settings: TrainingSettings, stride: int, generator: torch.Generator) -> Tensor:
    """The targets in the order of an epoch: at random, or in batches by time, which come in random order.

    What the division into batches leaves over are the earliest of them, and come last.
    """
    count = data.targets.shape[0]
    order = torch.randperm(count, generator=generator, device=generator.device)
    if not hides_future(data, settings) or data.target_times is None:
        return order
    order = order[torch.argsort(data.target_times.to(order.device)[order], stable=True)]
    order = order[count - num_predicted(data, settings) :]
    over = len(order) % stride
    batches = order[over:].view(-1, stride)
    shuffled = batches[torch.randperm(len(batches), generator=generator, device=generator.device)]
    return torch.cat([shuffled.flatten(), order[:over]])


def marked(messages: MessageGraph, pairs: Tensor) -> Tensor:
    """(m,) marks the message pairs that are given; -1 is none."""
    hidden = torch.zeros(messages.pairs.shape[0], dtype=torch.bool, device=pairs.device)
    hidden[pairs[pairs >= 0].long()] = True
    return hidden


def hidden_messages(data: TrainingData, settings: TrainingSettings, batch: Tensor) -> Tensor | None:
    """(·,) the messages that a step must not see: its own targets, and all that are not earlier than the first."""
    hidden = marked(data.messages, data.pair_of_target[batch]) if settings.mask_targets else None
    if hides_future(data, settings) and data.target_times is not None and data.message_times is not None:
        later = data.message_times >= data.target_times[batch].min()
        hidden = later if hidden is None else hidden | later
    return hidden
