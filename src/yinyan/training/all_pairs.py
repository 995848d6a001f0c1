"""The loss over all pairs of a small graph: each pair without an edge is a negative, or partly a missing edge."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.scoring import Model
from yinyan.sampling import KnownPairs
from yinyan.settings import TrainingSettings

__all__ = ["BLOCK", "LARGEST", "descend_on_all_pairs"]

LARGEST = 10_000  # nodes: every step scores the square of it
BLOCK = 256  # sources whose logits are held at a time


def descend_on_all_pairs(
    model: Model,
    y: Tensor,
    links: Tensor,
    known: KnownPairs,
    settings: TrainingSettings,
    drops: torch.Generator | None,
) -> float:
    """Add the gradients of the loss of all pairs to the weights, by blocks of sources; returns the loss.

    Positives are the (b, 2) links of the step, negatives all pairs that are not known. Other known edges do not count:
    the encoder sees them. If a share m of all edges is missing (`missing_share`), a negative with probability p is an
    edge with probability m p / (1 - (1 - m) p), by Bayes, and that is its label. The means over positives and over
    negatives are added, as in the paper's loss.
    """
    _check(model, known, settings)
    positive, negative = _masks(links, known)
    num_positives, num_negatives = max(1, int(positive.sum())), max(1, int(negative.sum()))
    rows, gradient, total = y.detach(), torch.zeros_like(y), 0.0
    start = known.num_left or 0  # of the targets: those of a bipartite graph are on its right
    for first in range(0, len(positive), BLOCK):
        block = slice(first, min(first + BLOCK, len(positive)))
        left, right = rows[block].clone().requires_grad_(), rows[start:].clone().requires_grad_()
        logits = model.decoder.of_block(left, right, drops)
        labels = positive[block].to(logits.dtype)
        weights = labels / num_positives + negative[block] / num_negatives
        if settings.missing_share:
            labels = labels + _missing(logits.detach(), settings.missing_share) * negative[block]
        loss = F.binary_cross_entropy_with_logits(logits, labels, weights, reduction="sum")
        loss.backward()
        for place, part in ((block, left), (slice(start, None), right)):
            if part.grad is not None:
                gradient[place] += part.grad
        total += float(loss.detach())
    y.backward(gradient)
    return total


def _missing(logits: Tensor, share: float) -> Tensor:
    """How likely pairs without an edge are missing edges."""
    chance = logits.sigmoid()
    return share * chance / (1 - (1 - share) * chance)


def _masks(links: Tensor, known: KnownPairs) -> tuple[Tensor, Tensor]:
    """(sources, targets) which pairs are positives, and which are negatives."""
    n, left = known.num_nodes, known.num_left
    positive = torch.zeros(n, n, dtype=torch.bool, device=links.device)
    negative = ~torch.eye(n, dtype=torch.bool, device=links.device)
    for mask, pairs, value in ((positive, links, True), (negative, known.pairs, False), (negative, links, False)):
        mask[pairs[:, 0], pairs[:, 1]] = value
        if not known.directed:
            mask[pairs[:, 1], pairs[:, 0]] = value
    return (positive, negative) if left is None else (positive[:left, left:], negative[:left, left:])


def _check(model: Model, known: KnownPairs, settings: TrainingSettings) -> None:
    if type(model).logits is not Model.logits or type(model).loss is not Model.loss:
        raise SettingsError(
            "training.loss_sampler: 'all' needs a decoder of two stored rows, and no loss of the model's own "
            f"(got {type(model).__name__}; use 'global')"
        )
    if known.num_nodes > LARGEST:
        raise SettingsError(
            f"training.loss_sampler: 'all' scores all pairs in each step, for {LARGEST:,} nodes at most "
            f"(this graph has {known.num_nodes:,}; use 'shared' or 'global')"
        )
    if settings.loss != "paper":
        raise SettingsError(
            f"training.loss: with loss_sampler = 'all' it needs to be 'paper' (got {settings.loss!r}; "
            "use loss = 'paper' or another loss_sampler)"
        )
