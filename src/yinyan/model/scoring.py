"""A model is an encoder and a decoder; scores of pairs come from two stored rows each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from yinyan.model.decoder import Decoder
from yinyan.model.encoder import NodeEncoder
from yinyan.model.losses import LOSSES
from yinyan.model.messages import MessageGraph

__all__ = ["BLOCK", "Model", "Pairs", "decode", "score_pairs"]

Scores = NDArray[np.float32]

BLOCK = 4_096  # pairs decoded at a time outside training: few, since their activations are the peak of small graphs


class Pairs(NamedTuple):
    """Pairs to score, as places in the rows of some embeddings."""

    rows: Tensor  # (·, d)
    links: Tensor  # (b, 2)
    non_links: Tensor  # (b, N, 2)


class Model(nn.Module):
    """Encoder and decoder: what is learned, saved and restored together."""

    def __init__(self, encoder: NodeEncoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def constants(self) -> list[nn.Parameter]:
        """Numbers that are added to all scores that a loss compares."""
        constant = self.decoder.constant
        return [] if constant is None else [constant]

    def logits(
        self,
        y: Tensor,
        pairs: Tensor,
        messages: MessageGraph,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """(...) logits of (..., 2) pairs. A score needs two vectors only; `messages`, without the `hidden` links, are
        for models that look at the graph around each pair."""
        return self.decoder.of_pairs(y, pairs, drops)

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """What a step of training descends on."""
        links, non_links = (
            self.logits(pairs.rows, some, messages, hidden=hidden, drops=drops)
            for some in (pairs.links, pairs.non_links)
        )
        return LOSSES[kind](links, non_links)


@torch.no_grad()
def decode(decoder: Decoder, y: Tensor | Callable[[Tensor], Tensor], pairs: Tensor) -> Scores:
    """(p,) logits of (p, 2) pairs from two vectors each, in blocks of bounded size; `y` is a matrix or takes rows."""
    take = y.__getitem__ if isinstance(y, Tensor) else y
    return _in_blocks(lambda block: decoder(take(block[:, 0]), take(block[:, 1])), pairs)


@torch.no_grad()
def score_pairs(model: Model, y: Tensor, messages: MessageGraph, pairs: Tensor) -> Scores:
    """(...) logits of (..., 2) pairs, or (..., 3) triples, at inference, in blocks of bounded size."""
    scores = _in_blocks(lambda block: model.logits(y, block, messages), pairs.reshape(-1, pairs.shape[-1]))
    return scores.reshape(pairs.shape[:-1])


def _in_blocks(logits: Callable[[Tensor], Tensor], pairs: Tensor) -> Scores:
    scores = torch.empty(pairs.shape[0])  # at once: results kept between large blocks would scatter the free memory
    for first, block in zip(range(0, pairs.shape[0], BLOCK), pairs.split(BLOCK), strict=False):
        scores[first : first + BLOCK] = logits(block)
    return scores.numpy()
