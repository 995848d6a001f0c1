"""The head of a change log, in a small file beside it: how many changes there were at least, and the last one's digest.

A log that has lost its newest changes, as by a damaged write-ahead file, is whole in itself; the head knows better.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from yinyan.errors import StoreError
from yinyan.files import locked, write_error

__all__ = ["Head", "head_path", "read_head", "write_head"]

_SLOT = 512  # bytes: two slots in turns, in sectors of their own, so that a torn write spoils one of them
_TEXT = "yinyan change log head\n{count}\n{digest}\n"


@dataclass(frozen=True, order=True)
class Head:
    """A number of changes, and the digest of the last of them."""

    count: int
    digest: str


def head_path(log: Path) -> Path:
    """Where the head of a log lies."""
    return log.with_name(f"{log.name}.head")


def read_head(log: Path) -> Head | None:
    """The newest head that is whole; None where no head was ever written."""
    try:
        content = head_path(log).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"the head of the change log, '{head_path(log)}', cannot be read: {error}") from error
    slots = [content[place : place + _SLOT].rstrip(b"\0") for place in (0, _SLOT)]
    found = [head for head in map(_parsed, slots) if head is not None]
    if not found and any(slots):
        raise StoreError(
            f"the head of the change log, '{head_path(log)}', is damaged, so that lost changes would not be noticed "
            "(restore a copy of it, or start with --accept-loss to go on with the changes in the log)"
        )
    return max(found, default=None)


def write_head(log: Path, head: Head, *, lower: bool = False) -> None:
    """Put a head on the disk, unless a newer one is there; `lower` replaces whatever there is."""
    path = head_path(log)
    try:
        with locked(path):
            if lower:
                path.write_bytes(b"")
            known = None if lower else read_head(log)
            if known is not None and known.count >= head.count:
                return
            text = _TEXT.format(count=head.count, digest=head.digest)
            with path.open("r+b") as file:
                file.seek(_older(path.read_bytes()))
                file.write(f"{text}{_check(text)}\n".encode().ljust(_SLOT, b"\0"))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from error


def _older(content: bytes) -> int:
    """Where the older of two slots stands, or one that is not whole."""
    found = [_parsed(content[place : place + _SLOT].rstrip(b"\0")) for place in (0, _SLOT)]
    counts = [-1 if head is None else head.count for head in found]
    return _SLOT * counts.index(min(counts))


def _parsed(content: bytes) -> Head | None:
    try:
        text = content.decode("ascii")
        _, count, digest, _, rest = text.split("\n")
        head = Head(int(count), digest)
    except ValueError:
        return None
    whole = _TEXT.format(count=head.count, digest=digest)
    return head if text == f"{whole}{_check(whole)}\n" and not rest else None


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
