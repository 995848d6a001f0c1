"""Which settings suit which graph, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from yinyan.features import SparseFeatures
from yinyan.graph import Graph
from yinyan.settings import Settings

__all__ = ["Suggestion", "suggest"]


class Suggestion(NamedTuple):
    """Settings for a graph, and the reasons in words."""

    settings: Settings
    reasons: tuple[str, ...]


def suggest(graph: Graph, num_targets: int) -> Suggestion:
    """Settings chosen by size and feature kind; `num_targets` is the number of training links."""
    reasons: list[str] = []
    encoder: dict[str, Any] = {}
    training: dict[str, Any] = {}
    decoder: dict[str, Any] = {}

    if graph.features is None:
        encoder |= {"inputs": "embeddings", "embedding_size": 256, "feature_dropout": 0.0}
        reasons.append("no features: embeddings of 256 dimensions are learned for the nodes")
    elif isinstance(graph.features, SparseFeatures):
        reasons.append(f"{graph.features.num_columns:,} sparse features: kept sparse, strong dropout")
    else:
        width = graph.features.shape[1]
        encoder |= {"feature_dropout": 0.2}
        reasons.append(f"{width:,} dense features: mild dropout on them")

    if graph.num_nodes > 100_000:
        encoder |= {"hidden_size": 128}
        decoder |= {"width": 128}
        reasons.append(f"{graph.num_nodes:,} nodes: 128 dimensions, to fit memory")

    share = 16
    batch = max(1, min(65_536, num_targets // share)) if num_targets > 1 else 1
    training["batch_size"] = batch
    reasons.append(f"{num_targets:,} training links: {batch:,} of them are hidden and predicted at each step")
    overrides = {"encoder": encoder, "decoder": decoder, "training": training}
    return Suggestion(Settings().updated(overrides), tuple(reasons))
