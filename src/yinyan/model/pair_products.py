"""Element-wise products of the two embeddings of each pair, and their gradient, without copies of the rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from yinyan.native import graph_kernels

__all__ = ["ends", "pair_products"]


def ends(y: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of both ends of (..., 2) pairs.

    By `index_select`: the backward pass of y[pairs] adds with atomics on several threads, so that its sums, and with
    them a whole run, would differ from one time to the next.
    """
    rows = y.index_select(0, pairs.reshape(-1)).view(*pairs.shape, y.shape[1])
    return rows[..., 0, :], rows[..., 1, :]


def pair_products(y: Tensor, size: int, pairs: Tensor) -> Tensor:
    """(..., size) y_i ⊙ y_j of (..., 2) pairs, over the first `size` columns of (n, row) rows.

    The compiled kernel reads both rows in place, where copies of them and of their gradients would take twice the time.
    """
    on_cpu = y.device.type == pairs.device.type == "cpu" and y.dtype == torch.float32
    if on_cpu and y.is_contiguous() and y.shape[0] and graph_kernels.library() is not None:
        products: Tensor = _PairProducts.apply(y, size, pairs.reshape(-1, 2))
        return products.view(*pairs.shape[:-1], size)
    first, second = ends(y[:, :size], pairs)
    return first * second


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, size: int, pairs: Tensor) -> Tensor:
        ctx.save_for_backward(y, pairs)
        ctx.size = size
        return graph_kernels.multiply_pairs(y, size, pairs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:
        y, pairs = ctx.saved_tensors
        return graph_kernels.pair_gradients(y, ctx.size, pairs, slopes), None, None
