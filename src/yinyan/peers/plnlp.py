"""Pairwise learning: a plain graph neural network trained with a squared surrogate of the AUC."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.peers.contract import Outcome, Overrides, Task, merged, trained
from yinyan.peers.gnn import SAGE
from yinyan.peers.layered import Layered, builder, suited

__all__ = ["PairwiseSAGE", "pairwise", "plnlp"]


class PairwiseSAGE(SAGE):
    """GraphSAGE with a ReLU after its last layer too, as released."""

    def stacked(self, f: Tensor, links: Tensor, drops: torch.Generator | None) -> Tensor:
        """All layers, each with a ReLU."""
        return F.relu(super().stacked(f, links, drops))


def plnlp(task: Task) -> Outcome:
    """Wang et al.: Pairwise Learning for Neural Link Prediction (2021): Σ (1 - (positive - negative))² over pairs.

    Two layers, a Hadamard MLP (`decoder.kind` = 'dot' is the paper's for ogbl-collab), dropout 0.3, three negatives per
    edge. Validation edges are neither messages nor targets here, and targets are hidden from the messages.
    """
    return pairwise(task, PairwiseSAGE, 0.3)


def pairwise(task: Task, kind: type[Layered], rate: float, *, norm: bool = False) -> Outcome:
    """Two layers of this kind and a decoder, trained with the squared surrogate; `rate` is of dropout."""
    own: Overrides = {
        "encoder": {"num_steps": 2, "dropout": rate, "output_norm": False, "base_norm": norm},
        "decoder": {"dropout": rate},
        "training": {"loss_negatives": 3},
    }
    fixed: Overrides = {"encoder": {"num_negatives": 0}, "training": {"loss": "auc"}}
    return trained(task, builder(kind), merged(suited(task.split.graph), own), fixed=fixed)
