"""A trained model: what was learned, what follows from it, and what is known about both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import DivergedError
from yinyan.graph import Graph
from yinyan.model.calibration import BASE_RATE, Calibration
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.model.encoder import Encoder
from yinyan.model.held_out_lists import HeldOutLists, base_rate_of, missing_share
from yinyan.model.inference import embed_all, is_finite
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.reranking import Reranking
from yinyan.model.scoring import Model
from yinyan.randomness import Streams, named_seed
from yinyan.settings import Settings

__all__ = [
    "EpochRecord",
    "Fitted",
    "build_model",
    "embed_graph",
    "embed_sample",
    "empty_decoder",
    "empty_model",
    "our_encoder",
    "samples_negatives",
]


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
    noise: float | None = None  # standard error of `score` over the validation edges


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
    valid_lists: HeldOutLists | None = None  # that probabilities are calibrated on; None: on the scores above
    reranking: Reranking | None = None  # of listed links by exact counts, where validation edges gain by it

    @functools.cached_property
    def base_rate(self) -> float:
        """The share of missing edges among the candidates of the graph that probabilities hold for."""
        if self.calibration.base_rate != BASE_RATE or self.valid_lists is not None:
            return self.calibration.base_rate
        return base_rate_of(self.valid_scores[0].size, self.graph)  # a model of an earlier version, or a peer

    @functools.cached_property
    def missing_share(self) -> float:
        """The number of missing edges that the base rate implies, as a share of the known edges."""
        return missing_share(self.base_rate, self.graph)

    @property
    def encoder(self) -> Encoder:
        """The encoder, which is ours unless a peer was trained."""
        return our_encoder(self.model)


def our_encoder(model: Model) -> Encoder:
    """The encoder of one of our models, whose base model and energy can be looked into."""
    if not isinstance(model.encoder, Encoder):
        raise TypeError(f"{type(model.encoder).__name__} has no energy to look into")
    return model.encoder


def build_model(
    settings: Settings, graph: Graph, seed: int, build: Callable[[Settings, Graph], Model] | None = None
) -> Model:
    """A model with fresh weights, drawn from a stream of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, "weights"))
        return (build or _our_model)(settings, graph)


def empty_model(settings: Settings, graph: Graph) -> Model:
    """One of our models without weights, on torch's meta device: `load_state_dict(..., assign=True)` gives it all."""
    with torch.device("meta"):
        return _our_model(settings, graph)


def empty_decoder(settings: Settings, *, directed: bool) -> Decoder:
    """The decoder of such a model alone, without weights too."""
    with torch.device("meta"):
        return _our_decoder(settings, directed=directed)


def _our_model(settings: Settings, graph: Graph) -> Model:
    num_features = 0 if graph.features is None else graph.features.shape[1]
    num_edge_features = 0 if graph.edge_features is None else graph.edge_features.shape[1]
    encoder = Encoder(settings.encoder, graph.num_nodes, num_features, num_edge_features)
    return Model(encoder, _our_decoder(settings, directed=graph.directed))


def _our_decoder(settings: Settings, *, directed: bool) -> Decoder:
    return build_decoder(
        settings.decoder,
        settings.encoder.hidden_size,
        directed=directed,
        sketch_size=settings.encoder.sketch_size,
        degree_column=settings.encoder.structure_columns == 1,
    )


@torch.no_grad()
def embed_graph(
    model: Model,
    features: Tensor | SparseMatrix | None,
    messages: MessageGraph,
    settings: Settings,
    seed: int,
) -> Tensor:
    """(n, d) embeddings; the same for the same seed, averaged over `inference_samples` negative samples."""
    count = settings.training.inference_samples if samples_negatives(settings) else 1
    total = embed_sample(model, features, messages, seed, 0)
    for sample in range(1, count):
        total += embed_sample(model, features, messages, seed, sample)
    if count > 1:
        total /= count
    if not is_finite(total):
        raise DivergedError(
            "the embeddings are not finite: the energy diverges. Lower encoder.step_size (or set it to 'safe') "
            "or encoder.repulsion"
        )
    return total


def embed_sample(
    model: Model, features: Tensor | SparseMatrix | None, messages: MessageGraph, seed: int, sample: int
) -> Tensor:
    """(n, d) embeddings under one sample of the negatives."""
    generator = Streams.fresh(seed, f"inference/{sample}", messages.pairs.device)
    return embed_all(model.encoder, features, messages, negatives=generator, dtype=messages.weights.dtype)


def samples_negatives(settings: Settings) -> bool:
    """Whether embeddings depend on a sample of negatives."""
    return settings.encoder.num_negatives > 0 and not settings.encoder.expected_negatives
