"""From a fitted model or an evaluation to the content of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan import __version__
from yinyan.calibration import BASE_RATE
from yinyan.demo import Citation
from yinyan.fitting import Fitted
from yinyan.graph import Graph
from yinyan.layout import map_2d
from yinyan.predictor import LinkPredictor
from yinyan.protocol import PROTOCOLS, Evaluation
from yinyan.randomness import named_seed
from yinyan.report import ReportContent, write_report
from yinyan.results import Id

__all__ = ["evaluation_report", "fit_report"]

_ASKED = 200  # nodes that are asked for their best new partner
_SHOWN = 15  # predicted links drawn and listed
_CONTEXT = 4_000  # known links drawn thinly behind them

Rows = NDArray[np.int64]
Row = tuple[Id, Id, float, float | None]


def fit_report(path: Path, model: LinkPredictor, *, title: str) -> None:
    """The report of a model made for use: its figures are on the validation links."""
    fitted = model.fitted_
    content = _content(model, title, _best_links(model), fitted.valid_scores, fitted.metrics, {})
    write_report(path, content)


def evaluation_report(
    path: Path, evaluation: Evaluation, *, title: str, recommended: Sequence[Citation] | None = None
) -> None:
    """The report of an evaluation: figures are means over its seeds, pictures are of the first one run here."""
    result = next((r for r in evaluation.results if r.model is not None), None)
    if result is None or result.model is None or result.scores is None:
        raise ValueError("every seed was read from a checkpoint: there is no model to draw")
    if recommended is None:
        links = _best_links(result.model)
    else:
        links = [(c.source, c.target, c.score, c.probability) for c in recommended]
    summary = evaluation.to_dict()
    content = _content(result.model, title, links, result.scores, summary["metrics"], summary["peers"])
    write_report(path, content)


def _content(
    model: LinkPredictor,
    title: str,
    links: Sequence[Row],
    scores: tuple[NDArray[Any], NDArray[Any]],
    metrics: Mapping[str, float],
    peers: Mapping[str, Mapping[str, float]],
) -> ReportContent:
    fitted = model.fitted_
    graph = fitted.graph
    positive, negative = scores
    ends = np.stack([graph.ids.rows([r[0] for r in links]), graph.ids.rows([r[1] for r in links])], axis=1)
    rows, points = map_2d(model.embeddings_, seed=fitted.seed, keep=np.unique(ends))
    place = np.full(graph.num_nodes, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return ReportContent(
        title=title,
        subtitle=f"{graph.num_nodes:,} nodes, {graph.num_edges:,} links",
        protocol=fitted.protocol,
        facts=_facts(fitted),
        notes=[*graph.notes, *(f"chosen: {reason}" for reason in fitted.reasons)],
        metrics=metrics,
        peers=peers,
        history=[asdict(record) for record in fitted.history],
        best_epoch=fitted.best_epoch,
        energy=fitted.energy,
        positive_scores=positive,
        negative_scores=negative,
        positive_probabilities=fitted.calibration.probabilities(positive),
        negative_probabilities=fitted.calibration.probabilities(negative),
        base_rate=BASE_RATE,
        points=points,
        links=_context(graph, place, fitted.seed),
        predicted=place[ends],
        recommendations=list(links),
        settings=fitted.settings.to_dict(),
    )


def _facts(fitted: Fitted) -> dict[str, str]:
    graph = fitted.graph
    width = "none" if graph.features is None else f"{graph.features.shape[1]:,}"
    words = PROTOCOLS.get(fitted.protocol, "some links are held out to choose the weights")
    return {
        "nodes": f"{graph.num_nodes:,}",
        "links": f"{graph.num_edges:,}",
        "features": width,
        "protocol": f"{fitted.protocol}: {words}",
        "seed": str(fitted.seed),
        "training": f"{len(fitted.history)} epochs in {fitted.seconds:.0f} s, weights of epoch {fitted.best_epoch}",
        "versions": f"yinyan {__version__}, torch {torch.__version__}",
    }


def _context(graph: Graph, place: Rows, seed: int) -> Rows:
    """Some known links whose ends are both on the map."""
    both = place[graph.edges]
    both = both[(both >= 0).all(axis=1)]
    if len(both) > _CONTEXT:
        chosen = np.random.default_rng(named_seed(seed, "report")).choice(len(both), _CONTEXT, replace=False)
        both = both[np.sort(chosen)]
    return both


def _best_links(model: LinkPredictor) -> list[Row]:
    """The best-scored new links of some nodes drawn by the seed."""
    ids = model.graph_.ids
    generator = np.random.default_rng(named_seed(model.fitted_.seed, "report"))
    asked = np.sort(generator.choice(len(ids), size=min(_ASKED, len(ids)), replace=False))
    found: dict[frozenset[Id] | tuple[Id, Id], tuple[Id, Id, float]] = {}
    for row in model.recommend(ids.take(asked), k=2):
        key = (row.source, row.target) if model.graph_.directed else frozenset((row.source, row.target))
        found.setdefault(key, (row.source, row.target, row.score))
    best = sorted(found.values(), key=lambda link: -link[2])[:_SHOWN]
    chances = model.predict_proba([(a, b) for a, b, _ in best])
    return [(a, b, score, float(chance)) for (a, b, score), chance in zip(best, chances, strict=True)]
