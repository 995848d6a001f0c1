"""Which settings suit which graph, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.settings import Settings
from yinyan.text import counted

__all__ = ["Suggestion", "ground", "suggest"]


_WIDE = 128  # feature columns from which they are taken to represent nodes
_SIZES, _SKETCHES = (256, 128), (64, 32)  # dimensions of embeddings and of sketches: of small graphs, of large ones
_MOST_SKETCHES = 128  # of graphs of 10,000 nodes and fewer without features
_SMALL = 20_000  # nodes from which on dimensions shrink, to save memory: as this power of the nodes
_SHRINKING = 0.3
_ORDERED_FROM = 50_000  # nodes: a wider matrix than the second cache holds
_PARTS = 3  # of an epoch at least: each hides one part in so many of the links
_LARGEST_BATCH = 16_384  # beyond, decoding its pairs and negatives outweighs the layers
_STEPS = 200  # of a whole run, about
_MOST_EPOCHS, _FEWEST_EPOCHS = 70, 10
_GROUND_STEPS, _GROUND_EPOCHS = 450, (150, 20)  # of the peers, whose settings were chosen with these
_RATE = 0.009  # that learns in so many steps what .004 learns in twice as many
_MANY = 10_000  # training links: between Cora's and Pubmed's, whose best settings differ
_MANY_PARTS, _MANY_EPOCHS = 15, 34  # of such a graph
_BARE_PARTS = 12  # of a graph without features, unless parts get too small
_BARE_STEPS, _BARE_GROWTH = (240, 480), 0.4  # from so many to so many, as this power of the training links
_FEW = 2_000  # training links up to which the fewest steps do
_MOST_BARE, _BARE_RATE = 60, 0.008
_WIDTH = 64  # of the decoder's hidden layers: 256 rank no better, and cost four times as much
# training links from which on a score by one inner product is worth its speed: it ranks the partners of a node at least
# as well, but tells pairs of the whole graph apart less well (email-Enron, 183,831 edges), which two sides do not need
_INNER_FROM, _INNER_FROM_WITH_SIDES = 500_000, 100_000
_FEWEST_INNER, _MOST_INNER, _INNER_EDGES = 4, 12, 5_000_000  # epochs, and edges that all of them see
_MOST_VALID = 200_000  # edges: more make validation slower, and its figures no steadier
_SMALLEST_BATCH = 24  # so that the last part of an epoch is about as large as the others
# half of the dozen validations of a run: until then it may still improve while the learning rate falls
_STILL = {"patience": 6, "min_gain": 0.5}
_DENSE = 5.0  # neighbours per node in the training graph: sparse graphs are worse off with many negatives per edge

_Overrides = dict[str, dict[str, Any]]


class Suggestion(NamedTuple):
    """Settings for a graph, and the reasons in words."""

    settings: Settings
    reasons: tuple[str, ...]


def suggest(graph: Graph, num_targets: int, given: Mapping[str, Any] | None = None) -> Suggestion:
    """Settings chosen by size and feature kind; `num_targets` is the number of training links.

    `given` are settings by group that the caller sets; only the kind of decoder matters for the choice.
    """
    settings, reasons = ground(graph, num_targets)
    if graph.features is None and not graph.directed:
        enough = _INNER_FROM_WITH_SIDES if graph.is_bipartite else _INNER_FROM
        if num_targets >= enough and _decoder_kind(given) == "dot":
            return _by_inner_products(graph, num_targets)
        overrides, more = _without_features(graph, num_targets)
    elif _describes(graph) and num_targets >= _MANY:
        overrides, more = _with_many_links(num_targets)
    else:
        batch, epochs = _schedule(num_targets, parts=_PARTS, steps=_STEPS, most=_MOST_EPOCHS)
        training = {"learning_rate": _RATE, "batch_size": batch, "epochs": epochs, "evaluate_every": _every(epochs)}
        overrides = {"decoder": {"width": _WIDTH}, "training": training}
        more = (_hidden(num_targets, batch, epochs),)
    return Suggestion(settings.updated(overrides).updated({"training": _STILL}), (*reasons[:-1], *more))


def _decoder_kind(given: Mapping[str, Any] | None) -> str:
    """The kind of decoder that the caller sets, or the one that suits large graphs."""
    group = (given or {}).get("decoder")
    kind = group.get("kind", "dot") if isinstance(group, Mapping) else getattr(group, "kind", "dot")
    return str(kind)


def _by_inner_products(graph: Graph, num_targets: int) -> Suggestion:
    """Eigenvectors as a start, an inner product as the score, negatives that many edges share."""
    neighbours = 2 * num_targets / max(1, graph.num_nodes)
    batch = -(-num_targets // _BARE_PARTS)
    # nodes of few neighbours memorise them soon, so that few epochs are enough
    most = _FEWEST_INNER + 5 * math.log2(max(1.0, neighbours / 5))
    epochs = max(_FEWEST_INNER, round(min(_MOST_INNER, most, _INNER_EDGES / num_targets)))
    # and the fewer they have, the more of their own vectors are dropped
    dropped = round(min(0.9, max(0.5, 0.9 - 0.25 * math.log10(max(1.0, neighbours / 5)))), 2)
    overrides: _Overrides = {
        "encoder": {
            **{"inputs": "embeddings", "embedding_start": "spectral", "embedding_size": 128, "hidden_size": 128},
            **{"num_steps": 4, "step_size": 0.8, "anchoring": 0.1, "learn_repulsion": "no"},
            **{"node_dropout": dropped, "feature_dropout": 0.0, "dropout": 0.0},
            **{"sketch_size": 0, "degree_column": True},
        },
        "decoder": {"kind": "dot"},
        "training": {
            **{"loss": "infonce", "loss_sampler": "shared", "loss_negatives": 128},
            **{"learning_rate": 0.01, "weight_decay": 0.0, "averaging": 0.0, "moments": "rows"},
            **{"batch_size": batch, "epochs": epochs, "evaluate_every": _every(epochs)},
            **{"node_order": "local" if graph.num_nodes > _ORDERED_FROM else "given"},
            **{"valid_share": min(0.1, _MOST_VALID / num_targets), "selection": "ranking"},
        },
    }
    edges = counted(num_targets, "training edge")
    reasons = (
        "no node features: an embedding is learned for each node, from the leading eigenvectors of the graph",
        f"{edges}: enough for a score by one inner product, which also holds the degrees",
        f"{neighbours:.0f} neighbours per node: the vectors of {dropped:.0%} of the nodes are dropped in a step",
        _hidden(num_targets, batch, epochs),
    )
    return Suggestion(Settings().updated(overrides).updated({"training": _STILL}), reasons)


def _without_features(graph: Graph, num_targets: int) -> tuple[_Overrides, tuple[str, ...]]:
    """Small steps; and where nodes have neighbours enough, eight negatives per edge."""
    parts = max(_PARTS, min(_BARE_PARTS, num_targets // _SMALLEST_BATCH))
    fewest, most = _BARE_STEPS
    steps = min(most, round(fewest * max(1.0, num_targets / _FEW) ** _BARE_GROWTH))
    batch, epochs = _schedule(num_targets, parts=parts, steps=steps, most=_MOST_BARE)
    training: dict[str, Any] = {
        **{"learning_rate": _BARE_RATE, "batch_size": batch, "epochs": epochs, "evaluate_every": _every(epochs)},
        "selection": "ranking",  # Hits@10% and AUC are level long before the heads of lists are
    }
    reasons = [_hidden(num_targets, batch, epochs)]
    neighbours = 2 * num_targets / max(1, graph.num_nodes)
    if neighbours >= _DENSE:
        training |= {"loss": "infonce", "loss_negatives": 8}
        reasons.insert(0, f"{neighbours:.0f} neighbours per node: InfoNCE with 8 negatives per edge")
    encoder = {"hidden_size": _SIZES[1], "embedding_size": _SIZES[1], "embedding_start": "spectral"}
    decoder = {"width": _WIDTH, "depth": 2, "norm": True, "dropout": 0.3, "residual": False}
    return {"encoder": encoder, "decoder": decoder, "training": training}, tuple(reasons)


def _with_many_links(num_targets: int) -> tuple[_Overrides, tuple[str, ...]]:
    """Little dropout, a deep decoder, and a loss weighted towards the hardest negatives."""
    batch, epochs = _schedule(num_targets, parts=_MANY_PARTS, steps=_MANY_PARTS * _MANY_EPOCHS, most=_MANY_EPOCHS)
    overrides: _Overrides = {
        "encoder": {"feature_dropout": 0.3, "dropout": 0.1, "output_norm": False, "num_steps": 2, "step_size": 0.5},
        "decoder": {"depth": 3, "norm": True, "dropout": 0.1, "width": _WIDTH},
        "training": {
            "learning_rate": 0.02,
            "weight_decay": 0.0,
            "loss": "hardest",
            "loss_negatives": 4,
            "selection": "hits@100",  # Hits@10% and AUC no longer move where thousands of edges are validated
            "batch_size": batch,
            "epochs": epochs,
            "evaluate_every": _every(epochs),
        },
    }
    many = f"{counted(num_targets, 'training edge')}: enough for little dropout and a decoder of three layers"
    return overrides, (many, _hidden(num_targets, batch, epochs))


def _every(epochs: int) -> int:
    """Epochs between validations: a dozen of them show where a run is best."""
    return max(1, epochs // 12)


def _hidden(num_targets: int, batch: int, epochs: int) -> str:
    edges = counted(num_targets, "training edge")
    return f"{edges}: {batch:,} are hidden and predicted per step, for at most {counted(epochs, 'epoch')}"


def _schedule(num_targets: int, *, parts: int, steps: int, most: int, fewest: int = _FEWEST_EPOCHS) -> tuple[int, int]:
    """Edges per step, one part of so many unless that is too large, and epochs of about so many steps in all."""
    batch = max(1, min(_LARGEST_BATCH, -(-num_targets // parts)))  # rounded up: no step for a link or two
    return batch, max(fewest, min(most, round(steps * batch / max(1, num_targets))))


def ground(graph: Graph, num_targets: int) -> Suggestion:
    """What every method starts from, ours and peers, before what only helps ours on graphs of many links."""
    reasons: list[str] = []
    encoder: dict[str, Any] = {}
    training: dict[str, Any] = {}
    decoder: dict[str, Any] = {}
    if graph.features is None:
        encoder |= {"inputs": "embeddings", "feature_dropout": 0.0, "num_steps": 3}
        decoder |= {"residual": True}
        training |= {"weight_decay": 2.0}
        reasons.append("no node features: an embedding is learned for each node")
        # a node's own vector, if it is always used, memorises its edges; but neighbours do not show direction
        if not graph.directed:
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

    bare = graph.features is None
    encoder |= {"sketch_size": _sketches(graph.num_nodes) if bare else _dimensions(graph.num_nodes, _SKETCHES)}
    reasons.append(f"{encoder['sketch_size']}-dimensional structural sketches: estimates of common neighbours")
    size = _dimensions(graph.num_nodes, _SIZES)
    if size < _SIZES[0]:
        encoder |= {"hidden_size": size}
        decoder |= {"width": size}
        reasons.append(f"{graph.num_nodes:,} nodes: {size} dimensions, to save memory")
    if graph.num_nodes > _ORDERED_FROM:
        training |= {"node_order": "local"}
        reasons.append(f"{graph.num_nodes:,} nodes: neighbours are stored near each other in memory during training")

    most, fewest = _GROUND_EPOCHS
    batch, epochs = _schedule(num_targets, parts=_PARTS, steps=_GROUND_STEPS, most=most, fewest=fewest)
    training |= {"batch_size": batch, "epochs": epochs, "evaluate_every": max(1, epochs // 50)}
    reasons.append(_hidden(num_targets, batch, epochs))
    overrides = {"encoder": encoder, "decoder": decoder, "training": training}
    return Suggestion(Settings().updated(overrides), tuple(reasons))


def _dimensions(num_nodes: int, bounds: tuple[int, int]) -> int:
    """Dimensions that shrink with the number of nodes, in multiples of an eighth of the most."""
    most, least = bounds
    unit = most // 8
    wanted: float = most * min(1.0, (_SMALL / max(1, num_nodes)) ** _SHRINKING)
    return max(least, unit * round(wanted / unit))


def _sketches(num_nodes: int) -> int:
    """Dimensions of sketches without features: their noise is what the head of a list suffers from, and on small graphs
    more of them cost little."""
    wanted = _SKETCHES[0] * _SMALL / max(1, num_nodes)
    return max(_dimensions(num_nodes, _SKETCHES), min(_MOST_SKETCHES, 8 * round(wanted / 8)))


def _describes(graph: Graph) -> bool:
    """Whether the features represent the nodes well enough alone."""
    features = graph.features
    return features is not None and (isinstance(features, SparseFeatures) or features.shape[1] >= _WIDE)
