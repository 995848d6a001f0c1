"""The links of a graph as they might be if none were missing: a completion of low rank."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.messages import MessageGraph
from yinyan.propagation import inverse_or_zero
from yinyan.spectra import leading_pairs, padded, random_basis

__all__ = ["LARGEST", "bytes_for", "completed_factors"]

LARGEST = 30_000  # nodes: all pairs are held at once
_ROUNDS = 12  # of believing and approximating: the beliefs hardly move afterwards
_FIRST_POWERS = 8  # of the power iteration in the first round; one in each of the others, which start where it ended
_MORE = 32  # vectors beyond those asked for, which make it converge
_BLOCK = 1024  # rows whose beliefs are computed at a time


@torch.no_grad()
def completed_factors(
    messages: MessageGraph, size: int, *, missing: float, shrinkage: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(n, size) rows y and (size,) signs σ; Σ_k σ_k y_ik y_jk is how far i and j are believed to be linked.

    Of a link nothing is doubted. What is none is a missing link with probability m s / (1 - (1 - m) s), by Bayes, if
    pairs like it are linked with probability s and a share m (`missing`) of all links was not seen. These beliefs B
    are approximated by S = D^½ V σ (|λ| - `shrinkage`)₊ Vᵀ D^½, with λ and V of D^-½ B D^-½ and D the degrees of B:
    the proximal step of a squared error with a nuclear norm (Mazumder et al., JMLR 2010). S then is the s of the next
    beliefs. Links count alike; those within a side of a bipartite graph cannot be missing.
    """
    n = messages.num_nodes
    if n > LARGEST:
        raise SettingsError(
            f"encoder.table_start: 'completed' holds all pairs of nodes at once, for {LARGEST:,} nodes at most "
            f"(this graph has {n:,}; use 'spectral')"
        )
    beliefs = messages.weights.new_zeros(n, n)
    basis = random_basis(messages, size + _MORE, generator)
    rows = values = basis.new_empty(0)
    for number in range(_ROUNDS):
        if number:
            _believe(beliefs, rows, values.sign(), missing, messages.known.num_left)
        beliefs[messages.pairs[:, 0], messages.pairs[:, 1]] = 1
        beliefs[messages.pairs[:, 1], messages.pairs[:, 0]] = 1
        degrees = beliefs.sum(1, keepdim=True)
        scale = inverse_or_zero(degrees).sqrt()
        product = functools.partial(_scaled_product, beliefs, scale)
        values, vectors, basis = leading_pairs(product, basis, size, 1 if number else _FIRST_POWERS)
        values = values.sign() * (values.abs() - shrinkage).clamp(min=0)
        rows = degrees.sqrt() * vectors * values.abs().sqrt()
    return padded(rows, size), padded(values.sign(), size)


def bytes_for(num_nodes: int, size: int) -> int:
    """Bytes at the peak in float32: all pairs, a block of them twice, and a basis with its products."""
    return 4 * num_nodes * (num_nodes + 2 * _BLOCK + 5 * (size + _MORE))


def _scaled_product(beliefs: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    return scale * (beliefs @ (scale * y))


def _believe(beliefs: Tensor, rows: Tensor, signs: Tensor, missing: float, num_left: int | None) -> None:
    """How likely every pair, linked or not, is a missing link; a node's place on the diagonal holds its own score."""
    others = (rows * signs).T
    for place in range(0, beliefs.shape[0], _BLOCK):
        block = beliefs[place : place + _BLOCK]
        likely = torch.mm(rows[place : place + _BLOCK], others, out=block).clamp_(0, 1)
        own = likely.diagonal(place).clone()
        likely.div_((1 - (1 - missing) * likely).clamp_(min=1e-6)).mul_(missing)
        likely.diagonal(place).copy_(own)
    if num_left is not None:
        beliefs[:num_left, :num_left] = 0
        beliefs[num_left:, num_left:] = 0
