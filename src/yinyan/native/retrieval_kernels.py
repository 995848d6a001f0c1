"""Compiled retrieval: a decoder with the source folded in, and lists of quantised rows."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.native.compiling import NoKernelsError
from yinyan.native.loading import load_kernels, switched_off
from yinyan.native.ranges import run_all, run_ranges, split_evenly

__all__ = [
    "GROUP",
    "Collector",
    "FoldedDecoder",
    "RoundedDecoder",
    "RoundedRows",
    "SketchColumns",
    "dot_candidates",
    "in_bytes",
    "keep_best",
    "library",
    "panels",
    "scan_lists",
    "screens_quickly",
    "select_above",
]

GROUP = 16  # rows of a list that stand together
_SOURCE = Path(__file__).with_name("retrieval_kernels.cpp")
_WORK = 1 << 20  # multiplications worth a thread's while
_COLLECTED = 32  # sources of a block that are worth a thread's while
_PARTS = 64  # at most, so that threads that finish early find more to do

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


class _Decoder(ctypes.Structure):
    _fields_ = (
        ("y", ctypes.c_void_p), ("stride", ctypes.c_int64), ("size", ctypes.c_int64), ("panels", ctypes.c_int64),
        ("shared", ctypes.c_int64), ("sketch_size", ctypes.c_int64), ("bias", ctypes.c_void_p),
        ("output", ctypes.c_void_p), ("first", ctypes.c_void_p), ("mixed", ctypes.c_void_p),
        ("direct", ctypes.c_void_p), ("said", ctypes.c_void_p), ("said_bias", ctypes.c_void_p),
        ("output_bias", ctypes.c_float), ("residual", ctypes.c_int32), ("width", ctypes.c_int64),
        ("num_later", ctypes.c_int64), ("later", ctypes.c_void_p),
        ("norms", ctypes.c_void_p), ("epsilon", ctypes.c_float), ("adds", ctypes.c_int32),
    )  # fmt: skip


class _Lists(ctypes.Structure):
    _fields_ = (
        ("codes", ctypes.c_void_p), ("rows", ctypes.c_void_p), ("starts", ctypes.c_void_p),
        ("is_stale", ctypes.c_void_p), ("columns", ctypes.c_int64), ("left_out", ctypes.c_void_p),
        ("ends", ctypes.c_void_p), ("met", ctypes.c_void_p), ("num_met", ctypes.c_int64),
    )  # fmt: skip


class _Screen(ctypes.Structure):
    _fields_ = (
        ("codes", ctypes.c_void_p), ("columns", ctypes.c_int64), ("starts", ctypes.c_void_p),
        ("errors", ctypes.c_void_p), ("norms", ctypes.c_void_p), ("panels", ctypes.c_int64),
        ("bias", ctypes.c_void_p), ("scales", ctypes.c_void_p), ("output", ctypes.c_void_p),
        ("constant", ctypes.c_float), ("per_error", ctypes.c_float), ("per_norm", ctypes.c_float),
        ("residual", ctypes.c_void_p), ("decoder", ctypes.c_void_p), ("own", ctypes.c_void_p),
        ("inverse", ctypes.c_void_p),
    )  # fmt: skip


class FoldedDecoder(NamedTuple):
    """A decoder of hidden layers, in panels of hidden units; the first layer's weights come with each source.

    They come folded, or as the (size,) numbers that `first` is multiplied with. A decoder without hidden layers is a
    residual alone, whose weights are the query.
    """

    size: int
    bias: Tensor  # (panels, width)
    output: Tensor  # (panels, width)
    output_bias: float
    hidden_size: int
    residual: bool = False  # of the first layer
    later: Tensor | None = None  # (layers, ·): (panels, hidden_size, width) weights and (panels, width) bias of each
    norms: Tensor | None = None  # (1 + later layers, 2, panels, width) factors and shifts
    epsilon: float = 0.0
    adds: bool = False  # whether later layers are residual
    first: Tensor | None = None  # (panels, size, width) of the first layer, where the kernel is to fold
    sketch_size: int = 0
    mixed: Tensor | None = None  # (panels, shared, width)
    direct: Tensor | None = None  # (shared,) where there are no hidden layers
    said: Tensor | None = None  # (6, shared)
    said_bias: Tensor | None = None  # (shared,)

    def of_source(self, y: Tensor, weights: Tensor, own: Tensor, rows: Rows | None, first: int, count: int) -> Scores:
        """(count,) scores of `rows` of (n, ·) y, or of those from `first` on, by its folded weights."""
        task, out = self._task(y, 0 if rows is not None else first), np.empty(count, dtype=np.float32)
        given = (ctypes.byref(task), _at(weights), _at(own), None if rows is None else rows.ctypes.data)
        ends = _parts(count, count * self.size * max(1, self.hidden_size) // _WORK)
        run_ranges(_required().score_targets, given, ends, out.ctypes.data)
        return out

    def of_candidates(self, y: Tensor, weights: Tensor, own: Tensor, rows: Rows) -> Scores:
        """(sources, count) scores of so many rows each; -1 stands for no row, and scores -inf."""
        task, out = self._task(y, 0), np.empty(rows.shape, dtype=np.float32)
        given = (ctypes.byref(task), _at(weights), _at(own), rows.ctypes.data, rows.shape[1])
        run_ranges(_required().score_candidates, given, _parts(len(rows)), out.ctypes.data)
        return out

    def mean_gradients(self, y: Tensor, weights: Tensor, own: Tensor, rows: Rows) -> Tensor:
        """(sources, columns of y) means of the score's gradient in the target, at so many rows each; -1 is none."""
        task, out = self._task(y, 0), torch.empty(len(rows), y.shape[1])
        given = (ctypes.byref(task), _at(weights), _at(own), rows.ctypes.data, rows.shape[1], y.shape[1])
        run_ranges(_required().mean_gradients, given, _parts(len(rows)), out.data_ptr())
        return out

    def _task(self, y: Tensor, first: int) -> _Decoder:
        start = y.data_ptr() + first * y.stride(0) * y.element_size()
        return _Decoder(
            start, y.stride(0), self.size, self.bias.shape[0], 0 if self.said_bias is None else self.said_bias.numel(),
            self.sketch_size, _at(self.bias), _at(self.output), _at(self.first), _at(self.mixed), _at(self.direct),
            _at(self.said), _at(self.said_bias), self.output_bias, self.residual, self.hidden_size,
            0 if self.later is None else self.later.shape[0], _at(self.later), _at(self.norms), self.epsilon, self.adds,
        )  # fmt: skip

    @property
    def is_deep(self) -> bool:
        """Whether there is more to it than one hidden layer and ReLU."""
        return self.later is not None or self.norms is not None


