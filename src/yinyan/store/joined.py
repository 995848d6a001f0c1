"""Bytes of several files as one array in memory; each page is read from its file when it is used."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "Stretch", "joined"]

ALIGNMENT = 1 << 16  # bytes: a multiple of the page size of every processor
_FIXED = 0x10  # MAP_FIXED of Linux and macOS, which the module mmap does not name


class Stretch(NamedTuple):
    """Bytes of an open file."""

    file: BinaryIO
    offset: int
    size: int


def joined(stretches: Sequence[Stretch], dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """One array of the bytes of all stretches. What is written to it stays in this process.

    Whole pages are mapped where a stretch begins at the same place within a page as in the array. Other bytes are read.
    The array stays valid when the files are closed or replaced.
    """
    size = sum(stretch.size for stretch in stretches)
    if size != np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError(f"{size:,} bytes are no array of {np.dtype(dtype).name} of shape {shape}")
    if not size:
        return np.empty(shape, dtype)
    region = _Region(size) if _can_map() else None
    found = np.empty(size, np.uint8) if region is None else np.asarray(region)
    begin = 0
    for stretch in stretches:
        if region is None:
            _read(stretch, found[begin : begin + stretch.size])
        else:
            region.put(stretch, begin)
        begin += stretch.size
    made: NDArray[Any] = found.view(dtype).reshape(shape)
    return made


class _Region:
    """Addresses that follow each other, each backed by a file or by memory of this process."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._whole = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ)  # unmapped with the last array of it
        self._address = int(np.frombuffer(self._whole, np.uint8).ctypes.data)
        self._page = mmap.PAGESIZE
        self._own_end = 0  # the end of the last page that is memory of this process
        self.__array_interface__ = {
            "data": (self._address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def put(self, stretch: Stretch, begin: int) -> None:
        """Let the bytes of a stretch stand at `begin`; stretches are put from the first to the last."""
        end, page = begin + stretch.size, self._page
        first, last = -(-begin // page) * page, end // page * page
        if (stretch.offset - begin) % page or first >= last:
            first = last = end
        else:
            offset = stretch.offset + first - begin
            self._map(first, last, mmap.MAP_PRIVATE, stretch.file.fileno(), offset)
        for low, high in ((begin, first), (last, end)):
            if low < high:
                self._copy(stretch._replace(offset=stretch.offset + low - begin, size=high - low), low)

    def _copy(self, stretch: Stretch, begin: int) -> None:
        end = begin + stretch.size
        low, high = max(begin // self._page * self._page, self._own_end), -(-end // self._page) * self._page
        if low < high:
            self._map(low, high, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            self._own_end = high
        target = (ctypes.c_uint8 * stretch.size).from_address(self._address + begin)
        _read(stretch, np.ctypeslib.as_array(target))

    def _map(self, low: int, high: int, flags: int, descriptor: int, offset: int) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        wanted = self._address + low
        found = _mmap()(wanted, high - low, protection, flags | _FIXED, descriptor, offset)
        if found != wanted:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _read(stretch: Stretch, into: NDArray[np.uint8]) -> None:
    stretch.file.seek(stretch.offset)
    if stretch.file.readinto(into) != stretch.size:  # type: ignore[attr-defined]
        raise ValueError("a file has become shorter while it was read")


def _can_map() -> bool:
    return sys.platform != "win32" and sys.maxsize > 1 << 32


@functools.cache
def _mmap() -> Any:
    call = ctypes.CDLL(None, use_errno=True).mmap
    number = ctypes.c_int
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_int64]
    call.restype = ctypes.c_void_p
    return call
