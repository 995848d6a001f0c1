"""The links of a graph as they might be if none were missing: completed at low rank, and smoothed by kernels."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.messages import MessageGraph
from yinyan.propagation import inverse_or_zero
from yinyan.spectra import leading_pairs, padded, random_basis

__all__ = ["LARGEST", "LARGEST_SMOOTHED", "bytes_for", "completed_factors", "smoothed_factors"]

LARGEST = 30_000  # nodes: all pairs are held at once
LARGEST_SMOOTHED = 10_000  # nodes: all eigenvectors of a kernel take minutes there, and the cube of it beyond
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
    rows, signs, _ = _completed(messages, size, missing, shrinkage, generator)
    return padded(rows, size), padded(signs, size)


@torch.no_grad()
def smoothed_factors(
    messages: MessageGraph, size: int, *, missing: float, shrinkage: float, ridge: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(n, size) rows and (size,) signs as of `completed_factors`, smoothed over pairs of nodes with like links.

    The completed links leave beliefs B. With k a Gaussian kernel of the nodes' rows of B D^-½, as wide as their mean
    distance, F = argmin ‖F - B‖² + `ridge` ‖F‖², the second norm that of functions of pairs under the kernel
    k(i, i') k(j, j'): kernel ridge regression on both sides (Pahikkala et al., Machine Learning 93, 2013), which
    eigenvectors of k solve at once. What is returned are the leading factors of F.
    """
    n = messages.num_nodes
    if n > LARGEST_SMOOTHED:
        raise SettingsError(
            f"encoder.table_start: 'smoothed' needs all eigenvectors of a kernel, for {LARGEST_SMOOTHED:,} nodes at "
            f"most (this graph has {n:,}; use 'completed')"
        )
    rows, signs, beliefs = _completed(messages, size, missing, shrinkage, generator)
    _believe(beliefs, rows, signs, missing, messages)
    scale = inverse_or_zero(beliefs.sum(1)).sqrt()
    distances = torch.cdist(beliefs * scale, beliefs * scale).square_()
    mean = distances.mean()
    if mean == 0:  # all nodes are alike, as where there are no links
        return padded(rows, size), padded(signs, size)
    values, vectors = torch.linalg.eigh(distances.div_(-mean).exp_())
    values = values.clamp_(min=0)
    weights = torch.outer(values, values)
    fitted = (vectors.T @ beliefs @ vectors).mul_(weights).div_(weights + ridge)
    fitted = vectors @ fitted @ vectors.T
    fitted = (fitted + fitted.T) / 2
    basis = random_basis(messages, size + _MORE, generator)
    values, vectors, _ = leading_pairs(functools.partial(torch.mm, fitted), basis, size, _FIRST_POWERS)
    return padded(vectors * values.abs().sqrt(), size), padded(values.sign(), size)


def bytes_for(num_nodes: int, size: int, *, smoothed: bool = False) -> int:
    """Bytes at the peak in float32: all pairs, a block of them twice, and a basis with its products; smoothed, all
    pairs six times over (beliefs, kernel, eigenvectors and the workspace of finding them, products)."""
    if smoothed:
        return 4 * num_nodes * (6 * num_nodes + 2 * size)
    return 4 * num_nodes * (num_nodes + 2 * _BLOCK + 5 * (size + _MORE))


def _completed(
    messages: MessageGraph, size: int, missing: float, shrinkage: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """At most `size` columns of rows, their signs, and the (n, n) beliefs that they approximate."""
    n = messages.num_nodes
    if n > LARGEST:
        raise SettingsError(
            f"encoder.table_start: 'completed' holds all pairs of nodes at once, for {LARGEST:,} nodes at most "
            f"(this graph has {n:,}; use 'spectral')"
        )
    beliefs = messages.weights.new_zeros(n, n)
    _believe_links(beliefs, messages)
    basis = random_basis(messages, size + _MORE, generator)
    rows = signs = basis.new_empty(0)
    for number in range(_ROUNDS):
        if number:
            _believe(beliefs, rows, signs, missing, messages)
        degrees = beliefs.sum(1, keepdim=True)
        scale = inverse_or_zero(degrees).sqrt()
        product = functools.partial(_scaled_product, beliefs, scale)
        values, vectors, basis = leading_pairs(product, basis, size, 1 if number else _FIRST_POWERS)
        signs = values.sign()
        rows = degrees.sqrt() * vectors * (values.abs() - shrinkage).clamp(min=0).sqrt()
    return rows, signs, beliefs


def _scaled_product(beliefs: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    return scale * (beliefs @ (scale * y))


def _believe(beliefs: Tensor, rows: Tensor, signs: Tensor, missing: float, messages: MessageGraph) -> None:
    """1 for links, for others how likely they are missing ones; a node's place on the diagonal holds its own score."""
    others, num_left = (rows * signs).T, messages.known.num_left
    for place in range(0, beliefs.shape[0], _BLOCK):
        block = beliefs[place : place + _BLOCK]
        likely = torch.mm(rows[place : place + _BLOCK], others, out=block).clamp_(0, 1)
        own = likely.diagonal(place).clone()
        likely.div_((1 - (1 - missing) * likely).clamp_(min=1e-6)).mul_(missing)
        likely.diagonal(place).copy_(own)
    if num_left is not None:
        beliefs[:num_left, :num_left] = 0
        beliefs[num_left:, num_left:] = 0
    _believe_links(beliefs, messages)


def _believe_links(beliefs: Tensor, messages: MessageGraph) -> None:
    beliefs[messages.pairs[:, 0], messages.pairs[:, 1]] = 1
    beliefs[messages.pairs[:, 1], messages.pairs[:, 0]] = 1
