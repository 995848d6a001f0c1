"""Random walks from every root: where they land, step by step, and the tree of their common beginnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.messages import MessageGraph
from yinyan.peers.walks import WalkGraph, walk

__all__ = ["Level", "WalkSets", "WalkShape", "in_ranges", "walk_sets"]


@dataclass(frozen=True)
class WalkShape:
    """How many walks leave a root, and how far they go."""

    walks: int = 50
    steps: int = 3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise SettingsError(f"'{name}' needs to be at least 1 (got {value})")


class Level(NamedTuple):
    """Distinct walks of one length, those of a root next to each other."""

    node: Tensor  # (w,) where they end
    parent: Tensor  # (w,) the walk of the level before that each goes on from
    begin: Tensor  # (r + 1,) the first walk of each root


class WalkSets(NamedTuple):
    """Walks of r roots among n nodes, and shares of them: the relative positional encodings."""

    num_nodes: int
    place: Tensor  # (n,) the row of a root, -1 for other nodes
    levels: tuple[Level, ...]  # of 0, 1, … steps
    share: Tensor  # (w,) of a root's walks that are each walk of the last level
    keys: Tensor  # (k,) sorted row of the root * n + node that its walks meet
    begin: Tensor  # (r + 1,) the first key of each root
    landing: Tensor  # (k + 1, steps + 1) the share of walks at the node after 0, 1, … steps; zeros for nodes not met

    def lookup(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Places in `landing` of nodes as the walks of root rows meet them."""
        wanted = rows * self.num_nodes + nodes
        found = torch.searchsorted(self.keys, wanted).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[found] == wanted, found, len(self.keys))


def walk_sets(messages: MessageGraph, roots: Tensor, shape: WalkShape, seed: int, hidden: Tensor | None) -> WalkSets:
    """Uniform walks over visible edges from distinct roots; without an edge a walk stays where it is."""
    n, r, device = messages.num_nodes, len(roots), roots.device
    nodes = torch.from_numpy(_walked(messages, roots, shape, seed, hidden)).to(device)
    rows = torch.arange(r, device=device).repeat_interleave(shape.walks)
    levels = [Level(roots, rows.new_empty(0), torch.arange(r + 1, device=device))]
    so_far, root = rows, torch.arange(r, device=device)
    for step in range(1, shape.steps + 1):
        distinct, so_far = torch.unique(so_far * n + nodes[:, step], return_inverse=True)
        parent = distinct // n
        root = root[parent]
        levels.append(Level(distinct % n, parent, _begins(root, r)))
    keys, place = torch.unique(rows[:, None] * n + nodes, return_inverse=True)
    landing = torch.zeros(len(keys) + 1, shape.steps + 1, dtype=messages.weights.dtype, device=device)
    step_of = torch.arange(shape.steps + 1, device=device).expand_as(place)
    one = landing.new_tensor(1 / shape.walks)
    landing.index_put_((place, step_of), one, accumulate=True)
    share = torch.bincount(so_far, minlength=len(levels[-1].node)).to(landing.dtype) / shape.walks
    row_of = torch.full((n,), -1, device=device).index_copy_(0, roots, torch.arange(r, device=device))
    return WalkSets(n, row_of, tuple(levels), share, keys, _begins(keys // n, r), landing)


def in_ranges(begin: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Entries of some rows of a list in runs: (e,) place in `rows`, (e,) the entry, (rows,) the first e of each."""
    counts = begin[rows + 1] - begin[rows]
    owner = torch.repeat_interleave(counts)
    first = counts.cumsum(0) - counts
    entry = torch.arange(len(owner), device=rows.device) + (begin[rows] - first)[owner]
    return owner, entry, first


def _begins(sorted_rows: Tensor, count: int) -> Tensor:
    return F.pad(torch.bincount(sorted_rows, minlength=count).cumsum(0), (1, 0))


def _walked(
    messages: MessageGraph, roots: Tensor, shape: WalkShape, seed: int, hidden: Tensor | None
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(r * walks, steps + 1) nodes."""
    graph = WalkGraph.from_links(messages.visible(hidden).cpu().numpy().astype(np.int64), messages.num_nodes)
    starts = np.repeat(roots.cpu().numpy(), shape.walks)
    nodes = np.repeat(starts[:, None], shape.steps + 1, axis=1)
    moving = graph.degrees[starts] > 0
    nodes[moving] = walk(graph, starts[moving], shape.steps + 1, 1.0, 1.0, np.random.default_rng(seed))
    return nodes
