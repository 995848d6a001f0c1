"""Negatives of relations: triples of the right types that are no known edges of their relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from yinyan.native import graph_kernels

__all__ = ["KnownTriples", "Space", "draw_triples"]

_MARKED_FROM = 20_000  # triples: below, a binary search is as quick
_ROUNDS = 24  # of drawing again what is an edge


class Space(NamedTuple):
    """Where the ends of one relation lie among all rows."""

    first_source: int
    num_sources: int
    first_target: int
    num_targets: int
    directed: bool  # within one type

    @property
    def is_within(self) -> bool:
        """Whether both ends are of one type."""
        return self.first_source == self.first_target


@dataclass(frozen=True)
class KnownTriples:
    """A set of (source, target, relation) that sampling must avoid."""

    num_nodes: int
    spaces: tuple[Space, ...]  # of each relation
    triples: Tensor  # (m, 3)

    @classmethod
    def of(cls, num_nodes: int, spaces: Sequence[Space], triples: Tensor) -> KnownTriples:
        """From triples in any order."""
        return cls(num_nodes, tuple(spaces), triples)

    @cached_property
    def _keys(self) -> Tensor:
        return self._key(self.triples).sort().values

    @cached_property
    def limits(self) -> Tensor:
        """(R, 4) first and number of sources and of targets."""
        return torch.tensor([space[:4] for space in self.spaces], device=self.triples.device).view(-1, 4)

    @cached_property
    def _either_way(self) -> Tensor:
        """(R,) whether the order of the ends does not matter."""
        flags = [space.is_within and not space.directed for space in self.spaces]
        return torch.tensor(flags, dtype=torch.bool, device=self.triples.device)

    def _key(self, triples: Tensor) -> Tensor:
        first, second, relation = triples.unbind(1)
        flip = self._either_way[relation] & (first > second)
        low, high = torch.where(flip, second, first), torch.where(flip, first, second)
        return (relation * self.num_nodes + low) * self.num_nodes + high

    def contains(self, triples: Tensor) -> Tensor:
        """Which (b, 3) triples are known."""
        if not len(self.triples):
            return torch.zeros(len(triples), dtype=torch.bool, device=triples.device)
        wanted = self._key(triples)
        place = torch.searchsorted(self._keys, wanted).clamp(max=len(self._keys) - 1)
        return self._keys[place] == wanted

    def clashes(self, triples: Tensor) -> Tensor:
        """Places of triples that are known, or join a node to itself."""
        itself = triples[:, 0] == triples[:, 1]
        if self._marks is None:
            return (itself | self.contains(triples)).nonzero()[:, 0]
        keys = self._key(triples)
        pairs = torch.stack([keys // self.num_nodes, keys % self.num_nodes], dim=1)
        suspects = self._marks.suspects(pairs, self.num_nodes, directed=True)  # a few in a hundred
        wrong = itself.clone()
        wrong[suspects] |= self.contains(triples[suspects])
        return wrong.nonzero()[:, 0]

    @cached_property
    def _marks(self) -> graph_kernels.Marks | None:
        """A quick test that most triples pass, where it pays."""
        worth = len(self.triples) >= _MARKED_FROM and self.triples.device.type == "cpu"
        return graph_kernels.Marks.of(self._keys, self.num_nodes) if worth and graph_kernels.library() else None

    def to(self, device: torch.device) -> KnownTriples:
        """The same set on a device."""
        return KnownTriples(self.num_nodes, self.spaces, self.triples.to(device))


def draw_triples(
    known: KnownTriples, links: Tensor, count: int, generator: torch.Generator, *, keep_end: bool
) -> tuple[Tensor, Tensor | None]:
    """(b, count, 3) negatives of (b, 3) links, of their relations and types; and where there are none.

    With `keep_end` each keeps its source or its target, half of them either. Where a relation links all pairs that are
    drawn, the second result, (b, count), is true: these are no negatives. It is None if all are.
    """
    given = links.repeat_interleave(count, dim=0)
    drawn = _proposed(known, given, generator, keep_end=keep_end)
    wrong = known.clashes(drawn)
    for turn in range(2 * _ROUNDS):
        if not wrong.numel():
            break
        # a node that is linked to all others has no negative of its own
        drawn[wrong] = _proposed(known, given[wrong], generator, keep_end=keep_end and turn < _ROUNDS)
        wrong = wrong[known.clashes(drawn[wrong])]
    lacking = None
    if wrong.numel():
        lacking = torch.zeros(len(drawn), dtype=torch.bool, device=drawn.device)
        lacking[wrong] = True
        lacking = lacking.view(-1, count)
    return drawn.view(-1, count, 3), lacking


def _proposed(known: KnownTriples, given: Tensor, generator: torch.Generator, *, keep_end: bool) -> Tensor:
    """Both ends drawn anew, or one of them."""
    limits, device = known.limits[given[:, 2]], given.device
    shares = torch.rand(2, len(given), generator=generator, dtype=torch.float64, device=generator.device).to(device)
    ends = [
        limits[:, 2 * end] + (shares[end] * limits[:, 2 * end + 1]).long().clamp(max=limits[:, 2 * end + 1] - 1)
        for end in (0, 1)
    ]
    if keep_end:
        side = torch.randint(2, (len(given),), generator=generator, device=generator.device).to(device).bool()
        ends = [torch.where(side, given[:, 0], ends[0]), torch.where(side, ends[1], given[:, 1])]
    return torch.stack([*ends, given[:, 2]], dim=1)
