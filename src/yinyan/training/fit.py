"""From a graph, a split and settings to a trained model with its embeddings."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.allocation import held_memory
from yinyan.calibration import Calibration, Method, fit_calibration
from yinyan.checkpoint import load_checkpoint, save_checkpoint
from yinyan.completion import completed_factors, smoothed_factors
from yinyan.decoder import build_decoder
from yinyan.embedding import embed_all, is_finite
from yinyan.encoder import Encoder
from yinyan.errors import DivergedError, SettingsError, StoppedError
from yinyan.features import SparseFeatures
from yinyan.graph import Graph
from yinyan.memory_check import check_memory
from yinyan.messages import MessageGraph
from yinyan.metrics import average_precision, hits_at_rate, mrr, roc_auc
from yinyan.ordering import local_order
from yinyan.propagation import SparseMatrix
from yinyan.randomness import Streams, named_seed
from yinyan.settings import EncoderSettings, Settings
from yinyan.spectra import leading_eigenvectors, start_from_factors
from yinyan.splits import Split
from yinyan.tensors import feature_tensor, message_graph, training_data
from yinyan.training import (
    EpochRecord,
    Model,
    TrainingData,
    TrainingState,
    build_optimizer,
    score_pairs,
    train,
)

__all__ = [
    "Fitted",
    "Hooks",
    "build_model",
    "embed_graph",
    "fit_model",
    "graph_fingerprint",
    "our_encoder",
    "training_fingerprint",
]

Tracker = Callable[[Mapping[str, float], int], object]

_CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Hooks:
    """What a run tells, and where it is asked to stop.

    A tracker is any callable of (figures, step), such as `mlflow.log_metrics` or `wandb.log`.
    """

    tell: Callable[[str], None] = lambda text: None  # what was chosen, before training starts
    on_start: Callable[[int, int], None] = lambda epochs, done: None
    on_epoch: Callable[[EpochRecord], None] = lambda record: None
    trackers: Sequence[Tracker] = ()
    should_stop: Callable[[], bool] = lambda: False
    checkpoint: Path | None = None
    resume: bool = False


@dataclass(frozen=True, eq=False)
class Fitted:
    """A trained model: what was learned, what follows from it, and what is known about both."""

    graph: Graph  # with the links that the model may know
    message_edges: NDArray[np.int64]  # indices of those that its final embeddings see
    settings: Settings
    seed: int
    model: Model
    embeddings: Tensor  # (n, d)
    calibration: Calibration
    metrics: dict[str, float]  # on the validation links
    protocol: str
    split_text: str
    reasons: tuple[str, ...] = ()
    history: tuple[EpochRecord, ...] = ()
    best_epoch: int = 0  # 0 where nothing was better than the start
    best_score: float = float("nan")  # by training.selection, if trained just now
    energy: tuple[float, ...] = ()
    seconds: float = 0.0
    valid_scores: tuple[NDArray[np.float32], NDArray[np.float32]] = field(
        default_factory=lambda: (np.empty(0, np.float32), np.empty(0, np.float32))
    )  # of links and of non-links

    @property
    def encoder(self) -> Encoder:
        """The encoder, which is ours unless a peer was trained."""
        return our_encoder(self.model)


def our_encoder(model: Model) -> Encoder:
    """The encoder of one of our models, whose base model and energy can be looked into."""
    if not isinstance(model.encoder, Encoder):
        raise TypeError(f"{type(model.encoder).__name__} has no energy to look into")
    return model.encoder


@held_memory()
def fit_model(
    split: Split,
    settings: Settings,
    *,
    seed: int,
    device: torch.device,
    calibration: Method,
    hooks: Hooks,
    reasons: tuple[str, ...] = (),
    build: Callable[[Settings, Graph], Model] | None = None,
) -> Fitted:
    """Train on the split's training links, keep the weights that validate best, and embed for use.

    `build` makes another model than ours of the settings and the graph, with torch's own generator seeded.
    """
    graph, started = split.graph, time.perf_counter()
    for reason in reasons:
        hooks.tell(f"chosen: {reason}")
    if build is None:  # a peer's layers keep what they please: only our own are known well enough to foretell
        check_memory(split, settings, device, hooks.tell)
    model = build_model(settings, graph, seed, build).to(device)
    order = None
    if build is None and settings.training.node_order == "local":
        order = local_order(graph.edges[split.train_messages], graph.num_nodes, graph.sides)
        _reorder(our_encoder(model), order)
    data = training_data(graph, split, device, None if order is None else np.argsort(order))
    from_links = build is None and settings.encoder.table_start != "orthogonal"
    if from_links:
        _start_from_links(model, data, settings, seed, device)
    state = _trained(model, data, split, settings, seed, device, hooks, start_counts=from_links)
    valid = _validation_scores(model, data, settings, seed)
    metrics = _metrics(*valid)
    if _samples_negatives(settings):
        metrics["score_spread"] = _score_spread(model, data, settings, seed)

    tested = np.setdiff1d(graph.find_edges(split.test_targets), split.test_messages)
    known = np.setdiff1d(np.arange(graph.num_edges), tested)
    messages, features = message_graph(graph, split.test_messages, device), data.features
    if order is not None:  # from here on as given
        _reorder(our_encoder(model), np.argsort(order))
        features = feature_tensor(graph.features, device)
    embeddings = embed_graph(model, features, messages, settings, seed)
    generator = Streams.fresh(seed, "inference/0", device)
    return Fitted(
        graph=graph if known.size == graph.num_edges else graph.with_edges(known),
        message_edges=np.searchsorted(known, split.test_messages),
        settings=settings,
        seed=seed,
        model=model,
        embeddings=embeddings,
        calibration=fit_calibration(valid[0], valid[1].ravel(), calibration),
        metrics=metrics,
        protocol=split.protocol,
        split_text=split.describe(),
        reasons=reasons,
        history=tuple(state.history),
        best_epoch=state.best_epoch,
        best_score=state.best_score,
        energy=tuple(model.encoder.energy_trace(features, messages, negatives=generator)),
        seconds=time.perf_counter() - started,
        valid_scores=(valid[0], valid[1].ravel()),
    )


@torch.no_grad()
def _reorder(encoder: Encoder, order: NDArray[np.int64]) -> None:
    """Let the node that stood in row order[i] of the learned or random table stand in row i."""
    table = encoder.base.table
    if table is not None:
        table.copy_(table[torch.from_numpy(order).to(table.device)])


def _start_from_links(model: Model, data: TrainingData, settings: Settings, seed: int, device: torch.device) -> None:
    """Factors of the links in the table: eigenvectors by the roots of their eigenvalues, perhaps completed first."""
    base, encoder = our_encoder(model).base, settings.encoder
    if not isinstance(base.table, nn.Parameter):
        raise SettingsError(
            f"encoder.table_start: '{encoder.table_start}' is for learned embeddings "
            "(use inputs = 'embeddings' or 'both')"
        )
    generator = Streams.fresh(seed, "spectrum", device)
    rows, signs = link_factors(data.messages, encoder, generator)
    start_from_factors(base, model.decoder, rows, signs)


def link_factors(messages: MessageGraph, encoder: EncoderSettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(n, embedding_size) rows and their signs that `encoder.table_start` fills a table with."""
    start, size, missing = encoder.table_start, encoder.embedding_size, encoder.table_missing
    if start == "spectral":
        vectors, values = leading_eigenvectors(messages, size, generator)
        return vectors * values.abs().sqrt(), values.sign()
    if missing is None:
        missing = 0.5 if start == "smoothed" else 0.3
    if start == "completed":
        return completed_factors(
            messages, size, missing=missing, shrinkage=encoder.table_shrinkage, generator=generator
        )
    return smoothed_factors(
        messages,
        size,
        missing=missing,
        shrinkage=encoder.table_shrinkage,
        ridge=encoder.table_ridge,
        generator=generator,
    )


