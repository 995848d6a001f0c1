"""Methods for knowledge graphs with their relations: a task is a graph with its parts, an outcome ranks triples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import SettingsError
from yinyan.metrics.filtered_ranking import FilteredRanking, filtered_ranking
from yinyan.model.answer_ranking import rank_answers
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import EpochRecord
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.relation_vectors import ComplexVectors, RelationVectors, complex_decoder
from yinyan.model.tensors import pick_device
from yinyan.model.typed_encoder import TypedEncoder, TypeSize
from yinyan.peers.contract import Overrides, merged
from yinyan.peers.triple_formulas import DistMultVectors, RotatEVectors, TransEVectors
from yinyan.randomness import Streams, named_seed
from yinyan.retrieval.relation_ranking import numbered, relation_ranking
from yinyan.settings import Settings
from yinyan.splits.typed_split import TypedSplit, given_typed_split
from yinyan.training.answer_course import AnswerCourse
from yinyan.training.fit import trained
from yinyan.training.hooks import Hooks
from yinyan.training.typed_data import typed_data
from yinyan.training.typed_defaults import suggest_typed
from yinyan.training.typed_fit import fit_typed, typed_fingerprint

__all__ = ["FILTERED", "TRIPLE_METHODS", "TripleOutcome", "TripleTask", "triple_method"]

FILTERED = {f"filtered-{name}": name for name in ("mrr", "hits@1", "hits@3", "hits@10")}  # metrics of filtered ranking

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class TripleTask:
    """A knowledge graph to learn from, and how."""

    data: KnowledgeGraph
    seed: int = 0
    settings: Overrides = field(default_factory=dict)  # by group; they override the method's own
    device: str = "auto"  # 'auto', 'cpu', 'cuda' or 'mps'
    hooks: Hooks = field(default_factory=Hooks)


class TripleOutcome(NamedTuple):
    """The result of a method on a knowledge graph."""

    rank: Callable[[Rows, Rows], FilteredRanking]  # of (t, 3) triples, those of the second argument left out
    validation: float | None  # filtered MRR of the best epoch on validation triples, or what the settings choose by
    history: tuple[EpochRecord, ...]


# what all embeddings of knowledge graphs start from: no messages, full cross-entropy, Adagrad
_OWN: Overrides = {
    "encoder": {
        **{"inputs": "embeddings", "num_layers": 0, "num_steps": 0, "num_negatives": 0, "learn_repulsion": "no"},
        **{"hidden_size": 256, "embedding_size": 256, "dropout": 0.0, "output_norm": False, "sketch_size": 0},
    },
    "decoder": {"kind": "complex", "dropout": 0.0},
    "training": {
        **{"optimizer": "adagrad", "learning_rate": 0.1, "schedule": "constant", "warmup": 0.0, "clip_norm": 0.0},
        **{"loss": "infonce", "loss_sampler": "all", "batch_size": 1000, "epochs": 30, "averaging": 0.0},
        **{"selection": "mrr", "evaluate_every": 2, "patience": 3, "weight_decay": 0.0, "n3": 0.0},
    },
}


def triple_method(name: str) -> Callable[[TripleTask], TripleOutcome]:
    """The method called `name`, one of TRIPLE_METHODS."""
    if name not in TRIPLE_METHODS:
        raise SettingsError(f"there is no method {name!r} for knowledge graphs (all: {', '.join(TRIPLE_METHODS)})")
    return TRIPLE_METHODS[name]


def _embedded(kind: type[RelationVectors], task: TripleTask) -> TripleOutcome:
    """A vector for each entity, and two for each relation."""
    split, device = _split(task), pick_device(task.device)
    settings = Settings().updated(merged(_OWN, task.settings))
    graph, encoder = split.graph, settings.encoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(task.seed, "weights"))
        sizes = [TypeSize(len(of.ids), 0) for of in graph.nodes.values()]
        vectors = kind(encoder.hidden_size, [True] * len(split.predicted), settings.decoder.dropout)
        parts = TypedEncoder(encoder, sizes, len(graph.relations)), complex_decoder(encoder.hidden_size)
        model = RelationModel(*parts, vectors).to(device)
    data = typed_data(split, device, ranked=False)
    name = f"{kind.__name__}/{typed_fingerprint(split, settings, task.seed)}"
    course = partial(AnswerCourse, model, data, settings.training)
    state = trained(model, course, name, settings, task.seed, device, task.hooks)
    given = EncoderInput(data.features, data.valid_messages, Streams.fresh(task.seed, "inference/0", device))  # type: ignore[arg-type]
    with torch.no_grad():
        y = model.encoder.embeddings(given)

    def rank(triples: Rows, known: Rows) -> FilteredRanking:
        own, others = (numbered(part, graph, split.predicted) for part in (triples, known))
        return rank_answers(vectors, y, own, others, data.known.limits.cpu())

    return TripleOutcome(rank, state.best_score, tuple(state.history))


def _ours(task: TripleTask) -> TripleOutcome:
    """Our model with the settings that suit the graph, as `LinkPredictor` has it."""
    split = _split(task)
    num_targets = sum(len(part.train_targets) for part in split.parts.values())
    suggestion = suggest_typed(split.graph, split.predicted, num_targets, dict(task.settings))
    fitted = fit_typed(
        *(split, suggestion.settings.updated(task.settings)),
        seed=task.seed,
        device=pick_device(task.device),
        calibration="platt",
        hooks=task.hooks,
        reasons=suggestion.reasons,
    )

    def rank(triples: Rows, known: Rows) -> FilteredRanking:
        own, others = (numbered(part, split.graph, split.predicted) for part in (triples, known))
        return relation_ranking(fitted, own, others)

    return TripleOutcome(rank, fitted.best_score, fitted.history)


def _constant(task: TripleTask) -> TripleOutcome:
    """Every triple has the same score: the level of chance."""
    count = task.data.graph.num_nodes

    def rank(triples: Rows, known: Rows) -> FilteredRanking:
        def same(rows: Rows, relation: int) -> Any:
            return np.zeros((len(rows), count), dtype=np.float32)

        return filtered_ranking(same, same, triples, known=known)

    return TripleOutcome(rank, None, ())


def _split(task: TripleTask) -> TypedSplit:
    return given_typed_split(task.data.graph, task.data.parts(), seed=task.seed)


TRIPLE_METHODS: Mapping[str, Callable[[TripleTask], TripleOutcome]] = {
    "yinyan": _ours,
    "transe": partial(_embedded, TransEVectors),
    "distmult": partial(_embedded, DistMultVectors),
    "complex": partial(_embedded, ComplexVectors),
    "rotate": partial(_embedded, RotatEVectors),
    "constant": _constant,
}
