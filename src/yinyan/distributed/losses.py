"""The loss of a batch that several processes share, as a sum of their losses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from yinyan.distributed.group import Group
from yinyan.model.losses import LOSSES, SHARPNESS, hardest

__all__ = ["shared_loss"]


def shared_loss(group: Group, kind: str, positives: Tensor, negatives: Tensor, num_targets: int) -> Tensor:
    """What this process adds to the loss of `num_targets` edges: it has (b,) positives and (b, N) negatives of them."""
    share = positives.shape[0] / num_targets
    if LOSSES[kind] is not hardest:  # a mean over edges
        return share * LOSSES[kind](positives, negatives) if share else 0 * positives.sum()
    of_negatives = _share_of_weights(group, negatives)
    if not share:
        return 0 * positives.sum()
    alone = hardest(positives, negatives[:, :0])  # of the positives
    return share * alone + of_negatives * (hardest(positives, negatives) - alone)


def _share_of_weights(group: Group, negatives: Tensor) -> float:
    """This process's share of the weights of all negatives."""
    own = (
        float(torch.logsumexp(SHARPNESS * negatives.detach().flatten().double(), 0)) if negatives.numel() else -math.inf
    )
    together = group.gathered(torch.tensor([own], dtype=torch.float64, device=group.device))
    return math.exp(own - float(torch.logsumexp(together, 0))) if own > -math.inf else 0.0
