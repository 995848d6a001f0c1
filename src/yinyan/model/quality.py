"""Whether a model is of any use, in words."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["WEAK", "weakness"]

WEAK = "the model ranks held-out edges hardly better than chance"
_LEAST = 0.6  # AUC below which nobody should rely on it


def weakness(metrics: Mapping[str, float]) -> str | None:
    """What is wrong with a model of these validation metrics, and what to do about it; None if nothing is."""
    auc = metrics.get("auc")
    if auc is None or auc >= _LEAST:
        return None
    return (
        f"{WEAK}: validation AUC {auc:.3f}, where 0.5 is chance. Check that the two columns of the edge table are the "
        "ones meant, and train longer or with node features; a graph whose edges are random has nothing to learn"
    )
