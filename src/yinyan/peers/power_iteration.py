"""Leading eigenvectors of a symmetric matrix by a block power iteration."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from yinyan.model.messages import MessageGraph

__all__ = ["leading_pairs", "padded", "random_basis"]

Product = Callable[[Tensor], Tensor]


def random_basis(messages: MessageGraph, size: int, generator: torch.Generator) -> Tensor:
    """(n, size or n) orthonormal columns to start a power iteration from."""
    n, dtype = messages.num_nodes, messages.weights.dtype
    start = torch.randn(n, min(n, size), generator=generator, device=generator.device, dtype=dtype)
    basis: Tensor = torch.linalg.qr(start.to(messages.weights.device)).Q
    return basis


def leading_pairs(product: Product, basis: Tensor, size: int, rounds: int) -> tuple[Tensor, Tensor, Tensor]:
    """At most `size` eigenvalues of a symmetric product, the largest by size first, their vectors, and the basis they
    were found in after so many rounds of the block power iteration."""
    for _ in range(rounds):
        basis = torch.linalg.qr(product(basis)).Q
    values, turned = torch.linalg.eigh(basis.T @ product(basis))
    order = values.abs().argsort(descending=True)[:size]
    return values[order], basis @ turned[:, order], basis


def padded(found: Tensor, size: int) -> Tensor:
    """`found` with zeros behind, up to `size` columns."""
    return torch.nn.functional.pad(found, (0, size - found.shape[-1]))
