"""The training loop on one page, and the state that lets it stop and go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.errors import DivergedError, SettingsError, TrainingError
from yinyan.metrics import hits_at_rate, metric, mrr, roc_auc
from yinyan.metrics.pairs import ranks
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import EpochRecord
from yinyan.model.losses import OF_DIFFERENCES
from yinyan.model.scoring import Model, Pairs, score_pairs
from yinyan.randomness import Streams
from yinyan.settings import TrainingSettings
from yinyan.training.adam import Adagrad, Adam, Group
from yinyan.training.all_pairs import descend_on_all_pairs
from yinyan.training.best_weights import BestWeights
from yinyan.training.data import TrainingData, draw_loss_negatives
from yinyan.training.past import hidden_messages, num_predicted, order_of_epoch, step_size_of
from yinyan.training.shared_negatives import descend_with_shared_negatives

__all__ = [
    "BatchCourse",
    "Course",
    "TrainingState",
    "ValidationScores",
    "batch_size_of",
    "build_optimizer",
    "gradients",
    "one_step",
    "run",
    "settle",
    "train",
    "validate",
    "validated",
    "whole_course",
]

Scores = NDArray[np.float32]

_PACE_OF_NUMBERS = 10.0  # times the rate: Adam moves a number by the rate per step, whatever its size
_LIST_LENGTH = 10  # rows of a list, the default of `recommend`
_NEARLY_DONE = 0.9  # of the epochs: what the falling learning rate still gains is not given up for the rest
_RUNAWAY = 1e4  # growth of the energy that no descent explains
_CURE = (
    "Lower encoder.step_size (or set it to 'safe'), encoder.repulsion (or learn it through 'sigmoid'), "
    "or training.learning_rate"
)


@dataclass
class TrainingState:
    """Where a run stands; with the weights, the optimiser and the streams it is all that a resumed run needs."""

    epoch: int = 0
    position: int = 0  # targets of this epoch already used
    order: Tensor | None = None  # this epoch's order of the targets
    loss_sum: float = 0.0
    best_score: float = -math.inf
    best_epoch: int = 0
    best_weights: BestWeights = field(default_factory=BestWeights)
    average: dict[str, Tensor] = field(default_factory=dict)  # of the weights so far, if they are averaged
    waited: int = 0  # validations since the last progress
    progress_score: float = -math.inf  # of the last progress
    finished: bool = False
    history: list[EpochRecord] = field(default_factory=list)


class Course:
    """What the loop asks of data, wherever they are: steps and validations."""

    num_targets: int  # training links in all
    length: int  # of an epoch, in targets or in batches
    stride: int  # of a step

    def begin(self, state: TrainingState) -> None:
        """Begin an epoch: an order of what it goes through."""
        raise NotImplementedError

    def gradients(self, state: TrainingState) -> tuple[float, int]:
        """Add the gradients of the step at `state.position`; returns its loss and the number of its targets."""
        raise NotImplementedError

    def clip(self, norm: float) -> None:
        """Scale the gradients down to a norm, if theirs is larger."""
        raise NotImplementedError

    def validate(self, record: EpochRecord) -> EpochRecord:
        """The record with the figures of the validation edges."""
        raise NotImplementedError


class BatchCourse(Course):
    """A course of one process, through batches of targets in random order."""

    def __init__(self, model: Model, num_targets: int, device: torch.device, streams: Streams, stride: int) -> None:
        self._model, self._streams, self._device = model, streams, device
        self.num_targets = self.length = num_targets
        self.stride = stride

    def begin(self, state: TrainingState) -> None:
        """An order of the targets."""
        generator = self._streams["batches"]
        state.order = torch.randperm(self.num_targets, generator=generator, device=generator.device)

    def batch(self, state: TrainingState) -> Tensor:
        """The targets of the step at `state.position`."""
        if state.order is None:
            raise RuntimeError("a step before the epoch has begun")
        return state.order[state.position : state.position + self.stride].to(self._device)

    def clip(self, norm: float) -> None:
        """Scale the gradients down to a norm."""
        nn.utils.clip_grad_norm_(self._model.parameters(), norm)


class _WholeCourse(BatchCourse):
    """What `whole_course` gives."""

    def __init__(self, model: Model, data: TrainingData, settings: TrainingSettings, streams: Streams) -> None:
        stride = step_size_of(data, settings, batch_size_of(settings, data.targets.shape[0]))
        super().__init__(model, num_predicted(data, settings), data.targets.device, streams, stride)
        self._data, self._settings = data, settings

    def begin(self, state: TrainingState) -> None:
        """An order of the targets, of a split by time by stretches of it."""
        state.order = order_of_epoch(self._data, self._settings, self.stride, self._streams["batches"])

    def gradients(self, state: TrainingState) -> tuple[float, int]:
        batch = self.batch(state)
        return gradients(self._model, self._data, self._settings, self._streams, batch), batch.numel()

    def validate(self, record: EpochRecord) -> EpochRecord:
        return validate(self._model, self._data, record, self._settings, self._streams)


def whole_course(model: Model, data: TrainingData, settings: TrainingSettings, streams: Streams) -> Course:
    """The course of one process that holds all data."""
    if settings.n3:
        raise SettingsError(
            "training.n3: the penalty is for graphs with relations and decoder.kind = 'complex' (set 0)"
        )
    return _WholeCourse(model, data, settings, streams)


def train(
    model: Model,
    data: TrainingData,
    settings: TrainingSettings,
    streams: Streams,
    *,
    state: TrainingState | None = None,
    optimizer: Adam | None = None,
    start_counts: bool = False,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_step: Callable[[TrainingState], bool] = lambda state: True,
) -> TrainingState:
    """Fit `model` and leave the best validated weights in it, or, if `start_counts`, those it came with.

    `on_step` is asked after each step; where it answers False the loop returns, to be resumed from the state
    it returns with the same model, optimiser and streams.
    """
    return run(
        *(model, whole_course(model, data, settings, streams), settings),
        state=state or TrainingState(),
        optimizer=optimizer or build_optimizer(model, settings),
        start_counts=start_counts,
        on_epoch=on_epoch,
        on_step=on_step,
    )


def run(
    model: Model,
    course: Course,
    settings: TrainingSettings,
    *,
    state: TrainingState,
    optimizer: Adam,
    start_counts: bool = False,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_step: Callable[[TrainingState], bool] = lambda state: True,
) -> TrainingState:
    """The loop of `train` over any course."""
    steps_per_epoch = math.ceil(course.length / course.stride)
    total_steps = settings.epochs * steps_per_epoch
    if start_counts and not state.best_weights:
        _remember_best(state, model, course.validate(EpochRecord(0, 0.0, 0.0)))
    while not state.finished:
        if state.order is None:
            course.begin(state)
            state.position, state.loss_sum = 0, 0.0
        while state.position < course.length:
            done = state.epoch * steps_per_epoch + state.position // course.stride
            rate = learning_rate(settings, done, total_steps)
            loss, count = one_step(course, state, settings, optimizer, rate)
            _average(state, model, settings, done)
            state.loss_sum += loss * count
            state.position = min(course.length, state.position + course.stride)
            if not on_step(state):
                return state
        state.epoch, state.order = state.epoch + 1, None
        last_rate = learning_rate(settings, state.epoch * steps_per_epoch - 1, total_steps)
        record = EpochRecord(state.epoch, state.loss_sum / course.num_targets, last_rate)
        if state.epoch % settings.evaluate_every == 0 or state.epoch == settings.epochs:
            with _averaged(model, state):
                record = course.validate(record)
                _remember_best(state, model, record)
                _note_progress(state, record, settings)
        state.finished = _has_converged(state, settings) or state.epoch >= settings.epochs
        state.history.append(record)
        on_epoch(record)
    settle(model, course.validate, settings, state)
    return state


def settle(
    model: Model,
    validation: Callable[[EpochRecord], EpochRecord],
    settings: TrainingSettings,
    state: TrainingState,
) -> None:
    """End a run where it stands: the weights to keep go into the model. Before any validation there is one now."""
    state.finished = True
    if settings.keep == "last":
        last = state.history[-1].score if state.history else None
        state.best_epoch, state.best_score = state.epoch, math.nan if last is None else last
        model.load_state_dict({**model.state_dict(), **state.average})
        return
    if not state.best_weights:
        with _averaged(model, state):
            record = EpochRecord(state.epoch, state.loss_sum / max(1, state.position), settings.learning_rate)
            record = validation(record)
            _remember_best(state, model, record)
        state.history = state.history or [record]
    state.best_weights.restore(model.state_dict())


def _note_progress(state: TrainingState, record: EpochRecord, settings: TrainingSettings) -> None:
    """Count validations whose score is not above that of the last progress by more than its noise."""
    score = -math.inf if record.score is None else record.score
    if score > state.progress_score + settings.min_gain * (record.noise or 0.0):
        state.progress_score, state.waited = score, 0
    else:
        state.waited += 1


def _has_converged(state: TrainingState, settings: TrainingSettings) -> bool:
    """Whether validation has stood still for so long that more epochs are not worth their time."""
    if settings.patience == 0 or state.waited < settings.patience:
        return False
    return settings.min_gain == 0 or state.epoch <= _NEARLY_DONE * settings.epochs


def one_step(
    course: Course, state: TrainingState, settings: TrainingSettings, optimizer: Adam, rate: float
) -> tuple[float, int]:
    """The gradients of a step, and an update by them; whatever gets no gradient stays as it is.

    Returns the loss and the number of targets.
    """
    value, count = course.gradients(state)
    if not math.isfinite(value):
        raise DivergedError(f"the loss became {value}: the energy or the weights diverged. {_CURE}")
    if settings.clip_norm:
        course.clip(settings.clip_norm)
    optimizer.step(rate)
    optimizer.zero_grad()  # not before the next step: a validation needs the memory
    return value, count


def gradients(model: Model, data: TrainingData, settings: TrainingSettings, streams: Streams, batch: Tensor) -> float:
    """Embed all nodes without the batch as messages, nor what is later in a split by time, and score it.

    Negatives are fresh.

    Adds the gradients of the loss to the weights, and returns the loss.
    """
    hidden = hidden_messages(data, settings, batch)
    drops, links = streams["dropout"], data.targets[batch]
    y = model.encoder(data.features, data.messages, negatives=streams["message_negatives"], drops=drops, hidden=hidden)
    if settings.loss_sampler == "all":
        return descend_on_all_pairs(model, y, links, data.known, settings, drops)
    if settings.loss_sampler == "shared":
        return descend_with_shared_negatives(model, y, links, data.known, settings, streams["loss_negatives"], drops)
    pairs = Pairs(y, links, draw_loss_negatives(data.known, links, settings, streams["loss_negatives"]))
    loss = model.loss(pairs, data.messages, settings.loss, hidden=hidden, drops=drops)
    loss.backward()
    return float(loss.detach())


@torch.no_grad()
def validate(
    model: Model, data: TrainingData, record: EpochRecord, settings: TrainingSettings, streams: Streams
) -> EpochRecord:
    """The record of an epoch with the figures of the validation edges."""
    messages = data.valid_messages
    y, energies = model.encoder.watched(EncoderInput(data.features, messages, streams["message_negatives"]))
    if settings.refuse_runaway:
        refuse_divergence(energies)
    positive, negative = (score_pairs(model, y, messages, pairs) for pairs in (data.valid_links, data.valid_non_links))
    listed = score_pairs(model, y, messages, data.valid_lists) if settings.selection == "ranking" else None
    scores = ValidationScores(positive, negative, listed, data.is_rival.cpu().numpy())
    return validated(model, scores, record, settings)


class ValidationScores(NamedTuple):
    """Scores of validation edges and their negatives, and of the lists of their ends if epochs are chosen by them."""

    positive: Scores
    negative: Scores
    listed: Scores | None  # (e, 1 + c) of the partner first, then of candidates
    is_rival: NDArray[np.bool_]  # (e, c)


def validated(model: Model, scores: ValidationScores, record: EpochRecord, settings: TrainingSettings) -> EpochRecord:
    """The record of an epoch with the figures of validation scores."""
    positive, negative = scores.positive, scores.negative
    if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
        raise DivergedError(f"validation scores are not finite: the weights diverge. {_CURE}")
    repulsion = model.encoder.repulsion()
    hits = hits_at_rate(positive, negative, 0.1)
    if scores.listed is not None:
        listed = _listed(scores.listed, scores.is_rival)
        score, share = listed.mrr + listed.recall + roc_auc(positive, negative), listed.recall
    else:
        score = selection_score(positive, negative, settings.selection)
        share = hits if settings.selection == "balanced" else score
    return EpochRecord(
        record.epoch,
        record.loss,
        record.learning_rate,
        hits=hits,
        mrr=mrr(positive, negative),
        auc=roc_auc(positive, negative),
        repulsion=float(repulsion.mean()) if repulsion.numel() else None,
        score=score,
        noise=standard_error(share, len(positive) if scores.listed is None else len(scores.listed)),
    )


class _Listed(NamedTuple):
    """Validation edges in the lists of their ends."""

    mrr: float
    recall: float  # in the first ten


def _listed(scores: Scores, is_rival: NDArray[np.bool_]) -> _Listed:
    rivals = np.where(is_rival, scores[:, 1:], -np.inf)
    places = ranks(scores[:, 0], rivals)
    return _Listed(float((1 / places).mean()), float((places <= _LIST_LENGTH).mean()))


def refuse_divergence(energies: Sequence[float]) -> None:
    """Stop where the layers run away from f instead of settling: layer normalisation would hide it."""
    if not energies:
        return
    first, last = energies[0], energies[-1]
    if not math.isfinite(last) or abs(last) > _RUNAWAY * max(1.0, abs(first)):
        raise DivergedError(f"the energy diverges: from {first:.3g} to {last:.3g} in the layers. {_CURE}")


@torch.no_grad()
def _average(state: TrainingState, model: Model, settings: TrainingSettings, step: int) -> None:
    """Move the average towards the weights; its memory grows from ten steps to 1 / (1 - averaging)."""
    if settings.averaging == 0:
        return
    if not state.average:
        state.average = {name: value.detach().clone() for name, value in model.named_parameters()}
    kept = min(settings.averaging, (1 + step) / (10 + step))
    for name, value in model.named_parameters():
        state.average[name].lerp_(value, 1 - kept)


@contextmanager
def _averaged(model: Model, state: TrainingState) -> Iterator[None]:
    """`model` with the averaged weights, where there are any; its own come back afterwards."""
    own = {name: value.data for name, value in model.named_parameters()} if state.average else {}
    try:
        for name in own:
            model.get_parameter(name).data = state.average[name]
        yield
    finally:
        for name, value in own.items():
            model.get_parameter(name).data = value


def _remember_best(state: TrainingState, model: Model, record: EpochRecord) -> None:
    """Clones of the weights that validate best."""
    score = -math.inf if record.score is None else record.score
    if score > state.best_score:
        state.best_score, state.best_epoch = score, record.epoch
        state.best_weights.keep(model.state_dict())


def selection_score(positive: Scores, negative: Scores, selection: str) -> float:
    """What early stopping maximises: a metric by name, or ('balanced') Hits@10% and AUC together."""
    if selection == "balanced":
        return hits_at_rate(positive, negative, 0.1) + roc_auc(positive, negative)
    return metric(selection)(positive, negative)


def standard_error(share: float, count: int) -> float:
    """Of a share of `count` edges; of other means of values from 0 to 1 it is an upper bound."""
    return math.sqrt(max(0.0, share * (1 - share)) / max(1, count))


def build_optimizer(model: Model, settings: TrainingSettings) -> Adam:
    """Adam with decoupled weight decay; single numbers, such as a scale, do not decay, and move faster. Or Adagrad."""
    # losses of differences give constants a gradient of rounding errors alone, which Adam would scale up to its rate
    still = model.constants() if settings.loss in OF_DIFFERENCES else []
    fixed = {id(param) for param in still}
    params = [param for param in model.parameters() if param.requires_grad and id(param) not in fixed]
    if settings.optimizer == "adagrad":
        return Adagrad([Group(params, 0.0)], still)
    tables = []
    if settings.moments == "rows":
        tables = [param for name, param in model.named_parameters() if name.endswith(".table") and param.requires_grad]
    others = {id(param) for param in tables}
    return Adam(
        [
            Group([param for param in params if param.ndim and id(param) not in others], settings.weight_decay),
            Group(tables, settings.weight_decay, by_rows=True),
            Group([param for param in params if not param.ndim], 0.0, _PACE_OF_NUMBERS),
        ],
        still,
    )


def learning_rate(settings: TrainingSettings, step: int, total: int) -> float:
    """A function of the step alone, so that a resumed run needs no scheduler's memory."""
    warm = settings.warmup * total
    if step < warm:
        return settings.learning_rate * (step + 1) / (warm + 1)
    progress = (step - warm) / max(1.0, total - warm)
    if settings.schedule == "cosine":
        return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
    if settings.schedule == "linear":
        return settings.learning_rate * (1 - progress)
    return settings.learning_rate


def batch_size_of(settings: TrainingSettings, num_targets: int) -> int:
    """Target edges per step; refuses a step that would hide them all."""
    size = min(settings.batch_size or num_targets, num_targets)
    if settings.mask_targets and size >= num_targets > 1:
        raise TrainingError(
            f"training.batch_size: {size:,} covers all {num_targets:,} training links, and mask_targets would hide "
            f"them all from the encoder (use a batch_size of at most {num_targets // 2:,}, or mask_targets = false)"
        )
    return size
