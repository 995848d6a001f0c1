"""Negatives in expectation: the mean of all negative graphs, of low rank."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.model.operators import LowRankOperator
from yinyan.sampling import Sampler

__all__ = ["expected_adjacency", "expected_degrees", "expected_rates"]


def expected_rates(link_degrees: Tensor, sampler: Sampler, num_left: int | None) -> Tensor:
    """(n,) rates of the mean negative graph: E[A⁻_ij] = rate_i + rate_j for i ≠ j (on different sides, if any).

    *source*: a link keeps either end with probability 1/2, so node i starts deg_i / 2 of the non-links.
    *global*, and *blocks*: every node (of a side) starts as many as the average one.
    """
    n = link_degrees.numel()
    start = link_degrees / 2
    partners = torch.full_like(start, n - 1)
    if num_left is not None:
        partners[:num_left], partners[num_left:] = n - num_left, num_left
    if sampler != "source":
        sides = (start,) if num_left is None else (start[:num_left], start[num_left:])
        start = torch.cat([side.mean().expand_as(side) for side in sides])
    return start / partners


def expected_degrees(rate: Tensor, num_left: int | None) -> Tensor:
    """(n,) row sums of E[A⁻]: Σ_j (rate_i + rate_j) over the possible partners j of i."""
    # over millions of nodes single precision would lose digits (MPS has no other)
    exact = rate if rate.device.type == "mps" else rate.double()
    n, total = rate.numel(), exact.sum()
    if num_left is None:
        return ((n - 2) * exact + total).to(rate.dtype)
    left = exact[:num_left].sum()
    other = torch.cat([(total - left).expand(num_left), left.expand(n - num_left)])
    partners = torch.full_like(exact, num_left)
    partners[:num_left] = n - num_left
    return (partners * exact + other).to(rate.dtype)


def expected_adjacency(rate: Tensor, scale: Tensor, num_left: int | None) -> LowRankOperator:
    """diag(scale) E[A⁻] diag(scale): of rank two (four if bipartite) but for its diagonal, so O(n d) to apply."""
    if num_left is None:
        factors = torch.stack([scale, rate * scale], dim=1)
        core = scale.new_tensor([[0.0, 1.0], [1.0, 0.0]])
        return LowRankOperator(-2 * rate * scale.square(), factors, core)
    left = (torch.arange(rate.numel(), device=rate.device) < num_left).to(scale.dtype)
    plain, rated = scale, rate * scale
    factors = torch.stack([plain * left, rated * left, plain * (1 - left), rated * (1 - left)], dim=1)
    core = scale.new_zeros(4, 4)
    for a, b in ((0, 3), (1, 2)):  # a node of one side meets the sums of the other
        core[a, b] = core[b, a] = 1.0
    return LowRankOperator(torch.zeros_like(scale), factors, core)
