"""Batches by time: the edges of a step are predicted from earlier ones only."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.settings import TrainingSettings
from yinyan.training.data import TrainingData

__all__ = ["hidden_messages", "hides_future", "order_of_epoch"]


def hides_future(data: TrainingData, settings: TrainingSettings) -> bool:
    """Whether a step sees earlier edges only: unless set, where the split is by time."""
    return data.target_times is not None and settings.message_times != "all"


def order_of_epoch(data: TrainingData, settings: TrainingSettings, stride: int, generator: torch.Generator) -> Tensor:
    """(m,) the targets in the order of an epoch: at random, or in batches by time, which come in random order.

    What the division into batches leaves over are the earliest edges, and come last.
    """
    count = data.targets.shape[0]
    order = torch.randperm(count, generator=generator, device=generator.device)
    if not hides_future(data, settings) or data.target_times is None:
        return order
    order = order[torch.argsort(data.target_times.to(order.device)[order], stable=True)]
    over = count % stride
    batches = order[over:].view(-1, stride)
    shuffled = batches[torch.randperm(len(batches), generator=generator, device=generator.device)]
    return torch.cat([shuffled.flatten(), order[:over]])


def hidden_messages(data: TrainingData, settings: TrainingSettings, batch: Tensor) -> Tensor | None:
    """(·,) the messages that a step must not see: its own targets, and all that are not earlier than the first."""
    hidden = None
    if settings.mask_targets:
        hidden = torch.zeros(data.messages.pairs.shape[0], dtype=torch.bool, device=batch.device)
        places = data.pair_of_target[batch]
        hidden[places[places >= 0].long()] = True
    if hides_future(data, settings) and data.target_times is not None and data.message_times is not None:
        later = data.message_times >= data.target_times[batch].min()
        hidden = later if hidden is None else hidden | later
    return hidden
