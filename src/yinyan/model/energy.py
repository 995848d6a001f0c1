"""ENERGY, its GRADIENT and, by that, the definition of LAYER: one equation per function.

Symbols: Y embeddings (n × d), f base model's output, L̃ normalised Laplacian of the links, L̃⁻_k those of the
K negative graphs, D and D⁻ degrees, λ0 anchoring, λ attraction, λ_k repulsion, γ margin, α step size.

    E(Y) = λ0 ‖(D + D⁻)^-1/2 (Y - f)‖² + λ tr(Yᵀ L̃ Y) + (1/K) Σ_k λ_k Softplus(Q_k),   Q_k = γ |E| - tr(Yᵀ L̃⁻_k Y)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.model.operators import Operator, row_dots

__all__ = [
    "EnergyTerms",
    "Laplacian",
    "backtracked_step_size",
    "energy",
    "gradient",
    "layer",
    "safe_step_size",
]

_BLOCK_ROWS = 65_536


@dataclass(frozen=True)
class Laplacian:
    """L̃ = diag(diagonal) - adjacency, the latter normalised; zero rows for nodes without an edge."""

    diagonal: Tensor  # (n, 1): D_k / D, which is 1 for a lone graph's nodes with edges
    adjacency: Operator

    @property
    def largest(self) -> float:
        """Half a bound of the largest eigenvalue."""
        return 1.0

    def product(self, y: Tensor) -> Tensor:
        """L̃ Y."""
        return self.diagonal * y - self.adjacency.product(y)

    def trace(self, y: Tensor) -> Tensor:
        """tr(Yᵀ L̃ Y)."""
        return (self.diagonal[:, 0] * row_dots(y, y)).sum() - self.adjacency.trace(y)


@dataclass(frozen=True)
class EnergyTerms:
    """Everything in E(Y) but Y and f. Sums over k are means over `negatives`, so a graph that stands for all K
    carries their factor 1/K itself."""

    links: Laplacian  # L̃
    negatives: tuple[Laplacian, ...]  # L̃⁻_k, empty for K = 0
    anchor: Tensor  # (n, 1): (D + D⁻)^-1, zero where both are
    num_links: float  # |E|
    anchoring: float  # λ0
    attraction: float  # λ
    repulsion: Tensor  # (len(negatives),): λ_k
    margin: float | None  # γ, or None for no bound: then Softplus(Q) is replaced by its slope-one part, -tr
    summed: Callable[[Tensor], Tensor] | None = None  # over the processes that hold rows of Y, if they are several


def energy(y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
    """ENERGY."""
    total = terms.anchoring * _distance(y, f, terms.anchor) + terms.attraction * terms.links.trace(y)
    for weight, graph in zip(terms.repulsion, terms.negatives, strict=True):
        spread = graph.trace(y)
        bounded = -spread if terms.margin is None else F.softplus(terms.margin * terms.num_links - spread)
        total = total + weight * bounded / len(terms.negatives)
    return total if terms.summed is None else terms.summed(total)


def _distance(y: Tensor, f: Tensor, anchor: Tensor) -> Tensor:
    """‖(D + D⁻)^-1/2 (Y - f)‖², by blocks of rows: Y - f would be as large as either."""
    parts = zip(*(x.split(_BLOCK_ROWS) for x in (y, f, anchor)), strict=True)
    return torch.stack([(scale * (some - base).square()).sum() for some, base, scale in parts]).sum()


def gradient(y: Tensor, f: Tensor, terms: EnergyTerms) -> Tensor:
    """GRADIENT: ½ ∂E/∂Y = λ0 (D + D⁻)^-1 (Y - f) + λ L̃ Y - (1/K) Σ_k λ_k σ(Q_k) L̃⁻_k Y."""
    half = terms.anchoring * terms.anchor * (y - f) + terms.attraction * terms.links.product(y)
    for weight, graph in zip(terms.repulsion, terms.negatives, strict=True):
        push = graph.product(y)
        strength = weight / len(terms.negatives)
        if terms.margin is not None:
            strength = strength * torch.sigmoid(terms.margin * terms.num_links - (y * push).sum())
        half = half - strength * push
    return half


def layer(y: Tensor, f: Tensor, terms: EnergyTerms, step_size: float) -> Tensor:
    """LAYER by its definition, Y(t+1) = Y(t) - α ½ ∂E/∂Y: what `Layer` and `one_layer` are tested against."""
    return y - step_size * gradient(y, f, terms)


def safe_step_size(terms: EnergyTerms) -> float:
    """1 / (λ0 max_i 1/(D + D⁻)_ii + 2λ): without a margin, the energy falls at every layer.

    With relations λ is max_i Σ_r λ_r D_r,ii / D_ii.
    """
    steepest = terms.anchoring * float(terms.anchor.max()) + 2 * terms.attraction * terms.links.largest
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
