"""What a run reports, and how it is stopped: apart from the loop, so that those who only ask do not import it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yinyan.model.fitted import EpochRecord

__all__ = ["Hooks", "Tracker"]

Tracker = Callable[[Mapping[str, float], int], object]


@dataclass(frozen=True)
class Hooks:
    """Callbacks of a training: what it reports, and how it is stopped.

    Examples
    --------
    >>> from yinyan import Hooks, LinkPredictor
    >>> losses = []
    >>> hooks = Hooks(on_epoch=lambda record: losses.append(record.loss))
    >>> len(LinkPredictor(epochs=2).fit(graph, hooks=hooks).fitted_.history) == len(losses)
    True
    """

    tell: Callable[[str], None] = lambda text: None  # lines "model: …", "training: …", "memory: …", "time: …"
    on_forecast: Callable[[float], None] = lambda seconds: None  # before the first epoch: the estimated seconds
    on_start: Callable[[int, int], None] = lambda epochs, done: None  # with the epochs, and those done before
    on_epoch: Callable[[EpochRecord], None] = lambda record: None  # after each epoch
    on_step: Callable[[float], None] = lambda done: None  # after each step, with the epochs done so far, as 2.4
    trackers: Sequence[Tracker] = ()  # functions of (figures, step), such as `mlflow.log_metrics` or `wandb.log`
    should_stop: Callable[[], bool] = lambda: False  # asked after each step; if true, training ends with StoppedError
    keep_best: bool = False  # a stopped training keeps the best weights so far, without a StoppedError
    checkpoint: Path | None = None  # file for the state of the training
    resume: bool = False  # whether to continue from the checkpoint
    finish: bool = False  # whether to keep the best weights of the checkpoint, without more training
