"""Training losses, all of one signature: logits of links (b,), logits of their non-links (b, N) -> scalar."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["LOSSES", "Loss", "hardest", "hinge_auc", "infonce", "log_rank", "paper", "squared", "squared_auc"]

Loss = Callable[[Tensor, Tensor], Tensor]

_SHARPNESS = 0.5  # of `hardest`: 0 would be the paper's mean, much more the maximum


def paper(links: Tensor, non_links: Tensor) -> Tensor:
    """-log p(link) - (1/N) Σ_a log(1 - p(non-link_a)), in log-sum form."""
    return F.softplus(-links).mean() + F.softplus(non_links).mean()


def squared(links: Tensor, non_links: Tensor) -> Tensor:
    """(1 - link)² + non-link²: what is surest stays near the others, so that no non-link towers above them."""
    return (1 - links).square().mean() + non_links.square().mean()


def squared_auc(links: Tensor, non_links: Tensor) -> Tensor:
    """(1 - (link - non-link))²: a smooth surrogate of the area under the ROC curve."""
    return (1 - (links[:, None] - non_links)).square().mean()


def hinge_auc(links: Tensor, non_links: Tensor) -> Tensor:
    """max(0, 1 - (link - non-link))²: as `squared_auc`, but content beyond the margin."""
    return F.relu(1 - (links[:, None] - non_links)).square().mean()


def log_rank(links: Tensor, non_links: Tensor) -> Tensor:
    """-log σ(link - non-link): Bayesian personalised ranking."""
    return F.softplus(non_links - links[:, None]).mean()


def infonce(links: Tensor, non_links: Tensor) -> Tensor:
    """-log of the softmax share of the link among itself and its non-links."""
    together = torch.cat([links[:, None], non_links], dim=1)
    return (torch.logsumexp(together, dim=1) - links).mean()


def hardest(links: Tensor, non_links: Tensor) -> Tensor:
    """As the paper's, but of a step's non-links each counts by its share of Σ exp(½ logit): the surest errors most.

    Weights that follow the model's own scores are Sun et al.'s (RotatE, ICLR 2019), there by link.
    """
    share = torch.softmax(_SHARPNESS * non_links.detach().flatten(), dim=0).view_as(non_links)
    return F.softplus(-links).mean() + (share * F.softplus(non_links)).sum()


LOSSES: dict[str, Loss] = {
    "paper": paper,
    "squared": squared,
    "auc": squared_auc,
    "hinge": hinge_auc,
    "logrank": log_rank,
    "infonce": infonce,
    "hardest": hardest,
}
