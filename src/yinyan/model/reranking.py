"""Weights of exact structural columns that are added to a decoder's score, and how they are fitted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.model.shared_neighbours import NUM_COLUMNS, NeighbourLists, shared_columns

__all__ = ["Reranker", "Reranking", "Shortlists", "fit_reranking", "reranking_from_dict"]

Rows = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]

_FEWEST = 40  # held-out edges within shortlists: fewer do not show whether a reranking helps
_MOST = 4_000  # that weights are fitted to
_DECAY = 0.01  # per edge, of weights over the spread of their columns
_LEAST = 0.05  # of the weight of the decoder's score, so that the others stay bounded in its scale
_BEYOND = 1.5  # standard errors of the gain
_STEPS = 50  # of Newton's method, at most


@dataclass(frozen=True)
class Reranking:
    """score = logit of the decoder + <weights, columns of `shared_neighbours`>.

    Both figures are mean reciprocal ranks of held-out edges within shortlists, by weights that were fitted to other
    sources.
    """

    weights: tuple[float, ...]
    mrr_before: float
    mrr_after: float

    def amounts(self, columns: NDArray[np.float32]) -> NDArray[np.float32]:
        """(p,) what is added to the scores of pairs with these (p, 5) columns."""
        found: NDArray[np.float32] = columns @ np.array(self.weights, dtype=np.float32)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


class Reranker:
    """A reranking over the edges of one snapshot."""

    def __init__(self, reranking: Reranking, lists: NeighbourLists) -> None:
        self.reranking, self.lists = reranking, lists

    def of_candidates(self, sources: Rows, starts: Rows, candidates: Rows) -> NDArray[np.float32]:
        """(c,) what is added to the scores of (s,) sources with the candidates that `starts` (s + 1,) gives to each."""
        return self.reranking.amounts(shared_columns(self.lists, sources, starts, candidates))

    def of_pairs(self, pairs: Rows) -> NDArray[np.float32]:
        """(p,) what is added to the scores of (p, 2) pairs of rows."""
        order = np.argsort(pairs[:, 0], kind="stable")
        sources, first = np.unique(pairs[order, 0], return_index=True)
        starts = np.append(first, len(pairs)).astype(np.int64)
        found = np.empty(len(pairs), dtype=np.float32)
        found[order] = self.of_candidates(sources, starts, np.ascontiguousarray(pairs[order, 1]))
        return found


def reranking_from_dict(facts: dict[str, Any] | None) -> Reranking | None:
    """What `to_dict` made; models without one, and those of earlier versions, have None."""
    if facts is None:
        return None
    weights, figures = facts["weights"], (float(facts["mrr_before"]), float(facts["mrr_after"]))
    if len(weights) != NUM_COLUMNS or not all(math.isfinite(float(w)) for w in weights):
        raise ValueError(f"reranking needs {NUM_COLUMNS} finite weights (got {weights!r})")
    return Reranking(tuple(float(w) for w in weights), *figures)


@dataclass(frozen=True, eq=False)
class Shortlists:
    """The candidates of s sources with most score, (s, w) each, while edges are held out."""

    scores: NDArray[np.float32]  # of the decoder
    columns: NDArray[np.float32]  # (s, w, 5)
    hits: NDArray[np.bool_]  # whether a candidate is a held-out edge
    is_there: NDArray[np.bool_]  # False where a source has fewer candidates


def fit_reranking(lists: Shortlists) -> Reranking | None:
    """Weights by conditional logit, or None where sources that were not fitted to gain no more than noise.

    Each held-out edge competes with the candidates of its source that are none. Weights of one half of the sources are
    judged on the other half. Their log-likelihood has to exceed that of the decoder's score alone, which gets a scale
    by the same halves, by one and a half standard errors over sources, and reciprocal ranks have to gain too.
    """
    count = int(lists.hits.sum())
    if count < _FEWEST:
        return None
    inputs = np.concatenate([lists.scores[..., None], lists.columns], axis=2).astype(np.float64)
    half = np.arange(len(inputs)) % 2 == 0
    before, after = _reciprocal_ranks(lists.scores, lists), np.empty(lists.scores.shape)
    gains = np.zeros(len(inputs))
    for chosen in (half, ~half):
        if not lists.hits[chosen].any():
            return None
        others = Shortlists(*(part[~chosen] for part in vars(lists).values()))
        weights, scale = (
            _fitted(x[chosen], lists.hits[chosen], lists.is_there[chosen]) for x in (inputs, inputs[..., :1])
        )
        gains[~chosen] = _log_chances(inputs[~chosen] @ weights, others) - _log_chances(
            others.scores * scale[0], others
        )
        after[~chosen] = _reciprocal_ranks(inputs[~chosen] @ weights, others)
    if gains.sum() <= _BEYOND * math.sqrt(float(gains.size * gains.var(ddof=1))) or after.sum() <= before.sum():
        return None
    weights = _fitted(inputs, lists.hits, lists.is_there)
    weights = weights[1:] / max(float(weights[0]), _LEAST)
    return Reranking(tuple(weights.tolist()), float(before.sum() / count), float(after.sum() / count))


def _log_chances(scores: Floats, lists: Shortlists) -> NDArray[np.float64]:
    """(s,) sums over the held-out edges of a source of the logarithm of their chance among the other candidates."""
    source, place = np.nonzero(lists.hits)
    against = scores[source] - scores[source, place][:, None]
    lost = _chances(against, (lists.is_there & ~lists.hits)[source]).sum(axis=1)
    logs = np.log1p(-np.minimum(lost, 1 - 1e-15))
    return np.bincount(source, logs, minlength=len(scores)).astype(np.float64)


def _reciprocal_ranks(scores: Floats, lists: Shortlists) -> NDArray[np.float64]:
    """(s, w) of held-out edges among the candidates that are none; 0 elsewhere. Ties count by halves."""
    found = np.zeros(scores.shape)
    for source, place in np.argwhere(lists.hits).tolist():
        rivals = scores[source][lists.is_there[source] & ~lists.hits[source]]
        own = scores[source, place]
        found[source, place] = 1 / (1 + (rivals > own).sum() + 0.5 * (rivals == own).sum())
    return found


def _fitted(inputs: Floats, hits: NDArray[np.bool_], is_there: NDArray[np.bool_]) -> Floats:
    """(c,) weights of the columns of inputs; the first, that of the decoder's score, does not decay."""
    source, place = np.nonzero(hits)
    few = np.linspace(0, source.size - 1, min(source.size, _MOST)).astype(np.int64)  # six weights need no more
    source, place = source[few], place[few]
    spread = inputs[is_there].std(axis=0) + 1e-9
    x = inputs / spread
    against = x[source] - x[source, place][:, None]  # differences to the held-out edge: its own are 0
    rivals = (is_there & ~hits)[source]
    decay = _DECAY * (np.arange(x.shape[2]) > 0)
    w = np.zeros(x.shape[2])
    w[0] = spread[0]
    value = _loss(w, against, rivals, decay)
    for _ in range(_STEPS):  # Newton's method: the loss is convex
        chances = _chances(against @ w, rivals)
        means = np.einsum("hw,hwc->hc", chances, against)
        gradient = means.mean(axis=0) + 2 * decay * w
        products = np.einsum("hw,hwc,hwd->cd", chances, against, against) - means.T @ means
        step = np.linalg.solve(products / len(source) + np.diag(2 * decay + 1e-9), gradient)
        size = 1.0
        while size > 1e-4 and (found := _loss(w - size * step, against, rivals, decay)) > value:
            size /= 2
        if size <= 1e-4 or value - found < 1e-9:
            break
        w, value = w - size * step, found
    return np.asarray(w / spread)


def _chances(scores: Floats, rivals: NDArray[np.bool_]) -> Floats:
    """(h, w) softmax of rivals against a held-out edge, whose score is 0."""
    scores = np.where(rivals, scores, -np.inf)
    top = np.maximum(scores.max(axis=1, initial=0.0), 0.0)[:, None]
    exps = np.exp(scores - top)
    return np.asarray(exps / (exps.sum(axis=1, keepdims=True) + np.exp(-top)))


def _loss(w: Floats, against: Floats, rivals: NDArray[np.bool_], decay: Floats) -> float:
    """Minus the mean logarithm of the chance of a held-out edge, and the decay of the weights."""
    chances = _chances(against @ w, rivals).sum(axis=1)
    return float(-np.log1p(-np.minimum(chances, 1 - 1e-15)).mean() + (decay * w * w).sum())
