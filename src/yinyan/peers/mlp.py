"""A model that never looks at the graph: f and the decoder alone, trained in the same way."""

from __future__ import annotations

from collections.abc import Mapping

from yinyan.fitting import Hooks
from yinyan.predictor import LinkPredictor
from yinyan.splits import Split

__all__ = ["fit_mlp"]


def fit_mlp(split: Split, like: LinkPredictor, *, hooks: Hooks | None = None) -> LinkPredictor:
    """No descent step, so that a score depends on two nodes' own features only; else settings as of `like`.

    What `like` leaves open of dropout and rate is the MLP's own, chosen on validation links of Cora: with the encoder's
    it would underfit.
    """
    inputs = "embeddings" if split.graph.features is None else "features"
    own = {
        "encoder": {"dropout": 0.3, "feature_dropout": 0.5},
        "decoder": {"dropout": 0.3},
        "training": {"learning_rate": 0.005},
    }
    params = like.get_params(deep=False)
    for group, values in own.items():
        given = params[group] or {}
        params[group] = {**values, **(given if isinstance(given, Mapping) else vars(given))}
    params["encoder"] |= {"num_steps": 0, "num_negatives": 0, "inputs": inputs}
    return LinkPredictor(**params).fit(split.graph, split=split, hooks=hooks)
