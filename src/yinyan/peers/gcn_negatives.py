"""A graph convolution that sees sampled non-links in its forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from yinyan.model.messages import MessageGraph
from yinyan.model.operators import EdgeStructure, SymmetricOperator, inverse_or_zero
from yinyan.peers.contract import Outcome, Task
from yinyan.peers.layered import Layered, layered
from yinyan.sampling import draw_pairs

__all__ = ["GCNWithNegatives", "gcn_negatives"]


@dataclass(frozen=True)
class _Signed:
    """S = Ã - λ_K / K Σ_k Ã⁻_k."""

    links: SymmetricOperator
    loops: Tensor  # (n, 1)
    non_links: tuple[SymmetricOperator, ...]
    push: float  # λ_K / K

    def product(self, y: Tensor) -> Tensor:
        """S Y."""
        total = self.links.product(y) + self.loops * y
        for graph in self.non_links:
            total = total - self.push * graph.product(y)
        return total


class _Layer(nn.Module):
    """S Y W + b."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, y: Tensor, links: _Signed) -> Tensor:
        return links.product(y @ self.linear.weight.T) + self.linear.bias


class GCNWithNegatives(Layered):
    """Y ← ReLU((Ã - λ_K Ã⁻) Y W): our reading of the paper's "GCN with negatives in the forward pass".

    Ã = D^-1/2 (A + I) D^-1/2 of the visible links; Ã⁻ = D⁻^-1/2 A⁻ D⁻^-1/2 of as many sampled non-links, without
    self loops, drawn afresh at each call and shared by its layers, and averaged over K = `num_negatives` graphs.
    λ_K is `repulsion`, not learned. The last layer has no ReLU, as in our GCN.
    """

    def layer(self, number: int, size: int) -> nn.Module:
        """One weight for links and non-links."""
        return _Layer(size)

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> _Signed:
        """Ã - λ_K Ã⁻."""
        count, drawn = messages.visible(hidden).shape[0], self.settings.num_negatives
        if drawn and negatives is None:
            raise ValueError("sampled negatives need a generator")
        graphs = []
        if count and negatives is not None:
            for _ in range(drawn):
                pairs = draw_pairs(messages.known, count, negatives, hidden=hidden)
                structure = EdgeStructure.from_pairs(pairs, messages.num_nodes)
                ones = messages.weights.new_ones(count)
                graphs.append(structure.scaled(ones, inverse_or_zero(structure.degrees(ones)).sqrt()))
        return _Signed(*messages.adjacency(hidden), tuple(graphs), self.settings.repulsion / max(1, drawn))

    def repulsion(self) -> Tensor:
        """λ_K."""
        return torch.full((min(1, self.settings.num_negatives),), self.settings.repulsion)


def gcn_negatives(task: Task) -> Outcome:
    """Two graph convolutions over links less non-links."""
    return layered(task, GCNWithNegatives, {"num_steps": 2}, {"expected_negatives": False, "learn_repulsion": "no"})
