"""What a report tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan.errors import InputError

__all__ = ["ReportContent", "Row", "as_array", "given"]

Row = tuple[object, object, float, float | None]  # source, target, score, probability


@dataclass(frozen=True, eq=False)
class ReportContent:
    """What a report tells. All but the title may be left out, and its section then is too."""

    title: str
    subtitle: str = ""
    generated: str | None = None  # when; None keeps the page the same from run to run
    name: str = "yinyan"  # of this model, beside its peers
    protocol: str | None = None  # how links were held out, named under the comparison; None: facts["protocol"]
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # whole sentences on what was guessed, merged or chosen
    metrics: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # name to metrics
    # of each epoch: epoch, loss, learning_rate, hits, mrr, auc, repulsion; None where not validated
    history: Sequence[Mapping[str, float | None]] = ()
    best_epoch: int | None = None  # whose weights were restored
    energy: Sequence[float] = ()  # before the first layer, and after each
    positive_scores: ArrayLike | None = None  # logits of held-out links
    negative_scores: ArrayLike | None = None  # and of held-out non-links
    positive_probabilities: ArrayLike | None = None
    negative_probabilities: ArrayLike | None = None
    base_rate: float | None = None  # share of links the probabilities are stated for; None: as sampled
    points: ArrayLike | None = None  # (n, 2) of the map
    point_labels: ArrayLike | None = None  # (n,) small integers, the communities
    links: ArrayLike | None = None  # (m, 2) rows of points, for context
    predicted: ArrayLike | None = None  # (p, 2) rows of points: the first p of `recommendations`
    recommendations: Sequence[Row] = ()  # best first
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # group to name to value

    def __post_init__(self) -> None:
        """Refuse a map whose parts do not fit together."""
        if not given(self.points):
            return
        points = np.asarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
            raise InputError(f"'points' needs finite numbers of shape (n, 2) (got shape {points.shape})")
        if self.point_labels is not None and np.shape(self.point_labels) != (len(points),):
            raise InputError(f"'point_labels' needs {len(points):,} labels (got shape {np.shape(self.point_labels)})")
        for name in ("links", "predicted"):
            rows = as_array(getattr(self, name)).reshape(-1)
            if rows.size % 2 or (rows.size and (rows.min() < 0 or rows.max() >= len(points))):
                raise InputError(f"'{name}' needs pairs of rows of 'points', from 0 to {len(points) - 1:,}")


def as_array(values: ArrayLike | None) -> NDArray[Any]:
    """The values as an array, empty where there are none."""
    return np.asarray(() if values is None else values)


def given(values: ArrayLike | None) -> bool:
    """Whether there is at least one value."""
    return as_array(values).size > 0
