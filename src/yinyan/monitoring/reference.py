"""What today's edges are compared with: figures of the training edges and of the held-out edges of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.model.fitted import Fitted
from yinyan.model.scoring import decode
from yinyan.retrieval.held_out import held_out_lists
from yinyan.retrieval.state import reranker_of
from yinyan.splits.split import drawn_negatives

__all__ = ["Compared", "Reference", "Share", "stability_index"]

_NEGATIVES = 5_000  # pairs without an edge that new links are ranked against
_BINS = 10  # of places, with equally many held-out edges each
_SMOOTHING = 0.5  # edges that each bin is given: an empty one has no logarithm

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")  # of equal negatives

Rows = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Share:
    """A share with its standard error."""

    value: float  # from 0 to 1
    error: float  # its standard error


@dataclass(frozen=True)
class Compared:
    """A figure of the held-out edges of training and of the new links."""

    training: Share  # of held-out edges of training
    now: Share  # of new links

    @property
    def fell(self) -> float:
        """How far it fell, in standard errors of the difference."""
        error = math.hypot(self.training.error, self.now.error)
        return (self.training.value - self.now.value) / max(error, 1e-12)


class Reference:
    """Figures of a model that do not depend on new edges: computed once."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        graph = fitted.graph
        self._degrees = np.bincount(graph.edges.reshape(-1), minlength=graph.num_nodes)
        # an edge of training is no edge yet when it arrives: each end has one neighbour less
        linked = self._degrees[self._degrees > 0]
        self._training_bins = _degree_bins(linked - 1, linked)
        negatives, _ = drawn_negatives(graph, fitted.seed, _NEGATIVES, 0)
        self._negatives = np.sort(self.scores(negatives))
        self.num_held_out = fitted.valid_scores[0].size
        self._held_out = _places(fitted.valid_scores[0], np.sort(fitted.valid_scores[1], axis=None))
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        self._cuts = np.unique(np.quantile(self._held_out, inner)) if self._held_out.size else np.empty(0)

    @property
    def is_scored(self) -> bool:
        """Whether there are scores of held-out edges and of pairs without an edge to compare with."""
        return bool(self._held_out.size and self._negatives.size)

    def places(self, scores: Floats) -> NDArray[np.float64]:
        """Share of pairs without an edge that each score is above.

        Scores themselves are not compared: those of held-out edges are of embeddings that see fewer edges.
        """
        return _places(scores, self._negatives)

    def scores(self, pairs: Rows) -> NDArray[np.float64]:
        """Scores of pairs by the decoder alone, as those of the held-out edges are."""
        embeddings, rows = self.fitted.embeddings, torch.from_numpy(np.ascontiguousarray(pairs))
        found = decode(self.fitted.model.decoder, lambda some: embeddings[some].float(), rows)
        return np.asarray(found, dtype=np.float64)

    def degree_shift(self, ends: Rows) -> float:
        """Stability index of the degrees of the ends of new edges, against those of training edges."""
        return stability_index(self._training_bins, _degree_bins(self._degrees[ends]))

    def score_shift(self, places: Floats) -> float:
        """Stability index of the places of new links, against those of held-out edges."""
        counts = [np.bincount(np.searchsorted(self._cuts, part), minlength=self._cuts.size + 1)
                  for part in (self._held_out, places)]  # fmt: skip
        return stability_index(*counts)

    def medians(self, places: Floats) -> tuple[float, float]:
        """Median place of held-out edges and of new links."""
        return float(np.median(self._held_out)), float(np.median(places))

    def auc(self, places: Floats) -> Compared:
        """Probability that an edge scores above a pair without one."""
        return Compared(
            _share(float(self._held_out.mean()), self._held_out.size), _share(float(places.mean()), len(places))
        )

    def hits(self, links: Rows) -> Compared | None:
        """Share of edges in the lists of ten of their ends; None if the model keeps no lists of held-out edges."""
        fitted, lists = self.fitted, self.fitted.valid_lists
        if lists is None or not self.num_held_out:
            return None
        found = held_out_lists(
            *(fitted.model.decoder, fitted.embeddings, fitted.graph, np.arange(fitted.graph.num_edges), links),
            seed=fitted.seed,
            missing=0.0,
            reranker=reranker_of(fitted),
        )
        ends = 1 if fitted.graph.directed else 2
        return Compared(
            _listed(lists.hits, lists.weights, ends * self.num_held_out),
            _listed(found.hits, found.weights, ends * len(links)),
        )


def stability_index(before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
    """The population stability index of two counts by bin, without what their sizes let one expect."""
    size = max(before.size, after.size)
    counts = [np.pad(part, (0, size - part.size)) + _SMOOTHING for part in (before, after)]
    p, q = (part / part.sum() for part in counts)
    chance = (size - 1) * (1 / max(1, before.sum()) + 1 / max(1, after.sum()))
    return max(0.0, float(((q - p) * np.log(q / p)).sum() - chance))


def _places(scores: Floats, negatives: Floats) -> NDArray[np.float64]:
    """Share of ascending negatives below each score; ties count half."""
    if not negatives.size:
        return np.empty(0)
    low, high = (np.searchsorted(negatives, scores, side) for side in _SIDES)
    return np.asarray((low + high) / (2 * negatives.size), dtype=np.float64)


def _degree_bins(degrees: Rows, counts: Rows | None = None) -> NDArray[np.int64]:
    """How many have a degree of 0, 1, 2-3, 4-7, …; each counts once, or so often."""
    return np.bincount(np.ceil(np.log2(degrees + 1)).astype(np.int64), counts).astype(np.int64)


def _share(value: float, count: int) -> Share:
    return Share(value, math.sqrt(max(value * (1 - value), 0.25 / count) / count))


def _listed(hits: NDArray[np.bool_], weights: Floats, ends: int) -> Share:
    """Hits of all lists as a share of the ends that could be hit; its error is that of counts."""
    value = min(1.0, float(weights[hits].sum()) / max(1, ends))
    return Share(value, max(value, 1 / max(1, ends)) / math.sqrt(max(1, int(hits.sum()))))
