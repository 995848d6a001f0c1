"""Non-links drawn between blocks of nodes: uniform one by one, and together kind to the memory they are read from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from yinyan.native import graph_kernels
from yinyan.randomness import drawn_seed, hashed, shifted
from yinyan.sampling.samplers import KnownPairs, draw_pairs, unknown_pairs

__all__ = ["draw_block_pairs"]

_SIZE = 64  # consecutive nodes of a block: the rows of four blocks stay in a second-level cache
_CHOICES = 2  # partners that a block's non-links lead to; as many lead to it
_FEWEST = 64  # blocks: below, everything is in the cache anyway


def draw_block_pairs(
    known: KnownPairs, count: int, generator: torch.Generator, *, hidden: Tensor | None = None
) -> Tensor:
    """(count, 2) pairs that are neither self pairs nor known, in the order of their first ends' blocks.

    Each block of consecutive nodes is given two partners by random permutations of the blocks, and its share of the
    non-links leads from it to them. By itself a non-link is any pair of nodes with the same chance, as with the
    *global* sampler, but for one part in 64 between the sizes of blocks. Together a node's non-links end in four random
    blocks, so that a layer gathers their rows from the nearest cache: fewer independent draws, in far less time.
    Small graphs and bipartite ones are drawn from globally.
    """
    n, device = known.num_nodes, known.device
    if n < _FEWEST * _SIZE or known.num_left is not None:
        return draw_pairs(known, count, generator, hidden=hidden)
    plan = _Plan.drawn(n, generator, device)
    pairs, wrong = unknown_pairs(known, lambda places: plan.pairs(drawn_seed(generator), count, places), hidden)
    if wrong.numel():  # between blocks that are linked throughout
        pairs[wrong] = draw_pairs(known, wrong.numel(), generator, hidden=hidden)
    return pairs


@dataclass(frozen=True)
class _Plan:
    """Blocks of nodes, counted from a random node on, and which of them non-links lead to."""

    turn: int  # the first node of the first block
    starts: Tensor  # (blocks + 1,)
    partners: Tensor  # (choices, blocks)

    @classmethod
    def drawn(cls, num_nodes: int, generator: torch.Generator, device: torch.device) -> _Plan:
        blocks, place = -(-num_nodes // _SIZE), generator.device
        turn = int(torch.randint(num_nodes, (1,), generator=generator, device=place))
        partners = [torch.randperm(blocks, generator=generator, device=place) for _ in range(_CHOICES)]
        starts = torch.arange(blocks + 1, device=device) * num_nodes // blocks
        return cls(turn, starts, torch.stack(partners).to(device))

    def pairs(self, seed: int, count: int, places: Tensor | None) -> Tensor:
        """Proposals for all of `count` places, or for some."""
        if self.starts.device.type == "cpu" and graph_kernels.library() is not None:
            return graph_kernels.draw_block_pairs(seed, self.turn, self.starts, self.partners, count, places)
        if places is None:
            places = torch.arange(count, device=self.starts.device)
        z = hashed(seed, places.numel(), places.device)
        block = places * self.partners.shape[1] // count
        choice = shifted(z, 48) * self.partners.shape[0] >> 16
        ends = self._nodes(block, shifted(z, 24) & 0xFFFFFF), self._nodes(self.partners[choice, block], z & 0xFFFFFF)
        return torch.stack(ends, dim=1)

    def _nodes(self, blocks: Tensor, chances: Tensor) -> Tensor:
        start, end = self.starts[blocks], self.starts[blocks + 1]
        return (start + (chances * (end - start) >> 24) + self.turn) % self.starts[-1]
