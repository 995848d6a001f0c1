"""Training losses, all of one signature: logits of positives (b,), logits of their negatives (b, N) -> scalar."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "LOSSES",
    "OF_DIFFERENCES",
    "SHARPNESS",
    "Loss",
    "hardest",
    "hinge_auc",
    "infonce",
    "log_rank",
    "paper",
    "squared",
    "squared_auc",
]

Loss = Callable[[Tensor, Tensor], Tensor]

OF_DIFFERENCES = frozenset({"auc", "hinge", "logrank", "infonce"})  # a constant added to all scores changes nothing
SHARPNESS = 0.5  # of `hardest`: 0 would be the paper's mean, much more the maximum


def paper(positives: Tensor, negatives: Tensor) -> Tensor:
    """-log p(positive) - (1/N) Σ_a log(1 - p(negative_a)), in log-sum form."""
    return F.softplus(-positives).mean() + F.softplus(negatives).mean()


def squared(positives: Tensor, negatives: Tensor) -> Tensor:
    """(1 - positive)² + negative²: bounds how far a single negative can score above the others."""
    return (1 - positives).square().mean() + negatives.square().mean()


def squared_auc(positives: Tensor, negatives: Tensor) -> Tensor:
    """(1 - (positive - negative))²: a smooth surrogate of the area under the ROC curve."""
    return (1 - (positives[:, None] - negatives)).square().mean()


def hinge_auc(positives: Tensor, negatives: Tensor) -> Tensor:
    """max(0, 1 - (positive - negative))²: as `squared_auc`, and zero beyond the margin."""
    return F.relu(1 - (positives[:, None] - negatives)).square().mean()


def log_rank(positives: Tensor, negatives: Tensor) -> Tensor:
    """-log σ(positive - negative): Bayesian personalised ranking."""
    return F.softplus(negatives - positives[:, None]).mean()


def infonce(positives: Tensor, negatives: Tensor) -> Tensor:
    """-log of the softmax share of a positive among itself and its negatives."""
    together = torch.cat([positives[:, None], negatives], dim=1)
    return (torch.logsumexp(together, dim=1) - positives).mean()


def hardest(positives: Tensor, negatives: Tensor) -> Tensor:
    """The paper's loss with each negative weighted by its share of Σ exp(½ logit): hardest negatives count most.

    Weights by the model's own scores follow Sun et al. (RotatE, ICLR 2019), there per positive.
    """
    share = torch.softmax(SHARPNESS * negatives.detach().flatten(), dim=0).view_as(negatives)
    return F.softplus(-positives).mean() + (share * F.softplus(negatives)).sum()


LOSSES: dict[str, Loss] = {
    "paper": paper,
    "squared": squared,
    "auc": squared_auc,
    "hinge": hinge_auc,
    "logrank": log_rank,
    "infonce": infonce,
    "hardest": hardest,
}
