"""Exact top-k without scoring everything exactly: bounds in bytes say who can be among the best.

A HadamardMLP of one hidden layer with the source folded in is s(y) = Σ_h o_h ReLU(w_h · y + b_h). Let D q be a row y
rounded to bytes, column by column, and ŵ the weights w D rounded so, unit by unit. The score of the rounded row by
rounded weights costs a third of s(y), and differs from it by

    Σ_h m_h o_h (w_h · (y - D q) + r_h · q),    r_h = w_h D - s_h ŵ_h,  0 <= m_h <= 1,

for ReLU is monotone and no steeper than 1. With m = 1/2 + m'/2, |m'_h| <= 1, that is at most B(w D) |y / D - q| +
B(r) |q|, where B(M) = |Mᵀ o| / 2 + σ(T M) |o / t| / 2 for any positive t, σ the largest singular value: a bound of a
row is a score and two products. A residual c · y is added as c D · q, and its error joins the linear part: |Mᵀ o| / 2
becomes |Mᵀ o / 2 + c D|. What sketches say of a pair, g = ReLU(S e + b) of its estimates e, enters the hidden layer as
y does: it is computed as for a score, rounded to bytes of its own scale, and stands in the formulas as further columns
of y and q, so that their errors are known and not estimated.

Only rows whose bound reaches the k-th best score are scored, so that the answer is
the same, to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from yinyan.model.inference import is_finite
from yinyan.native import retrieval_kernels
from yinyan.native.retrieval_kernels import FoldedDecoder, RoundedDecoder, RoundedRows, SketchColumns

__all__ = ["Bounds", "Screen"]

Bounds = Callable[[int, int], retrieval_kernels.Scores]  # of one source's scores, for the rows from one to another

_LARGEST = 127
_TINY = torch.finfo(torch.float32).tiny
_ROWS = 65_536  # rounded at a time
_MARGIN = 1.001  # for rounding in the bounds themselves
_ROUNDING = 1e-4  # of the sums in single precision, as a share of what they could be at most: more than they err by


class Screen:
    """Rows in bytes, and bounds of the scores that a folded decoder gives them."""

    def __init__(self, scale: Tensor, rows: RoundedRows, longest: float) -> None:
        self._scale = scale  # (columns,) D
        self._rows = rows
        self._longest = longest  # |y / D| of any row, at most

    @classmethod
    @torch.no_grad()
    def of(cls, y: Tensor, size: int) -> Screen | None:
        """Of the first `size` columns of (n, ·) rows; None where they hold something that is not finite."""
        if not is_finite(y):
            return None
        n, columns = y.shape[0], -(-size // 4) * 4
        scale = torch.ones(columns)
        scale[:size] = torch.stack([part[:, :size].abs().amax(0) for part in y.split(_ROWS)]).amax(0) / _LARGEST
        scale.clamp_(min=_TINY)
        codes = torch.zeros(n, columns, dtype=torch.int8)
        starts = torch.empty(n, dtype=torch.int32)
        errors, norms = torch.empty(n), torch.empty(n)
        for first in range(0, n, _ROWS):
            part = slice(first, min(first + _ROWS, n))
            scaled = y[part, :size] / scale[:size]
            rounded = scaled.round().clamp_(-_LARGEST, _LARGEST)
            codes[part, :size] = rounded.to(torch.int8)
            starts[part] = (rounded.sum(1) * -128).to(torch.int32)
            norms[part] = rounded.norm(dim=1)
            errors[part] = scaled.sub_(rounded).norm(dim=1)
        longest = float((errors + norms).max()) if n else 0.0
        return cls(scale, RoundedRows(codes, starts, errors, norms), longest)

    @staticmethod
    def bytes_for(num_rows: int, size: int) -> int:
        """Bytes that a screen of so many rows will hold: a byte a number, and three numbers of four."""
        return num_rows * (-(-size // 4) * 4 + 12)

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return sum(part.numel() * part.element_size() for part in self._rows)

    def bounds_by(
        self, decoder: FoldedDecoder, weights: Tensor, sketches: list[SketchColumns] | None = None
    ) -> list[Bounds]:
        """For each of the sources whose (sources, panels · size · width) folded weights, and residual's, are given."""
        panels, width = decoder.bias.shape
        size, more = decoder.size, self._scale.numel() - decoder.size
        first, rest = weights.split([panels * size * width, weights.shape[1] - panels * size * width], dim=1)
        folded = first.view(-1, panels, size, width).transpose(2, 3).flatten(1, 2)
        matrix = torch.nn.functional.pad(folded, (0, more)) * self._scale
        straight = torch.nn.functional.pad(rest, (0, more)) * self._scale if decoder.residual else None
        if sketches is not None and decoder.mixed is not None:
            scale = torch.stack([each.inverse for each in sketches]).reciprocal()
            said = decoder.mixed.transpose(1, 2).flatten(0, 1) * scale[:, None]
            matrix = torch.cat([matrix, said], dim=2)
        output = decoder.output.flatten()
        scales = matrix.abs().amax(2, keepdim=True).div_(_LARGEST).clamp_(min=_TINY)
        rounded = (matrix / scales).round_()
        per_error, per_norm = _steepness(matrix, output, straight), _steepness(matrix - rounded * scales, output)
        lengths = matrix.flatten(1).double().norm(dim=1)
        at_most = output.double().norm() * (lengths * self._longest + decoder.bias.double().norm())
        if straight is not None:
            at_most += straight.double().norm(dim=1) * self._longest
        if sketches is not None:  # what they say has no largest length: its rounding counts with each row
            per_error, per_norm = (m + _ROUNDING * output.double().norm() * lengths for m in (per_error, per_norm))
        constants = decoder.output_bias + _ROUNDING * (at_most + abs(decoder.output_bias))
        weights = retrieval_kernels.in_bytes(rounded.to(torch.int8))
        return [
            functools.partial(
                RoundedDecoder(
                    weights[at],
                    scales[at],
                    decoder.bias,
                    decoder.output,
                    constant,
                    error,
                    norm,
                    None if straight is None else straight[at].contiguous(),
                    None if sketches is None else sketches[at],
                ).bounds,
                self._rows,
            )
            for at, (constant, error, norm) in enumerate(
                zip(constants.tolist(), per_error.tolist(), per_norm.tolist(), strict=True)
            )
        ]


def _steepness(matrix: Tensor, output: Tensor, residual: Tensor | None = None) -> Tensor:
    """(sources,) B(M): how much a vector of length one can change a score, whichever hidden units are active.

    t = sqrt(|o|) was the better choice for trained decoders. The largest singular value is bounded by all together:
    σ⁸ is at most tr((M Mᵀ)⁴).
    """
    weighed = output.abs().sqrt()
    size = matrix.abs().amax((1, 2)).clamp_(min=_TINY)
    matrix = matrix / size[:, None, None]  # so that no power leaves the range of single precision
    scaled = matrix * (weighed / weighed.max().clamp(min=_TINY))[:, None]
    gram = scaled @ scaled.mT if matrix.shape[1] < matrix.shape[2] else scaled.mT @ scaled
    largest = (gram @ gram).flatten(1).norm(dim=1).sqrt().sqrt() * weighed.max()
    linear = (output @ matrix).double()
    if residual is not None:
        linear[:, : residual.shape[1]] += 2 * residual.double() / size[:, None].double()
    straight = linear.norm(dim=1)
    bound: Tensor = 0.5 * _MARGIN * size.double() * (straight + largest * weighed.double().norm())
    return bound
