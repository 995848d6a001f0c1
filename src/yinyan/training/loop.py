"""The training loop on one page, and the state that lets it stop and go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.batches import Batcher, Clusters, Pairs, TrainingData, WholeGraph
from yinyan.decoder import Decoder
from yinyan.encoder import NodeEncoder
from yinyan.errors import DivergedError, SettingsError, TrainingError
from yinyan.losses import LOSSES
from yinyan.messages import MessageGraph
from yinyan.metrics import hits_at_rate, metric, mrr, roc_auc
from yinyan.randomness import Streams
from yinyan.settings import TrainingSettings

__all__ = ["EpochRecord", "Model", "TrainingData", "TrainingState", "decode", "score_pairs", "train"]

Scores = NDArray[np.float32]

_BLOCK = 65_536  # pairs decoded at a time outside training
_RUNAWAY = 1e4  # growth of the energy that no descent explains
_CURE = (
    "Lower encoder.step_size (or set it to 'safe'), encoder.repulsion (or learn it through 'sigmoid'), "
    "or training.learning_rate"
)


class Model(nn.Module):
    """Encoder and decoder: what is learned, saved and restored together."""

    def __init__(self, encoder: NodeEncoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def logits(
        self,
        y: Tensor,
        pairs: Tensor,
        messages: MessageGraph,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """(...) logits of (..., 2) pairs. A score needs two vectors only; `messages`, without the `hidden` links, are
        for models that look at the graph around each pair."""
        return self.decoder.of_pairs(y, pairs, drops)

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """What a step of training descends on."""
        links, non_links = (
            self.logits(pairs.rows, some, messages, hidden=hidden, drops=drops)
            for some in (pairs.links, pairs.non_links)
        )
        return LOSSES[kind](links, non_links)


@dataclass(frozen=True)
class EpochRecord:
    """One line of the training log."""

    epoch: int
    loss: float
    learning_rate: float
    hits: float | None = None  # validation links above all but a tenth of the validation non-links
    mrr: float | None = None
    auc: float | None = None
    repulsion: float | None = None
    score: float | None = None  # what the choice of the best epoch goes by


@dataclass
class TrainingState:
    """Where a run stands; with the weights, the optimiser and the streams it is all that a resumed run needs."""

    epoch: int = 0
    position: int = 0  # targets of this epoch already used
    order: Tensor | None = None  # this epoch's order of the targets
    loss_sum: float = 0.0
    best_score: float = -math.inf
    best_epoch: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)  # of the weights so far, if they are averaged
    waited: int = 0  # validations since the best
    finished: bool = False
    history: list[EpochRecord] = field(default_factory=list)


def train(
    model: Model,
    data: TrainingData,
    settings: TrainingSettings,
    streams: Streams,
    *,
    state: TrainingState | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    start_counts: bool = False,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_step: Callable[[TrainingState], bool] = lambda state: True,
) -> TrainingState:
    """Fit `model` and leave the best validated weights in it, or, if `start_counts`, those it came with.

    `on_step` is asked after each step; where it answers False the loop returns, to be resumed from the state
    it returns with the same model, optimiser and streams.
    """
    state = state or TrainingState()
    optimizer = optimizer or build_optimizer(model, settings)
    num_targets = data.targets.shape[0]
    batch_size = _batch_size(settings, num_targets)
    pieces = batcher(model, data, settings)
    updates_per_epoch = math.ceil(num_targets / batch_size) * pieces.num_pieces
    tools = _Tools(model, data, settings, streams, optimizer, pieces, settings.epochs * updates_per_epoch)

    if start_counts and not state.best_weights:
        _remember_best(state, model, _validate(model, data, EpochRecord(0, 0.0, 0.0), settings, streams))
    while not state.finished:
        if state.order is None:
            generator = streams["batches"]
            order = torch.randperm(num_targets, generator=generator, device=generator.device)
            state.order, state.position, state.loss_sum = order, 0, 0.0
        while state.position < num_targets:
            end = state.position + batch_size * settings.updates_per_propagation
            batch = state.order[state.position : end].to(data.targets.device)
            done = state.epoch * updates_per_epoch + state.position // batch_size * pieces.num_pieces
            _step(tools, state, batch, math.ceil(batch.numel() / batch_size), done)
            state.position += batch.numel()
            if not on_step(state):
                return state
        state.epoch, state.order = state.epoch + 1, None
        last_rate = tools.rate(state.epoch * updates_per_epoch - 1)
        record = EpochRecord(state.epoch, state.loss_sum / num_targets, last_rate)
        if state.epoch % settings.evaluate_every == 0 or state.epoch == settings.epochs:
            with _averaged(model, state):
                record = _validate(model, data, record, settings, streams)
                _remember_best(state, model, record)
        exhausted = settings.patience > 0 and state.waited >= settings.patience
        state.finished = exhausted or state.epoch >= settings.epochs
        state.history.append(record)
        on_epoch(record)
    if settings.keep == "best":
        model.load_state_dict(state.best_weights)
    else:
        last = state.history[-1].score
        state.best_epoch, state.best_score = state.epoch, math.nan if last is None else last
        model.load_state_dict({**model.state_dict(), **state.average})
    return state


def batcher(model: Model, data: TrainingData, settings: TrainingSettings) -> Batcher:
    """How the settings cut a step: not at all, or by clusters."""
    if settings.clusters == 1 and settings.clusters_per_step == 1:
        return WholeGraph(model.encoder, data, settings)
    if type(model).logits is not Model.logits:
        raise SettingsError(f"training.clusters: {type(model).__name__} looks at the whole graph (use 1)")
    return Clusters(model.encoder, data, settings)


@dataclass(frozen=True)
class _Tools:
    """What a step works with."""

    model: Model
    data: TrainingData
    settings: TrainingSettings
    streams: Streams
    optimizer: torch.optim.Optimizer
    batcher: Batcher
    num_updates: int  # of the decoder, in the whole run

    def rate(self, done: int) -> float:
        """The learning rate after so many updates."""
        return learning_rate(self.settings, done, self.num_updates)


def _step(tools: _Tools, state: TrainingState, batch: Tensor, shared: int, done: int) -> None:
    """Hide the batch, embed piece by piece, and update: `shared` times from the embeddings of each piece."""
    hidden = None
    if tools.settings.mask_targets:
        hidden = torch.zeros(tools.data.messages.pairs.shape[0], dtype=torch.bool, device=batch.device)
        places = tools.data.pair_of_target[batch]
        hidden[places[places >= 0]] = True
    for piece in tools.batcher.pieces(batch, hidden, tools.streams):
        shares = [links for links in piece.links.tensor_split(shared) if links.shape[0]]
        last = len(shares) - 1
        y = piece.y.detach().requires_grad_(piece.y.requires_grad) if last else piece.y
        for place, links in enumerate(shares):
            loss = _loss(tools, piece.pairs(y, links), hidden)
            _descend(tools, loss, tools.rate(done + place))
            if last and place == last and y.grad is not None:  # the encoder's turn: it learns from all shares at once
                _descend(tools, piece.y, tools.rate(done + place), y.grad / len(shares))
            _average(state, tools.model, tools.settings, done + place)
            state.loss_sum += float(loss.detach()) * links.shape[0]
        done += shared


def _loss(tools: _Tools, pairs: Pairs, hidden: Tensor | None) -> Tensor:
    drops, messages = tools.streams["dropout"], tools.data.messages
    loss = tools.model.loss(pairs, messages, tools.settings.loss, hidden=hidden, drops=drops)
    value = float(loss.detach())
    if not math.isfinite(value):
        raise DivergedError(f"the loss became {value}: the energy or the weights diverged. {_CURE}")
    return loss


def _descend(tools: _Tools, root: Tensor, rate: float, gradient: Tensor | None = None) -> None:
    """Update what `root` depends on; whatever gets no gradient stays as it is."""
    tools.optimizer.zero_grad(set_to_none=True)
    root.backward(gradient)
    if tools.settings.clip_norm:
        nn.utils.clip_grad_norm_(tools.model.parameters(), tools.settings.clip_norm)
    for group in tools.optimizer.param_groups:
        group["lr"] = rate
    tools.optimizer.step()


@torch.no_grad()
def _validate(
    model: Model, data: TrainingData, record: EpochRecord, settings: TrainingSettings, streams: Streams
) -> EpochRecord:
    negatives, messages = streams["message_negatives"], data.valid_messages
    y, energies = model.encoder.watched(data.features, messages, negatives=negatives)
    if settings.refuse_runaway:
        refuse_divergence(energies)
    positive, negative = (score_pairs(model, y, messages, pairs) for pairs in (data.valid_links, data.valid_non_links))
    if not (np.isfinite(positive).all() and np.isfinite(negative).all()):
        raise DivergedError(f"validation scores are not finite: the weights diverge. {_CURE}")
    repulsion = model.encoder.repulsion()
    return EpochRecord(
        record.epoch,
        record.loss,
        record.learning_rate,
        hits=hits_at_rate(positive, negative, 0.1),
        mrr=mrr(positive, negative),
        auc=roc_auc(positive, negative),
        repulsion=float(repulsion.mean()) if repulsion.numel() else None,
        score=selection_score(positive, negative, settings.selection),
    )


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
        state.best_score, state.best_epoch, state.waited = score, record.epoch, 0
        state.best_weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    else:
        state.waited += 1


def selection_score(positive: Scores, negative: Scores, selection: str) -> float:
    """What early stopping maximises: a metric by name, or ('balanced') Hits@10% and AUC together."""
    if selection == "balanced":
        return hits_at_rate(positive, negative, 0.1) + roc_auc(positive, negative)
    return metric(selection)(positive, negative)


@torch.no_grad()
def decode(decoder: Decoder, y: Tensor, pairs: Tensor) -> Scores:
    """(p,) logits of (p, 2) pairs from two vectors each, in blocks of bounded size."""
    return _in_blocks(lambda block: decoder(y[block[:, 0]], y[block[:, 1]]), pairs)


@torch.no_grad()
def score_pairs(model: Model, y: Tensor, messages: MessageGraph, pairs: Tensor) -> Scores:
    """(...) logits of (..., 2) pairs at inference, in blocks of bounded size."""
    scores = _in_blocks(lambda block: model.logits(y, block, messages), pairs.reshape(-1, 2))
    return scores.reshape(pairs.shape[:-1])


def _in_blocks(logits: Callable[[Tensor], Tensor], pairs: Tensor) -> Scores:
    parts = [logits(block).float().cpu() for block in pairs.split(_BLOCK)]
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.float32)


def build_optimizer(model: Model, settings: TrainingSettings) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)


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


def _batch_size(settings: TrainingSettings, num_targets: int) -> int:
    size = min(settings.batch_size or num_targets, num_targets)
    shared = settings.updates_per_propagation
    if settings.mask_targets and size * shared >= num_targets > 1:
        of, cure, most = "", "mask_targets = false", max(1, num_targets // (2 * shared))
        if shared > 1:
            of, cure = f"training.updates_per_propagation: {shared} times ", f"fewer updates_per_propagation, or {cure}"
        raise TrainingError(
            f"{of}training.batch_size: {size:,} covers all {num_targets:,} training links, and mask_targets would hide "
            f"them all from the encoder (use a batch_size of at most {most:,}, or {cure})"
        )
    return size