class RoundedRows(NamedTuple):
    """(n, columns) rows in bytes, and what rounding took of them."""

    codes: Tensor  # (n, columns) int8, columns a multiple of 4
    starts: Tensor  # (n,) int32: -128 times the sum of the codes
    errors: Tensor  # (n,) lengths of what rounding took
    norms: Tensor  # (n,) lengths of the codes


class SketchColumns(NamedTuple):
    """What the sketches of a pair say, as further columns of its row: they are computed and rounded when needed."""

    decoder: FoldedDecoder
    y: Tensor  # (n, ·) all rows
    own: Tensor  # the source's
    inverse: Tensor  # (shared,) codes per unit


class RoundedDecoder(NamedTuple):
    """A folded decoder in bytes, and what makes its scores upper bounds."""

    weights: Tensor  # (panels, columns / 4, width, 4) uint8, 128 too large
    scales: Tensor  # panels · width, as are the next two
    bias: Tensor
    output: Tensor
    constant: float
    per_error: float
    per_norm: float
    residual: Tensor | None = None  # (columns,) by which codes are multiplied and added
    sketches: SketchColumns | None = None

    def bounds(self, rows: RoundedRows, first: int, last: int) -> Scores:
        """(last - first,) upper bounds of the scores of these rows."""
        columns, out = rows.codes.shape[1], np.empty(last - first, dtype=np.float32)
        task = _Screen(
            _at(rows.codes[first:]), columns, _at(rows.starts[first:]), _at(rows.errors[first:]),
            _at(rows.norms[first:]), self.weights.shape[0], _at(self.bias), _at(self.scales), _at(self.output),
            self.constant, self.per_error, self.per_norm, _at(self.residual),
        )  # fmt: skip
        if self.sketches is not None:
            decoder = self.sketches.decoder._task(self.sketches.y, first)
            task.decoder, task.own = ctypes.addressof(decoder), _at(self.sketches.own)
            task.inverse = _at(self.sketches.inverse)
        given = (ctypes.byref(task), _at(self.weights))
        parts = _parts(out.size, out.size * self.weights.numel() // (4 * _WORK))
        run_ranges(_required().bound_targets, given, parts, out.ctypes.data)
        return out


def scan_lists(
    codes: NDArray[np.uint8],
    rows: NDArray[np.int32],
    starts: Rows,
    is_stale: NDArray[np.bool_] | None,
    queries: NDArray[np.int8],
    cells: NDArray[np.int32],
    count: int,
    left_out: Rows,
    ends: Rows,
    met: Rows,
) -> Rows:
    """(queries, count) rows of the largest products with (queries, 2, columns) digits within (queries, ·) cells.

    In no order, and -1 where there are fewer. Query q passes over the rows left_out[ends[q] : ends[q + 1]], and over
    the q-th of (queries, ·) `met`.
    """
    columns = queries.shape[2]
    stale = None if is_stale is None else is_stale.ctypes.data
    task = _Lists(
        codes.ctypes.data, rows.ctypes.data, starts.ctypes.data, stale, columns, left_out.ctypes.data, ends.ctypes.data,
        met.ctypes.data, met.shape[1],
    )  # fmt: skip
    found = np.empty((len(queries), count), dtype=np.int64)
    given = (ctypes.byref(task), queries.ctypes.data, cells.ctypes.data, cells.shape[1], count)
    run_ranges(_required().scan_lists, given, _parts(len(queries)), found.ctypes.data)
    return found


class Collector:
    """The best rows of several sources, whose scores come block by block, and those within a tolerance of them."""

    def __init__(self, k: int, left_out: Sequence[Rows], tolerance: float, scale: float) -> None:
        built, ends = _required(), np.cumsum([0, *(out.size for out in left_out)], dtype=np.int64)
        joined = np.concatenate([*left_out, np.empty(0, np.int64)])
        given = (len(left_out), k, tolerance, scale, joined.ctypes.data, ends.ctypes.data)
        self._number, self._at = len(left_out), built.new_collector(*given)
        weakref.finalize(self, built.free_collector, self._at)

    def add(self, scores: Scores, rows: Rows) -> None:
        """(sources, count) scores of so many rows."""
        given = (self._at, scores.ctypes.data, rows.ctypes.data, rows.size)
        function = _required().collect
        run_all(
            [functools.partial(function, *given, b, e) for b, e in _parts(self._number, 2 * torch.get_num_threads())]
        )

    def rows(self) -> list[Rows]:
        """The rows of each source that may be among the best, in order.

        Raises FloatingPointError with a row whose score is not a number.
        """
        built, found = _required(), list[Rows]()
        for source in range(self._number):
            count = built.num_collected(self._at, source)
            if count < 0:
                raise FloatingPointError(-1 - count)
            found.append(np.empty(count, dtype=np.int64))
            built.collected(self._at, source, found[-1].ctypes.data)
            found[-1].sort()
        return found


def dot_candidates(y: Tensor, queries: Tensor, bias: float, rows: Rows) -> Scores:
    """(sources, count) products of a query each with so many rows of y, plus the bias; -1 scores -inf."""
    out, queries = np.empty(rows.shape, dtype=np.float32), queries.contiguous()
    given = (_at(y), y.stride(0), _at(queries), queries.shape[1], bias, rows.ctypes.data, rows.shape[1])
    run_ranges(_required().dot_candidates, given, _parts(len(rows)), out.ctypes.data)
    return out


def keep_best(rows: Rows, scores: Scores, keep: int) -> tuple[Rows, Scores]:
    """The `keep` best of (sources, count) candidates, each row once, equal scores in the order of rows.

    -1 and -inf fill up. Copies of a row need equal scores.
    """
    shape = (len(rows), keep)
    found, best = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
    given = (rows.ctypes.data, scores.ctypes.data, rows.shape[1], keep)
    parts = _parts(len(rows), len(rows) // 8)
    function = _required().keep_best
    run_all([functools.partial(function, *given, b, e, found.ctypes.data, best.ctypes.data) for b, e in parts])
    return found, best


def select_above(scores: Scores, bar: float) -> Rows:
    """Places of scores that reach a bar, and of NaN."""
    built = library()
    if built is None:
        return np.flatnonzero(~(scores < bar))
    places = np.empty(scores.size, dtype=np.int64)
    return places[: built.select_above(scores.ctypes.data, scores.size, bar, places.ctypes.data)]


def panels(weight: Tensor) -> Tensor:
    """(hidden, inputs) as (panels, inputs, width), hidden units filled up with zeros."""
    width, (hidden, inputs) = int(_required().panel_width()), weight.shape
    count = -(-hidden // width)
    filled = torch.cat([weight, weight.new_zeros(count * width - hidden, inputs)])
    return filled.view(count, width, inputs).transpose(1, 2).contiguous()


def in_bytes(weight: Tensor) -> Tensor:
    """(sources, hidden, columns) int8 as (sources, panels, columns / 4, width, 4) uint8, each 128 larger."""
    width, (sources, hidden, columns) = int(_required().panel_width()), weight.shape
    raised = weight.view(torch.uint8) ^ 128
    return raised.view(sources, hidden // width, width, columns // 4, 4).transpose(2, 3).contiguous()


def screens_quickly() -> bool:
    """Whether bounds by bytes cost less than scores."""
    built = library()
    return built is not None and bool(built.screens_quickly())


def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they are switched off (YINYAN_NATIVE=0) or there are none."""
    return None if switched_off() else _load()


@functools.cache
def _load() -> ctypes.CDLL | None:
    try:
        built = load_kernels(_SOURCE, (_Decoder, _Screen, _Lists)).library
    except NoKernelsError:  # `yinyan doctor` says why there are none; torch does the work
        return None
    long, pointer = ctypes.c_int64, ctypes.c_void_p
    built.score_targets.argtypes = (pointer, pointer, pointer, pointer, long, long, pointer)
    built.score_candidates.argtypes = (pointer, pointer, pointer, pointer, long, long, long, pointer)
    built.mean_gradients.argtypes = (pointer, pointer, pointer, pointer, long, long, long, long, pointer)
    built.dot_candidates.argtypes = (
        pointer, long, pointer, long, ctypes.c_float, pointer, long, long, long, pointer
    )  # fmt: skip
    built.scan_lists.argtypes = (pointer, pointer, pointer, long, long, long, long, pointer)
    built.keep_best.argtypes = (pointer, pointer, long, long, long, long, pointer, pointer)
    built.select_above.argtypes = (pointer, long, ctypes.c_float, pointer)
    built.select_above.restype = long
    built.bound_targets.argtypes = (pointer, pointer, long, long, pointer)
    built.new_collector.argtypes = (long, long, ctypes.c_float, ctypes.c_float, pointer, pointer)
    built.new_collector.restype = pointer
    built.free_collector.argtypes = (pointer,)
    built.collect.argtypes = (pointer, pointer, pointer, long, long, long)
    built.num_collected.argtypes = (pointer, long)
    built.num_collected.restype = long
    built.collected.argtypes = (pointer, long, pointer)
    built.screens_quickly.restype = ctypes.c_int32
    built.panel_width.restype = built.group_size.restype = ctypes.c_int32
    return built if built.group_size() == GROUP else None


def _parts(count: int, most: int | None = None) -> list[tuple[int, int]]:
    """At most so many ranges of `count`."""
    return split_evenly(count, min(_PARTS, max(1, count if most is None else most)))


def _required() -> ctypes.CDLL:
    built = library()
    if built is None:
        raise RuntimeError("there are no compiled kernels")
    return built


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
