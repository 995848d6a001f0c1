"""Graphs with the sizes of ogbl-ppa and ogbl-citation2, and pairs as their test sets hold them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lib.graphs import kept
from yinyan.model.messages import MessageGraph
from yinyan.native.allocation import give_back
from yinyan.sampling import distinct_pairs
from yinyan.training.data import TrainingData


class Size(NamedTuple):
    """Numbers of a data set. Links, features and pairs are drawn."""

    nodes: int
    links: int
    train: int  # links that pass messages at test time
    features: int  # columns; without any, nodes have learned embeddings
    edges: int  # test edges
    negatives: int  # test negatives
    per_source: bool  # whether negatives keep the source of an edge

    @property
    def pairs(self) -> int:
        """Test pairs."""
        return self.edges + self.negatives

    def part(self, factor: int) -> Size:
        """A smaller graph of the same mean degree, with as many test pairs."""
        return self._replace(nodes=self.nodes // factor, links=self.links // factor, train=self.train // factor)


SIZES = {  # PPA's 58 features are its species, which the paper does not use either
    "ppa": Size(576_289, 30_326_273, 21_231_931, 0, 3_031_780, 3_000_000, per_source=False),
    "citation2": Size(2_927_963, 30_561_187, 30_387_995, 128, 86_596, 86_596_000, per_source=True),
}
SMOKE = Size(400, 3_000, 2_000, 8, 100, 100, per_source=False)
_SEED = 0
_VALIDATION_LINKS, _VALIDATION_NEGATIVES = 10_000, 20_000


class Case:
    """A message graph, features, and a source of test pairs."""

    def __init__(self, size: Size, folder: Path) -> None:
        links = np.load(kept(size.nodes, size.links, _SEED, folder), mmap_mode="r")
        self.size = size
        self.messages = MessageGraph.from_pairs(torch.from_numpy(np.array(links[: size.train])), size.nodes)
        self.held_out = torch.from_numpy(np.array(links[size.train :]))
        give_back()  # what sorting took
        self.generator = torch.Generator().manual_seed(_SEED)
        self.features = torch.randn(size.nodes, size.features, generator=self.generator) if size.features else None

    def draw(self, count: int) -> Tensor:
        """(count, 2) pairs, edges and negatives in the proportion of the test set.

        A negative has two random ends, or the source of an edge and a random one. Each pair is drawn by itself.
        """
        size, generator = self.size, self.generator
        chosen = self.held_out[torch.randint(len(self.held_out), (count,), generator=generator)]
        drawn = torch.randint(size.nodes, (count, 2), generator=generator)
        if size.per_source:
            drawn[:, 0] = chosen[:, 0]
        positive = torch.rand(count, 1, generator=generator) < size.edges / size.pairs
        return torch.where(positive, chosen, drawn)


def training_data(links: Tensor, num_nodes: int) -> TrainingData:
    """Links to train on, without features; the first of them, a tenth at most, are held out for validation."""
    held = min(_VALIDATION_LINKS, links.shape[0] // 10)
    links, valid = links[held:], links[:held]
    messages = MessageGraph.from_pairs(links, num_nodes)
    return TrainingData(
        features=None,
        messages=messages,
        targets=links,
        pair_of_target=torch.arange(links.shape[0]),
        known=messages.known,
        valid_messages=messages,
        valid_links=valid,
        valid_non_links=distinct_pairs(messages.known, _VALIDATION_NEGATIVES, torch.Generator().manual_seed(_SEED)),
    )
