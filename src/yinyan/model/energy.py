"""ENERGY, GRADIENT and LAYER: what the embeddings descend on, one equation a function.

Symbols: Y embeddings (n × d), f base model's output, L̃ normalised Laplacian of the links, L̃⁻_k those of the
K negative graphs, D and D⁻ degrees, λ0 anchoring, λ attraction, λ_k repulsion, γ margin, α step size.

    E(Y) = λ0 ‖(D + D⁻)^-1/2 (Y - f)‖² + λ tr(Yᵀ L̃ Y) + (1/K) Σ_k λ_k Softplus(Q_k),   Q_k = γ |E| - tr(Yᵀ L̃⁻_k Y)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.descent import BoundedLayer, LinearLayers, bounded_step, descend
from yinyan.propagation import Operator, SymmetricOperator

__all__ = [
    "EnergyTerms",
    "Laplacian",
    "backtracked_step_size",
    "bounded_layer",
    "energy",
    "fused_layer",
    "gradient",
    "layer",
    "linear_layers",
    "push_strengths",
    "safe_step_size",
]


@dataclass(frozen=True)
class Laplacian:
    """L̃ = diag(diagonal) - adjacency, the latter normalised; zero rows for nodes without an edge."""

    diagonal: Tensor  # (n, 1): D_k / D, which is 1 for a lone graph's nodes with edges
    adjacency: Operator

    def product(self, y: Tensor) -> Tensor:
        """L̃ Y."""
        return self.diagonal * y - self.adjacency.product(y)

    def trace(self, y: Tensor) -> Tensor:
        """tr(Yᵀ L̃ Y)."""
        return (y * self.product(y)).sum()


@dataclass(frozen=True)
class EnergyTerms:
    """Everything in E(Y) but Y and f. Sums over k are means over `non_links`, so a graph that stands for all K
    carries their factor 1/K itself."""

    links: Laplacian  # L̃
    non_links: tuple[Laplacian, ...]  # L̃⁻_k, empty for K = 0
    anchor: Tensor  # (n, 1): (D + D⁻)^-1, zero where both are
    num_links: float  # |E|
    anchoring: float  # λ0
    attraction: float  # λ
    repulsion: Tensor  # (len(non_links),): λ_k
    margin: float | None  # γ, or None for no bound: then Softplus(Q) is replaced by its slope-one part, -tr


def energy(y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
    """ENERGY."""
    total = terms.anchoring * (terms.anchor * (y - f).square()).sum() + terms.attraction * terms.links.trace(y)
    for weight, graph in zip(terms.repulsion, terms.non_links, strict=True):
        spread = graph.trace(y)
        bounded = -spread if terms.margin is None else F.softplus(terms.margin * terms.num_links - spread)
        total = total + weight * bounded / len(terms.non_links)
    return total


def gradient(y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
    """GRADIENT: ½ ∂E/∂Y = λ0 (D + D⁻)^-1 (Y - f) + λ L̃ Y - (1/K) Σ_k λ_k σ(Q_k) L̃⁻_k Y."""
    half = terms.anchoring * terms.anchor * (y - f) + terms.attraction * terms.links.product(y)
    for weight, graph in zip(terms.repulsion, terms.non_links, strict=True):
        push = graph.product(y)
        strength = weight / len(terms.non_links)
        if terms.margin is not None:
            strength = strength * torch.sigmoid(terms.margin * terms.num_links - (y * push).sum())
        half = half - strength * push
    return half


def push_strengths(y: Tensor, terms: EnergyTerms) -> Tensor:
    """(1/K) λ_k σ(Q_k) for each negative graph."""
    strengths = terms.repulsion / max(1, len(terms.non_links))
    if terms.margin is None:
        return strengths[: len(terms.non_links)]
    traces = [graph.trace(y) for graph in terms.non_links]
    return strengths * torch.sigmoid(terms.margin * terms.num_links - torch.stack(traces)) if traces else strengths[:0]


def layer(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """LAYER: Y(t+1) = Y(t) - α ½ ∂E/∂Y."""
    return y - step_size * gradient(y, f, terms)


def fused_layer(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """LAYER as C1 Y + C2 f + c3 Ã Y - c4 Ã⁻ Y: the same map in one pass."""
    if terms.margin is None:
        return descend(f, linear_layers(terms, step_size, 1), start=y)
    return bounded_layer(y, f, terms, step_size)


def bounded_layer(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """LAYER with a margin: in one pass where there is one sampled negative graph, term by term otherwise."""
    links = terms.links.adjacency
    sampled = [g.adjacency for g in terms.non_links if isinstance(g.adjacency, SymmetricOperator)]
    if (
        terms.margin is None
        or not isinstance(links, SymmetricOperator)
        or len(sampled) != 1
        or len(terms.non_links) != 1
    ):
        return layer(y, f, terms, step_size)
    base = step_size * terms.anchoring * terms.anchor
    bounded = BoundedLayer(
        own=1 - base - step_size * terms.attraction * terms.links.diagonal,
        base=base,
        pull=step_size * terms.attraction,
        links=links,
        diagonal=terms.non_links[0].diagonal,
        non_links=sampled[0],
        bound=terms.margin * terms.num_links,
    )
    return bounded_step(y, f, step_size * terms.repulsion[0], bounded)


def linear_layers(terms: EnergyTerms, step_size: float, num_steps: int) -> LinearLayers:
    """C1, C2, c3 and the c4 of so many layers without a margin, and the matrices they go with."""
    pushes = step_size * terms.repulsion / max(1, len(terms.non_links))
    pushes = pushes if terms.non_links else pushes.detach()  # nothing to learn, nothing to keep for it
    base = step_size * terms.anchoring * terms.anchor
    own = 1 - base - step_size * terms.attraction * terms.links.diagonal
    for push, graph in zip(pushes, terms.non_links, strict=True):
        own = own + push * graph.diagonal
    graphs = tuple(graph.adjacency for graph in terms.non_links)
    pull = pushes.new_tensor([step_size * terms.attraction])
    return LinearLayers(own, base, torch.cat([pull, -pushes]), (terms.links.adjacency, *graphs), num_steps)


def safe_step_size(terms: EnergyTerms) -> float:
    """1 / (λ0 max_i 1/(D + D⁻)_ii + 2λ): without a margin, the energy falls at every layer."""
    steepest = terms.anchoring * float(terms.anchor.max()) + 2 * terms.attraction
    return 1.0 / steepest if steepest > 0 else 1.0


@torch.no_grad()
def backtracked_step_size(y: Tensor, f: Tensor, terms: EnergyTerms, start: float) -> float:
    """The largest of start, start/2, start/4, … under which the energy does not rise (for a finite margin)."""
    before, half = energy(y, f, terms), gradient(y, f, terms)
    slope = 2 * half.square().sum()
    step = start
    for _ in range(60):
        # Armijo's rule, a hundredth of the promised fall; the tolerance is the rounding of a long sum
        if energy(y - step * half, f, terms) <= before - 0.01 * step * slope + 1e-6 * before.abs():
            return step
        step /= 2
    return 0.0
