"""Memory that large tensors leave is kept for the next ones, as long as a run lasts."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
from collections.abc import Iterator

__all__ = ["give_back", "give_back_beside", "held_memory"]

# glibc gives a large freed block back to the system at once, and the next tensor pays for fresh pages: often more than
# for the numbers that are written to them.
_THRESHOLD, _TRIM, _PAD = -3, -1, -2  # mallopt's names for them
_KEEP = ((_THRESHOLD, 1 << 30), (_TRIM, 2**31 - 1), (_PAD, 64 << 20))
_USUAL = ((_THRESHOLD, 128 << 10), (_TRIM, 128 << 10), (_PAD, 0))

_LARGE = 256 << 20  # bytes of a matrix beside which the time to give back small blocks does not count

_lock = threading.Lock()
_depth = 0


@contextlib.contextmanager
def held_memory() -> Iterator[None]:
    """Within, the C library keeps freed blocks; on leaving the outermost one they go back to the system.

    Elsewhere than with glibc this does nothing: other allocators keep large blocks of themselves.
    """
    global _depth
    with _lock:
        _depth += 1
        if _depth == 1:
            _apply(_KEEP)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _apply(_USUAL)
                give_back()


def give_back() -> None:
    """Return what is free now to the system: between two stages of a run that need memory of different sizes."""
    _call("malloc_trim", 0)


def give_back_beside(matrix_bytes: int) -> None:
    """The same between parts of a step, if its matrices are large.

    Such matrices come from the system and go back to it as a whole, so that what smaller tensors leave between each
    other is never filled by them, and grows from step to step.
    """
    if matrix_bytes >= _LARGE:
        give_back()


def _apply(options: tuple[tuple[int, int], ...]) -> None:
    for option in options:
        _call("mallopt", *option)


def _call(name: str, *given: int) -> None:
    library = _c_library()
    if hasattr(library, "gnu_get_libc_version"):  # musl and others have their own ways
        getattr(library, name)(*given)


@functools.cache
def _c_library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform.startswith("linux") else None
