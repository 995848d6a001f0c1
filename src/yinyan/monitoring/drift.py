"""How today's edges differ from those of training, with an answer to the question whether to refit."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.monitoring.arrivals import Arrivals
from yinyan.monitoring.reference import Compared, Reference
from yinyan.text import counted, percent, text_table

__all__ = ["Drift", "Followed", "drift_of", "followed"]

FEWEST = 50  # new links, for an answer about scores
_NEW_NODES = 0.1  # share of edges with new nodes, from which on a model misses too much
_GROWTH = 0.2  # new edges per edge of training
_SHIFT = 0.25  # of a stability index: the usual bound of a large change
_ERRORS = 3.0  # standard errors, beyond which a figure fell: those of training chose the weights, and are optimistic
_LOST_AUC, _LOST_HITS = 0.02, 0.25  # and by how much: of the AUC as such, of the hit rate as a share of it


@dataclass(frozen=True)
class Followed:
    """What became of recommendations that were made."""

    recommended: int  # distinct pairs of known nodes
    hits: int  # of these, pairs that are new edges
    found: float  # share of the new links that had been recommended

    @property
    def precision(self) -> float:
        """Share of the recommendations that became edges."""
        return self.hits / max(1, self.recommended)


@dataclass(frozen=True)
class Drift:
    """Today's edges against those of training.

    Examples
    --------
    >>> drift = model.drift([(0, 39), (1, 38), ("new", 0)])
    >>> drift.edges, drift.links, drift.new_nodes
    (3, 2, 1)
    >>> drift.refit
    True
    """

    edges: int  # distinct edges of today
    known: int  # edges that the model was trained on
    links: int  # new edges between nodes of the model
    edges_with_new_nodes: int  # one or both ends
    new_nodes: int  # ids that the model does not have
    growth: float  # new edges per edge of training
    degree_shift: float | None  # stability index of the degrees of their ends; None without any
    score_shift: float | None  # stability index of the places of new links; None if there are too few
    median_places: tuple[float, float] | None  # of held-out edges and of new links among pairs without an edge
    auc: Compared | None  # new links against pairs without an edge
    hits: Compared | None  # share of edges in the lists of ten of their ends
    followed: Followed | None  # of recommendations that were given
    refit: bool | None  # None: too few new links for an answer
    reasons: tuple[str, ...]  # of the answer

    @property
    def new_node_share(self) -> float:
        """Edges with new nodes, as a share of all edges of today."""
        return self.edges_with_new_nodes / max(1, self.edges)

    @property
    def answer(self) -> str:
        """Yes, no or unsure, with the reasons."""
        word = {True: "yes", False: "no", None: "unsure"}[self.refit]
        return f"refit? {word}: {'; '.join(self.reasons)}"

    def gauges(self) -> dict[str, tuple[str, float]]:
        """Figures for Prometheus by name, each with its meaning; those that are not known are left out.

        Returns
        -------
        dict
            Meaning and value by name.

        Examples
        --------
        >>> model.drift([(0, 39), (1, 38)]).gauges()["yinyan_recent_edges"][1]
        2
        """
        auc = (None, None) if self.auc is None else (self.auc.now.value, self.auc.training.value)
        found: dict[str, tuple[str, float | None]] = {
            "edges": ("Latest edges since the fit that these figures are of.", self.edges),
            "new_node_share": ("Share of these edges that have a node newer than the model.", self.new_node_share),
            "degree_shift": ("Stability index of the degrees of their ends; above 0.25 is large.", self.degree_shift),
            "score_shift": ("Stability index of their scores among pairs without an edge.", self.score_shift),
            "auc": ("Probability that such an edge scores above a pair without one.", auc[0]),
            "training_auc": ("The same of held-out edges of training.", auc[1]),
            "refit": ("1 if these figures advise a refit, else 0.", float(self.refit is True)),
        }
        return {f"yinyan_recent_{name}": (words, value) for name, (words, value) in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """All figures, ready for JSON.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> model.drift([(0, 39), (1, 38)]).to_dict()["links"]
        2
        """
        found = asdict(self) | {"new_node_share": self.new_node_share, "reasons": list(self.reasons)}
        if self.followed is not None:
            found["followed"]["precision"] = self.followed.precision
        return found

    def __str__(self) -> str:
        rows = [
            ["edges with new nodes", "", percent(self.new_node_share), f"above {percent(_NEW_NODES)}"],
            ["new edges per training edge", "", f"{self.growth:.3f}", f"above {_GROWTH:g}"],
            *_row("shift of degrees (stability index)", "", self.degree_shift, f"above {_SHIFT:g}"),
            *_row("shift of scores (stability index)", "", self.score_shift, ""),
        ]
        if self.median_places is not None:
            rows.append(
                ["median place among pairs without an edge", *(f"{value:.3f}" for value in self.median_places), ""]
            )
        lost = f"{_ERRORS:g} standard errors and"
        if self.auc is not None:
            rows.append(_compared("AUC of new links", self.auc, f"lower by {lost} {_LOST_AUC:g}"))
        if self.hits is not None:
            rows.append(_compared("in lists of ten", self.hits, f"lower by {lost} {_LOST_HITS:.0%}"))
        if self.followed is not None:
            made = f"{self.followed.hits:,} of {self.followed.recommended:,}"
            rows.append(["recommendations that became edges", "", made, ""])
            rows.append(["new links that were recommended", "", percent(self.followed.found), ""])
        counts = [counted(self.links, "new link") + " between known nodes", f"{self.known:,} known already"]
        counts.append(f"{self.edges_with_new_nodes:,} with {counted(self.new_nodes, 'new node')}")
        table = text_table(["figure", "training", "now", "refit if"], rows, right=(1, 2))
        return f"{counted(self.edges, 'edge')}: {', '.join(counts)}\n\n{table}\n\n{self.answer}"


def drift_of(
    reference: Reference,
    arrived: Arrivals,
    *,
    followed: Followed | None = None,
    with_lists: bool = True,
    growth: float | None = None,
) -> Drift:
    """Compare what arrived; `with_lists` searches the lists of some of its ends, which takes the most time.

    `growth` is given where not all that arrived is compared.
    """
    enough = len(arrived.links) >= FEWEST
    is_scored = enough and reference.is_scored
    places = reference.places(reference.scores(arrived.links)) if is_scored else np.empty(0)
    grown = (arrived.num_edges - arrived.num_known) / max(1, reference.fitted.graph.num_edges)
    found: dict[str, Any] = {
        "edges": arrived.num_edges,
        "known": arrived.num_known,
        "links": len(arrived.links),
        "edges_with_new_nodes": arrived.num_with_new,
        "new_nodes": arrived.num_new_nodes,
        "growth": grown if growth is None else growth,
        "degree_shift": reference.degree_shift(arrived.known_ends) if arrived.known_ends.size >= FEWEST else None,
        "score_shift": reference.score_shift(places) if is_scored else None,
        "median_places": reference.medians(places) if is_scored else None,
        "auc": reference.auc(places) if is_scored else None,
        "hits": reference.hits(arrived.links) if enough and with_lists else None,
    }
    drift = Drift(**found, followed=followed, refit=None, reasons=())
    refit, reasons = _verdict(drift)
    return Drift(**found, followed=followed, refit=refit, reasons=reasons)


def followed(recommended: NDArray[np.int64], links: NDArray[np.int64]) -> Followed:
    """What became of recommended pairs; pairs of an undirected graph have the lower row first in both."""
    pairs, made = ({tuple(pair) for pair in part.tolist()} for part in (links, recommended))
    hits = len(pairs & made)
    return Followed(len(made), hits, hits / max(1, len(pairs)))


def _verdict(drift: Drift) -> tuple[bool | None, tuple[str, ...]]:
    """Whether to refit, and why."""
    found = [*_by_counts(drift), *_by_scores(drift)]
    if found:
        return True, tuple(found)
    if drift.links < FEWEST:
        few = f"{counted(drift.links, 'new link')} between known nodes; figures of scores need {FEWEST}"
        return None, (few,)
    return False, ("no figure is beyond its bound",)


def _by_counts(drift: Drift) -> list[str]:
    found = []
    if drift.new_node_share > _NEW_NODES:
        found.append(f"{percent(drift.new_node_share)} of the edges have new nodes")
    if drift.growth > _GROWTH:
        found.append(f"there are {drift.growth:.2f} new edges per edge of training")
    return found


def _by_scores(drift: Drift) -> list[str]:
    found = []
    if drift.degree_shift is not None and drift.degree_shift > _SHIFT:
        found.append(f"the degrees of their ends are others (stability index {drift.degree_shift:.2f})")
    auc, hits = drift.auc, drift.hits
    if auc is not None and auc.fell > _ERRORS and auc.training.value - auc.now.value > _LOST_AUC:
        found.append(f"the AUC of new links is {auc.now.value:.3f}, and was {auc.training.value:.3f}")
    if hits is not None and hits.fell > _ERRORS and hits.now.value < (1 - _LOST_HITS) * hits.training.value:
        found.append(
            f"{percent(hits.now.value)} of new links are in lists of ten, and were {percent(hits.training.value)}"
        )
    return found


def _row(name: str, before: str, value: float | None, bound: str) -> list[list[str]]:
    return [] if value is None or math.isnan(value) else [[name, before, f"{value:.3f}", bound]]


def _compared(name: str, both: Compared, bound: str) -> list[str]:
    return [name, f"{both.training.value:.3f} ± {both.training.error:.3f}",
            f"{both.now.value:.3f} ± {both.now.error:.3f}", bound]  # fmt: skip
