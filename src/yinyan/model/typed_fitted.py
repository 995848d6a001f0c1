"""A model trained on relations: what was learned, and for each predicted relation a fitted model of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.graph.typed_graph import TypedGraph
from yinyan.model.decoder import build_decoder
from yinyan.model.fitted import EpochRecord, Fitted
from yinyan.model.relation_decoder import RelationMaps, RelationModel
from yinyan.model.relation_vectors import ComplexVectors, complex_decoder
from yinyan.model.typed_encoder import TypedEncoder, TypeSize
from yinyan.randomness import named_seed
from yinyan.settings import Settings

__all__ = ["TypedFitted", "build_typed_model", "empty_typed_model", "rows_of_relation"]


@dataclass(frozen=True, eq=False)
class TypedFitted:
    """A trained model of relations."""

    graph: TypedGraph  # with the edges that the model may know
    predicted: tuple[str, ...]  # relations by their number in the decoder
    message_edges: Mapping[str, NDArray[np.int64]]  # positions of those that the final embeddings see, by relation
    settings: Settings
    seed: int
    model: RelationModel
    embeddings: Tensor  # (n, d), all types
    relations: Mapping[str, Fitted]  # a plain fitted model of each predicted relation, over its own nodes
    metrics: dict[str, float]  # on the validation edges of all predicted relations together
    protocol: str
    split_text: str
    reasons: tuple[str, ...] = ()
    history: tuple[EpochRecord, ...] = ()
    best_epoch: int = 0
    best_score: float = float("nan")
    energy: tuple[float, ...] = ()
    seconds: float = 0.0

    @property
    def attractions(self) -> dict[str, float]:
        """λ_r of each relation."""
        found = self.model.encoder.attractions() if isinstance(self.model.encoder, TypedEncoder) else None
        if found is None:
            return dict.fromkeys(self.graph.relations, self.settings.encoder.attraction)
        return dict(zip(self.graph.relations, found.tolist(), strict=True))


def rows_of_relation(graph: TypedGraph, name: str, embeddings: Tensor) -> Tensor:
    """The rows of a relation's types; where they are next to each other without a copy."""
    rows = graph.rows_of_view(graph.relations[name])
    if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return embeddings[int(rows[0]) : int(rows[0]) + len(rows)]
    return embeddings[torch.from_numpy(rows).to(embeddings.device)]


def build_typed_model(settings: Settings, graph: TypedGraph, predicted: tuple[str, ...], seed: int) -> RelationModel:
    """A model with fresh weights, drawn from a stream of their own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(named_seed(seed, "weights"))
        return _model(settings, graph, predicted)


def empty_typed_model(settings: Settings, graph: TypedGraph, predicted: tuple[str, ...]) -> RelationModel:
    """A model without weights, on torch's meta device."""
    with torch.device("meta"):
        return _model(settings, graph, predicted)


def _model(settings: Settings, graph: TypedGraph, predicted: tuple[str, ...]) -> RelationModel:
    sizes = [
        TypeSize(len(kind.ids), 0 if kind.features is None else kind.features.shape[1]) for kind in graph.nodes.values()
    ]
    encoder = TypedEncoder(settings.encoder, sizes, len(graph.relations))
    turned = [graph.relations[name].directed for name in predicted]
    if settings.decoder.kind == "complex":
        return RelationModel(
            encoder, complex_decoder(settings.encoder.hidden_size), _vectors(settings, graph, predicted)
        )
    decoder = build_decoder(
        settings.decoder,
        settings.encoder.hidden_size,
        directed=any(turned) if len(predicted) == 1 else False,
        sketch_size=settings.encoder.sketch_size,
        degree_column=settings.encoder.structure_columns == 1,
    )
    if len(predicted) == 1:
        return RelationModel(encoder, decoder, None)
    turned = [way and settings.decoder.directed_maps for way in turned]
    return RelationModel(encoder, decoder, RelationMaps(decoder.size, turned))


def _vectors(settings: Settings, graph: TypedGraph, predicted: tuple[str, ...]) -> ComplexVectors:
    """A relation between two types has a direction, as one within a type may have."""
    if settings.encoder.structure_columns:
        raise SettingsError(
            "decoder.kind: 'complex' reads the embeddings alone (set encoder.sketch_size = 0 and degree_column = false)"
        )
    found = [graph.relations[name] for name in predicted]
    turned = [not relation.is_within or (relation.directed and settings.decoder.directed_maps) for relation in found]
    one_way = [relation.is_within and way for relation, way in zip(found, turned, strict=True)]
    return ComplexVectors(settings.encoder.hidden_size, turned, settings.decoder.dropout, one_way)
