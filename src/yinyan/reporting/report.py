"""The report of a fitted model or of an evaluation: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.drawing.page import filled
from yinyan.evaluation import Evaluation
from yinyan.files import write_text
from yinyan.peers.registry import METHODS
from yinyan.predictor import LinkPredictor
from yinyan.randomness import named_seed
from yinyan.reporting.content import Scores, context_edges, finite, map_of, model_content, own_embeddings
from yinyan.reporting.reliability import lists_of_test
from yinyan.reporting.typed_content import held_out_by_relation, typed_report_content
from yinyan.splits import Split
from yinyan.splits.typed_split import TypedSplit

__all__ = ["KeptRun", "evaluation_report", "fit_report", "kept_run", "write_report"]

_LINKS = 15  # recommended links listed and drawn
_PAIRS = 1_000_000  # pairs scored to find them, some seconds: a larger graph is asked for the links of some nodes
_POINTS = 10_000  # nodes on the map: some 60 bytes each

Rows = NDArray[np.int64]


class KeptRun(NamedTuple):
    """The seed of an evaluation whose model was kept."""

    model: LinkPredictor
    split: Split
    scores: Scores


def kept_run(evaluation: Evaluation) -> KeptRun:
    """The first seed that ran here: those read from a checkpoint have figures only."""
    for result in evaluation.results:
        if result.model is not None and isinstance(result.split, Split) and result.scores is not None:
            return KeptRun(result.model, result.split, result.scores)
    raise ValueError("every seed was read from a checkpoint: there is no model to draw")


def fit_report(path: str | os.PathLike[str], model: LinkPredictor, *, title: str) -> None:
    """The report of a model made for use: its figures are on the validation pairs. Of a tuned one, with the search."""
    if model._typed(None) is not None:
        write_report(path, {"name": title, **typed_report_content(model)})
        return
    content = {"name": title, **model_content(model.fitted_)}
    if hasattr(model, "tuning_"):
        content["tuning"] = {**model.tuning_.to_dict(), "verdict": model.tuning_.verdict}
    write_report(path, {**content, **_links_and_map(model)})


def evaluation_report(path: str | os.PathLike[str], evaluation: Evaluation, *, title: str) -> None:
    """The report of an evaluation: figures are means over its seeds, charts are of the first seed that ran here."""
    if evaluation.results[0].relations:
        write_report(path, {"name": title, **_typed_evaluation(evaluation)})
        return
    run, summary = kept_run(evaluation), evaluation.to_dict()
    lists = lists_of_test(run.model.fitted_, run.split)
    content = {"name": title, **model_content(run.model.fitted_, test=run.scores, test_lists=lists)}
    content["metrics"] = finite(summary["metrics"])
    content["peers"] = {METHODS[name].words: finite(figures) for name, figures in summary["peers"].items()}
    content["num_seeds"] = len(evaluation.results)
    write_report(path, {**content, **_links_and_map(run.model)})


def _typed_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """The content of an evaluation of relations: figures of each are means over the seeds."""
    result, summary = evaluation.results[0], evaluation.to_dict()
    if result.model is None or not isinstance(result.split, TypedSplit):
        raise ValueError("an evaluation of relations keeps the model and the split of each seed")
    tests = held_out_by_relation(result.model, result.split)
    content = typed_report_content(result.model, tests=tests, figures=summary["relations"])
    content["overall"] = finite(summary["metrics"])
    content["overall_peers"] = {METHODS[name].words: finite(found) for name, found in summary["peers"].items()}
    content["num_seeds"] = len(evaluation.results)
    return content


def write_report(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write the page whole or not at all; the same content gives the same bytes."""
    template = (files("yinyan.reporting") / "template.html").read_text(encoding="utf-8")
    write_text(path, filled(template, content["name"], content))


def _links_and_map(model: LinkPredictor) -> dict[str, Any]:
    """The recommended links, and a map with all their ends on it."""
    fitted = model.fitted_
    graph = fitted.graph
    asked = _drawn(graph.num_nodes, max(1, _PAIRS // graph.num_nodes), fitted.seed, "best links")
    links = model.best_links(_LINKS, nodes=graph.ids.take(asked))
    chances = [] if links.probabilities is None else links.probabilities.tolist()
    ends = np.stack([graph.ids.rows(links.sources), graph.ids.rows(links.targets)], axis=1)
    rows = np.union1d(_drawn(graph.num_nodes, _POINTS, fitted.seed, "map rows"), ends)
    points = map_of(fitted).place(own_embeddings(fitted, fitted.embeddings[rows])).round(4)
    return {
        "recommended": {
            "num_asked": asked.size,
            "links": [{**row, "probability": chance} for row, chance in zip(links.to_dicts(), chances, strict=True)],
        },
        "map": {
            "ids": graph.ids.take(rows),
            **({} if graph.label_column is None else {"labels": graph.labels_of(rows)}),
            "x": points[:, 0].tolist(),
            "y": points[:, 1].tolist(),
            "edges": context_edges(graph.edges, rows, fitted.seed),
            "predicted": np.searchsorted(rows, ends).tolist(),
        },
    }


def _drawn(num_nodes: int, most: int, seed: int, use: str) -> Rows:
    """All rows, or a random choice of them, ascending."""
    if num_nodes <= most:
        return np.arange(num_nodes)
    return np.sort(np.random.default_rng(named_seed(seed, use)).choice(num_nodes, most, replace=False))
