"""A model that never looks at the graph: f and the decoder alone, trained in the same way."""

from __future__ import annotations

from typing import Any

from yinyan.graph import Graph
from yinyan.peers.contract import Outcome, Task, trained

__all__ = ["OWN", "mlp", "without_graph"]

# chosen on validation links of Cora: with the encoder's dropout and rate it would underfit
OWN: dict[str, dict[str, Any]] = {
    "encoder": {"dropout": 0.3, "feature_dropout": 0.5},
    "decoder": {"dropout": 0.3},
    "training": {"learning_rate": 0.005},
}


def mlp(task: Task) -> Outcome:
    """No descent step, so that a score depends on two nodes' own features only."""
    return trained(task, None, OWN, fixed=without_graph(task.split.graph))


def without_graph(graph: Graph) -> dict[str, dict[str, Any]]:
    """Settings of a model that reads features, or a learned vector per node where there are none, and no edges."""
    inputs = "embeddings" if graph.features is None else "features"
    return {"encoder": {"num_steps": 0, "num_negatives": 0, "inputs": inputs}}
