"""Metrics: of scored pairs, of full rankings, and their confidence intervals."""

from __future__ import annotations

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
    "average_precision",
    "hits_at_k",
    "hits_at_rate",
    "hits_in_own_ranking",
    "metric",
    "mrr",
    "ranks",
    "roc_auc",
]
