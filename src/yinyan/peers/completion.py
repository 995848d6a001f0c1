"""Low-rank completion of a graph: which of its missing edges are likely, as factors of all pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import inverse_or_zero

__all__ = ["Factors", "completed_and_smoothed", "completed_factors", "smoothed_factors"]

_LARGEST = 30_000  # nodes: all pairs are held at once
_LARGEST_SMOOTHED = 10_000  # nodes: all eigenvectors of a kernel take minutes there, and the cube of it beyond
_ROUNDS = 12  # of believing and approximating: the beliefs hardly move afterwards
_FIRST_POWERS = 8  # of the power iteration in the first round; one in each of the others, which start where it ended
_MORE = 32  # vectors beyond those asked for, which make it converge
_BLOCK = 1024  # rows whose beliefs are computed at a time
_FIRST_MISSING = 0.3  # share that completion takes to be missing at most: there beliefs confirm themselves
_SMOOTHINGS = 8  # rounds of predicting each pair from all others
_DECISIONS = 2  # rounds, after them, in which beliefs are made up
_SURE, _HESITATION = 0.65, 0.05  # score at which a missing link is as likely as not, and how far about it doubt reaches


class Factors(NamedTuple):
    """Rows y and signs σ of a matrix of scores Σ_k σ_k y_ik y_jk."""

    rows: Tensor  # (n, size)
    signs: Tensor  # (size,)


@torch.no_grad()
def completed_factors(
    messages: MessageGraph, size: int, *, missing: float = 0.3, shrinkage: float = 0.02, generator: torch.Generator
) -> Factors:
    """(n, size) rows y and (size,) signs σ; Σ_k σ_k y_ik y_jk is how far i and j are believed to be linked.

    Of a link nothing is doubted. What is none is a missing link with probability m s / (1 - (1 - m) s), by Bayes, if
    pairs like it are linked with probability s and a share m (`missing`) of all links was not seen. These beliefs B
    are approximated by S = D^½ V σ (|λ| - `shrinkage`)₊ Vᵀ D^½, with λ and V of D^-½ B D^-½ and D the degrees of B:
    the proximal step of a squared error with a nuclear norm (Mazumder et al., JMLR 2010). S then is the s of the next
    beliefs. Links count alike; those within a side of a bipartite graph cannot be missing.
    """
    rows, signs, _ = _completed(messages, size, missing, shrinkage, generator)
    return Factors(_padded(rows, size), _padded(signs, size))


def smoothed_factors(
    messages: MessageGraph,
    size: int,
    *,
    missing: float = 0.5,
    shrinkage: float = 0.02,
    ridge: float = 0.1,
    generator: torch.Generator,
) -> Factors:
    """(n, size) rows and (size,) signs as of `completed_factors`, of scores that nodes with like links agree on.

    Completion's beliefs B are the first. With k a Gaussian kernel of the nodes' rows of B D^-½, as wide as their mean
    distance, F = argmin ‖F - B‖² + `ridge` ‖F‖², the second norm that of functions of pairs under the kernel
    k(i, i') k(j, j'): kernel ridge regression on both sides (Pahikkala et al., Machine Learning 93, 2013), which the
    eigenvectors of k solve at once. A pair's s is what F would be had its own belief not been given, so that no belief
    confirms itself; Bayes makes it the next belief, as in completion.

    Where links went missing together, so did the evidence for them, and s settles between 0 and 1. Therefore the last
    rounds, with the kernel of the beliefs so far, decide: σ((s - .65) / .05) is believed. The factors are those of the
    s that follows, at least 1 for links.
    """
    options = {"missing": missing, "shrinkage": shrinkage, "ridge": ridge}
    return completed_and_smoothed(messages, size, **options, generator=generator)[1]


@torch.no_grad()
def completed_and_smoothed(
    messages: MessageGraph,
    size: int,
    *,
    missing: float = 0.5,
    shrinkage: float = 0.02,
    ridge: float = 0.1,
    generator: torch.Generator,
) -> tuple[Factors, Factors]:
    """The factors of `smoothed_factors`, and before them those of the completion that it starts from."""
    n = messages.num_nodes
    if n > _LARGEST_SMOOTHED:
        raise SettingsError(
            f"low-rank completion with a kernel needs all eigenvectors of it, for {_LARGEST_SMOOTHED:,} nodes at most "
            f"(this graph has {n:,}; use the method 'yinyan')"
        )
    first = min(missing, _FIRST_MISSING)
    rows, signs, beliefs = _completed(messages, size, first, shrinkage, generator)
    completed = Factors(_padded(rows, size), _padded(signs, size))
    if not messages.pairs.shape[0]:
        return completed, completed
    _believe(beliefs, rows, signs, first, messages)
    scores = _smoothed(beliefs, missing, ridge, messages)
    basis = _random_basis(messages, size + _MORE, generator)
    values, vectors, _ = _leading_pairs(functools.partial(torch.mm, scores), basis, size, _FIRST_POWERS)
    return completed, Factors(_padded(vectors * values.abs().sqrt(), size), _padded(values.sign(), size))


def _completed(
    messages: MessageGraph, size: int, missing: float, shrinkage: float, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """At most `size` columns of rows, their signs, and the (n, n) beliefs that they approximate."""
    n = messages.num_nodes
    if n > _LARGEST:
        raise SettingsError(
            f"low-rank completion holds all pairs of nodes at once, for {_LARGEST:,} nodes at most "
            f"(this graph has {n:,}; use the method 'yinyan')"
        )
    beliefs = messages.weights.new_zeros(n, n)
    _know(beliefs, messages)
    basis = _random_basis(messages, size + _MORE, generator)
    rows = signs = basis.new_empty(0)
    for number in range(_ROUNDS):
        if number:
            _believe(beliefs, rows, signs, missing, messages)
        degrees = beliefs.sum(1, keepdim=True)
        scale = inverse_or_zero(degrees).sqrt()
        product = functools.partial(_scaled_product, beliefs, scale)
        values, vectors, basis = _leading_pairs(product, basis, size, 1 if number else _FIRST_POWERS)
        sizes = (values.abs() - shrinkage).clamp(min=0)
        rows, signs = degrees.sqrt() * vectors * sizes.sqrt(), values.sign() * sizes.sign()
    return rows, signs, beliefs


def _scaled_product(beliefs: Tensor, scale: Tensor, y: Tensor) -> Tensor:
    return scale * (beliefs @ (scale * y))


def _believe(beliefs: Tensor, rows: Tensor, signs: Tensor, missing: float, messages: MessageGraph) -> None:
    """The beliefs about all pairs that follow from their scores."""
    others = (rows * signs).T
    for place in range(0, beliefs.shape[0], _BLOCK):
        block = beliefs[place : place + _BLOCK]
        _doubt(torch.mm(rows[place : place + _BLOCK], others, out=block), missing, place)
    _know(beliefs, messages)


def _doubt(block: Tensor, missing: float, place: int = 0) -> None:
    """Rows `place`… of scores become how likely non-links with them are missing links; a node's own score stays."""
    own = block.clamp_(0, 1).diagonal(place).clone()
    block.div_((1 - (1 - missing) * block).clamp_(min=1e-6)).mul_(missing)
    block.diagonal(place).copy_(own)


