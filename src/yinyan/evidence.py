"""From a fitted model or an evaluation to the content of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan import __version__
from yinyan.calibration import BASE_RATE
from yinyan.fitting import Fitted
from yinyan.graph import Graph
from yinyan.peers.registry import METHODS
from yinyan.predictor import LinkPredictor
from yinyan.protocol import PROTOCOLS, Evaluation
from yinyan.randomness import named_seed
from yinyan.reporting import ReportContent, map_2d, write_report
from yinyan.results import Id
from yinyan.splits import Split

__all__ = ["NewLink", "best_links", "evaluation_report", "fit_report", "kept_run"]

_ASKED = 300  # nodes that are asked for their best new partners
_PARTNERS = 3  # how many each of them names
_SHOWN = 15  # predicted links drawn and listed
_CONTEXT = 4_000  # known links drawn thinly behind them

Rows = NDArray[np.int64]
Scores = tuple[NDArray[Any], NDArray[Any]]


class NewLink(NamedTuple):
    """A link that the model was not shown."""

    source: Id
    target: Id
    score: float
    probability: float


class KeptRun(NamedTuple):
    """The seed of an evaluation whose model is at hand, to draw and to ask."""

    model: LinkPredictor
    split: Split
    scores: Scores


def best_links(model: LinkPredictor, count: int) -> list[NewLink]:
    """The best-scored new links of some nodes drawn by the seed, each pair once."""
    graph = model.graph_
    generator = np.random.default_rng(named_seed(model.fitted_.seed, "best links"))
    asked = np.sort(generator.choice(graph.num_nodes, size=min(_ASKED, graph.num_nodes), replace=False))
    found: dict[frozenset[Id] | tuple[Id, Id], tuple[Id, Id, float]] = {}
    for row in model.recommend(graph.ids.take(asked), k=_PARTNERS):
        key = (row.source, row.target) if graph.directed else frozenset((row.source, row.target))
        found.setdefault(key, (row.source, row.target, row.score))
    best = sorted(found.values(), key=lambda link: -link[2])[:count]
    chances = model.predict_proba([(a, b) for a, b, _ in best])
    return [NewLink(a, b, score, float(chance)) for (a, b, score), chance in zip(best, chances, strict=True)]


def kept_run(evaluation: Evaluation) -> KeptRun:
    """The first seed that ran here: those read from a checkpoint have figures only."""
    for result in evaluation.results:
        if result.model is not None and result.split is not None and result.scores is not None:
            return KeptRun(result.model, result.split, result.scores)
    raise ValueError("every seed was read from a checkpoint: there is no model to draw")


def fit_report(path: Path, model: LinkPredictor, *, title: str) -> None:
    """The report of a model made for use: its figures are on the validation links."""
    fitted = model.fitted_
    content = _content(model, title, best_links(model, _SHOWN), fitted.valid_scores, fitted.metrics, {})
    write_report(path, content)


def evaluation_report(
    path: Path, evaluation: Evaluation, *, title: str, recommended: Sequence[NewLink] | None = None
) -> None:
    """The report of an evaluation: figures are means over its seeds, pictures are of the first one run here."""
    run, summary = kept_run(evaluation), evaluation.to_dict()
    links = best_links(run.model, _SHOWN) if recommended is None else recommended
    peers = {METHODS[name].words: figures for name, figures in summary["peers"].items()}
    content = _content(run.model, title, links, run.scores, summary["metrics"], peers)
    if len(evaluation.results) > 1:
        seeds = f"figures are means of {len(evaluation.results)} seeds, pictures are of seed {run.model.fitted_.seed}"
        content = replace(content, subtitle=f"{content.subtitle}; {seeds}")
    write_report(path, content)


def _content(
    model: LinkPredictor,
    title: str,
    links: Sequence[NewLink],
    scores: Scores,
    metrics: Mapping[str, float],
    peers: Mapping[str, Mapping[str, float]],
) -> ReportContent:
    fitted = model.fitted_
    graph = fitted.graph
    positive, negative = scores
    ends = np.stack([graph.ids.rows([r.source for r in links]), graph.ids.rows([r.target for r in links])], axis=1)
    size = fitted.settings.encoder.hidden_size  # sketches beside it say nothing of likeness
    rows, points = map_2d(model.embeddings_[:, :size], seed=fitted.seed, keep=np.unique(ends))
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
