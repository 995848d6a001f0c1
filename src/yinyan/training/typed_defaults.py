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
_SIZE = 256  # columns of embeddings
_ALL_UP_TO = 4_000  # nodes that each query is compared with; of more a sample
_SAMPLE = 2_000
_BATCH = 2_000  # questions per step
_EPOCHS, _EVERY = 30, 3


def suggest_typed(
    graph: TypedGraph, predicted: tuple[str, ...], num_targets: int, given: Mapping[str, Any]
) -> Suggestion:
    """Settings chosen as for a plain graph of that size, whose features are those of the type that has most; or, where
    many relations of nodes without features are predicted, those of a knowledge graph."""
    found = [kind.features for kind in graph.nodes.values() if kind.features is not None]
    kind = _kind(given)
    if kind == "complex" or (kind is None and not found and len(predicted) >= _MANY_RELATIONS):
        return _with_vectors(graph, predicted)
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


def _with_vectors(graph: TypedGraph, predicted: tuple[str, ...]) -> Suggestion:
    """Complex vectors of relations, and both ends of each triple asked for."""
    largest = max(len(kind.ids) for kind in graph.nodes.values())
    everyone = largest <= _ALL_UP_TO
    overrides: dict[str, dict[str, Any]] = {
        "encoder": {
            **{"inputs": "embeddings", "num_layers": 0, "hidden_size": _SIZE, "embedding_size": _SIZE},
            **{"num_steps": 0, "num_negatives": 0, "learn_repulsion": "no", "output_norm": False},
            **{"dropout": 0.0, "feature_dropout": 0.0, "sketch_size": 0},
        },
        "decoder": {"kind": "complex", "dropout": 0.0, "rerank": False},
        "training": {
            **{"optimizer": "adagrad", "learning_rate": 0.1, "schedule": "constant", "warmup": 0.0, "clip_norm": 0.0},
            **{"weight_decay": 0.0, "n3": 0.05, "averaging": 0.0, "loss": "infonce", "selection": "mrr"},
            **{"loss_sampler": "all" if everyone else "shared", "loss_negatives": 1 if everyone else _SAMPLE},
            **{"batch_size": _BATCH, "epochs": _EPOCHS, "evaluate_every": _EVERY, "patience": 2},
        },
    }
    among = "all nodes" if everyone else f"a sample of {_SAMPLE:,} nodes"
    return Suggestion(
        Settings().updated(overrides),
        (
            f"{counted(len(predicted), 'predicted relation')}, nodes without features: complex vectors of "
            "relations, no propagation",
            f"both ends of each edge are asked for among {among}; epochs are chosen by the filtered MRR",
        ),
    )
