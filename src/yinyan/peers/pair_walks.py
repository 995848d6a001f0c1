"""Walks of three steps between the ends of pairs, and how many nodes two steps reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.enclosing import visible_neighbours

__all__ = ["Reach", "ThreeSteps", "three_steps", "two_step_reach"]

_WALKS = 2**22  # listed at a time, about


class ThreeSteps(NamedTuple):
    """Walks i - first - second - j of pairs (i, j): of pair `row[a]` the one over `first[a]` and `second[a]`."""

    row: Tensor
    first: Tensor
    second: Tensor


class Reach(NamedTuple):
    """(n,) each: neighbours of a node, other nodes at the end of its walks of two steps, and nodes that are both."""

    near: Tensor
    far: Tensor
    both: Tensor


def three_steps(messages: MessageGraph, pairs: Tensor, hidden: Tensor | None) -> Iterator[ThreeSteps]:
    """All walks of three visible edges from the first to the second end of (b, 2) pairs, some pairs at a time."""
    for begin, end in _parts(messages, pairs[:, 0]):
        some = pairs[begin:end]
        row, first = visible_neighbours(messages, some[:, 0], hidden)
        place, second = visible_neighbours(messages, first, hidden)
        row, first = row[place], first[place]
        found = messages.known.contains(torch.stack([some[row, 1], second], dim=1), hidden)
        yield ThreeSteps(row[found] + begin, first[found], second[found])


def two_step_reach(messages: MessageGraph, hidden: Tensor | None) -> Reach:
    """How far each node reaches over visible edges."""
    n, device = messages.num_nodes, messages.pairs.device
    near, far, both = (torch.zeros(n, dtype=torch.long, device=device) for _ in range(3))
    nodes = torch.arange(n, device=device)
    for begin, end in _parts(messages, nodes):
        row, first = visible_neighbours(messages, nodes[begin:end], hidden)
        place, second = visible_neighbours(messages, first, hidden)
        keys = torch.unique((row[place] + begin) * n + second)
        pairs = torch.stack([keys // n, keys % n], dim=1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        near += torch.bincount(row + begin, minlength=n)
        far += torch.bincount(pairs[:, 0], minlength=n)
        both += torch.bincount(pairs[messages.known.contains(pairs, hidden), 0], minlength=n)
    return Reach(near, far, both)


def _parts(messages: MessageGraph, starts: Tensor) -> Iterator[tuple[int, int]]:
    """Begin and end of runs of (b,) starting nodes with about _WALKS walks of two steps between them."""
    degrees = messages.structure.indptr.diff().long()
    around = torch.zeros_like(degrees).index_add_(0, messages.structure.rows, degrees[messages.structure.columns])
    part = around[starts].cumsum(0) // _WALKS
    ends = [*(torch.nonzero(part.diff())[:, 0] + 1).tolist(), len(starts)] if len(starts) else []
    yield from zip([0, *ends], ends, strict=False)
