"""Embeddings of all nodes at inference, in two buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.encoder import Encoder, NodeEncoder
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.native import graph_kernels
from yinyan.native.allocation import held_memory

__all__ = ["embed_all", "is_finite"]

_DENSE = 16  # multiplications of a dense product in the time of one over scattered rows
_BLOCK_ROWS = 16_384  # some megabytes: a small part of two buffers that would not fit otherwise


@torch.no_grad()
def embed_all(
    encoder: NodeEncoder,
    features: Tensor | SparseMatrix | None,
    messages: MessageGraph,
    *,
    negatives: torch.Generator | None,
    dtype: torch.dtype = torch.float32,
    block_rows: int = _BLOCK_ROWS,
    hold_f: bool | None = None,
) -> Tensor:
    """(n, d) embeddings as `encoder` gives them, in the memory of two n × d buffers (and of sketches, if it has any).

    Layers, normalisation and `dtype` (a half-precision one halves what is returned) are applied by blocks of rows. The
    layers read Y(t) and write Y(t+1); f is computed block by block, and again for every layer after the second, unless
    it is held (a third buffer): `hold_f` decides, and without it whether f costs more than a layer. A base model whose
    rows are not independent is held in any case. With a margin, without compiled kernels, or
    if it is an encoder of another kind, it runs as ever.
    """
    if not dtype.is_floating_point:
        raise SettingsError(f"'dtype' needs to be a floating-point type (got {dtype})")
    if block_rows < 1:
        raise SettingsError(f"'block_rows' needs to be a positive integer (got {block_rows})")
    with held_memory():
        if type(encoder) is not Encoder or not _can_stream(encoder, messages):  # others may descend otherwise
            y = encoder(features, messages, negatives=negatives)
            return y.to(dtype)  # type: ignore[no-any-return]
        run = _Run(encoder, features, messages, negatives, block_rows)
        return encoder.with_sketches(run.finished(run.descended(hold_f), dtype), messages)


def is_finite(y: Tensor, block_rows: int = _BLOCK_ROWS) -> bool:
    """Whether all entries are finite, without a mask of all of them."""
    return all(bool(block.isfinite().all()) for block in y.split(block_rows))


def _can_stream(encoder: Encoder, messages: MessageGraph) -> bool:
    like = encoder.base.a_weight
    return (
        encoder.settings.margin is None
        and like.dtype == messages.weights.dtype == torch.float32
        and graph_kernels.suits(like)
        and messages.structure.columns.dtype == torch.int32
        and messages.pairs.device.type == "cpu"
    )


class _Run:
    """One pass over a graph: what the blocks share."""

    def __init__(
        self,
        encoder: Encoder,
        features: Tensor | SparseMatrix | None,
        messages: MessageGraph,
        negatives: torch.Generator | None,
        block_rows: int,
    ) -> None:
        self.encoder, self.block_rows = encoder, block_rows
        self.features = None if encoder.base.feature_weight is None else features
        self.terms = encoder.terms(messages, negatives)
        self.size = (messages.num_nodes, encoder.settings.hidden_size)
        step = encoder.step_size(self.terms.anchor, self.terms.anchor, self.terms)  # without a margin, whatever Y is
        self.layer = Layer.of(self.terms, step)

    def descended(self, hold_f: bool | None) -> Tensor:
        """Y(T), as it is stored."""
        base, steps = self.encoder.base, self.encoder.settings.num_steps
        stored = torch.bfloat16 if self.encoder.settings.storage == "bfloat16" else torch.float32
        if base.is_row_wise:
            y = torch.empty(self.size, dtype=stored)
            for first, last in self.blocks():
                y[first:last] = self.base_rows(first, last)
        else:
            y = base(self.features, self.terms).to(stored)
        costly = _costs_more(self.encoder, self.features, self.layer) if hold_f is None else hold_f
        held = y if steps > 2 and (costly or not base.is_row_wise) else None
        out = torch.empty_like(y) if steps else y
        for step in range(steps):
            sums = self.layer.sums(y)
            for first, last in self.blocks():
                if held is None and step > 1:
                    f = self.base_rows(first, last).to(stored)
                else:  # f is Y(0): the first layer reads it, and the second writes over it
                    f = ((y, out)[step] if held is None else held)[first:last]
                self.layer.forward(y, f, out[first:last], sums, first_row=first)
                del f  # before the next block's is computed
            y, out = out, torch.empty_like(y) if y is held else y
        return y

    def finished(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """Y(T) normalised, in place where the type stays."""
        out = y if y.dtype == dtype else torch.empty(self.size, dtype=dtype)
        for first, last in self.blocks():
            out[first:last] = self.encoder.finish(y[first:last].float())
        return out

    def base_rows(self, first: int, last: int) -> Tensor:
        """Rows of f."""
        features, table = self.features, self.encoder.base.table
        if isinstance(features, SparseMatrix):
            features = _sliced(features, first, last)
        elif features is not None:
            features = features[first:last]
        return self.encoder.base.of_rows(features, None if table is None else table[first:last])

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows."""
        n = self.size[0]
        return ((first, min(first + self.block_rows, n)) for first in range(0, n, self.block_rows))


def _sliced(matrix: SparseMatrix, first: int, last: int) -> SparseMatrix:
    """Some rows, without a transpose: nothing is differentiated here."""
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[last])
    none = matrix.indptr[:0]
    return SparseMatrix(
        matrix.indptr[first : last + 1] - begin,
        matrix.columns[begin:end],
        matrix.values[begin:end],
        matrix.num_columns,
        none,
        none,
        none,
    )


def _costs_more(encoder: Encoder, features: Tensor | SparseMatrix | None, layer: Layer) -> bool:
    """Whether f takes more multiplications a column of the embeddings than a layer, dense ones at a discount."""
    base, n = encoder.base, layer.own.shape[0]
    dense = len(base.rest) * encoder.settings.hidden_size
    dense += 0 if base.table_weight is None else base.table_weight.shape[1]
    work = 0.0
    if isinstance(features, SparseMatrix):
        work += features.values.numel()
    elif base.feature_weight is not None:
        dense += base.feature_weight.shape[1]
    work += n * dense / _DENSE
    return work > sum(matrix.columns.numel() for matrix in layer.matrices) + 2 * n
