"""Which settings suit which graph with relations, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from yinyan.graph.typed_graph import TypedGraph
from yinyan.settings import Settings
from yinyan.text import counted
from yinyan.training.defaults import Suggestion, suggest

__all__ = ["suggest_typed"]

_MANY_RELATIONS = 10  # that are predicted, on nodes without features: a knowledge graph
# columns of embeddings, of fewer edges than so many and of more: wide ones take time
_SIZES, _WIDE_UP_TO = (512, 256), 150_000
_ALL_UP_TO = 4_000  # nodes that each query is compared with; of more a sample
_SAMPLE = 2_000
_PARTS, _BATCHES = 200, (100, 1_000)  # steps through all edges, and the fewest and most questions of one
_PENALTIES, _SPARSE = (0.1, 0.05), 5  # of graphs of fewer edges per node than so many, and of others
_EPOCHS, _EVERY, _PATIENCE = 30, 3, 3


def suggest_typed(
    graph: TypedGraph, predicted: tuple[str, ...], num_targets: int, given: Mapping[str, Any]
) -> Suggestion:
    """Settings chosen as for a plain graph of that size, whose features are those of the type that has most; or, where
    many relations of nodes without features are predicted, those of a knowledge graph."""
    found = [kind.features for kind in graph.nodes.values() if kind.features is not None]
    kind = _kind(given)
    if kind == "complex" or (kind is None and not found and len(predicted) >= _MANY_RELATIONS):
        return _with_vectors(graph, predicted, num_targets)
    alike = SimpleNamespace(
        num_nodes=graph.num_nodes,
        features=max(found, key=lambda features: features.shape[1], default=None),
        directed=any(graph.relations[name].directed for name in predicted),
        is_bipartite=graph.num_left is not None,
    )
    mlp = {**given, "decoder": {"kind": "hadamard"}}  # negatives that edges share need one kind of edge
    chosen = suggest(cast("Any", alike), num_targets, mlp)
    settings = chosen.settings.updated({"training": {"node_order": "given"}})
    reasons = [reason for reason in chosen.reasons if "stored near each other" not in reason]
    if len(graph.relations) > 1:
        reasons.append(f"{len(graph.relations):,} relations: the attraction of each is learned")
    return Suggestion(settings, tuple(reasons))


def _kind(given: Mapping[str, Any]) -> str | None:
    """The decoder that the caller sets."""
    group = given.get("decoder")
    found = group.get("kind") if isinstance(group, Mapping) else getattr(group, "kind", None)
    return None if found is None else str(found)


def _with_vectors(graph: TypedGraph, predicted: tuple[str, ...], num_targets: int) -> Suggestion:
    """Complex vectors of relations, and both ends of each triple asked for."""
    everyone = max(len(kind.ids) for kind in graph.nodes.values()) <= _ALL_UP_TO
    size = _SIZES[num_targets > _WIDE_UP_TO]
    penalty = _PENALTIES[num_targets >= _SPARSE * graph.num_nodes]
    overrides: dict[str, dict[str, Any]] = {
        "encoder": {
            **{"inputs": "embeddings", "num_layers": 0, "hidden_size": size, "embedding_size": size},
            **{"num_steps": 0, "num_negatives": 0, "learn_repulsion": "no", "output_norm": False},
            **{"dropout": 0.0, "feature_dropout": 0.0, "sketch_size": 0},
        },
        "decoder": {"kind": "complex", "dropout": 0.0, "rerank": False},
        "training": {
            **{"optimizer": "adagrad", "learning_rate": 0.1, "schedule": "constant", "warmup": 0.0, "clip_norm": 0.0},
            **{"weight_decay": 0.0, "n3": penalty, "averaging": 0.0, "loss": "infonce", "selection": "mrr"},
            **{"loss_sampler": "all" if everyone else "shared", "loss_negatives": 1 if everyone else _SAMPLE},
            **{"batch_size": max(_BATCHES[0], min(_BATCHES[1], num_targets // _PARTS))},
            **{"epochs": _EPOCHS, "evaluate_every": _EVERY, "patience": _PATIENCE},
        },
    }
    among = "all nodes" if everyone else f"a sample of {_SAMPLE:,} nodes"
    reasons = (
        f"{counted(len(predicted), 'predicted relation')}, nodes without features: complex vectors of relations, no "
        "propagation",
        f"{counted(num_targets, 'training edge')}: {size} columns; a penalty (N3) of {penalty}",
        f"both ends of each edge are asked for among {among}; epochs are chosen by the filtered MRR",
    )
    return Suggestion(Settings().updated(overrides), reasons)
