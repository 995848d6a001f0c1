"""Learned embeddings that start where the links are: at factors of the message graph."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.completion import completed_factors
from yinyan.decoder import Decoder, HadamardMLP
from yinyan.encoder import BaseModel
from yinyan.messages import MessageGraph
from yinyan.settings import EncoderSettings

__all__ = ["leading_eigenvectors", "start_from_factors"]

_ROUNDS = 12  # of the power iteration: what is learned afterwards forgives the last digits
_MORE = 16  # vectors beyond those asked for, which make it converge


@torch.no_grad()
def leading_eigenvectors(messages: MessageGraph, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(n, size) eigenvectors of A of the largest eigenvalues by size, and these; zeros where there are no more.

    By a block power iteration, which needs products with A alone. Links count by their weight.
    """
    n, dtype = messages.num_nodes, messages.weights.dtype
    weights = messages.weights if messages.weighted else None
    links = messages.structure.scaled(weights, torch.ones(n, dtype=dtype, device=messages.weights.device))
    start = torch.randn(n, min(n, size + _MORE), generator=generator, device=generator.device, dtype=dtype)
    basis = torch.linalg.qr(start.to(messages.weights.device)).Q
    for _ in range(_ROUNDS):
        basis = torch.linalg.qr(links.product(basis)).Q
    values, turned = torch.linalg.eigh(basis.T @ links.product(basis))
    order = values.abs().argsort(descending=True)[:size]
    vectors, found = basis.new_zeros(n, size), values.new_zeros(size)
    vectors[:, : order.numel()] = basis @ turned[:, order]
    found[: order.numel()] = values[order]
    return vectors, found


@torch.no_grad()
def start_from_factors(
    base: BaseModel, decoder: Decoder, messages: MessageGraph, settings: EncoderSettings, generator: torch.Generator
) -> None:
    """Let the learned table hold factors of the links: eigenvectors of A times the roots of their eigenvalues
    ('spectral'), or those of the links' completion ('completed').

    Where f keeps the table as it is and the decoder is one layer, a pair's score without descent steps then is its
    entry in that approximation: a factor's sign is its column's weight.
    """
    table, weight = base.table, base.table_weight
    if table is None or weight is None:
        raise ValueError("there is no table to start from")
    size = table.shape[1]
    if settings.table_start == "completed":
        rows, signs = completed_factors(
            messages, size, missing=settings.table_missing, shrinkage=settings.table_shrinkage, generator=generator
        )
    else:
        vectors, values = leading_eigenvectors(messages, size, generator)
        rows, signs = vectors * values.abs().sqrt(), values.sign()
    table.copy_(rows)
    if weight.shape[1] == weight.shape[2] and not base.rest:
        weight.copy_(torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device).expand_as(weight))
        if isinstance(decoder, HadamardMLP) and not decoder.hidden:
            decoder.output.weight.copy_(signs[None])
            decoder.output.bias.zero_()
