"""The links of a graph as they might be if none were missing: a completion of low rank."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.messages import MessageGraph
from yinyan.propagation import inverse_or_zero

__all__ = ["LARGEST", "completed_factors"]

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
    start = torch.randn(n, min(n, size + _MORE), generator=generator, device=generator.device, dtype=beliefs.dtype)
    basis, rows, values = torch.linalg.qr(start.to(beliefs.device)).Q, start.new_empty(0), start.new_empty(0)
    for number in range(_ROUNDS):
        if number:
            _believe(beliefs, rows, values.sign(), missing, messages.known.num_left)
        beliefs[messages.pairs[:, 0], messages.pairs[:, 1]] = 1
        beliefs[messages.pairs[:, 1], messages.pairs[:, 0]] = 1
        degrees = beliefs.sum(1, keepdim=True)
        scale = inverse_or_zero(degrees).sqrt()
        for _ in range(1 if number else _FIRST_POWERS):
            basis = torch.linalg.qr(scale * (beliefs @ (scale * basis))).Q
        values, turned = torch.linalg.eigh(basis.T @ (scale * (beliefs @ (scale * basis))))
        order = values.abs().argsort(descending=True)[:size]
        values = values[order].sign() * (values[order].abs() - shrinkage).clamp(min=0)
        rows = degrees.sqrt() * (basis @ turned[:, order]) * values.abs().sqrt()
    found, signs = rows.new_zeros(n, size), values.new_zeros(size)
    found[:, : values.numel()], signs[: values.numel()] = rows, values.sign()
    return found, signs


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
