"""From a graph with relations, a split and settings to a trained model with its embeddings."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph.features import SparseFeatures
from yinyan.graph.typed_graph import TypedGraph
from yinyan.model.calibration import Calibration, Method, fit_calibration, fit_to_lists
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.held_out_lists import base_rate_of
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.scoring import Model, score_pairs
from yinyan.model.typed_encoder import TypedBase
from yinyan.model.typed_fitted import TypedFitted, build_typed_model, rows_of_relation
from yinyan.model.typed_tensors import typed_messages
from yinyan.randomness import Streams
from yinyan.settings import Settings, TrainingSettings
from yinyan.splits.typed_split import TypedSplit
from yinyan.text import counted
from yinyan.training.answer_course import AnswerCourse
from yinyan.training.fingerprints import graph_fingerprint
from yinyan.training.fit import ListsOf, trained, validation_metrics
from yinyan.training.hooks import Hooks
from yinyan.training.summary import training_in_words
from yinyan.training.typed_course import TypedCourse
from yinyan.training.typed_data import TypedData, typed_data

__all__ = ["course_of", "fit_typed", "typed_fingerprint"]

_MOST_LISTS = 16  # relations whose probabilities are calibrated on recommended lists of their own
_FEWEST_OWN = 20  # validation edges of such a relation

Scores = NDArray[np.float32]


def fit_typed(
    split: TypedSplit,
    settings: Settings,
    *,
    seed: int,
    device: torch.device,
    calibration: Method,
    hooks: Hooks,
    lists: ListsOf | None = None,
    reasons: tuple[str, ...] = (),
) -> TypedFitted:
    """Train on the split's training edges, keep the weights that validate best, and embed for use."""
    _refuse_symmetric(split, settings)
    graph, started = split.graph, time.perf_counter()
    ranked, maps = settings.training.selection == "ranking", settings.encoder.relation_maps
    targets = sum(len(part.train_targets) for part in split.parts.values())
    hooks.tell(f"model: {_in_words(graph, split.predicted, settings)}")
    asked = 2 * targets if settings.training.loss_sampler in ("shared", "all") else targets  # both ends of each
    hooks.tell(f"training: {training_in_words(settings, asked)}")
    for note in split.notes:
        hooks.tell(note)
    model = build_typed_model(settings, graph, split.predicted, seed).to(device)
    data = typed_data(split, device, ranked=ranked, maps=maps)
    base = our_encoder(model).base
    if settings.encoder.embedding_start == "spectral" and isinstance(base, TypedBase):
        base.start_spectrally(data.messages, Streams.fresh(seed, "spectral start", device))
    state = trained(
        *(model, lambda streams: course_of(model, data, settings.training, streams)),
        typed_fingerprint(split, settings, seed),
        settings,
        seed,
        device,
        hooks,
    )
    features: Any = data.features
    rows = embed_graph(model, features, data.valid_messages, settings, seed)
    scores = _Scores(split, model, data, rows)
    messages = split.messages("test")
    seen = typed_messages(graph, messages, device, maps=maps)[0]
    embeddings = embed_graph(model, features, seen, settings, seed)
    shared = {"settings": settings, "seed": seed, "reasons": reasons, "history": tuple(state.history)}
    fitted = _per_relation(split, model, scores, rows, embeddings, calibration, lists, hooks, shared)
    generator = Streams.fresh(seed, "inference/0", device)
    known = graph.with_edges(_known(split))
    return TypedFitted(
        graph=known,
        predicted=split.predicted,
        message_edges={
            name: fitted[name].message_edges if name in fitted else messages[name] for name in graph.relations
        },
        settings=settings,
        seed=seed,
        model=model,
        embeddings=embeddings,
        relations=fitted,
        metrics=scores.metrics,
        protocol=split.protocol,
        split_text=split.describe(),
        reasons=reasons,
        history=tuple(state.history),
        best_epoch=state.best_epoch,
        best_score=state.best_score,
        energy=tuple(our_encoder(model).energy_trace(EncoderInput(features, seen, generator))),
        seconds=time.perf_counter() - started,
    )


def course_of(model: RelationModel, data: TypedData, settings: TrainingSettings, streams: Streams) -> TypedCourse:
    """Steps against drawn negatives, or against all nodes."""
    if settings.loss_sampler in ("shared", "all"):
        return AnswerCourse(model, data, settings, streams)
    if settings.n3:
        raise SettingsError("training.n3: the penalty needs loss_sampler = 'all' or 'shared' (set it to 0)")
    return TypedCourse(model, data, settings, streams)


class _Scores:
    """Scores of the validation edges and negatives of each predicted relation."""

    def __init__(self, split: TypedSplit, model: RelationModel, data: TypedData, rows: Tensor) -> None:
        self.links, self.non_links = (
            score_pairs(model, rows, data.valid_messages, triples)
            for triples in (data.valid_links, data.valid_non_links)
        )
        numbers = [triples[:, 2].cpu().numpy() for triples in (data.valid_links, data.valid_non_links)]
        self.of: dict[str, tuple[Scores, Scores]] = {
            name: (self.links[numbers[0] == n], self.non_links[numbers[1] == n])
            for n, name in enumerate(split.predicted)
        }
        self.metrics = validation_metrics(self.links, self.non_links)


