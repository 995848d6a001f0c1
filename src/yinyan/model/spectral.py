"""The leading eigenvectors of the normalised adjacency matrix, as a start of learned embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import Halo
from yinyan.settings import EncoderSettings

__all__ = ["leading_eigenvectors", "set_table", "spectral_rows", "spectral_width", "start_spectrally"]

_BEYOND = 16  # columns more than asked for: they take up what has not converged
_ROUNDS = 4  # of orthonormalisation; later ones change next to nothing of what training starts from
_POWERS = 3  # of the shifted matrix per round
_LEAST = 0.25  # of what the layers leave of a direction: no direction is enlarged by more than 1 / _LEAST per layer
_NOISE = 1e-2  # of the columns that a graph of few nodes leaves empty


@torch.no_grad()
def leading_eigenvectors(
    messages: MessageGraph, count: int, generator: torch.Generator | Tensor, order: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(n, count) orthonormal vectors and (count,) eigenvalues, largest first, of D^-1/2 A D^-1/2, approximately.

    Subspace iteration with (I + Ã) / 2, whose largest eigenvalues are those of Ã (Halko, Martinsson and Tropp, 2011);
    a last Rayleigh-Ritz step turns the subspace into eigenvectors. Thirteen products with the matrix in all. With
    `order` (n,) the node that is drawn for in row order[i] stands in row i, so that the order changes nothing. In the
    place of a generator the start itself may be given, (n, spectral_width(nodes, count)) normal numbers.
    """
    matrix, halo = messages.adjacency(self_loops=False)[0], messages.halo
    if isinstance(generator, Tensor):
        start = generator
    else:
        width = spectral_width(messages.num_nodes, count)
        start = torch.randn(messages.num_nodes, width, generator=generator, device=generator.device)
    width = start.shape[1]
    q = _orthonormal((start if order is None else start[order.to(start.device)]).to(messages.pairs.device), halo)
    for _ in range(_ROUNDS):
        for _ in range(_POWERS):
            q = matrix.product(q).add_(q).mul_(0.5)
        q = _orthonormal(q, halo)
    values, turn = _eigen(_inner(q, matrix.product(q), halo))
    last = slice(max(0, width - count), None)
    return q @ turn[:, last].flip(1).to(q), values[last].flip(0).to(q)


def spectral_width(num_nodes: int, count: int) -> int:
    """Columns of the iteration that finds `count` vectors."""
    return min(num_nodes, count + _BEYOND)


@torch.no_grad()
def start_spectrally(
    encoder: Encoder, messages: MessageGraph, generator: torch.Generator | Tensor, order: Tensor | None = None
) -> None:
    """Set the table so that the layers turn it into eigenvectors, each weighted by the root of its eigenvalue.

    The layers shrink an eigenvector by about (1 - α λ (1 - eigenvalue))^T; the table holds it enlarged by the inverse.
    """
    base, settings = encoder.base, encoder.settings
    if base.table is None or base.table_weight is None:
        raise ValueError("a spectral start needs learned embeddings")
    rows = spectral_rows(settings, base.table.shape[1], messages, generator, order)
    set_table(base.table, base.table_weight, rows)


@torch.no_grad()
def spectral_rows(
    settings: EncoderSettings,
    size: int,
    messages: MessageGraph,
    generator: torch.Generator | Tensor,
    order: Tensor | None = None,
) -> Tensor:
    """(n, up to size) rows of the tables: eigenvectors, enlarged by what the layers will shrink them."""
    vectors, values = leading_eigenvectors(messages, size, generator, order)
    step = 1.0 if settings.step_size == "safe" else settings.step_size
    kept = (1 - step * settings.attraction * (1 - values)).abs().clamp(min=_LEAST)
    weights = values.clamp(min=0).sqrt() / kept**settings.num_steps
    rows = vectors * weights
    length = _mean(rows.square().sum(1), messages.halo).sqrt().clamp(min=torch.finfo(rows.dtype).tiny)
    return rows / length


@torch.no_grad()
def set_table(table: Tensor, weights: Tensor, rows: Tensor) -> None:
    """Put rows into a table of as many nodes; the columns that they do not fill keep a little noise."""
    table.mul_(_NOISE)
    table[:, : rows.shape[1]] = rows
    for block in weights:
        block.copy_(torch.eye(*block.shape, device=block.device))


def _inner(x: Tensor, y: Tensor, halo: Halo | None) -> Tensor:
    """xᵀ y over the rows of all processes."""
    return x.T @ y if halo is None else halo.summed(x.T @ y)


def _mean(x: Tensor, halo: Halo | None) -> Tensor:
    """Of the rows of all processes."""
    if halo is None:
        return x.mean()
    total, count = halo.summed(torch.stack([x.sum(), x.new_tensor(float(x.numel()))]))
    mean: Tensor = total / count
    return mean


def _orthonormal(x: Tensor, halo: Halo | None) -> Tensor:
    """Columns of the same span; by the Gram matrix, which costs one product of a tall matrix."""
    values, vectors = _eigen(_inner(x, x, halo))
    floor = 1e-10 * float(values[-1].clamp(min=1e-30))  # directions that float32 cannot tell from others
    inverse = torch.where(values > floor, values.clamp(min=floor).rsqrt(), torch.zeros_like(values))
    return x @ (vectors * inverse).to(x)


def _eigen(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, smallest first, and eigenvectors of a small symmetric matrix, in double precision on the CPU."""
    x = x.cpu().double()
    values, vectors = torch.linalg.eigh((x + x.T) / 2)
    return values, vectors