def build_model(
    settings: Settings, graph: Graph, seed: int, build: Callable[[Settings, Graph], Model] | None = None
) -> Model:
    """A model with fresh weights, drawn from a stream of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, "weights"))
        return (build or _our_model)(settings, graph)


def _our_model(settings: Settings, graph: Graph) -> Model:
    num_features = 0 if graph.features is None else graph.features.shape[1]
    encoder = Encoder(settings.encoder, graph.num_nodes, num_features)
    size, sketch_size = settings.encoder.hidden_size, settings.encoder.sketch_size
    return Model(encoder, build_decoder(settings.decoder, size, directed=graph.directed, sketch_size=sketch_size))


@torch.no_grad()
def embed_graph(
    model: Model,
    features: Tensor | SparseMatrix | None,
    messages: MessageGraph,
    settings: Settings,
    seed: int,
) -> Tensor:
    """(n, d) embeddings; the same for the same seed, averaged over `inference_samples` negative samples."""
    count = settings.training.inference_samples if _samples_negatives(settings) else 1
    total = _sampled_embeddings(model, features, messages, seed, 0)
    for sample in range(1, count):
        total += _sampled_embeddings(model, features, messages, seed, sample)
    if count > 1:
        total /= count
    if not is_finite(total):
        raise DivergedError(
            "the embeddings are not finite: the energy diverges. Lower encoder.step_size (or set it to 'safe') "
            "or encoder.repulsion"
        )
    return total


def graph_fingerprint(graph: Graph) -> str:
    """A digest of what a model can see of a graph."""
    digest = hashlib.blake2b(f"{graph.num_nodes}/{graph.directed}/{graph.num_left}".encode(), digest_size=16)
    features = graph.features
    if isinstance(features, SparseFeatures):
        arrays = [features.indptr, features.indices, features.values]
    else:
        arrays = [] if features is None else [features]
    for array in (graph.edges, graph.weights, *arrays):
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def training_fingerprint(split: Split, settings: Settings, seed: int) -> str:
    """A digest of all that training sees; what is done at test time is no part of it."""
    roles = (
        *(split.train_targets, split.valid_targets, split.train_messages, split.valid_messages),
        *(split.known_in_training, split.valid_negatives),
    )
    digests = [hashlib.blake2b(np.ascontiguousarray(r).data, digest_size=16).hexdigest() for r in roles]
    marks = (graph_fingerprint(split.graph), *digests, seed, settings.to_toml())
    return hashlib.blake2b(repr(marks).encode(), digest_size=16).hexdigest()


def _trained(
    model: Model,
    data: TrainingData,
    split: Split,
    settings: Settings,
    seed: int,
    device: torch.device,
    hooks: Hooks,
    *,
    start_counts: bool,
) -> TrainingState:
    """Run the loop with its checkpoints; raises StoppedError where it was asked to stop."""
    streams = Streams(seed, device)
    optimizer = build_optimizer(model, settings.training)
    fingerprint = f"{split.protocol}/{training_fingerprint(split, settings, seed)}"
    state = TrainingState()
    if hooks.resume and hooks.checkpoint is not None and hooks.checkpoint.exists():
        state = load_checkpoint(hooks.checkpoint, fingerprint, model, optimizer, streams)
    saved_at = time.monotonic()

    def save() -> None:
        nonlocal saved_at
        if hooks.checkpoint is not None:
            save_checkpoint(hooks.checkpoint, fingerprint, model, optimizer, streams, state)
            saved_at = time.monotonic()

    def on_step(now: TrainingState) -> bool:
        if time.monotonic() - saved_at > _CHECKPOINT_SECONDS:
            save()
        return not hooks.should_stop()

    def on_epoch(record: EpochRecord) -> None:
        figures = {k: float(v) for k, v in vars(record).items() if v is not None and k != "epoch"}
        for tracker in hooks.trackers:
            tracker(figures, record.epoch)
        hooks.on_epoch(record)

    hooks.on_start(settings.training.epochs, state.epoch)
    state = train(
        *(model, data, settings.training, streams),
        state=state,
        optimizer=optimizer,
        start_counts=start_counts,
        on_epoch=on_epoch,
        on_step=on_step,
    )
    if not state.finished:
        save()
        where = f"; its state is in '{hooks.checkpoint}'" if hooks.checkpoint else ""
        raise StoppedError(f"training was stopped in epoch {state.epoch + 1}{where}")
    return state


def _sampled_embeddings(
    model: Model, features: Tensor | SparseMatrix | None, messages: MessageGraph, seed: int, sample: int
) -> Tensor:
    generator = Streams.fresh(seed, f"inference/{sample}", messages.pairs.device)
    return embed_all(model.encoder, features, messages, negatives=generator, dtype=messages.weights.dtype)


def _samples_negatives(settings: Settings) -> bool:
    return settings.encoder.num_negatives > 0 and not settings.encoder.expected_negatives


def _validation_scores(
    model: Model, data: TrainingData, settings: Settings, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of validation links and non-links, with embeddings that saw the links of validation only."""
    y = embed_graph(model, data.features, data.valid_messages, settings, seed)
    links, non_links = (
        score_pairs(model, y, data.valid_messages, pairs) for pairs in (data.valid_links, data.valid_non_links)
    )
    return links, non_links


@torch.no_grad()
def _score_spread(model: Model, data: TrainingData, settings: Settings, seed: int) -> float:
    """How far the score of a pair moves with the negative sample: mean standard deviation over four samples,
    as a share of the scores' own standard deviation."""
    pairs = torch.cat([data.valid_links, data.valid_non_links.reshape(-1, 2)[: len(data.valid_links)]])
    messages = data.valid_messages
    samples = [_sampled_embeddings(model, data.features, messages, seed, sample) for sample in range(4)]
    scores = np.stack([score_pairs(model, y, messages, pairs) for y in samples])
    return float(scores.std(axis=0, ddof=1).mean() / max(float(scores.std()), 1e-12))


def _metrics(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> dict[str, float]:
    return {
        "hits@10%": hits_at_rate(positive, negative, 0.1),
        "mrr": mrr(positive, negative),
        "auc": roc_auc(positive, negative),
        "ap": average_precision(positive, negative),
    }
