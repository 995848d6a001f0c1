"""What the report of a model with relations shows: one page, whose figures and charts are of one relation at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from yinyan.model.held_out_lists import HeldOutLists
from yinyan.model.typed_fitted import TypedFitted
from yinyan.predictor import LinkPredictor
from yinyan.randomness import named_seed
from yinyan.reporting.content import (
    Scores,
    context_edges,
    finite,
    map_of,
    model_content,
    own_embeddings,
    relations_content,
    typed_pairs,
)
from yinyan.reporting.reliability import lists_of_test
from yinyan.retrieval.typed_names import TypedNames
from yinyan.splits.typed_split import TypedSplit

__all__ = ["MOST_RELATIONS", "Tested", "held_out_by_relation", "typed_report_content"]

MOST_RELATIONS = 40  # with charts of their own: those with most edges
_LINKS = 15  # recommended links of a relation that are listed and drawn
_PAIRS = 1_000_000  # pairs scored to find them, of all relations together
_POINTS = 10_000  # nodes on the map
_OWN = (  # of a relation; the rest of a page is of the whole model
    *("metrics", "protocol", "split", "held_out", "histogram", "roc", "precision_recall"),
    *("probabilities", "lists", "reliability"),
)

Rows = NDArray[np.int64]


class Tested(NamedTuple):
    """Scores of the test links and negatives of a relation, and its lists with the test links as hits."""

    scores: Scores
    lists: HeldOutLists | None


def held_out_by_relation(model: LinkPredictor, split: TypedSplit) -> dict[str, Tested]:
    """Of each relation with test links and negatives."""
    found = {}
    for name, part in split.parts.items():
        if len(part.test_targets) and len(part.test_negatives):
            fitted, questions, _ = model._asked(name)
            scores = questions.score_rows(part.test_targets), questions.score_rows(part.test_negatives)
            found[name] = Tested(scores, lists_of_test(fitted, part))
    return found


def typed_report_content(
    model: LinkPredictor,
    *,
    tests: Mapping[str, Tested] | None = None,
    figures: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """The page of the first relation, and what differs on that of each other; charts are of `tests` if given.

    `figures` stand in place of those of the validation links.
    """
    fitted = cast("TypedFitted", model.fitted_)
    names = _shown(fitted)
    pages = {}
    for name in names:
        tested = (tests or {}).get(name)
        test, lists = (None, None) if tested is None else tested
        page = model_content(fitted.relations[name], test=test, test_lists=lists)
        if figures is not None:
            page["metrics"] = finite(figures.get(name, {}))
        pages[name] = page
    links = {name: _recommended(model, name, max(1, _PAIRS // len(names))) for name in names}
    rows = _map_rows(fitted, [ends for _, ends in links.values()])
    first = pages[names[0]]
    whole = relations_content(fitted)
    if figures is not None:
        for relation in whole["relations"]:
            relation["metrics"] = finite(figures.get(relation["name"], {}))
    return {
        **first,
        **whole,
        "relation": names[0],
        "notes": list(dict.fromkeys([*fitted.graph.notes, *first["notes"]])),
        "energy": list(fitted.energy),
        "model": {**first["model"], "num_nodes": fitted.graph.num_nodes, "num_links": fitted.graph.num_edges},
        "recommended": links[names[0]][0],
        "map": _map(fitted, rows),
        "by_relation": {
            name: {
                **{key: pages[name][key] for key in _OWN},
                "recommended": links[name][0],
                "predicted": np.searchsorted(rows, links[name][1]).tolist(),
            }
            for name in names
        },
    }


def _shown(fitted: TypedFitted) -> list[str]:
    """Predicted relations that have charts, in the order of the model."""
    sizes = {name: len(fitted.graph.relations[name].edges) for name in fitted.predicted}
    kept = sorted(sizes, key=lambda name: -sizes[name])[:MOST_RELATIONS]
    return [name for name in fitted.predicted if name in kept]


def _recommended(model: LinkPredictor, name: str, most: int) -> tuple[dict[str, Any], Rows]:
    """The best new links of a relation, and their ends as rows of the whole graph."""
    fitted = cast("TypedFitted", model.fitted_)
    own, questions, _ = model._asked(name)
    state, count = questions.state, own.graph.num_nodes
    sources = count if own.graph.num_left is None else own.graph.num_left  # which come first
    asked, nodes = np.arange(sources), None
    if sources * count > most:
        draw = np.random.default_rng(named_seed(fitted.seed, "best links"))
        asked = np.sort(draw.choice(sources, max(1, min(sources, most // count)), replace=False))
        nodes = list(zip(state.types(asked) or [], state.ids(asked), strict=True))
    links = model.best_links(_LINKS, relation=name, nodes=nodes)
    names = model._typed(name).names(name)  # type: ignore[union-attr]
    ends = names.pair_rows(list(zip(links.sources, links.targets, strict=True)))
    chances = [] if links.probabilities is None else links.probabilities.tolist()
    relation = fitted.graph.relations[name]
    types = {"source_type": relation.source, "target_type": relation.target}
    rows = [{**row, **types, "probability": p} for row, p in zip(links.to_dicts(), chances, strict=True)]
    return {"num_asked": asked.size, "of": sources, "links": rows}, fitted.graph.rows_of_view(relation)[ends]


def _map_rows(fitted: TypedFitted, ends: list[Rows]) -> Rows:
    """Nodes on the map: all, or some of them and the ends of the recommended links."""
    count = fitted.graph.num_nodes
    if count <= _POINTS:
        return np.arange(count)
    drawn = np.random.default_rng(named_seed(fitted.seed, "map rows")).choice(count, _POINTS, replace=False)
    return np.unique(np.concatenate([drawn, *(pairs.reshape(-1) for pairs in ends)]))


def _map(fitted: TypedFitted, rows: Rows) -> dict[str, Any]:
    names = TypedNames(fitted.graph)
    points = map_of(fitted).place(own_embeddings(fitted, fitted.embeddings[rows])).round(4)
    labels = names.labels(rows)
    return {
        "ids": names.ids(rows),
        "types": names.types(rows),
        **({"labels": labels} if any(labels) else {}),
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "edges": context_edges(typed_pairs(fitted.graph), rows, fitted.seed),
    }
