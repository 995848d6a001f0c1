"""The loss with negatives that a block of edges shares: its logits are a product of two small matrices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.descent import give_up
from yinyan.model.losses import LOSSES
from yinyan.model.scoring import Model
from yinyan.randomness import drawn_seed, uniform_nodes
from yinyan.sampling import KnownPairs
from yinyan.settings import TrainingSettings

__all__ = ["BLOCK", "descend_on_blocks", "descend_with_shared_negatives"]

BLOCK = 2048  # edges with the same negatives: their logits stay in the second cache


def descend_with_shared_negatives(
    model: Model,
    y: Tensor,
    links: Tensor,
    known: KnownPairs,
    settings: TrainingSettings,
    generator: torch.Generator,
    drops: torch.Generator | None,
) -> float:
    """Add the gradients of the loss of (b, 2) links to the weights, block by block; returns the loss.

    Each block ranks one end of its edges against `loss_negatives` nodes, the other end among them; in an undirected
    graph every other block is turned round. A negative that happens to be a known edge of its source counts as a
    negative: there are few, and finding them would cost more than the product. Logits of one block are held at a time.
    """
    if type(model).logits is not Model.logits:
        raise SettingsError("training.loss_sampler: 'shared' needs a decoder of two stored rows (use 'global')")
    blocks = _blocks(links, known, settings.loss_negatives, generator)
    return descend_on_blocks(model, y, blocks, links.shape[0], settings.loss, drops)


def descend_on_blocks(
    model: Model,
    y: Tensor,
    blocks: Iterable[tuple[Tensor, Tensor, Tensor]],
    num_links: int,
    loss_name: str,
    drops: torch.Generator | None,
) -> float:
    """The same for blocks of places in y of sources, targets and negatives; `num_links` is the size of the batch.

    The memory of y may be used for its gradient.
    """
    rows, gradient, total = y.detach(), torch.zeros_like(y), 0.0
    for places in blocks:
        # gathered by hand: the gradient of a gather would be as large as all rows, for each block anew
        left, right, far = (rows.index_select(0, place).requires_grad_() for place in places)
        positives = model.decoder(left, right, drops)
        negatives = model.decoder.of_block(left, far, drops)
        negatives = negatives.masked_fill(places[2][None] == places[1][:, None], float("-inf"))
        loss = LOSSES[loss_name](positives, negatives) * (places[0].numel() / num_links)
        loss.backward()
        for place, part in zip(places, (left, right, far), strict=True):
            if part.grad is not None:
                gradient.index_add_(0, place, part.grad)
        total += float(loss.detach())
    give_up(y)
    y.backward(gradient)
    return total


def _blocks(
    links: Tensor, known: KnownPairs, count: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sources, targets and negatives of each block."""
    first = drawn_seed(generator) % 2
    for place, block in enumerate(links.split(BLOCK)):
        turned = not known.directed and (place + first) % 2 == 1
        sources, targets = (block[:, 1], block[:, 0]) if turned else (block[:, 0], block[:, 1])
        yield sources, targets, _others(known, count, generator, turned=turned, device=links.device)


def _others(known: KnownPairs, count: int, generator: torch.Generator, *, turned: bool, device: torch.device) -> Tensor:
    """(count,) nodes drawn uniformly from the side that is ranked."""
    left = known.num_left
    if left is None:
        return uniform_nodes(known.num_nodes, count, generator, device)
    if turned:
        return uniform_nodes(left, count, generator, device)
    return uniform_nodes(known.num_nodes - left, count, generator, device) + left
