"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from yinyan.errors import StoreError

__all__ = ["atomic_path", "cache_folder", "flush_to_disk", "locked", "system_errors", "write_error", "write_text"]


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there replaces `path` in one step, or leaves no trace."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with system_errors():
            yield temporary
        flush_to_disk(temporary)
        temporary.replace(target)
    except OSError as error:
        raise write_error(target, error) from error
    finally:
        with suppress(OSError):  # it may never have come to be, and its folder neither
            temporary.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within, no other process holds the lock of this file; a process that ends, in whatever way, frees it."""
    try:
        file = Path(path).open("ab")  # noqa: SIM115 - closed below, where an error is the caller's own
    except OSError as error:
        raise write_error(path, error) from error
    with file:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def system_errors() -> Iterator[None]:
    """Within, an error of the system that safetensors words in its own way is the system's again."""
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        if found is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def flush_to_disk(path: Path) -> None:
    """Wait until a file's content, or a directory's entries, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """The user's cache: downloaded data, compiled kernels."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "yinyan"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "yinyan" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "yinyan"
    return Path.home() / ".cache" / "yinyan"


def write_error(path: str | os.PathLike[str], error: OSError) -> StoreError:
    """What stopped a file from being written, and the cure; nothing that was there before is lost."""
    cures = {
        errno.ENOSPC: "the disk is full: free some space, or choose another place",
        errno.EDQUOT: "the disk quota is used up: free some space, or choose another place",
        errno.EFBIG: "the file would pass the size limit in force: raise it, or choose another place",
        errno.EROFS: "the file system is read-only: choose another place",
        errno.EACCES: "permission is denied: choose another place, or change the permissions of its folder",
        errno.EPERM: "permission is denied: choose another place, or change the permissions of its folder",
        errno.ENOENT: "its folder does not exist: create it first",
        errno.ENOTDIR: "a part of its path is a file: choose another place",
    }
    reason = cures.get(error.errno or 0, error.strerror or str(error))
    return StoreError(f"cannot write '{path}': {reason} (nothing was changed)")
