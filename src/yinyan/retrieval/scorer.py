"""Decoders with the source folded in: its scores of many targets are matrix products."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from yinyan.model.decoder import Decoder, DistanceDecoder, DotDecoder, HadamardMLP
from yinyan.model.sketches import NUM_ESTIMATES
from yinyan.native import retrieval_kernels
from yinyan.retrieval.screening import Bounds, Screen

__all__ = ["Scorer", "dot_queries", "mapped_sources"]

_BLOCK_FLOATS = 1 << 19  # intermediate numbers at a time: 2 MB stay in the second cache

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


class Scorer:
    """Scores of one source against many rows of (n, row) `y`.

    For a HadamardMLP the first layer of source i is Y (W_1 diag(y_i))ᵀ: with the source folded into the weights, no
    product of embeddings is ever made. Direction maps fold into the same matrix, and each estimate from the sketches is
    one column of a product with the target's sketches. Hidden layers run in a compiled kernel on the CPU, unless
    several are residual and maps stand before them; everything else by blocks in torch. Decoders that are not ours are
    called as they are.

    `is_canonical` says that a pair's score is the same to the last bit whatever else is scored with it; otherwise
    `canonical` gives scores that are, by double precision.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self._plan = _fold_for(decoder)

    def is_canonical(self, y: Tensor) -> bool:
        """Whether `scores` gives the same bits for a pair whatever else it scores."""
        return self._plan is _fold_mlp and _suits_kernel(self.decoder, y)

    @torch.no_grad()
    def scores(
        self, y: Tensor, own: Tensor, rows: Rows | None = None, first: int = 0, last: int | None = None
    ) -> Scores:
        """Scores of `rows` of y, or of its rows from `first` to `last`, for the source whose row is `own`."""
        count = (y.shape[0] if last is None else last) - first if rows is None else rows.size
        if self.is_canonical(y):
            return self._kernel.of_source(y, self._weights(own[None]), own.contiguous(), rows, first, count)
        return self._by_blocks(self._plan(self.decoder, own), y, rows, first, count)

    def can_be_screened(self, y: Tensor) -> bool:
        """Whether bounds of its scores (see `screening`) are known, and cheaper than the scores."""
        if not self.is_canonical(y) or self.decoder.structure is not None:
            return False
        return not self._kernel.residual and not self._kernel.is_deep and retrieval_kernels.screens_quickly()

    @torch.no_grad()
    def bounds(self, screen: Screen, own: Tensor) -> list[Bounds]:
        """Upper bounds of the scores of the screen's rows, for each of the sources whose rows are `own`."""
        return screen.bounds_by(self._kernel, self._weights(own))

    def _is_plain_dot(self, y: Tensor) -> bool:
        return self._plan is _fold_dot and self.decoder.structure is None and _suits_dots(y)

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
            return self._kernel.of_candidates(y, self._weights(own), own.contiguous(), rows)
        if self._is_plain_dot(y):
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

    def _weights(self, own: Tensor) -> Tensor:
        """(sources, ·) the first layer W diag(y_i S) Tᵀ of each source in the kernel's panels; then a residual's."""
        own = mapped_sources(self.decoder, own)
        parts = [self._panels * own[:, None, :, None]]
        if self._kernel.residual:  # what the output makes of it, or the products themselves for the layers between
            scale = 1.0 if self._kernel.is_deep else _output(self.decoder).weight
            parts.append((scale * own)[:, None, :, None])
        if self.decoder.target_map is not None:
            parts = [(self.decoder.target_map.double() @ part.double()).float() for part in parts]
        return parts[0].flatten(1) if len(parts) == 1 else torch.cat([part.flatten(1) for part in parts], dim=1)

    @functools.cached_property
    def _panels(self) -> Tensor:
        return retrieval_kernels.panels(_hidden(self.decoder).weight.detach())

    @functools.cached_property
    def _kernel(self) -> retrieval_kernels.FoldedDecoder:
        decoder, structure = self.decoder, self.decoder.structure
        bias, output = _hidden(decoder).bias.detach(), _output(decoder).weight.detach()[0]
        if structure is None:
            return _kernel_of(decoder, bias, output)
        first, last = structure.layers[0], structure.layers[2]
        return _kernel_of(decoder, bias + last.bias.detach(), output)._replace(  # type: ignore[operator]
            sketch_size=structure.size,
            mixed=retrieval_kernels.panels(last.weight.detach()),  # type: ignore[operator]
            said=first.weight.detach().t().contiguous(),  # type: ignore[operator]
            said_bias=first.bias.detach().contiguous(),  # type: ignore[operator]
        )

    # -- torch ---------------------------------------------------------------------------------------------

    def _by_blocks(
        self, score: Callable[[Tensor], Tensor], y: Tensor, rows: Rows | None, first: int, count: int
    ) -> Scores:
        out = np.empty(count, dtype=np.float32)
        block = max(64, _BLOCK_FLOATS // max(y.shape[1], _width(self.decoder)))
        for begin in range(0, count, block):
            size = min(block, count - begin)
            part = None if rows is None else rows[begin : begin + size]
            out[begin : begin + size] = score(_taken(y, part, first + begin, size)).float().cpu().numpy()
        return out


Fold = Callable[[Decoder, Tensor], Callable[[Tensor], Tensor]]


def _fold_for(decoder: Decoder) -> Fold:
    for kind, fold in ((HadamardMLP, _fold_mlp), (DotDecoder, _fold_dot), (DistanceDecoder, _fold_distance)):
        if type(decoder) is kind:
            return fold
    return _unfolded


def _unfolded(decoder: Decoder, own: Tensor) -> Callable[[Tensor], Tensor]:
    """A decoder that we do not know from within."""
    return lambda block: decoder(own, block)


def _fold_mlp(decoder: Decoder, own: Tensor) -> Callable[[Tensor], Tensor]:
    if not isinstance(decoder, HadamardMLP):
        raise TypeError(f"{type(decoder).__name__} is no HadamardMLP")
    mlp = decoder
    layers = [*mlp.hidden, mlp.output]
    matrix = _folded(mlp, layers[0].weight, own).t().contiguous()
    mapped = own[: mlp.size] if mlp.source_map is None else own[: mlp.size] @ mlp.source_map

    def score(block: Tensor) -> Tensor:
        z = torch.addmm(layers[0].bias, block[:, : mlp.size], matrix)
        if mlp.structure is not None:
            z += mlp.structure.layers(_estimates(mlp, own, block[:, mlp.size :]))
        if not mlp.hidden:
            return z.squeeze(-1)
        x = F.relu_(mlp.norms[0](z))
        if mlp.settings.residual and x.shape[1] == mlp.size:
            targets = block[:, : mlp.size] if mlp.target_map is None else block[:, : mlp.size] @ mlp.target_map
            x = x.addcmul_(targets, mapped)
        for linear, norm in zip(mlp.hidden[1:], mlp.norms[1:], strict=True):
            step = F.relu_(norm(linear(x)))
            x = step.add_(x) if mlp.settings.residual else step
        logits: Tensor = mlp.output(x)
        return logits.squeeze(-1)

    return score


def _fold_dot(decoder: Decoder, own: Tensor) -> Callable[[Tensor], Tensor]:
    if not isinstance(decoder, DotDecoder):
        raise TypeError(f"{type(decoder).__name__} is no DotDecoder")
    query = dot_queries(decoder, own[None])[0]
    return lambda block: _joined(decoder, own, block, (block[:, : decoder.size] @ query).add_(decoder.bias))


def dot_queries(decoder: Decoder, own: Tensor) -> Tensor:
    """(sources, d) vectors whose products with embeddings are scores, but for the bias."""
    queries = mapped_sources(decoder, own)
    if decoder.target_map is not None:
        queries = (queries.double() @ decoder.target_map.double().t()).to(queries)
    return queries * decoder.log_scale.exp()  # type: ignore[operator]


def mapped_sources(decoder: Decoder, own: Tensor) -> Tensor:
    """(sources, d) embeddings after the source's map; by double precision, so that they do not tell their company."""
    own = own[:, : decoder.size]
    return own if decoder.source_map is None else (own.double() @ decoder.source_map.double()).to(own)


def _fold_distance(decoder: Decoder, own: Tensor) -> Callable[[Tensor], Tensor]:
    """Differences, not the expanded square, which would lose digits where the distance is small."""
    if not isinstance(decoder, DistanceDecoder):
        raise TypeError(f"{type(decoder).__name__} is no DistanceDecoder")
    centre = own[: decoder.size] if decoder.source_map is None else own[: decoder.size] @ decoder.source_map
    scale = decoder.log_scale.exp()

    def score(block: Tensor) -> Tensor:
        targets = block[:, : decoder.size]
        apart = (targets if decoder.target_map is None else targets @ decoder.target_map) - centre
        return _joined(decoder, own, block, decoder.bias - apart.square_().sum(1) * scale)

    return score


def _joined(decoder: Decoder, own: Tensor, block: Tensor, logits: Tensor) -> Tensor:
    if decoder.structure is None:
        return logits
    return logits.add_(decoder.structure.layers(_estimates(decoder, own, block[:, decoder.size :])).squeeze(-1))


def _hidden(decoder: Decoder) -> torch.nn.Linear:
    """The first layer of a HadamardMLP."""
    return decoder.hidden[0]  # type: ignore[return-value, index]


def _output(decoder: Decoder) -> torch.nn.Linear:
    return decoder.output  # type: ignore[return-value]


def _kernel_of(decoder: Decoder, bias: Tensor, output: Tensor) -> retrieval_kernels.FoldedDecoder:
    if not isinstance(decoder, HadamardMLP):
        raise TypeError(f"{type(decoder).__name__} is no HadamardMLP")
    linears = [layer for layer in decoder.hidden[1:] if isinstance(layer, torch.nn.Linear)]
    later = [
        torch.cat([retrieval_kernels.panels(x.weight.detach()).flatten(), _filled(x.bias).flatten()]) for x in linears
    ]
    layer_norms = [norm for norm in decoder.norms if isinstance(norm, torch.nn.LayerNorm)]
    norms = [torch.stack([_filled(norm.weight), _filled(norm.bias)]) for norm in layer_norms]
    return retrieval_kernels.FoldedDecoder(
        size=decoder.size,
        bias=_filled(bias),
        output=_filled(output),
        output_bias=float(_output(decoder).bias.detach()),
        hidden_size=output.numel(),
        residual=_adds_products(decoder),
        later=torch.stack(later) if later else None,
        norms=torch.stack(norms) if norms else None,
        epsilon=layer_norms[0].eps if norms else 0.0,
        adds=decoder.settings.residual,
    )


def _filled(values: Tensor) -> Tensor:
    """(hidden,) as (panels, width), filled up with zeros."""
    return retrieval_kernels.panels(values.detach()[:, None]).squeeze(1)


def _adds_products(decoder: HadamardMLP) -> bool:
    """Whether the first hidden layer adds to the product of the embeddings."""
    return decoder.settings.residual and decoder.output.weight.numel() == decoder.size


def _folded(decoder: Decoder, weight: Tensor, own: Tensor) -> Tensor:
    """(h, d) W diag(y_i S) Tᵀ: times y_j it is W ((y_i S) ⊙ (y_j T))."""
    own = own[: decoder.size]
    if decoder.source_map is None or decoder.target_map is None:
        return weight * own
    return (weight * (own @ decoder.source_map)) @ decoder.target_map.t()


def _estimates(decoder: Decoder, own: Tensor, sketches: Tensor) -> Tensor:
    """(B, 6) what the source's sketches and the targets' say of each pair: `SharedStructure.estimates` as a product."""
    if decoder.structure is None:
        raise TypeError("these rows hold no sketches")
    size = decoder.structure.size
    near, scarce, far, degree = own[decoder.size :].split([size, size, size, 1])
    columns = own.new_zeros(3 * size, NUM_ESTIMATES - 2)
    columns[:size, 0], columns[size : 2 * size, 1] = near, scarce
    columns[:size, 2], columns[2 * size :, 2], columns[2 * size :, 3] = far, near, far
    found = own.new_empty(sketches.shape[0], NUM_ESTIMATES)
    counts = sketches[:, : 3 * size] @ columns
    torch.mul(counts.sign(), counts.abs().log1p_(), out=found[:, :4])
    found[:, 4], found[:, 5] = sketches[:, -1] + degree, sketches[:, -1] * degree
    return found


def _taken(y: Tensor, rows: Rows | None, first: int, count: int) -> Tensor:
    return y[first : first + count] if rows is None else y[torch.from_numpy(rows).to(y.device)]


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
    if not isinstance(decoder, HadamardMLP) or not decoder.hidden or not _suits_dots(y):
        return False
    between = len(decoder.hidden) > 1 or decoder.settings.norm  # layers that read the products, not only the output
    unfolded = between and decoder.target_map is not None and _adds_products(decoder)
    return decoder.output.weight.dtype == torch.float32 and not unfolded
