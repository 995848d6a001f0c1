"""From a graph, a split and settings to a trained model with its embeddings."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import StoppedError
from yinyan.graph import Graph
from yinyan.metrics import average_precision, hits_at_rate, mrr, roc_auc
from yinyan.model.calibration import Calibration, Method, fit_calibration, fit_to_lists
from yinyan.model.encoder import Encoder, EncoderInput
from yinyan.model.fitted import (
    EpochRecord,
    Fitted,
    build_model,
    embed_graph,
    embed_sample,
    our_encoder,
    samples_negatives,
)
from yinyan.model.held_out_lists import HeldOutLists, base_rate_of
from yinyan.model.reranking import Reranking
from yinyan.model.scoring import Model, score_pairs
from yinyan.model.spectral import start_spectrally
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.native.allocation import give_back, held_memory
from yinyan.progress import duration
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.text import counted
from yinyan.training.checkpoint import load_checkpoint, save_checkpoint
from yinyan.training.data import TrainingData, training_data
from yinyan.training.fingerprints import training_fingerprint
from yinyan.training.forecast import forecast
from yinyan.training.hooks import Hooks
from yinyan.training.loop import Course, TrainingState, build_optimizer, run, settle, whole_course
from yinyan.training.memory import check_memory
from yinyan.training.node_order import local_order
from yinyan.training.remarks import LossWatch
from yinyan.training.summary import model_in_words, training_in_words

__all__ = ["ListsOf", "calibrated", "fit_model", "recommended_lists", "trained", "validation_metrics"]

_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE = 60.0, 0.05  # between checkpoints, and of the time that they may take

Rows = NDArray[np.int64]
ListsOf = Callable[[Model, Tensor, Graph, Rows, Rows, Rows, float], tuple[HeldOutLists, Reranking | None]]
# of a model: its embeddings, the graph, known edges, (h, 2) held-out edges, edges that pass messages, missing edges per
# held-out one


@held_memory()
def fit_model(
    split: Split,
    settings: Settings,
    *,
    seed: int,
    device: torch.device,
    calibration: Method,
    hooks: Hooks,
    lists: ListsOf | None = None,
    reasons: tuple[str, ...] = (),
    build: Callable[[Settings, Graph], Model] | None = None,
    start: Callable[[Model, TrainingData], None] | None = None,
) -> Fitted:
    """Train on the split's training edges, keep the weights that validate best, and embed for use.

    `build` makes another model than ours of the settings and the graph, with torch's own generator seeded. `start`
    gives the model other weights to train from, which are kept if no epoch validates better. `lists` searches the
    recommended lists that probabilities are calibrated on, and fits a reranking to them; without it, probabilities are
    calibrated on the validation pairs.
    """
    graph, started = split.graph, time.perf_counter()
    give_back()  # what splitting and its checks took
    if build is None:  # only our own layers are known well enough to describe and to estimate
        hooks.tell(f"model: {model_in_words(settings, graph)}")
        hooks.tell(f"training: {training_in_words(settings, len(split.train_targets))}")
        check_memory(split, settings, device, hooks.tell)
    model = build_model(settings, graph, seed, build).to(device)
    order = None
    if build is None and settings.training.node_order == "local":
        order = local_order(graph.edges[split.train_messages], graph.num_nodes, graph.sides)
        _reorder(our_encoder(model), order)
    place = None if order is None else np.argsort(order)
    data = training_data(graph, split, device, place, ranked=settings.training.selection == "ranking")
    give_back()  # what sorting took
    if build is None and settings.encoder.embedding_start == "spectral":
        placed = None if order is None else torch.from_numpy(order)
        start_spectrally(our_encoder(model), data.messages, Streams.fresh(seed, "spectral start", device), placed)
        give_back()
    if start is not None:
        start(model, data)
    if build is None and not hooks.finish:
        expected = forecast(model, data, settings.training, seed)
        hooks.on_forecast(expected)
        hooks.tell(f"time: about {duration(expected)}")
    state = trained(
        *(model, partial(whole_course, model, data, settings.training)),
        f"{split.protocol}/{training_fingerprint(split, settings, seed)}",
        settings,
        seed,
        device,
        hooks,
        start_counts=start is not None,
    )
    give_back()  # the optimiser's moments
    held = [data]
    del data
    return _finished_model(
        *(model, split, settings, state, held),
        seed=seed,
        calibration=calibration,
        hooks=hooks,
        lists=lists,
        reasons=reasons,
        order=order,
        started=started,
    )


def _finished_model(
    model: Model,
    split: Split,
    settings: Settings,
    state: TrainingState,
    held: list[TrainingData],
    *,
    seed: int,
    calibration: Method,
    hooks: Hooks,
    lists: ListsOf | None,
    reasons: tuple[str, ...],
    order: NDArray[np.int64] | None = None,
    started: float,
) -> Fitted:
    """What is made of a trained model: figures and probabilities of the validation edges, embeddings for use.

    `held` is the data alone, and is emptied, so that nobody holds it longer than needed. With `order` (n,) the node
    that stands in row order[i] of the graph stands in row i of the data and of the table.
    """
    data, graph = held.pop(), split.graph
    device = data.targets.device
    valid_rows = embed_graph(model, data.features, data.valid_messages, settings, seed)
    valid = _validation_scores(model, data, valid_rows)
    metrics = validation_metrics(*valid)  # of the decoder alone: a reranking was fitted to these edges
    if samples_negatives(settings):
        metrics["score_spread"] = _score_spread(model, data, settings, seed)

    tested = graph.find_edges(split.test_targets)
    tested = np.setdiff1d(tested, split.test_messages) if tested.size else tested  # it sorts all messages
    known, features = np.delete(np.arange(graph.num_edges), tested), data.features
    del data  # the graph of the training edges: of a large one, some gigabytes
    if order is not None:
        valid_rows = valid_rows[torch.from_numpy(np.argsort(order)).to(device)]
    num_missing = tested.size or len(split.valid_targets)
    found, reranking = recommended_lists(lists, model, valid_rows, split, known, num_missing, hooks)
    del valid_rows
    give_back()
    messages = message_graph(graph, split.test_messages, device)
    if order is not None:  # from here on as given
        _reorder(our_encoder(model), np.argsort(order))
        features = feature_tensor(graph.features, device)
    embeddings = embed_graph(model, features, messages, settings, seed)
    generator = Streams.fresh(seed, "inference/0", device)
    used = graph if known.size == graph.num_edges else graph.with_edges(known)
    return Fitted(
        graph=used,
        message_edges=np.searchsorted(known, split.test_messages),
        settings=settings,
        seed=seed,
        model=model,
        embeddings=embeddings,
        calibration=calibrated(valid, found, calibration, used, num_missing),
        metrics=metrics,
        protocol=split.protocol,
        split_text=split.describe(),
        reasons=reasons,
        history=tuple(state.history),
        best_epoch=state.best_epoch,
        best_score=state.best_score,
        energy=tuple(model.encoder.energy_trace(EncoderInput(features, messages, generator))),
        seconds=time.perf_counter() - started,
        valid_scores=(valid[0], valid[1].ravel()),
        valid_lists=found,
        reranking=reranking,
    )


@torch.no_grad()
def _reorder(encoder: Encoder, order: NDArray[np.int64]) -> None:
    """Let the node that stood in row order[i] of the learned or random table stand in row i."""
    table = encoder.base.table
    if table is not None:
        table.copy_(table[torch.from_numpy(order).to(table.device)])


def trained(
    model: Model,
    make_course: Callable[[Streams], Course],
    fingerprint: str,
    settings: Settings,
    seed: int,
    device: torch.device,
    hooks: Hooks,
    *,
    start_counts: bool = False,
) -> TrainingState:
    """Run the loop with its checkpoints; raises StoppedError where it was asked to stop."""
    streams = Streams(seed, device)
    course = make_course(streams)
    optimizer = build_optimizer(model, settings.training)
    state = TrainingState()
    if hooks.resume and hooks.checkpoint is not None and hooks.checkpoint.exists():
        state = load_checkpoint(hooks.checkpoint, fingerprint, model, optimizer, streams)
    saved_at, pause = time.monotonic(), _CHECKPOINT_SECONDS

    def save() -> None:
        nonlocal saved_at, pause
        if hooks.checkpoint is not None:
            began = time.monotonic()
            save_checkpoint(hooks.checkpoint, fingerprint, model, optimizer, streams, state)
            saved_at = time.monotonic()
            pause = max(_CHECKPOINT_SECONDS, (saved_at - began) / _CHECKPOINT_SHARE)

    def on_step(now: TrainingState) -> bool:
        if time.monotonic() - saved_at > pause:
            save()
        hooks.on_step(now.epoch + now.position / max(1, course.length))
        return not hooks.should_stop()

    watch = LossWatch(settings.training.learning_rate, hooks.tell, [record.loss for record in state.history])

    def on_epoch(record: EpochRecord) -> None:
        figures = {k: float(v) for k, v in vars(record).items() if v is not None and k != "epoch"}
        for tracker in hooks.trackers:
            tracker(figures, record.epoch)
        hooks.on_epoch(record)
        watch(record.loss)

    if hooks.finish:
        _settled(model, course, settings, state, hooks)
        return state
    hooks.on_start(settings.training.epochs, state.epoch)
    state = run(
        *(model, course, settings.training),
        state=state,
        optimizer=optimizer,
        start_counts=start_counts,
        on_epoch=on_epoch,
        on_step=on_step,
    )
    if state.finished:
        if state.epoch < settings.training.epochs:
            hooks.tell(
                f"training: stopped after {counted(state.epoch, 'epoch')}: {state.waited} validations in a row "
                f"brought no more than noise (--set training.patience=0 runs all epochs)"
            )
        return state
    save()
    if hooks.keep_best:
        _settled(model, course, settings, state, hooks)
        return state
    where = f"; its state is in '{hooks.checkpoint}'" if hooks.checkpoint else ""
    raise StoppedError(f"training was stopped in epoch {state.epoch + 1}{where}")


def _settled(model: Model, course: Course, settings: Settings, state: TrainingState, hooks: Hooks) -> None:
    """Keep what a stopped training has reached."""
    validated = bool(state.best_weights)
    settle(model, course.validate, settings.training, state)
    kept = f"the weights of epoch {state.best_epoch} are kept" if validated else "the present weights are kept"
    hooks.tell(f"training: stopped after {counted(state.epoch, 'epoch')} of {settings.training.epochs}: {kept}")


def _validation_scores(
    model: Model, data: TrainingData, rows: Tensor
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of validation edges and negatives, from embeddings of the validation messages only."""
    links, non_links = (
        score_pairs(model, rows, data.valid_messages, pairs) for pairs in (data.valid_links, data.valid_non_links)
    )
    return links, non_links


