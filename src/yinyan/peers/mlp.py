"""A model that never looks at the graph: f and the decoder alone, trained in the same way."""

from __future__ import annotations

from yinyan.fitting import Hooks
from yinyan.predictor import LinkPredictor
from yinyan.splits import Split

__all__ = ["fit_mlp"]


def fit_mlp(split: Split, *, seed: int, hooks: Hooks | None = None) -> LinkPredictor:
    """No descent step, so that a score depends on two nodes' own features only.

    Dropout, decay and rate are its own, chosen on validation links of Cora: with the encoder's it would underfit.
    """
    inputs = "embeddings" if split.graph.features is None else "features"
    model = LinkPredictor(
        encoder={"num_steps": 0, "num_negatives": 0, "inputs": inputs, "dropout": 0.3},
        decoder={"dropout": 0.3},
        training={"learning_rate": 0.005, "weight_decay": 0.5},
        seed=seed,
    )
    return model.fit(split.graph, split=split, hooks=hooks)
