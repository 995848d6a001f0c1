"""Cells of similar rows: k-means over a sample, and which cell each row belongs to."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["centres_of", "nearest_centres"]

_SAMPLE = 32  # rows a centre that k-means sees
_ROUNDS = 6
_BLOCK = 4096
_MANY = 512  # centres from which on a point is not compared with all of them
_TRIED = 8  # groups of centres that a point is compared with


def centres_of(points: Tensor, count: int, seed: int) -> Tensor:
    """(count, d) centres by Lloyd's algorithm on a sample; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(points.shape[0], generator=generator)[: count * _SAMPLE]
    sample = points[chosen.to(points.device)].float()
    centres = sample[:count].clone()
    for _ in range(_ROUNDS):
        nearest = torch.from_numpy(_nearly_nearest(sample, centres)).to(sample.device)
        sizes = torch.bincount(nearest, minlength=count)
        order = torch.argsort(nearest, stable=True)  # sums in a fixed order, whatever the number of threads
        sums = torch.segment_reduce(sample[order], "sum", lengths=sizes, axis=0)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, None]
        empty = (~filled).nonzero().squeeze(1)
        if empty.numel():  # start again in the largest cells
            largest = torch.argsort(sizes, descending=True, stable=True)[: empty.numel()]
            noise = torch.randn(empty.numel(), sample.shape[1], generator=generator).to(centres)
            centres[empty] = centres[largest] * (1 + 1e-3 * noise)
    return centres


def nearest_centres(points: Tensor, centres: Tensor) -> NDArray[np.int64]:
    """(n,) the centre at the least distance of each point."""
    half = centres.square().sum(1) / -2
    parts = [torch.addmm(half, block.float(), centres.t()).argmax(1) for block in points.split(_BLOCK)]
    return torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.int64)


def _nearly_nearest(points: Tensor, centres: Tensor) -> NDArray[np.int64]:
    """The same for one point in twenty less exactly and many times faster: good enough to find means by.

    Centres have centres of their own, about √c of them; a point is compared with those nearest to its nearest one.
    """
    if centres.shape[0] < _MANY or points.shape[0] < centres.shape[0]:
        return nearest_centres(points, centres)
    count = int(centres.shape[0] ** 0.5)
    above = centres_of(centres, count, 0)
    group = nearest_centres(points, above)
    order, ends = np.argsort(group, kind="stable"), np.searchsorted(np.sort(group), np.arange(count + 1))
    half = centres.square().sum(1) / -2
    near = torch.addmm(half, above, centres.t()).topk(_TRIED * centres.shape[0] // count, dim=1).indices
    found = np.empty(points.shape[0], dtype=np.int64)
    for number in range(count):
        members = order[ends[number] : ends[number + 1]]
        if members.size:
            taken = points[torch.from_numpy(members).to(points.device)]
            found[members] = near[number].cpu().numpy()[nearest_centres(taken, centres[near[number]])]
    return found