def _know(beliefs: Tensor, messages: MessageGraph, *, at_least: bool = False) -> None:
    """Of links, and of what cannot be one, nothing is doubted; `at_least` leaves links what they have beyond 1."""
    num_left = messages.known.num_left
    if num_left is not None:
        beliefs[:num_left, :num_left] = 0
        beliefs[num_left:, num_left:] = 0
    for first, second in (messages.pairs.T, messages.pairs.flip(1).T):
        beliefs[first, second] = beliefs[first, second].clamp(min=1) if at_least else 1.0


def _smoothed(beliefs: Tensor, missing: float, ridge: float, messages: MessageGraph) -> Tensor:
    """(n, n) scores of all pairs, each predicted from the beliefs about all others; `beliefs` is written over."""
    beliefs.fill_diagonal_(0)
    smoother = _Smoother.of(beliefs, ridge)
    for _ in range(_SMOOTHINGS):
        beliefs.copy_(smoother.without_itself(beliefs))
        _doubt(beliefs, missing)
        _know(beliefs.fill_diagonal_(0), messages)
    del smoother  # before the next is made: it is three matrices
    smoother = _Smoother.of(beliefs, ridge)
    for _ in range(_DECISIONS):
        beliefs.copy_(smoother.without_itself(beliefs))
        beliefs.sub_(_SURE).div_(_HESITATION).sigmoid_()
        _know(beliefs.fill_diagonal_(0), messages)
    scores = smoother.without_itself(beliefs)
    _know(scores, messages, at_least=True)
    return scores


@dataclass(frozen=True)
class _Smoother:
    """Kernel ridge regression of all pairs on all pairs, in the eigenvectors of the nodes' kernel."""

    vectors: Tensor
    weights: Tensor  # (n, n), of products of eigenvectors
    leverage: Tensor  # (n, n), of a pair's belief on its own fit

    @classmethod
    def of(cls, beliefs: Tensor, ridge: float) -> _Smoother:
        values, vectors = torch.linalg.eigh(_kernel(beliefs))
        weights = torch.outer(values.clamp_(min=0), values)
        weights.div_(weights + ridge)
        squares = vectors.square()
        return cls(vectors, weights, squares @ weights @ squares.T)

    def without_itself(self, beliefs: Tensor) -> Tensor:
        """(n, n): what would be fitted to each pair if all beliefs but its own were given."""
        fitted = self.vectors.T @ beliefs @ self.vectors
        fitted = self.vectors @ fitted.mul_(self.weights) @ self.vectors.T
        fitted = (fitted + fitted.T).div_(2)
        return fitted.addcmul_(self.leverage, beliefs, value=-1).div_((1 - self.leverage).clamp_(min=1e-3))


def _kernel(beliefs: Tensor) -> Tensor:
    """(n, n): Gaussian, of rows of beliefs over the roots of the columns' sums, as wide as their mean distance."""
    scaled = beliefs * inverse_or_zero(beliefs.sum(1)).sqrt()
    distances = torch.cdist(scaled, scaled).square_()
    return distances.div_(-distances.mean()).exp_()


def _random_basis(messages: MessageGraph, size: int, generator: torch.Generator) -> Tensor:
    """(n, size or n) orthonormal columns to start a power iteration from."""
    n, dtype = messages.num_nodes, messages.weights.dtype
    start = torch.randn(n, min(n, size), generator=generator, device=generator.device, dtype=dtype)
    basis: Tensor = torch.linalg.qr(start.to(messages.weights.device)).Q
    return basis


def _leading_pairs(
    product: Callable[[Tensor], Tensor], basis: Tensor, size: int, rounds: int
) -> tuple[Tensor, Tensor, Tensor]:
    """At most `size` eigenvalues of a symmetric product, the largest by size first, their vectors, and the basis they
    were found in after so many rounds of the block power iteration."""
    for _ in range(rounds):
        basis = torch.linalg.qr(product(basis)).Q
    values, turned = torch.linalg.eigh(basis.T @ product(basis))
    order = values.abs().argsort(descending=True)[:size]
    return values[order], basis @ turned[:, order], basis


def _padded(found: Tensor, size: int) -> Tensor:
    """`found` with zeros behind, up to `size` columns."""
    return F.pad(found, (0, size - found.shape[-1]))
