"""Which settings suit which graph, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from yinyan.features import SparseFeatures
from yinyan.graph import Graph
from yinyan.settings import Settings

__all__ = ["Suggestion", "ground", "suggest"]


_WIDE = 128  # feature columns from which they are taken to tell nodes apart
_SKETCH, _LARGE_SKETCH = 64, 32  # dimensions of sketches, and from where memory counts on
_LARGE = 100_000  # nodes
_ORDERED_FROM = 50_000  # nodes: a wider matrix than the second cache holds
_PARTS = 3  # of an epoch at least: each hides one part in so many of the links
_LARGEST_BATCH = 16_384  # beyond, decoding its pairs and non-links outweighs the layers
_STEPS = 450  # of a whole run, about
_MOST_EPOCHS, _FEWEST_EPOCHS = 150, 20
_MANY = 10_000  # training links: between Cora's and Pubmed's, whose best settings differ
_MANY_PARTS, _MANY_EPOCHS = 15, 100  # of such a graph


class Suggestion(NamedTuple):
    """Settings for a graph, and the reasons in words."""

    settings: Settings
    reasons: tuple[str, ...]


def suggest(graph: Graph, num_targets: int) -> Suggestion:
    """Settings chosen by size and feature kind; `num_targets` is the number of training links."""
    settings, reasons = ground(graph, num_targets)
    if not _describes(graph) or graph.num_nodes > _LARGE or num_targets < _MANY:
        return Suggestion(settings, reasons)
    batch = min(_LARGEST_BATCH, -(-num_targets // _MANY_PARTS))
    epochs = max(_FEWEST_EPOCHS, min(_MANY_EPOCHS, round(_MANY_PARTS * _MANY_EPOCHS * batch / num_targets)))
    overrides: dict[str, dict[str, Any]] = {
        "encoder": {"feature_dropout": 0.3, "dropout": 0.1, "output_norm": False, "num_steps": 2, "step_size": 0.5},
        "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
        "training": {
            "learning_rate": 0.02,
            "weight_decay": 0.0,
            "loss": "hardest",
            "loss_negatives": 4,
            "batch_size": batch,
            "epochs": epochs,
            "evaluate_every": max(1, epochs // 20),
        },
    }
    told = (
        f"{num_targets:,} training links: many enough for little dropout and a decoder of three layers; {batch:,} are "
        f"hidden and predicted at each step, for {epochs} epochs at most"
    )
    return Suggestion(settings.updated(overrides), (*reasons[:-1], told))


def ground(graph: Graph, num_targets: int) -> Suggestion:
    """What every method starts from, ours and peers, before what only helps ours on graphs of many links."""
    reasons: list[str] = []
    encoder: dict[str, Any] = {}
    training: dict[str, Any] = {}
    decoder: dict[str, Any] = {}
    large = graph.num_nodes > _LARGE

    if graph.features is None:
        encoder |= {"inputs": "embeddings", "feature_dropout": 0.0, "num_steps": 3}
        decoder |= {"residual": True}
        training |= {"weight_decay": 2.0}
        reasons.append("no features: an embedding is learned for each node")
        # a node's own vector, if it is always heard, learns its links by heart; but neighbours do not tell direction
        if not large and not graph.directed:
            encoder |= {"embedding_size": 256, "num_steps": 6, "step_size": 0.8, "anchoring": 0.1}
            encoder |= {"node_dropout": 0.8, "dropout": 0.1}
            encoder |= {"learn_repulsion": "no"}  # more of it would run away in steps as long as these
            decoder |= {"depth": 3, "norm": True, "dropout": 0.3}
            reasons.append(
                "six long steps, each time without four embeddings in five: a node is told by its neighbourhood"
            )
    elif _describes(graph):
        encoder |= {"inputs": "features"}
        reasons.append(f"{graph.features.shape[1]:,} features: they describe the nodes")
    else:
        encoder |= {"inputs": "both", "feature_dropout": 0.1, "dropout": 0.3}
        reasons.append(
            f"{graph.features.shape[1]:,} features: too few to tell nodes apart, so embeddings are learned beside them"
        )

    encoder |= {"sketch_size": _LARGE_SKETCH if large else _SKETCH}
    reasons.append(f"sketches of {encoder['sketch_size']}: what two nodes share is told beside what they are")
    if large:
        encoder |= {"hidden_size": 128}
        decoder |= {"width": 128}
        reasons.append(f"{graph.num_nodes:,} nodes: 128 dimensions, to fit memory")
    if graph.num_nodes > _ORDERED_FROM:
        training |= {"node_order": "local"}
        reasons.append(f"{graph.num_nodes:,} nodes: neighbours are moved near each other in memory while training")

    batch = max(1, min(_LARGEST_BATCH, -(-num_targets // _PARTS)))  # rounded up: no step for a link or two
    epochs = max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, round(_STEPS * batch / max(1, num_targets))))
    training |= {"batch_size": batch, "epochs": epochs, "evaluate_every": max(1, epochs // 50)}
    reasons.append(
        f"{num_targets:,} training links: {batch:,} of them are hidden and predicted at each step, "
        f"for {epochs} epochs at most"
    )
    overrides = {"encoder": encoder, "decoder": decoder, "training": training}
    return Suggestion(Settings().updated(overrides), tuple(reasons))


def _describes(graph: Graph) -> bool:
    """Whether the features tell nodes apart."""
    features = graph.features
    return features is not None and (isinstance(features, SparseFeatures) or features.shape[1] >= _WIDE)
