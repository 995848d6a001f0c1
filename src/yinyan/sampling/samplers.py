"""Negatives drawn at random: pairs of nodes that are not linked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from yinyan.errors import TrainingError
from yinyan.native import graph_kernels
from yinyan.randomness import uniform_nodes

__all__ = ["KnownPairs", "Sampler", "distinct_pairs", "draw_pairs", "unknown_pairs"]

Sampler = Literal["global", "source", "blocks"]
Draw = Callable[[int, int, torch.Generator, torch.device], Tensor]  # so many nodes, how many, from where, to where

_ROUNDS = 24  # on a graph that is half full, one pair in 2^24 is left for the last resort
_MARKED_FROM = 20_000  # pairs: below, a binary search is as quick
_ENUMERABLE = 4_000  # up to this many nodes, what rejection cannot find is listed


@dataclass(frozen=True)
class KnownPairs:
    """A set of pairs that sampling must avoid: unordered, or ordered if `directed`.

    They are sorted when they are first looked up: a loss with shared negatives never does.
    """

    num_nodes: int
    pairs: Tensor  # (m, 2)
    num_left: int | None = None  # bipartite: rows below are side 0, the others side 1
    directed: bool = False

    @classmethod
    def from_pairs(
        cls, pairs: Tensor, num_nodes: int, num_left: int | None = None, *, directed: bool = False
    ) -> KnownPairs:
        """From (m, 2) pairs in any order."""
        return cls(num_nodes, pairs, num_left, directed)

    def __len__(self) -> int:
        return self.pairs.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the pairs are."""
        return self.pairs.device

    @property
    def keys(self) -> Tensor:
        """(m,) sorted first * n + second, the lower row first unless directed."""
        return self._sorted[0]

    @property
    def order(self) -> Tensor:
        """(m,) the pair that each key came from."""
        return self._sorted[1]

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        keys, order = _keys(self.pairs, self.num_nodes, self.directed).sort()
        return keys, order

    def contains(self, pairs: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Which (b, 2) pairs are known; those that a `hidden` (m,) mask marks count as unknown."""
        if not len(self):
            return torch.zeros(pairs.shape[0], dtype=torch.bool, device=pairs.device)
        wanted = _keys(pairs, self.num_nodes, self.directed)
        place = torch.searchsorted(self.keys, wanted).clamp(max=len(self) - 1)
        found = self.keys[place] == wanted
        return found if hidden is None else found & ~hidden[self.order[place]]

    def clashes(self, pairs: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Places of (b, 2) pairs that are self pairs or known."""
        marks = self._marks
        if marks is None or pairs.device.type != "cpu":
            return ((pairs[:, 0] == pairs[:, 1]) | self.contains(pairs, hidden)).nonzero()[:, 0]
        suspects = marks.suspects(pairs, self.num_nodes, directed=self.directed)  # a few in a hundred
        some = pairs[suspects]
        return suspects[(some[:, 0] == some[:, 1]) | self.contains(some, hidden)]

    @cached_property
    def _marks(self) -> graph_kernels.Marks | None:
        """A quick test that most pairs pass, where it pays."""
        worth = len(self) >= _MARKED_FROM and self.device.type == "cpu"
        return (
            graph_kernels.Marks.of(self.keys, self.num_nodes) if worth and graph_kernels.library() is not None else None
        )

    def to(self, device: torch.device) -> KnownPairs:
        """The same set on a device."""
        return self if device == self.device else replace(self, pairs=self.pairs.to(device))


def draw_pairs(
    known: KnownPairs,
    count: int,
    generator: torch.Generator,
    *,
    sources: Tensor | None = None,
    hidden: Tensor | None = None,
    draw: Draw = uniform_nodes,
) -> Tensor:
    """(count, 2) pairs that are neither self pairs nor known.

    With `sources` (count,) the first end is kept and the second drawn uniformly (the *source* sampler);
    without, both are drawn (*global*). A source that is linked to every node falls back on a global draw.
    """

    def propose(places: Tensor | None) -> Tensor:
        number = count if places is None else places.numel()
        kept = sources if sources is None or places is None else sources[places]
        return _propose(known, number, generator, kept, draw)

    pairs, wrong = unknown_pairs(known, propose, hidden)
    if wrong.numel() and sources is not None:
        pairs[wrong] = draw_pairs(known, wrong.numel(), generator, hidden=hidden, draw=draw)
    elif wrong.numel():
        pairs[wrong] = _listed(known, wrong.numel(), generator, hidden)
    return pairs


def unknown_pairs(
    known: KnownPairs, propose: Callable[[Tensor | None], Tensor], hidden: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What `propose` gives, proposed again (given the places) where it is a self pair or known.

    Returned with the places of those that still are after many rounds.
    """
    pairs = propose(None)
    wrong = known.clashes(pairs, hidden)
    for _ in range(_ROUNDS):
        if not wrong.numel():
            break
        again = propose(wrong)
        pairs[wrong] = again
        wrong = wrong[known.clashes(again, hidden)]
    return pairs, wrong


def distinct_pairs(known: KnownPairs, count: int, generator: torch.Generator) -> Tensor:
    """Up to `count` different non-links; fewer only where the graph has no more."""
    n, tries = known.num_nodes, 0
    possible = _num_possible(known)
    left_over = possible - len(known)
    if count and n <= _ENUMERABLE and left_over < max(4 * count, possible // 4):
        free = _free_pairs(known, None)  # rejection would take minutes to find the last few
        return free[torch.randperm(free.shape[0], generator=generator, device=free.device)[:count]]
    found = torch.empty(0, dtype=torch.long, device=known.device)
    while found.numel() < count and tries < 2 * _ROUNDS:
        # as ever: the non-links of a split are part of every result that was published for it
        drawn = _keys(draw_pairs(known, count, generator, draw=_torch_nodes), n, known.directed)
        fresh = torch.cat([found, drawn])
        values, where = torch.unique(fresh, return_inverse=True)
        first = torch.full((values.numel(),), fresh.numel(), device=fresh.device)
        first.scatter_reduce_(0, where, torch.arange(fresh.numel(), device=fresh.device), "amin")
        found = fresh[first.sort().values][:count]  # in the order drawn: no pair is favoured
        tries += 1
    return torch.stack([found // n, found % n], dim=1)


def _propose(known: KnownPairs, count: int, generator: torch.Generator, sources: Tensor | None, draw: Draw) -> Tensor:
    n, left, device = known.num_nodes, known.num_left, known.device

    def uniform(low: int, high: int) -> Tensor:
        return low + draw(high - low, count, generator, device)

    if left is None:
        return torch.stack([uniform(0, n) if sources is None else sources, uniform(0, n)], dim=1)
    if sources is None:
        return torch.stack([uniform(0, left), uniform(left, n)], dim=1)
    other = torch.where(sources < left, uniform(left, n), uniform(0, left))
    return torch.stack([sources, other], dim=1)


def _torch_nodes(num_nodes: int, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.randint(num_nodes, (count,), generator=generator, device=generator.device).to(device)


def _listed(known: KnownPairs, count: int, generator: torch.Generator, hidden: Tensor | None) -> Tensor:
    """The last resort on graphs that are nearly full: list the non-links and draw among them."""
    if known.num_nodes > _ENUMERABLE:
        raise TrainingError(f"negatives are too rare to sample ({known.num_nodes:,} nodes, {len(known):,} links)")
    free = _free_pairs(known, hidden)
    return free[torch.randint(free.shape[0], (count,), generator=generator, device=generator.device).to(free.device)]


def _num_possible(known: KnownPairs) -> int:
    n, left = known.num_nodes, known.num_left
    if left is not None:
        return left * (n - left)
    return n * (n - 1) if known.directed else n * (n - 1) // 2


def _free_pairs(known: KnownPairs, hidden: Tensor | None) -> Tensor:
    """All non-links."""
    n, device = known.num_nodes, known.device
    free = torch.triu_indices(n, n, offset=1, device=device).T
    if known.directed:
        free = torch.cat([free, free.flip(1)])
    if known.num_left is not None:
        free = free[(free[:, 0] < known.num_left) & (free[:, 1] >= known.num_left)]
    free = free[~known.contains(free, hidden)]
    if not free.numel():
        raise TrainingError("the graph is complete: every pair is linked, so there is no link left to predict")
    return free


def _keys(pairs: Tensor, num_nodes: int, directed: bool) -> Tensor:
    if directed:
        return pairs[:, 0] * num_nodes + pairs[:, 1]
    first, second = pairs[:, 0], pairs[:, 1]  # a reduction over two columns would take ten times as long
    return torch.minimum(first, second) * num_nodes + torch.maximum(first, second)
