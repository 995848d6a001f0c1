"""Which settings suit which graph, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.settings import Settings
from yinyan.text import counted

__all__ = ["Suggestion", "ground", "suggest"]


_WIDE = 128  # feature columns from which they are taken to represent nodes
_SKETCH, _LARGE_SKETCH = 64, 32  # dimensions of sketches, and from where memory counts on
_LARGE = 100_000  # nodes
_ORDERED_FROM = 50_000  # nodes: a wider matrix than the second cache holds
_PARTS = 3  # of an epoch at least: each hides one part in so many of the links
_LARGEST_BATCH = 16_384  # beyond, decoding its pairs and negatives outweighs the layers
_STEPS = 450  # of a whole run, about
_MOST_EPOCHS, _FEWEST_EPOCHS = 150, 20
_MANY = 10_000  # training links: between Cora's and Pubmed's, whose best settings differ
_MANY_PARTS, _MANY_EPOCHS = 15, 100  # of such a graph
_BARE_PARTS, _BARE_STEPS = 12, 900  # of a graph without features, unless parts get too small
_SMALLEST_BATCH = 24  # so that the last part of an epoch is about as large as the others
_DENSE = 5.0  # neighbours per node in the training graph: sparse graphs are worse off with many negatives per edge

_Overrides = dict[str, dict[str, Any]]


class Suggestion(NamedTuple):
    """Settings for a graph, and the reasons in words."""

    settings: Settings
    reasons: tuple[str, ...]


def suggest(graph: Graph, num_targets: int) -> Suggestion:
    """Settings chosen by size and feature kind; `num_targets` is the number of training links."""
    settings, reasons = ground(graph, num_targets)
    if graph.num_nodes > _LARGE:
        return Suggestion(settings, reasons)
    if graph.features is None and not graph.directed:
        overrides, more = _without_features(graph, num_targets)
    elif _describes(graph) and num_targets >= _MANY:
        overrides, more = _with_many_links(num_targets)
    else:
        return Suggestion(settings, reasons)
    return Suggestion(settings.updated(overrides), (*reasons[:-1], *more))


def _without_features(graph: Graph, num_targets: int) -> tuple[_Overrides, tuple[str, ...]]:
    """Small steps; and where nodes have neighbours enough, eight negatives per edge."""
    parts = max(_PARTS, min(_BARE_PARTS, num_targets // _SMALLEST_BATCH))
    batch, epochs = _schedule(num_targets, parts=parts, steps=_BARE_STEPS, most=_MOST_EPOCHS)
    training: dict[str, Any] = {"batch_size": batch, "epochs": epochs, "evaluate_every": max(1, epochs // 35)}
    reasons = [_hidden(num_targets, batch, epochs)]
    neighbours = 2 * num_targets / max(1, graph.num_nodes)
    if neighbours >= _DENSE:
        training |= {"loss": "infonce", "loss_negatives": 8}
        reasons.insert(0, f"{neighbours:.0f} neighbours per node: InfoNCE with 8 negatives per edge")
    return {"training": training}, tuple(reasons)


def _with_many_links(num_targets: int) -> tuple[_Overrides, tuple[str, ...]]:
    """Little dropout, a deep decoder, and a loss weighted towards the hardest negatives."""
    batch, epochs = _schedule(num_targets, parts=_MANY_PARTS, steps=_MANY_PARTS * _MANY_EPOCHS, most=_MANY_EPOCHS)
    overrides: _Overrides = {
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
    many = f"{counted(num_targets, 'training edge')}: enough for little dropout and a decoder of three layers"
    return overrides, (many, _hidden(num_targets, batch, epochs))


def _hidden(num_targets: int, batch: int, epochs: int) -> str:
    edges = counted(num_targets, "training edge")
    return f"{edges}: {batch:,} are hidden and predicted per step, for at most {counted(epochs, 'epoch')}"


def _schedule(num_targets: int, *, parts: int, steps: int, most: int) -> tuple[int, int]:
    """Edges per step, one part of so many unless that is too large, and epochs of about so many steps in all."""
    batch = max(1, min(_LARGEST_BATCH, -(-num_targets // parts)))  # rounded up: no step for a link or two
    return batch, max(_FEWEST_EPOCHS, min(most, round(steps * batch / max(1, num_targets))))


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
        reasons.append("no node features: an embedding is learned for each node")
        # a node's own vector, if it is always used, memorises its edges; but neighbours do not show direction
        if not large and not graph.directed:
            encoder |= {"embedding_size": 256, "num_steps": 6, "step_size": 0.8, "anchoring": 0.1}
            encoder |= {"node_dropout": 0.8, "dropout": 0.1}
            encoder |= {"learn_repulsion": "no"}  # more of it would run away in steps as long as these
            decoder |= {"depth": 3, "norm": True, "dropout": 0.3}
            reasons.append("6 propagation steps and 80 % node dropout: the neighbourhood represents a node")
    elif _describes(graph):
        encoder |= {"inputs": "features"}
        reasons.append(f"{counted(graph.features.shape[1], 'node feature')}: enough to represent the nodes")
    else:
        encoder |= {"inputs": "both", "feature_dropout": 0.1, "dropout": 0.3}
        reasons.append(
            f"{counted(graph.features.shape[1], 'node feature')}: too few to represent the nodes, so embeddings are "
            "learned as well"
        )

    encoder |= {"sketch_size": _LARGE_SKETCH if large else _SKETCH}
    reasons.append(f"{encoder['sketch_size']}-dimensional structural sketches: estimates of common neighbours")
    if large:
        encoder |= {"hidden_size": 128}
        decoder |= {"width": 128}
        reasons.append(f"{graph.num_nodes:,} nodes: 128 dimensions, to save memory")
    if graph.num_nodes > _ORDERED_FROM:
        training |= {"node_order": "local"}
        reasons.append(f"{graph.num_nodes:,} nodes: neighbours are stored near each other in memory during training")

    batch, epochs = _schedule(num_targets, parts=_PARTS, steps=_STEPS, most=_MOST_EPOCHS)
    training |= {"batch_size": batch, "epochs": epochs, "evaluate_every": max(1, epochs // 50)}
    reasons.append(_hidden(num_targets, batch, epochs))
    overrides = {"encoder": encoder, "decoder": decoder, "training": training}
    return Suggestion(Settings().updated(overrides), tuple(reasons))


def _describes(graph: Graph) -> bool:
    """Whether the features represent the nodes well enough alone."""
    features = graph.features
    return features is not None and (isinstance(features, SparseFeatures) or features.shape[1] >= _WIDE)