def recommended_lists(
    lists: ListsOf | None, model: Model, rows: Tensor, split: Split, known: Rows, num_missing: int, hooks: Hooks
) -> tuple[HeldOutLists | None, Reranking | None]:
    """Recommended lists without the validation edges, where so many edges are missing; none without `lists`."""
    held_out = split.valid_targets
    if lists is None or not len(held_out):
        return None, None
    edges = split.graph.find_edges(held_out)
    unseen = np.setdiff1d(known, edges)
    found, reranking = lists(model, rows, split.graph, unseen, held_out, split.valid_messages, num_missing / edges.size)
    if reranking is not None:
        hooks.tell(
            "ranking: exact counts of shared neighbours are added to scores (mean reciprocal rank of validation edges "
            f"in shortlists {reranking.mrr_before:.3f} -> {reranking.mrr_after:.3f})"
        )
    return found, reranking


def calibrated(
    valid: tuple[NDArray[np.float32], NDArray[np.float32]],
    lists: HeldOutLists | None,
    method: Method,
    graph: Graph,
    num_missing: int,
) -> Calibration:
    """Fit to recommended lists at the base rate of the graph's candidates, or else to validation pairs."""
    if lists is None:
        return fit_calibration(valid[0], valid[1].ravel(), method)
    return fit_to_lists(lists, method, base_rate_of(num_missing, graph))


@torch.no_grad()
def _score_spread(model: Model, data: TrainingData, settings: Settings, seed: int) -> float:
    """How far the score of a pair moves with the negative sample: mean standard deviation over four samples,
    as a share of the scores' own standard deviation."""
    pairs = torch.cat([data.valid_links, data.valid_non_links.reshape(-1, 2)[: len(data.valid_links)]])
    messages = data.valid_messages
    samples = [embed_sample(model, data.features, messages, seed, sample) for sample in range(4)]
    scores = np.stack([score_pairs(model, y, messages, pairs) for y in samples])
    return float(scores.std(axis=0, ddof=1).mean() / max(float(scores.std()), 1e-12))


def validation_metrics(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> dict[str, float]:
    """The figures of validation edges and their negatives."""
    return {
        "hits@10%": hits_at_rate(positive, negative, 0.1),
        "mrr": mrr(positive, negative),
        "auc": roc_auc(positive, negative),
        "ap": average_precision(positive, negative),
    }
