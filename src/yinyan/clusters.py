"""Parts of about equal size that cut few links."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["partition"]

_ROOM = 1.05  # of the largest part, over the mean
_SLOW = 32  # growth by less than one node in so many wants more seeds, so that long paths take no more rounds
_REFINEMENTS = 8  # rounds after the growth; later ones move next to nothing


def partition(pairs: Tensor, num_nodes: int, num_parts: int, generator: torch.Generator) -> Tensor:
    """(n,) the part of each node: grown from random seeds, then refined by the votes of neighbours.

    A part takes 5 % more than its share of the nodes at most. Each round is linear in the (m, 2) pairs but for a sort,
    and there are a few dozen at most.
    """
    ends = torch.cat([pairs, pairs.flip(1)]).to(generator.device)
    part = torch.full((num_nodes,), -1, device=generator.device)
    largest = math.ceil(_ROOM * num_nodes / num_parts)
    waiting = torch.randperm(num_nodes, generator=generator, device=generator.device)
    seeds, grown = num_parts, 0
    while waiting.numel():
        if grown < num_nodes / _SLOW:
            _settle(part, waiting[:seeds], num_parts, largest)
            seeds *= 2
        room = largest - _sizes(part, num_parts)
        near = ends[(part[ends[:, 0]] < 0) & (part[ends[:, 1]] >= 0)]
        near = near[room[part[near[:, 1]]] > 0]
        nodes, wanted, votes = _elected(near, part, num_parts, generator)
        admitted = _admitted(wanted, votes, room)
        part[nodes[admitted]] = wanted[admitted]
        left = waiting[part[waiting] < 0]
        waiting, grown = left, waiting.numel() - left.numel()
    for _ in range(_REFINEMENTS if num_parts > 1 else 0):
        _refine(part, ends, num_parts, largest, generator)
    return part.to(pairs.device)


def _settle(part: Tensor, seeds: Tensor, num_parts: int, largest: int) -> None:
    """Give seeds to the parts with most room, in turn."""
    room = largest - _sizes(part, num_parts)
    emptiest = torch.argsort(room, descending=True, stable=True)
    emptiest = emptiest[room[emptiest] > 0]
    wanted = emptiest[torch.arange(seeds.numel(), device=part.device) % emptiest.numel()]
    admitted = _admitted(wanted, torch.zeros_like(wanted), room)
    part[seeds[admitted]] = wanted[admitted]


def _refine(part: Tensor, ends: Tensor, num_parts: int, largest: int, generator: torch.Generator) -> None:
    """Move nodes to the part that most of their neighbours are in, while it has room."""
    nodes, wanted, votes = _elected(ends, part, num_parts, generator)
    staying = torch.zeros_like(part).index_add_(0, ends[:, 0], (part[ends[:, 0]] == part[ends[:, 1]]).long())
    gain = votes - staying[nodes]
    # half of them at a time: two neighbours that both move to the other's part would swap for ever
    ready = (gain > 0) & (torch.rand(gain.shape, generator=generator, device=gain.device) < 0.5)
    nodes, wanted, gain = nodes[ready], wanted[ready], gain[ready]
    admitted = _admitted(wanted, gain, largest - _sizes(part, num_parts))
    part[nodes[admitted]] = wanted[admitted]


def _elected(ends: Tensor, part: Tensor, num_parts: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """First ends, each once; the part that most of its second ends are in (ties by lot); and how many those are."""
    keys, votes = torch.unique(ends[:, 0] * num_parts + part[ends[:, 1]], return_counts=True)
    order = torch.randperm(keys.numel(), generator=generator, device=keys.device)
    order = order[torch.argsort(votes[order], stable=True)]
    order = order[torch.argsort(keys[order] // num_parts, stable=True)]  # by node, then by votes, then by lot
    owners = keys[order] // num_parts
    last = torch.ones_like(owners, dtype=torch.bool)
    last[:-1] = owners[1:] != owners[:-1]
    best = order[last]
    return owners[last], keys[best] % num_parts, votes[best]


def _admitted(wanted: Tensor, votes: Tensor, room: Tensor) -> Tensor:
    """Which of those that want to join a part find room there, the most wanted first."""
    order = torch.argsort(votes, descending=True, stable=True)
    order = order[torch.argsort(wanted[order], stable=True)]
    joined = wanted[order]
    counts = torch.bincount(joined, minlength=room.numel())
    rank = torch.arange(joined.numel(), device=joined.device) - (counts.cumsum(0) - counts)[joined]
    return order[rank < room[joined]]


def _sizes(part: Tensor, num_parts: int) -> Tensor:
    return torch.bincount(part[part >= 0], minlength=num_parts)
