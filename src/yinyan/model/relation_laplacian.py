"""Σ_r λ_r L̃_r: the Laplacians of several relations as one, whose weights and diagonal maps can be learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from yinyan.model.energy import Laplacian
from yinyan.model.operators import SymmetricOperator, row_dots

__all__ = ["RelationLaplacian"]


@dataclass(frozen=True)
class RelationLaplacian(Laplacian):
    """tr((Y M_r)ᵀ L̃_r (Y M_r)) weighted by λ_r and summed; all L̃_r = D^-1/2 (D_r - A_r) D^-1/2 share D.

    `diagonal` is Σ_r λ_r D_r / D, and `adjacency` Σ_r λ_r Ã_r with the λ_r as constants: one matrix for all relations
    where every M_r is the identity.
    """

    parts: tuple[SymmetricOperator, ...] = ()  # Ã_r
    weights: Tensor | None = None  # (R,) λ_r
    shares: Tensor | None = None  # (R, n) D_r / D, where they are needed
    maps: Tensor | None = None  # (R, d) the diagonals of the M_r; None if all are the identity

    @property
    def largest(self) -> float:
        """max_i Σ_r λ_r max(M_r²) D_r,ii / D_ii: half a bound of the largest eigenvalue."""
        if self.maps is None or self.shares is None or self.weights is None:
            return float(self.diagonal.detach().max()) if self.diagonal.numel() else 0.0
        strongest = self.weights * self.maps.square().amax(1)
        return float((strongest[:, None] * self.shares).sum(0).detach().max())

    @property
    def merged(self) -> Laplacian:
        """The same as one constant matrix."""
        if self.maps is not None:
            raise ValueError("relations with maps of their own are no single matrix")
        return Laplacian(self.diagonal.detach(), self.adjacency)

    def product(self, y: Tensor) -> Tensor:
        """Σ_r λ_r L̃_r Y M_r², differentiable in Y, the λ_r and the M_r."""
        if self.maps is None and not self._learns:
            return super().product(y)
        total = torch.zeros_like(y)
        for scale, part, share in self._each():
            total = total + scale * (share[:, None] * y - part.product(y))
        return total

    def trace(self, y: Tensor) -> Tensor:
        """Σ_r λ_r tr((Y M_r)ᵀ L̃_r (Y M_r))."""
        if self.maps is None and not self._learns:
            return super().trace(y)
        total = y.new_zeros(())
        for scale, part, share in self._each():
            scaled = y * scale
            total = total + (share * row_dots(scaled, y)).sum() - row_dots(scaled, part.product(y)).sum()
        return total

    @property
    def _learns(self) -> bool:
        return torch.is_grad_enabled() and self.weights is not None and self.weights.requires_grad

    def _each(self) -> list[tuple[Tensor, SymmetricOperator, Tensor]]:
        """λ_r M_r², Ã_r and D_r / D of each relation."""
        if self.weights is None or self.shares is None:
            raise ValueError("the shares of the degrees are not known: ask the message graph for its terms in parts")
        scales = self.weights[:, None] if self.maps is None else self.weights[:, None] * self.maps.square()
        return list(zip(scales, self.parts, self.shares, strict=True))
