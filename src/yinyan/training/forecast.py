"""How long a training run will take, from a few steps whose results are thrown away."""

from __future__ import annotations

import math
import time

import torch

from yinyan.model.fitted import EpochRecord
from yinyan.model.scoring import Model
from yinyan.randomness import Streams
from yinyan.settings import TrainingSettings
from yinyan.training.data import TrainingData
from yinyan.training.loop import batch_size_of, gradients, validate

__all__ = ["forecast"]

_TRIALS = 3  # steps at most: the first also loads code and memory, and does not count if there are others
_ENOUGH = 5.0  # seconds after which a step that was tried is the last
_UPDATE = 1.15  # a step with its update, over its gradients alone
_EARLIEST = 0.5  # of the epochs: a run that is chosen by lists and ends early seldom ends before
_AFTER = 3  # passes after training that cost about a validation each: figures, embeddings, energies


def forecast(model: Model, data: TrainingData, settings: TrainingSettings, seed: int) -> float:
    """Seconds of the epochs and of what follows; weights and random streams are left as they are."""
    device, num_targets = data.targets.device, data.targets.shape[0]
    batch_size = batch_size_of(settings, num_targets)
    steps = settings.epochs * math.ceil(num_targets / batch_size)
    streams = Streams(seed, device)  # of its own: the run's are not advanced
    spent: list[float] = []
    while len(spent) < _TRIALS and (not spent or sum(spent) < _ENOUGH):
        began = time.perf_counter()
        gradients(model, data, settings, streams, torch.arange(batch_size, device=device))
        spent.append(time.perf_counter() - began)
        model.zero_grad(set_to_none=True)
    began = time.perf_counter()
    validate(model, data, EpochRecord(0, 0.0, 0.0), settings, streams)
    validation = time.perf_counter() - began
    step = min(spent[1:] or spent)
    validations = math.ceil(settings.epochs / settings.evaluate_every)
    share = _expected_share(settings, validations)
    return share * (_UPDATE * steps * step + validations * validation) + _AFTER * validation


def _expected_share(settings: TrainingSettings, validations: int) -> float:
    """Of the epochs that a run will take: the middle (of ratios) between the earliest stop and all of them.

    Runs that are chosen by another metric than lists go on to improve while the learning rate falls.
    """
    if settings.selection != "ranking" or not 0 < settings.patience < validations:
        return 1.0
    return math.sqrt(max(_EARLIEST, (settings.patience + 1) / validations))
