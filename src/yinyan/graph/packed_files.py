"""Compressed files: whether they are whole, and how much they may unpack to."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from yinyan.errors import InputError

__all__ = ["SAMPLE_BYTES", "UNPACK_VARIABLE", "blocks_of", "check_unpacked_size", "is_gzip", "unpack_limit", "unpacked"]

UNPACK_VARIABLE = "YINYAN_UNPACK_GB"
SAMPLE_BYTES = 1 << 20  # of a block: what is looked at to find out how to read a file
_ALWAYS = 1 << 30  # bytes that every file may unpack to
_RATIO = 100  # times its size that a larger one may: tables of numbers shrink to a tenth, bombs to a thousandth


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed with gzip, by its content."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpack_limit(packed: int) -> int:
    """Bytes that a file of so many may unpack to."""
    named = os.environ.get(UNPACK_VARIABLE)
    if named is None:
        return max(_ALWAYS, _RATIO * packed)
    try:
        limit = float(named)
    except ValueError:
        limit = -1.0
    if not limit > 0:
        raise InputError(f"{UNPACK_VARIABLE} needs to be a number of gigabytes (got {named!r}): correct or unset it")
    return int(min(limit, 1e9) * 1e9)


def check_unpacked_size(path: Path, packed: int, size: int) -> None:
    """Refuse what unpacks to more than its size explains."""
    limit = unpack_limit(packed)
    if size > limit:
        raise InputError(
            f"'{path}' has {packed / 1e6:,.1f} MB and unpacks to more than {limit / 1e9:,.1f} GB: if that is right, "
            f"unpack it yourself, or allow more by the variable {UNPACK_VARIABLE} (in GB)"
        )


def blocks_of(path: Path) -> Iterator[bytes]:
    """The content of a file, plain or compressed with gzip; one that is damaged, or far too large, is refused."""
    if not is_gzip(path):
        with path.open("rb") as file:
            yield from iter(lambda: file.read(SAMPLE_BYTES), b"")
        return
    packed, size = path.stat().st_size, 0
    try:
        with gzip.open(path, "rb") as file:
            for block in iter(lambda: file.read(SAMPLE_BYTES), b""):
                size += len(block)
                check_unpacked_size(path, packed, size)
                yield block
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path.name} cannot be unpacked ({error}): is the download complete?") from error


def unpacked(path: Path) -> bytes:
    """The whole content of a file, plain or compressed."""
    return b"".join(blocks_of(path))
