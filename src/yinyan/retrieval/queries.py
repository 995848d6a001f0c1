"""Decoders as linear functions of a target's stored row: exactly where they are, to first order elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder, DistanceDecoder, DotDecoder, HadamardMLP, MultiDotDecoder
from yinyan.retrieval.scorer import dot_queries

__all__ = ["check_covered", "check_linear", "is_covered", "is_linear", "points_of", "queries_at"]


def is_covered(decoder: Decoder) -> bool:
    """Whether the score follows from inner products of the source with the target's row, so that it has queries.

    These are: HadamardMLP of any depth and width, with residuals and norms; dot; multi-dot; distance, whose square is
    linear in the target and its squared length. Each with or without sketches and direction maps.
    """
    return type(decoder) in (HadamardMLP, DotDecoder, MultiDotDecoder, DistanceDecoder)


def is_linear(decoder: Decoder) -> bool:
    """Whether one query says all: the decoder has no hidden layer and no sketches."""
    if decoder.structure is not None:
        return False
    if isinstance(decoder, HadamardMLP | MultiDotDecoder):
        return not decoder.hidden
    return type(decoder) in (DotDecoder, DistanceDecoder)


def check_covered(decoder: Decoder) -> None:
    """Refuse a decoder that has no queries."""
    if not is_covered(decoder):
        raise SettingsError(
            f"kind 'flashlight' covers HadamardMLP, dot, multi-dot and distance decoders, with or without sketches "
            f"(got {type(decoder).__name__}): use kind 'exact'"
        )


def check_linear(decoder: Decoder) -> None:
    """Refuse a decoder whose score is no inner product."""
    if not is_covered(decoder) or not is_linear(decoder):
        sketched = " with sketches" if decoder.structure is not None else ""
        raise SettingsError(
            f"kind 'mips' covers decoders that are one inner product: dot, distance, multi-dot with one head and a "
            f"HadamardMLP of depth 1, without sketches (got {type(decoder).__name__}{sketched}): use kind "
            f"{'flashlight' if is_covered(decoder) else 'exact'!r}"
        )


def points_of(decoder: Decoder, rows: Tensor) -> Tensor:
    """(n, columns) what queries are multiplied with: the stored rows, for distances also the squared length."""
    if not isinstance(decoder, DistanceDecoder):
        return rows
    targets = rows[:, : decoder.size]
    if decoder.target_map is not None:
        targets = targets @ decoder.target_map
    return torch.cat([rows, targets.square().sum(1, keepdim=True)], dim=1)


def queries_at(decoder: Decoder, own: Tensor, at: Tensor) -> Tensor:
    """(sources, columns) the mean over (sources, places, row) `at` of the score's gradient in the target's point.

    For a ReLU MLP this is y_i ⊙ W_1ᵀ A_1 … w_L with the activation pattern A of the place: the score is linear in y_j
    as long as the pattern stays. The sketches' part is the derivative in each estimate times the source's own block.
    With a decoder in double precision, a source's query is the same whoever else is asked for.
    """
    kind, made = next(decoder.parameters()).dtype, own.dtype
    return _mean_gradients(decoder, own.detach().to(kind), at.detach().to(kind)).to(made)


def _mean_gradients(decoder: Decoder, own: Tensor, at: Tensor) -> Tensor:
    if isinstance(decoder, DistanceDecoder):
        return _distance_queries(decoder, own, at)
    if isinstance(decoder, DotDecoder) and decoder.structure is None:
        return dot_queries(decoder, own).detach()  # the same wherever it is taken
    with torch.enable_grad():
        places = at.clone().requires_grad_()
        total = decoder(own[:, None], places).sum()
        (gradient,) = torch.autograd.grad(total, places)
    return gradient.mean(1)


def _distance_queries(decoder: DistanceDecoder, own: Tensor, at: Tensor) -> Tensor:
    """2 scale y_i S Tᵀ for the target, -scale for its squared length."""
    size, scale = decoder.size, decoder.log_scale.detach().exp()
    centre = own[:, :size]
    if decoder.source_map is not None and decoder.target_map is not None:
        centre = centre @ decoder.source_map.detach() @ decoder.target_map.detach().t()
    parts = [2 * scale * centre]
    if decoder.structure is not None:
        with torch.enable_grad():
            places = at[..., size:].clone().requires_grad_()
            total = decoder.structure(own[:, None, size:], places).sum()
            (gradient,) = torch.autograd.grad(total, places)
        parts.append(gradient.mean(1))
    return torch.cat([*parts, (-scale).expand(len(own), 1)], dim=1)
