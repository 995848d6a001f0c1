"""What a served model is: its figures and how they were measured, its training, its state of now."""

from __future__ import annotations

import dataclasses
import math
import platform
from typing import Any

import torch

from yinyan import __version__
from yinyan.calibration import BASE_RATE
from yinyan.fitting import Fitted
from yinyan.reporting.curves import reliability_bins
from yinyan.service.moment import Moment

__all__ = ["model_page"]


def model_page(moment: Moment, *, read_only: bool, why_read_only: str | None = None) -> dict[str, Any]:
    """All of it, as plain values."""
    fitted, structure = moment.served.fitted, moment.structure
    graph = fitted.graph
    return {
        "name": moment.served.path.resolve().name,
        "model": {
            "num_nodes": structure.num_nodes,
            "num_links": structure.num_links,
            "directed": graph.directed,
            "bipartite": graph.is_bipartite,
            "dimensions": fitted.settings.encoder.hidden_size,
            "num_features": 0 if graph.features is None else graph.features.shape[1],
            "fingerprint": moment.served.fingerprint,
        },
        "metrics": {name: _finite(value) for name, value in fitted.metrics.items()},
        "protocol": fitted.protocol,
        "split": fitted.split_text,
        "settings": fitted.settings.to_dict(),
        "training": [
            {name: _finite(value) for name, value in dataclasses.asdict(record).items()} for record in fitted.history
        ],
        "best_epoch": fitted.best_epoch,
        "energy": [_finite(value) for value in fitted.energy],
        "reliability": _reliability(fitted),
        "versions": {"yinyan": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "index": moment.served.finder.describe(),
        "live": {
            "version": moment.version,
            "added_links": structure.added_links,
            "removed_links": structure.removed_links,
            "added_nodes": len(structure.names.new_ids),
            "rejected": structure.num_rejected,
            "drift": moment.drift,
        },
        "read_only": read_only,
        "why_read_only": why_read_only,
    }


def _reliability(fitted: Fitted) -> list[dict[str, Any]]:
    """Stated against observed probability on the validation pairs."""
    positive, negative = fitted.valid_scores
    if not positive.size or not negative.size:
        return []
    chances = [fitted.calibration.probabilities(part) for part in (positive, negative)]
    bins = reliability_bins(chances[0], chances[1], base_rate=BASE_RATE)
    return [
        {"predicted": float(p), "observed": float(o), "count": int(c)}
        for p, o, c in zip(bins.predicted, bins.observed, bins.counts, strict=True)
    ]


def _finite(value: Any) -> Any:
    """JSON knows no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
