"""Our own model through the contract of its peers."""

from __future__ import annotations

from yinyan.peers.contract import Outcome, Task, trained
from yinyan.training.defaults import suggest

__all__ = ["yinyan", "yinyan_as_suggested", "yinyan_without_negatives"]


def yinyan(task: Task) -> Outcome:
    """Energy descent with attraction and repulsion, and a decoder of two stored vectors."""
    return trained(task, None)


def yinyan_as_suggested(task: Task) -> Outcome:
    """What `LinkPredictor` trains if nothing is set, sketches, node dropout and all."""
    suggested = suggest(task.split.graph, len(task.split.train_targets)).settings
    return trained(task, None, suggested.to_dict(), rerank=True)


def yinyan_without_negatives(task: Task) -> Outcome:
    """The same without the repulsion of sampled non-links in the forward pass (K = 0)."""
    return trained(task, None, fixed={"encoder": {"num_negatives": 0}})
