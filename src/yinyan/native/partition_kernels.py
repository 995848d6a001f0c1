"""Compiled partitioning of a graph into parts with few links between them."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor

from yinyan.native.compiling import NoKernelsError
from yinyan.native.loading import load_kernels, switched_off

__all__ = ["partition", "why_not"]

_SOURCE = Path(__file__).with_name("partition_kernels.cpp")


def partition(indptr: Tensor, columns: Tensor, cost: Tensor, parts: int, slack: float) -> Tensor:
    """(n,) the part of each node: no part is empty, and none costs more than `slack` times its share if that can be.

    `indptr` and `columns` are the compressed rows of a symmetric graph without self links, with 32-bit places. `cost`
    (n,) is that of each node. One thread; the answer depends on the graph alone.
    """
    (built, why), n = _loaded(), indptr.numel() - 1
    if built is None:
        raise RuntimeError(f"there is no compiled partitioning: {why}")
    if not 0 < parts <= n:
        raise ValueError(f"'parts' needs to be between 1 and the number of nodes, {n:,} (got {parts})")
    owner = torch.empty(n, dtype=torch.int32)
    costs = cost.double().contiguous()
    built.partition(
        *(rows.int().contiguous().data_ptr() for rows in (indptr, columns)),
        *(costs.data_ptr(), n, parts, slack, owner.data_ptr()),
    )
    return owner


def why_not() -> str | None:
    """Why there is no compiled partitioning; None where there is."""
    return _loaded()[1]


def _loaded() -> tuple[ctypes.CDLL | None, str | None]:
    return (None, "switched off by YINYAN_NATIVE=0") if switched_off() else _load()


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str | None]:
    try:
        built = load_kernels(_SOURCE, ()).library
    except NoKernelsError as error:
        return None, str(error)
    long, pointer = ctypes.c_int64, ctypes.c_void_p
    built.partition.argtypes = (pointer, pointer, pointer, long, long, ctypes.c_double, pointer)
    built.partition.restype = None
    return built, None
