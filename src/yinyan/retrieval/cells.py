"""Cells of similar rows: k-means over a sample, and which cell each row belongs to."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["centres_of", "nearest_centres", "num_cells"]

_SAMPLE = 32  # rows a centre that k-means sees
_ROUNDS = 6
_BLOCK = 4096


def centres_of(points: Tensor, count: int, seed: int) -> Tensor:
    """(count, d) centres by Lloyd's algorithm on a sample; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(points.shape[0], generator=generator)[: count * _SAMPLE]
    sample = points[chosen.to(points.device)].float()
    centres = sample[:count].clone()
    for _ in range(_ROUNDS):
        nearest = torch.from_numpy(nearest_centres(sample, centres)).to(sample.device)
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
    found = torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)
    return found.cpu().numpy()


def num_cells(num_nodes: int) -> int:
    """About four times the square root, a power of two; never fewer than sixteen rows a cell in the mean."""
    power = round(math.log2(4 * math.sqrt(max(1, num_nodes))))
    return max(1, min(1 << power, num_nodes // 16))