def _per_relation(
    split: TypedSplit,
    model: RelationModel,
    scores: _Scores,
    rows: Tensor,
    embeddings: Tensor,
    method: Method,
    lists: ListsOf | None,
    hooks: Hooks,
    shared: dict[str, Any],
) -> dict[str, Fitted]:
    """A plain fitted model of each predicted relation: its decoder, its nodes' embeddings, its calibration."""
    pooled = fit_calibration(scores.links, scores.non_links, method)
    sizes = {name: len(part.valid_targets) for name, part in split.parts.items()}
    # one relation is calibrated as a plain graph, whatever its size
    least = 1 if len(sizes) == 1 else _FEWEST_OWN
    own = [name for name in sorted(sizes, key=lambda n: -sizes[n])[:_MOST_LISTS] if sizes[name] >= least]
    found, last = {}, _known(split)
    for number, (name, part) in enumerate(split.parts.items()):
        known = last.get(name, np.arange(part.graph.num_edges))
        decoder = model.decoder_of(number)
        single = Model(model.encoder, decoder)
        listed, reranking = None, None
        if lists is not None and name in own:
            edges = part.graph.find_edges(part.valid_targets)
            missing = part.graph.num_edges - len(known) or len(edges)
            valid_rows = rows_of_relation(split.graph, name, rows)
            unseen = np.setdiff1d(known, edges)
            listed, reranking = lists(
                *(single, valid_rows, part.graph, unseen, part.valid_targets, part.valid_messages),
                missing / len(edges),
            )
        view = part.graph if len(known) == part.graph.num_edges else part.graph.with_edges(known)
        pair = scores.of[name]
        chosen: Calibration = pooled
        if listed is not None:
            gone = part.graph.num_edges - len(known) or len(part.valid_targets)
            chosen = fit_to_lists(listed, method, base_rate_of(gone, view))
        elif name in own and len(pair[1]):
            chosen = fit_calibration(*pair, method)
        found[name] = Fitted(
            graph=view,
            message_edges=np.searchsorted(known, part.test_messages),
            model=single,
            embeddings=rows_of_relation(split.graph, name, embeddings),
            calibration=chosen,
            metrics=validation_metrics(*pair) if len(pair[0]) and len(pair[1]) else {},
            protocol=split.protocol,
            split_text=part.describe(),
            valid_scores=pair,
            valid_lists=listed,
            reranking=reranking,
            **shared,
        )
    return found


def _known(split: TypedSplit) -> dict[str, NDArray[np.int64]]:
    """Positions of the edges that the model may know, of relations with test edges that it may not."""
    found = {}
    for name, part in split.parts.items():
        tested = part.graph.find_edges(part.test_targets)
        tested = np.setdiff1d(tested, part.test_messages) if tested.size else tested
        if tested.size:
            found[name] = np.delete(np.arange(part.graph.num_edges), tested)
    return found


def typed_fingerprint(split: TypedSplit, settings: Settings, seed: int) -> str:
    """A digest of all that training sees."""
    marks: list[Any] = [split.protocol, split.predicted, seed, settings.to_toml()]
    for name, relation in split.graph.relations.items():
        marks += [name, relation.source, relation.target, graph_fingerprint(split.graph.of_relation(name))]
    for part in split.parts.values():
        for roles in (part.train_targets, part.valid_targets, part.train_messages, part.valid_negatives):
            marks.append(hashlib.blake2b(np.ascontiguousarray(roles).data, digest_size=16).hexdigest())
    for kind in split.graph.nodes.values():
        features = kind.features
        values = features.values if isinstance(features, SparseFeatures) else features
        marks.append(None if values is None else hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest())
    return hashlib.blake2b(repr(marks).encode(), digest_size=16).hexdigest()


def _refuse_symmetric(split: TypedSplit, settings: Settings) -> None:
    directed = [name for name in split.predicted if split.graph.relations[name].directed]
    if directed and not settings.decoder.directed_maps and not settings.decoder.allow_symmetric:
        raise SettingsError(
            f"decoder.directed_maps: a symmetric decoder scores a->b and b->a alike, and relation {directed[0]!r} is "
            "directed (set allow_symmetric = true if that is meant)"
        )


def _in_words(graph: TypedGraph, predicted: tuple[str, ...], settings: Settings) -> str:
    steps = counted(settings.encoder.num_steps, "propagation step")
    named = ", ".join(predicted[:3]) + (f" and {len(predicted) - 3:,} more" if len(predicted) > 3 else "")
    return (
        f"{counted(len(graph.nodes), 'node type')}, {counted(len(graph.relations), 'relation')}, predicted: {named}; "
        f"{steps} in {settings.encoder.hidden_size} dimensions, {settings.decoder.kind} decoder"
    )
