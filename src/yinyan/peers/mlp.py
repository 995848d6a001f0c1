"""A model that never looks at the graph: f and the decoder alone, trained in the same way."""

from __future__ import annotations

from yinyan.peers.contract import Outcome, Task, trained

__all__ = ["mlp"]


def mlp(task: Task) -> Outcome:
    """No descent step, so that a score depends on two nodes' own features only.

    Its dropout and rate were chosen on validation links of Cora: with the encoder's it would underfit.
    """
    inputs = "embeddings" if task.split.graph.features is None else "features"
    own = {
        "encoder": {"dropout": 0.3, "feature_dropout": 0.5},
        "decoder": {"dropout": 0.3},
        "training": {"learning_rate": 0.005},
    }
    return trained(task, None, own, fixed={"encoder": {"num_steps": 0, "num_negatives": 0, "inputs": inputs}})
