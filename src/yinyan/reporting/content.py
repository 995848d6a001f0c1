"""What the model page shows, of a served model and in a report, as plain values for JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from yinyan import __version__
from yinyan.graph.typed_graph import TypedGraph
from yinyan.model.fitted import Fitted
from yinyan.model.held_out_lists import HeldOutLists
from yinyan.model.quality import weakness
from yinyan.model.typed_fitted import TypedFitted
from yinyan.randomness import named_seed
from yinyan.reporting.curves import (
    Floats,
    precision_recall_curve,
    roc_curve,
    score_histogram,
    thinned,
)
from yinyan.reporting.embedding_map import EmbeddingMap
from yinyan.reporting.reliability import reliability_content

__all__ = ["context_edges", "finite", "map_of", "model_content", "own_embeddings", "relations_content", "typed_pairs"]

_CONTEXT = 4_000  # edges drawn behind the nodes of a map

Rows = NDArray[np.int64]
Scores = tuple[NDArray[Any], NDArray[Any]]


def model_content(
    fitted: Fitted, *, test: Scores | None = None, test_lists: HeldOutLists | None = None
) -> dict[str, Any]:
    """The parts that a served model and a report share; charts are of `test` pairs and lists, or else of validation."""
    graph = fitted.graph
    weak = weakness(fitted.metrics)
    return {
        "model": {
            "num_nodes": graph.num_nodes,
            "num_links": graph.num_edges,
            "directed": graph.directed,
            "bipartite": graph.is_bipartite,
            "dimensions": fitted.settings.encoder.hidden_size,
            "num_features": 0 if graph.features is None else graph.features.shape[1],
        },
        "metrics": finite(fitted.metrics),
        "protocol": fitted.protocol,
        "split": fitted.split_text,
        "seed": fitted.seed,
        "seconds": fitted.seconds,
        "notes": [*([] if weak is None else [weak]), *graph.notes, *(f"chosen: {reason}" for reason in fitted.reasons)],
        "settings": fitted.settings.to_dict(),
        "training": [finite(asdict(record)) for record in fitted.history],
        "best_epoch": fitted.best_epoch,
        "energy": [value if math.isfinite(value) else None for value in fitted.energy],
        **_charts(fitted.valid_scores if test is None else test, "validation" if test is None else "test"),
        **reliability_content(fitted, test_lists),
        "versions": {"yinyan": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def relations_content(fitted: TypedFitted) -> dict[str, Any]:
    """Types and relations of a model, with the attraction and the figures of each relation."""
    graph = fitted.graph
    return {
        "types": [
            {
                "name": name,
                "num_nodes": len(kind.ids),
                "num_features": 0 if kind.features is None else kind.features.shape[1],
            }
            for name, kind in graph.nodes.items()
        ],
        "relations": [
            {
                "name": name,
                "source": relation.source,
                "target": relation.target,
                "num_links": len(relation.edges),
                "directed": relation.directed,
                "predicted": name in fitted.relations,
                "attraction": fitted.attractions[name],
                "metrics": finite(fitted.relations[name].metrics) if name in fitted.relations else {},
            }
            for name, relation in graph.relations.items()
        ],
        "overall": finite(fitted.metrics),
    }


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with None for what is not finite: JSON has no infinity."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def own_embeddings(fitted: Fitted | TypedFitted, table: torch.Tensor) -> NDArray[np.float32]:
    """The columns of some rows that the encoder made: the sketches beside them say nothing of likeness."""
    own: NDArray[np.float32] = table[:, : fitted.settings.encoder.hidden_size].float().cpu().numpy()
    return own


def map_of(fitted: Fitted | TypedFitted) -> EmbeddingMap:
    """The map on which nodes of a fitted model are placed: the same model gives the same map."""
    return EmbeddingMap.of(own_embeddings(fitted, fitted.embeddings), seed=fitted.seed)


def context_edges(edges: Rows, rows: Rows, seed: int) -> list[list[int]]:
    """Some edges whose ends are both among the `rows` of a map (ascending), as places on it."""
    place = np.searchsorted(rows, edges).clip(max=len(rows) - 1)
    place = place[(rows[place] == edges).all(axis=1)]
    if len(place) > _CONTEXT:
        chosen = np.random.default_rng(named_seed(seed, "report")).choice(len(place), _CONTEXT, replace=False)
        place = place[np.sort(chosen)]
    found: list[list[int]] = place.tolist()
    return found


def typed_pairs(graph: TypedGraph) -> Rows:
    """(m, 2) edges of all relations, as rows of the whole graph."""
    found = [
        relation.edges + np.array([graph.offsets[relation.source], graph.offsets[relation.target]])
        for relation in graph.relations.values()
    ]
    return np.concatenate(found)


def _charts(scores: Scores, held_out: str) -> dict[str, Any]:
    """Histogram, ROC and precision-recall of held-out pairs; None without any."""
    positive, negative = scores
    if not positive.size or not negative.size:
        return {"held_out": None, "histogram": None, "roc": None, "precision_recall": None}
    edges, *shares = score_histogram(positive, negative)
    return {
        "held_out": {"pairs": held_out, "num_positives": int(positive.size), "num_negatives": int(negative.size)},
        "histogram": {"edges": _short(edges), "positives": _short(shares[0]), "negatives": _short(shares[1])},
        "roc": _curve(roc_curve(positive, negative)),
        "precision_recall": _curve(precision_recall_curve(positive, negative)),
    }


def _curve(curve: tuple[Floats, Floats, float]) -> dict[str, Any]:
    x, y = thinned(curve[0], curve[1])
    return {"x": _short(x), "y": _short(y), "area": curve[2]}


def _short(values: ArrayLike) -> list[float]:
    """Six decimals: more than a chart can show."""
    short: list[float] = np.asarray(values, dtype=np.float64).round(6).tolist()
    return short
