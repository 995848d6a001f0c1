"""What knowledge graph embeddings ask of a vector of a relation, and how candidates are compared with the query."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.model.relation_vectors import RelationVectors

__all__ = ["DistMultVectors", "RotatEVectors", "TransEVectors"]

_LEAST = 1e-12  # of a squared distance: the gradient of its root at 0 is finite


class DistMultVectors(RelationVectors):
    """Σ h r t (Yang et al., ICLR 2015)."""

    @staticmethod
    def asked(rows: Tensor, vectors: Tensor) -> Tensor:
        """h r."""
        return rows * vectors


class _Distances(RelationVectors):
    """-‖query - candidate‖: by inner products, so that all pairs are one product of two matrices."""

    def block(self, queries: Tensor, candidates: Tensor) -> Tensor:
        """(b, c) minus the distances."""
        squares = queries.square().sum(1)[:, None] + candidates.square().sum(1)
        return -(squares - 2 * queries @ candidates.T).clamp(min=_LEAST).sqrt()

    @staticmethod
    def paired(queries: Tensor, candidates: Tensor) -> Tensor:
        """Minus the distance of each query to its own candidate."""
        return -((queries - candidates).square().sum(-1) + _LEAST).sqrt()


class TransEVectors(_Distances):
    """-‖h + r - t‖ (Bordes et al., NeurIPS 2013)."""

    @staticmethod
    def asked(rows: Tensor, vectors: Tensor) -> Tensor:
        """h + r."""
        return rows + vectors


class RotatEVectors(_Distances):
    """-‖h r - t‖ with complex numbers r of modulus 1, stored as angles (Sun et al., ICLR 2019).

    The distance is that of whole vectors. The paper adds up the moduli of single numbers, which are no product of two
    matrices.
    """

    def __init__(self, size: int, turned: Sequence[bool], rate: float = 0.0) -> None:
        if size % 2:
            raise SettingsError(f"encoder.hidden_size: complex columns need an even number (got {size})")
        super().__init__(size, turned, rate)

    def _start(self, count: int, size: int) -> Tensor:
        return nn.init.uniform_(torch.empty(count, size // 2), -torch.pi, torch.pi)

    @staticmethod
    def asked(rows: Tensor, vectors: Tensor) -> Tensor:
        """h turned by the angles."""
        (a, b), c, d = rows.chunk(2, dim=-1), vectors.cos(), vectors.sin()
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)

    def cubes(self, rows: Tensor) -> Tensor:
        """Of embeddings; angles have no size."""
        return super().cubes(rows) if rows.shape[-1] == self.size else rows.new_zeros(rows.shape[:-1])
