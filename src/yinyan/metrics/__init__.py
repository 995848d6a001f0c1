"""Metrics: of scored pairs, of full rankings, of probabilities, and their confidence intervals."""

from __future__ import annotations

from yinyan.metrics.calibration import ReliabilityBins, expected_calibration_error, reliability_bins
from yinyan.metrics.pairs import (
    Metric,
    average_precision,
    hits_at_k,
    hits_at_rate,
    hits_in_own_ranking,
    metric,
    mrr,
    ranks,
    roc_auc,
)

__all__ = [
    "Metric",
    "ReliabilityBins",
    "average_precision",
    "expected_calibration_error",
    "hits_at_k",
    "hits_at_rate",
    "hits_in_own_ranking",
    "metric",
    "mrr",
    "ranks",
    "reliability_bins",
    "roc_auc",
]
