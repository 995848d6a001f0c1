"""Negatives in expectation: the mean of all negative graphs, of low rank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from yinyan.model.operators import Halo, LowRankOperator
from yinyan.sampling import Sampler

__all__ = ["Population", "expected_adjacency", "expected_degrees", "expected_rates"]


class Population(NamedTuple):
    """The nodes that negatives are drawn from: the rows at hand, or with a `halo` also those of other processes."""

    counts: tuple[int, ...]  # of all nodes, or of the left and of the right side
    left: Tensor | None = None  # (rows,) whether a row is of the left side
    halo: Halo | None = None

    @classmethod
    def of_rows(cls, num_nodes: int, num_left: int | None, device: torch.device) -> Population:
        """All nodes; of two sides, the left one first."""
        if num_left is None:
            return cls((num_nodes,))
        return cls((num_left, num_nodes - num_left), torch.arange(num_nodes, device=device) < num_left)

    def of_own_side(self, of_side: Tensor) -> Tensor:
        """(1,) or (rows,) the value of each row's side."""
        return of_side if self.left is None else torch.where(self.left, of_side[0], of_side[1])

    def of_other_side(self, of_side: Tensor) -> Tensor:
        """The same of the side of its possible partners."""
        return of_side if self.left is None else torch.where(self.left, of_side[1], of_side[0])

    def sums(self, x: Tensor) -> Tensor:
        """(sides,) sums of x over the nodes of each side."""
        parts = (x,) if self.left is None else (x[self.left], x[~self.left])
        sums = torch.stack([part.sum() for part in parts])
        return sums if self.halo is None else self.halo.summed(sums)


def expected_rates(link_degrees: Tensor, sampler: Sampler, nodes: Population | int | None) -> Tensor:
    """(n,) rates of the mean negative graph: E[A⁻_ij] = rate_i + rate_j for i ≠ j (on different sides, if any).

    *source*: a link keeps either end with probability 1/2, so node i starts deg_i / 2 of the non-links.
    *global*, and *blocks*: every node (of a side) starts as many as the average one.
    `nodes` are the rows' population, or of how many on the left side they are if there are sides.
    """
    population = _population(link_degrees, nodes)
    start = link_degrees / 2
    if sampler != "source":
        means = population.sums(start) / start.new_tensor(population.counts)
        start = population.of_own_side(means).expand_as(start)
    return start / population.of_other_side(start.new_tensor(_num_partners(population)))


def expected_degrees(rate: Tensor, nodes: Population | int | None) -> Tensor:
    """(n,) row sums of E[A⁻]: Σ_j (rate_i + rate_j) over the possible partners j of i."""
    # over millions of nodes single precision would lose digits (MPS has no other)
    exact, population = rate if rate.device.type == "mps" else rate.double(), _population(rate, nodes)
    counts = exact.new_tensor(population.counts) - (2 if population.left is None else 0)  # itself is no partner
    total = population.sums(exact)
    return (population.of_other_side(counts) * exact + population.of_other_side(total)).to(rate.dtype)


def expected_adjacency(rate: Tensor, scale: Tensor, nodes: Population | int | None) -> LowRankOperator:
    """diag(scale) E[A⁻] diag(scale): of rank two (four if bipartite) but for its diagonal, so O(n d) to apply."""
    population = _population(rate, nodes)
    if population.left is None:
        factors = torch.stack([scale, rate * scale], dim=1)
        core = scale.new_tensor([[0.0, 1.0], [1.0, 0.0]])
        return LowRankOperator(-2 * rate * scale.square(), factors, core, population.halo)
    left = population.left.to(scale.dtype)
    plain, rated = scale, rate * scale
    factors = torch.stack([plain * left, rated * left, plain * (1 - left), rated * (1 - left)], dim=1)
    core = scale.new_zeros(4, 4)
    for a, b in ((0, 3), (1, 2)):  # a node of one side meets the sums of the other
        core[a, b] = core[b, a] = 1.0
    return LowRankOperator(torch.zeros_like(scale), factors, core, population.halo)


def _population(rows: Tensor, nodes: Population | int | None) -> Population:
    return nodes if isinstance(nodes, Population) else Population.of_rows(rows.numel(), nodes, rows.device)


def _num_partners(population: Population) -> list[int]:
    """Possible partners on each side, for a node of the other side; or for any node."""
    return [population.counts[0] - 1] if population.left is None else list(population.counts)
