"""Learned embeddings that start where the links are: at factors of the message graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from yinyan.decoder import Decoder, HadamardMLP
from yinyan.encoder import BaseModel
from yinyan.messages import MessageGraph

__all__ = ["leading_eigenvectors", "leading_pairs", "padded", "random_basis", "start_from_factors"]

_ROUNDS = 12  # of the power iteration: what is learned afterwards forgives the last digits
_MORE = 16  # vectors beyond those asked for, which make it converge

Product = Callable[[Tensor], Tensor]


@torch.no_grad()
def leading_eigenvectors(messages: MessageGraph, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(n, size) eigenvectors of A of the largest eigenvalues by size, and these; zeros where there are no more.

    By a block power iteration, which needs products with A alone. Links count by their weight.
    """
    weights = messages.weights if messages.weighted else None
    links = messages.structure.scaled(weights, messages.weights.new_ones(messages.num_nodes))
    basis = random_basis(messages, size + _MORE, generator)
    values, vectors, _ = leading_pairs(links.product, basis, size, _ROUNDS)
    return padded(vectors, size), padded(values, size)


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


@torch.no_grad()
def start_from_factors(base: BaseModel, decoder: Decoder, rows: Tensor, signs: Tensor) -> None:
    """Let the learned table hold (n, size) factors of the links with their (size,) signs.

    Where f keeps the table as it is and the decoder is one layer, a pair's score without descent steps then is its
    entry in that approximation: a factor's sign is its column's weight.
    """
    table, weight = base.table, base.table_weight
    if table is None or weight is None:
        raise ValueError("there is no table to start from")
    table.copy_(rows)
    if weight.shape[1] == weight.shape[2] and not base.rest:
        weight.copy_(torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device).expand_as(weight))
        if isinstance(decoder, HadamardMLP) and not decoder.hidden:
            decoder.output.weight.copy_(signs[None])
            decoder.output.bias.zero_()
