"""Decoders with the source folded in: its scores of many targets are matrix products."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder, DotDecoder, HadamardMLP, MultiDotDecoder
from yinyan.native import retrieval_kernels
from yinyan.native.retrieval_kernels import SketchColumns
from yinyan.retrieval.screening import Bounds, Screen

__all__ = ["Scorer", "dot_queries", "mapped_sources"]

_REACHED = 256  # rows that the range of what sketches say is taken from
_BEYOND = 2.5  # times their largest value: where bytes end
_LARGEST, _LEAST_SAID = 127, 1e-3
_SHARED = 16  # numbers that a kernel takes at a time
_BLOCK_FLOATS = 1 << 19  # intermediate numbers at a time: 2 MB stay in the second cache

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


class Scorer:
    """Scores of one source against many rows of (n, row) `y`.

    For a HadamardMLP the first layer of source i is Y (W_1 diag(y_i))ᵀ: with the source folded into the weights, no
    product of embeddings is ever made. Direction maps fold into the same matrix. Hidden layers run in a compiled kernel
    on the CPU, unless several are residual and maps stand before them. A dot product is one query; with sketches the
    kernel adds their share. A multi-dot decoder is scored as the HadamardMLP that it folds into. Everything else,
    decoders that are not ours among them, is called as it is, by blocks.

    `is_canonical` says that a pair's score is the same to the last bit whatever else is scored with it; otherwise
    `canonical` gives scores that are, by double precision.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder.folded() if isinstance(decoder, MultiDotDecoder) else decoder

    def is_canonical(self, y: Tensor) -> bool:
        """Whether `scores` gives the same bits for a pair whatever else it scores."""
        return type(self.decoder) in (HadamardMLP, DotDecoder) and _suits_kernel(self.decoder, y)

    def is_compiled(self, y: Tensor) -> bool:
        """Whether kernels read these rows."""
        return _suits_dots(y)

    @torch.no_grad()
    def scores(
        self, y: Tensor, own: Tensor, rows: Rows | None = None, first: int = 0, last: int | None = None
    ) -> Scores:
        """Scores of `rows` of y, or of its rows from `first` to `last`, for the source whose row is `own`."""
        count = (y.shape[0] if last is None else last) - first if rows is None else rows.size
        if self.is_canonical(y):
            return self._kernel.of_source(y, self._to_fold(own[None]), own.contiguous(), rows, first, count)
        return self._by_blocks(self._score_of(own), y, rows, first, count)

    def can_be_screened(self, y: Tensor) -> bool:
        """Whether bounds of its scores (see `screening`) are known, and cheaper than the scores."""
        if not self.is_canonical(y) or self._is_query():
            return False
        return not self._kernel.is_deep and retrieval_kernels.screens_quickly()

    @torch.no_grad()
    def bounds(self, screen: Screen, y: Tensor, own: Tensor) -> list[Bounds]:
        """Upper bounds of the scores of the screen's rows, which are y's, for the sources whose rows are `own`."""
        sketches = None if self.decoder.structure is None else self._sketch_columns(y, own)
        return screen.bounds_by(self._kernel, self._weights(own), sketches)

    def _sketch_columns(self, y: Tensor, own: Tensor) -> list[SketchColumns]:
        """What sketches say of each source's pairs: a byte reaches as far as they do for a sample of the rows."""
        structure, size = self.decoder.structure, self.decoder.size
        sample = y[:: max(1, y.shape[0] // _REACHED), size:]
        made: list[SketchColumns] = []
        for row in own:
            said = structure.layers[0](structure.estimates(row[size:], sample)).amax(0)  # type: ignore[union-attr]
            inverse = _LARGEST / (_BEYOND * said.abs().clamp_(min=_LEAST_SAID))
            made.append(SketchColumns(self._kernel, y, row.contiguous(), _wide(inverse - 1) + 1))
        return made

    def _is_plain_dot(self) -> bool:
        return type(self.decoder) is DotDecoder and self.decoder.structure is None

    def canonical(self, y: Tensor, own: Tensor, rows: Rows) -> Scores:
        """Scores of `rows` that do not depend on what else is scored: equal pairs have equal scores."""
        single: Scores = self.candidates(y, own[None], np.ascontiguousarray(rows)[None])[0]
        return single

    @functools.cached_property
    def precise(self) -> Decoder:
        """The decoder in double precision, whose scores no longer tell who was scored with them once rounded."""
        device = next(self.decoder.parameters()).device
        made = copy.deepcopy(self.decoder).requires_grad_(False)
        return made if device.type == "mps" else made.double()  # which has no double precision

    # -- compiled ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def candidates(self, y: Tensor, own: Tensor, rows: Rows) -> Scores:
        """(sources, count) canonical scores of so many rows of y each, for sources of rows `own`; -1 scores -inf."""
        if self.is_canonical(y):
            return self._kernel.of_candidates(y, self._to_fold(own), own.contiguous(), rows)
        if self._is_plain_dot() and _suits_dots(y):
            return retrieval_kernels.dot_candidates(y, dot_queries(self.decoder, own), float(self.decoder.bias), rows)  # type: ignore[arg-type]
        out, kind = np.full(rows.shape, -np.inf, dtype=np.float32), next(self.precise.parameters()).dtype
        block = max(1, _BLOCK_FLOATS // max(1, rows.shape[1] * max(y.shape[1], _width(self.decoder))))
        for first in range(0, len(rows), block):
            part = rows[first : first + block]
            there = torch.from_numpy(np.maximum(part, 0)).to(y.device)
            mine, theirs = own[first : first + block, None].to(kind), y[there].to(kind)
            scores = self.precise(mine, theirs).float().cpu().numpy()
            out[first : first + block] = np.where(part >= 0, scores, -np.inf)
        return out

    @torch.no_grad()
    def mean_gradients(self, y: Tensor, own: Tensor, rows: Rows) -> Tensor:
        """(sources, columns) means of the score's gradients at so many rows of y each, which `own` are the sources of.

        A source's does not depend on who else is asked for.
        """
        return self._kernel.mean_gradients(y, self._to_fold(own), own.contiguous(), np.ascontiguousarray(rows))

    def _to_fold(self, own: Tensor) -> Tensor:
        """What the kernel folds into its first layer, or the layer itself where maps stand before it."""
        if self._is_query():
            return self._query(own).contiguous()
        return self._weights(own) if self._kernel.first is None else own[:, : self.decoder.size].contiguous()

    def _is_query(self) -> bool:
        """Whether the embeddings' part of the score is one inner product."""
        return not (isinstance(self.decoder, HadamardMLP) and self.decoder.hidden)

    def _query(self, own: Tensor) -> Tensor:
        """(sources, d) vectors whose products with embeddings are that part."""
        if isinstance(self.decoder, DotDecoder):
            return dot_queries(self.decoder, own)
        queries = mapped_sources(self.decoder, own) * self._mlp.output.weight
        if self.decoder.target_map is not None:
            queries = (queries.double() @ self.decoder.target_map.double().t()).to(queries)
        return queries

    def _weights(self, own: Tensor) -> Tensor:
        """(sources, ·) the first layer W diag(y_i S) Tᵀ of each source in the kernel's panels; then a residual's."""
        own = mapped_sources(self.decoder, own)
        parts = [self._panels * own[:, None, :, None]]
        if self._kernel.residual:  # what the output makes of it, or the products themselves for the layers between
            scale = 1.0 if self._kernel.is_deep else self._mlp.output.weight
            parts.append((scale * own)[:, None, :, None])
        if self.decoder.target_map is not None:
            parts = [(self.decoder.target_map.double() @ part.double()).float() for part in parts]
        return parts[0].flatten(1) if len(parts) == 1 else torch.cat([part.flatten(1) for part in parts], dim=1)

    @functools.cached_property
    def _panels(self) -> Tensor:
        return retrieval_kernels.panels(self._mlp.hidden[0].weight.detach())  # type: ignore[operator]

    @property
    def _mlp(self) -> HadamardMLP:
        """The decoder, where the kernel serves it."""
        return cast(HadamardMLP, self.decoder)

    @functools.cached_property
    def _kernel(self) -> retrieval_kernels.FoldedDecoder:
        if self._is_query():
            return self._kernel_of_query
        decoder, structure = self._mlp, self.decoder.structure
        first, *linears = (layer for layer in decoder.hidden if isinstance(layer, torch.nn.Linear))
        later = [
            torch.cat([retrieval_kernels.panels(x.weight.detach()).flatten(), _filled(x.bias).flatten()])
            for x in linears
        ]
        layer_norms = [norm for norm in decoder.norms if isinstance(norm, torch.nn.LayerNorm)]
        norms = [torch.stack([_filled(norm.weight), _filled(norm.bias)]) for norm in layer_norms]
        made = retrieval_kernels.FoldedDecoder(
            size=decoder.size,
            bias=_filled(first.bias if structure is None else first.bias + structure.layers[2].bias),  # type: ignore[operator]
            output=_filled(decoder.output.weight[0]),
            output_bias=float(decoder.output.bias.detach()),
            hidden_size=decoder.output.weight.numel(),
            residual=_adds_products(decoder),
            later=torch.stack(later) if later else None,
            norms=torch.stack(norms) if norms else None,
            epsilon=layer_norms[0].eps if norms else 0.0,
            adds=decoder.settings.residual,
            first=self._panels if decoder.target_map is None else None,
        )
        if structure is None:
            return made
        mixed = retrieval_kernels.panels(_wide(structure.layers[2].weight.detach()))  # type: ignore[operator]
        said, said_bias = self._said
        return made._replace(sketch_size=structure.size, mixed=mixed, said=said, said_bias=said_bias)

    @functools.cached_property
    def _kernel_of_query(self) -> retrieval_kernels.FoldedDecoder:
        """Of a score that is one inner product and what sketches add to it."""
        structure, none = self.decoder.structure, torch.empty(0, 1)
        bias = float((self.decoder.bias if isinstance(self.decoder, DotDecoder) else self._mlp.output.bias).detach())
        made = retrieval_kernels.FoldedDecoder(
            size=self.decoder.size, bias=none, output=none, output_bias=bias, hidden_size=0,
            residual=True,
        )  # fmt: skip
        if structure is None:
            return made
        last: torch.nn.Linear = structure.layers[2]  # type: ignore[assignment]
        said, said_bias = self._said
        return made._replace(
            output_bias=bias + float(last.bias.detach()), sketch_size=structure.size, said=said, said_bias=said_bias,
            direct=_wide(last.weight.detach())[0],
        )  # fmt: skip

    @property
    def _said(self) -> tuple[Tensor, Tensor]:
        """(6, shared) weights and (shared,) bias: how estimates of sketches become what they say."""
        layer = self.decoder.structure.layers[0]  # type: ignore[union-attr]
        weight, bias = layer.weight.detach().t(), layer.bias.detach()  # type: ignore[operator]
        return _wide(weight), _wide(bias)

    # -- torch ---------------------------------------------------------------------------------------------

    def _score_of(self, own: Tensor) -> Callable[[Tensor], Tensor]:
        """Scores of a block of rows, for one source."""
        decoder = self.decoder
        if not isinstance(decoder, DotDecoder) or not self._is_plain_dot():
            return lambda block: decoder(own, block)
        query, bias = dot_queries(decoder, own[None])[0], decoder.bias
        return lambda block: (block @ query).add_(bias)

    def _by_blocks(
        self, score: Callable[[Tensor], Tensor], y: Tensor, rows: Rows | None, first: int, count: int
    ) -> Scores:
        out = np.empty(count, dtype=np.float32)
        block = max(64, _BLOCK_FLOATS // max(y.shape[1], _width(self.decoder)))
        for begin in range(0, count, block):
            end = min(begin + block, count)
            some = slice(first + begin, first + end) if rows is None else torch.from_numpy(rows[begin:end]).to(y.device)
            out[begin:end] = score(y[some]).float().cpu().numpy()
        return out


def dot_queries(decoder: DotDecoder, own: Tensor) -> Tensor:
    """(sources, d) vectors whose products with embeddings are scores, but for the bias."""
    queries = decoder.scaled(mapped_sources(decoder, own))
    if decoder.target_map is not None:
        queries = (queries.double() @ decoder.target_map.double().t()).to(queries)
    return queries


def mapped_sources(decoder: Decoder, own: Tensor) -> Tensor:
    """(sources, d) embeddings after the source's map; by double precision, so that they do not tell their company."""
    own = own[:, : decoder.size]
    return own if decoder.source_map is None else (own.double() @ decoder.source_map.double()).to(own)


def _wide(values: Tensor) -> Tensor:
    """With zeros after the last column, so that the kernel's panels find whole ones."""
    return torch.nn.functional.pad(values, (0, -values.shape[-1] % _SHARED)).contiguous()


def _filled(values: Tensor) -> Tensor:
    """(hidden,) as (panels, width), filled up with zeros."""
    return retrieval_kernels.panels(values.detach()[:, None]).squeeze(1)


def _adds_products(decoder: HadamardMLP) -> bool:
    """Whether the first hidden layer adds to the product of the embeddings."""
    return decoder.settings.residual and decoder.output.weight.numel() == decoder.size


def _width(decoder: Decoder) -> int:
    return max((p.shape[0] for p in decoder.parameters() if p.ndim == 2), default=1)


def _suits_dots(y: Tensor) -> bool:
    return (
        y.device.type == "cpu"
        and y.dtype == torch.float32
        and y.stride(1) == 1
        and retrieval_kernels.library() is not None
    )


def _suits_kernel(decoder: Decoder, y: Tensor) -> bool:
    if not _suits_dots(y) or next(decoder.parameters()).dtype != torch.float32:
        return False
    if not isinstance(decoder, HadamardMLP) or not decoder.hidden:
        return decoder.structure is not None  # a query alone is a matrix product
    between = len(decoder.hidden) > 1 or decoder.settings.norm  # layers that read the products, not only the output
    unfolded = between and decoder.target_map is not None and _adds_products(decoder)
    return not unfolded
