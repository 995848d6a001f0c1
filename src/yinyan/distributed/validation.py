"""Validation pairs, each scored by the process that owns its first end."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.distributed.exchange import RowExchange
from yinyan.distributed.negatives import draw_validation_negatives
from yinyan.distributed.prepared import ROLES, Part
from yinyan.distributed.shard import EdgeSet, Nodes, target_edges, target_ends
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, score_pairs
from yinyan.randomness import hashed_at, named_seed, shifted
from yinyan.settings import TrainingSettings
from yinyan.training.data import MOST_CANDIDATES, num_lists
from yinyan.training.loop import ValidationScores

__all__ = ["Validation"]

_BLOCK = 1 << 18  # pairs whose rows are fetched at a time


class Validation:
    """Validation edges and their negatives, and the lists of some of their ends if epochs are chosen by them."""

    def __init__(
        self,
        nodes: Nodes,
        part: Part,
        settings: TrainingSettings,
        num_targets: int,
        seed: int,
    ) -> None:
        everything = EdgeSet(nodes, part, tuple(ROLES.values()))
        negative_seed = named_seed(seed, "evaluation_negatives")
        self.negatives = draw_validation_negatives(nodes, everything, settings.valid_negatives, negative_seed)
        own = self.negatives[nodes.owns(self.negatives[:, 0])]
        valid = target_edges(nodes, part, "valid")
        self._links, self._non_links = (_Scored(nodes, pairs) for pairs in (valid.pairs, own))
        self._lists: _Scored | None = None
        self._is_rival = np.empty((0, 0), np.bool_)
        if settings.selection == "ranking":
            pairs, is_rival = _lists(nodes, part, num_targets, named_seed(seed, "validation lists"))
            self._lists = _Scored(nodes, pairs)
            self._is_rival = nodes.group.gathered(is_rival).cpu().numpy().astype(np.bool_)

    def scores(self, model: Model, y: Tensor, messages: MessageGraph) -> ValidationScores:
        """The scores of all processes, in all of them."""
        positive, negative = (pairs.scores(model, y, messages) for pairs in (self._links, self._non_links))
        listed = None if self._lists is None else self._lists.scores(model, y, messages)
        return ValidationScores(positive, negative, listed, self._is_rival)


class _Scored:
    """(p, ..., 2) pairs of one process, with the rows that they need, block by block."""

    def __init__(self, nodes: Nodes, pairs: Tensor) -> None:
        self._group, self._shape = nodes.group, pairs.shape[1:-1]
        flat = pairs.reshape(-1, 2)
        count = nodes.group.largest(-(-flat.shape[0] // _BLOCK))
        self._blocks = []
        for block in range(count):
            some = flat[block * _BLOCK : (block + 1) * _BLOCK]
            exchange = RowExchange(nodes.group, nodes.starts, some)
            self._blocks.append((exchange, exchange.places(some)))

    def scores(self, model: Model, y: Tensor, messages: MessageGraph) -> NDArray[np.float32]:
        """(all p, ...) logits of the pairs of all processes."""
        found = [
            torch.from_numpy(score_pairs(model, exchange.extended(y), messages, places))
            for exchange, places in self._blocks
        ]
        own = torch.cat([torch.empty(0), *found]).reshape(-1, *self._shape)
        scores: NDArray[np.float32] = self._group.gathered(own.to(y.device)).cpu().numpy()
        return scores


def _lists(nodes: Nodes, part: Part, num_targets: int, seed: int) -> tuple[Tensor, Tensor]:
    """(e, 1 + c, 2) some ends of validation edges with their partners and candidates, and (e, c) who is no partner."""
    ends, count = target_ends(nodes, part, "valid"), min(nodes.count, MOST_CANDIDATES)
    known = EdgeSet(nodes, part, (ROLES["train"], ROLES["valid"]))
    share = num_lists(num_targets, count) / max(1, int(nodes.group.summed(torch.tensor(len(ends)))))
    ends = ends.some(shifted(hashed_at(seed, ends.numbers), 11).double() < share * 2**53)
    first, places = ends.pairs[:, 0], torch.arange(count, device=ends.pairs.device)
    candidates = places.expand(len(ends), count)
    if nodes.count > count:
        places = ends.numbers[:, None] * count + places
        sides = [nodes.drawn(named_seed(seed, "candidates"), places, side) for side in (0, 1)]
        candidates = sides[1] if nodes.left is None else torch.where(_is_left(nodes, first), sides[1], sides[0])
    pairs = torch.stack([first[:, None].expand_as(candidates), candidates], dim=2)
    is_rival = ~known.contains(pairs) & (candidates != first[:, None])
    if nodes.left is not None:
        is_rival &= nodes.is_left(candidates) != _is_left(nodes, first)
    return torch.cat([ends.pairs[:, None], pairs], dim=1), is_rival.to(torch.uint8)


def _is_left(nodes: Nodes, first: Tensor) -> Tensor:
    return nodes.is_left(first)[:, None]
