"""A model that never looks at the graph: f and the decoder alone, trained in the same way."""

from __future__ import annotations

from yinyan.fitting import Hooks
from yinyan.predictor import LinkPredictor
from yinyan.splits import Split

__all__ = ["fit_mlp"]


def fit_mlp(split: Split, *, seed: int, hooks: Hooks | None = None) -> LinkPredictor:
    """The same settings with no descent step, so that a score depends on two nodes' own features only."""
    encoder = {"num_steps": 0, "num_negatives": 0, "inputs": "features", "num_layers": 2}
    if split.graph.features is None:
        encoder["inputs"] = "embeddings"
    return LinkPredictor(encoder=encoder, seed=seed).fit(split.graph, split=split, hooks=hooks)
