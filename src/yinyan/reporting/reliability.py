"""How far probabilities hold over recommended lists, as plain values for JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.metrics.calibration import ReliabilityBins, reliability_bins
from yinyan.model.fitted import Fitted
from yinyan.model.held_out_lists import HeldOutLists
from yinyan.retrieval.held_out import held_out_lists
from yinyan.retrieval.state import reranker_of
from yinyan.splits import Split

__all__ = ["by_degree", "calibration_error", "list_bins", "lists_of_test", "reliability_content"]

_GROUPS = 3  # of sources, by their degree

Floats = NDArray[np.float64]


def lists_of_test(fitted: Fitted, split: Split, *, count: int | None = None) -> HeldOutLists | None:
    """The lists that a model recommends, with the test edges of its split as hits; None without any to find."""
    graph = split.graph
    tested = np.setdiff1d(graph.find_edges(split.test_targets), split.test_messages)
    if not tested.size:
        return None
    known = np.setdiff1d(np.arange(graph.num_edges), tested)
    return held_out_lists(
        *(fitted.model.decoder, fitted.embeddings, graph, known, graph.edges[tested]),
        seed=fitted.seed,
        missing=0.0,
        count=count,
        reranker=reranker_of(fitted),
    )


def list_bins(probabilities: Floats, lists: HeldOutLists) -> ReliabilityBins:
    """Stated probability of the rows of lists against the observed share of missing edges."""
    bins = reliability_bins(probabilities, lists.hits, lists.weights)
    observed, low, high = (lists.as_missing(share) for share in (bins.observed, bins.low, bins.high))
    return bins._replace(observed=observed, low=low, high=high)


def calibration_error(probabilities: Floats, lists: HeldOutLists) -> float:
    """The expected calibration error over the rows of lists."""
    bins = list_bins(probabilities, lists)
    return float((bins.weights * np.abs(bins.predicted - bins.observed)).sum())


def by_degree(probabilities: Floats, lists: HeldOutLists) -> list[dict[str, Any]]:
    """Stated and observed probability of sources with few, more and many edges."""
    order = np.argsort(lists.degrees, kind="stable")
    place = np.cumsum(lists.weights[order]) / lists.weights.sum()
    cuts = lists.degrees[order][np.searchsorted(place, np.arange(1, _GROUPS) / _GROUPS)]
    group = np.searchsorted(cuts, lists.degrees, side="left")
    found = []
    for number in np.unique(group):
        some = group == number
        bins = reliability_bins(probabilities[some], lists.hits[some], lists.weights[some], num_bins=1)
        shares = [float(lists.as_missing(share)[0]) for share in (bins.observed, bins.low, bins.high)]
        found.append(
            {
                "least": int(lists.degrees[some].min()),
                "most": int(lists.degrees[some].max()),
                "predicted": float(bins.predicted[0]),
                **dict(zip(("observed", "low", "high"), shares, strict=True)),
                "count": int(bins.counts[0]),
            }
        )
    return found


def reliability_content(fitted: Fitted, test: HeldOutLists | None = None) -> dict[str, Any]:
    """The calibration of the model page: over the lists of test edges, or else of the validation edges."""
    lists = fitted.valid_lists if test is None else test
    base = {"probabilities": {"base_rate": fitted.base_rate, "missing_share": fitted.missing_share}}
    if lists is None or not lists.scores.size:
        return {**base, "lists": None, "reliability": []}
    chances = fitted.calibration.probabilities(lists.scores)
    bins = list_bins(chances, lists)
    columns = (bins.predicted, bins.observed, bins.low, bins.high, bins.counts)
    names = ("predicted", "observed", "low", "high", "count")
    return {
        **base,
        "lists": {
            "edges": "validation" if test is None else "test",
            "length": int(lists.ranks.max()),
            "num_sources": int((lists.ranks == 1).sum()),
            "num_hits": int(lists.hits.sum()),
            "error": calibration_error(chances, lists),
            "by_degree": by_degree(chances, lists),
        },
        "reliability": [
            dict(zip(names, values, strict=True)) for values in zip(*(c.tolist() for c in columns), strict=True)
        ],
    }
