"""Work cut into ranges of rows, and the threads that share them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

__all__ = ["equal_parts", "row_ranges", "run_all", "run_ranges", "split_evenly"]

_WORK = 1 << 19  # multiplications worth a thread's while
_RANGES = 64  # at most, so that threads that finish early find more to do


def row_ranges(num_rows: int, indptrs: Sequence[Tensor], width: int, first: int = 0) -> list[tuple[int, int]]:
    """Ranges of rows with about as much work each; how many depends on the work alone, not on the threads."""
    last = first + num_rows
    entries = sum(int(p[last]) - int(p[first]) for p in indptrs) + num_rows
    count = int(min(_RANGES, max(1, entries * width // _WORK), max(1, num_rows)))
    if count == 1:
        return [(first, last)]
    work = torch.arange(num_rows + 1)
    for indptr in indptrs:
        work += indptr[first : last + 1] - indptr[first]
    bounds = (torch.searchsorted(work, torch.arange(1, count) * entries // count) + first).tolist()
    return list(zip([first, *bounds], [*bounds, last], strict=True))


def equal_parts(count: int, work: int) -> list[tuple[int, int]]:
    """Ranges of equal length, for `work` operations an entry."""
    return split_evenly(count, min(_RANGES, max(1, work * count // _WORK)))


def split_evenly(count: int, parts: int) -> list[tuple[int, int]]:
    """So many ranges of equal length, or one shorter."""
    bounds = [count * part // parts for part in range(parts + 1)]
    return list(zip(bounds, bounds[1:], strict=False))


def run_all(tasks: list[Callable[[], Any]]) -> list[Any]:
    """What all tasks return, by as many threads as torch uses; the kernels let go of the interpreter."""
    threads = min(torch.get_num_threads(), len(tasks))
    if threads <= 1:
        return [task() for task in tasks]
    return [done.result() for done in [_pool(threads, os.getpid()).submit(task) for task in tasks]]


def run_ranges(
    function: Callable[..., Any], given: tuple[Any, ...], ranges: Sequence[tuple[int, int]], out: int | Sequence[int]
) -> list[Any]:
    """function(*given, begin, end, out) of all ranges; `out` is an address for all of them, or one for each."""
    outs = [out] * len(ranges) if isinstance(out, int) else out
    parts = zip(ranges, outs, strict=True)
    return run_all([functools.partial(function, *given, begin, end, place) for (begin, end), place in parts])


@functools.lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process (a fork has none of its parent's)."""
    return ThreadPoolExecutor(threads, thread_name_prefix="yinyan")
