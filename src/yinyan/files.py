"""Files that are written whole or not at all, by one process at a time, and removed if that process has ended."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

from yinyan.errors import StoreError

__all__ = [
    "HeldError",
    "atomic_path",
    "cache_folder",
    "exclusive",
    "file_digest",
    "flush_to_disk",
    "is_held",
    "locked",
    "remove_abandoned",
    "remove_abandoned_folders",
    "system_errors",
    "temporary_beside",
    "temporary_folder",
    "write_error",
    "write_text",
]

_MARK = re.compile(r"(?:^|\.)([0-9a-f]{8})-(\d{1,9})-[0-9a-z_]+(?:\.tmp)?$")  # machine, process, random letters
_BEYOND = 1 << 30  # where Windows locks a byte: the text of the file stays readable

_UNNAMED = 2.0  # seconds in which a new holder has to have written its name


class HeldError(StoreError):
    """Another process holds what this one needs."""


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there replaces `path` in one step, or leaves no trace."""
    target = Path(path)
    temporary = temporary_beside(target)
    try:
        with system_errors():
            yield temporary
        flush_to_disk(temporary)
        temporary.replace(target)
        remove_abandoned(target.parent, f".{target.name}.")
    except OSError as error:
        raise write_error(target, error) from error
    finally:
        with suppress(OSError):  # it may never have come to be, and its folder neither
            temporary.unlink()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within, no other process holds the lock of this file; a process that ends, in whatever way, frees it."""
    with _opened(Path(path)) as file:
        while not _took_lock(file, wait=True):
            time.sleep(0.05)
        yield


@contextmanager
def exclusive(path: Path, what: str, *, wait: float = 0.0) -> Iterator[None]:
    """As `locked`, by a file that names its holder and is removed at the end.

    What another process holds is waited for so many seconds, and then refused with words on `what` it is.
    """
    deadline = time.monotonic() + wait
    while True:
        file = _opened(path)
        if _took_lock(file) and _is_at(file, path):
            break
        file.seek(0)
        holder = file.read(200).decode(errors="replace").strip()
        file.close()
        if time.monotonic() >= deadline + (0 if holder else _UNNAMED):
            by = holder or "another process"
            raise HeldError(f"{what} is in use by {by}: wait until that has ended, or choose another name")
        time.sleep(0.01)  # another holds it, has just removed it, or has not written its name yet
    with file:
        try:
            file.truncate(0)
            began = time.strftime("%Y-%m-%d %H:%M:%S")
            file.write(f"process {os.getpid()} on {platform.node() or 'this machine'} (since {began})\n".encode())
            file.flush()
            yield
        finally:
            with suppress(OSError):  # Windows keeps the name of an open file
                path.unlink()


def is_held(path: Path) -> bool:
    """Whether a process is within `exclusive` of this path."""
    try:
        with path.open("rb") as file:
            return not _took_lock(file)
    except OSError:
        return False


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("a+b")
    except OSError as error:
        raise write_error(path, error) from error


def _took_lock(file: BinaryIO, *, wait: bool = False) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(_BEYOND)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether a file is still the one of this name: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def temporary_beside(target: Path) -> Path:
    """A hidden name beside a file or folder, marked with this process."""
    return target.with_name(f".{target.name}.{_mark()}{secrets.token_hex(4)}.tmp")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for this process in the system's place for such; those of processes that were killed are removed."""
    remove_abandoned_folders()
    with tempfile.TemporaryDirectory(prefix=f"yinyan-{_mark()}") as folder:
        yield Path(folder)


def remove_abandoned_folders() -> None:
    """Remove the folders of `temporary_folder` whose process was killed."""
    remove_abandoned(Path(tempfile.gettempdir()), "yinyan-")


def remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove temporary files and folders whose names begin so, and whose process has ended."""
    with suppress(OSError), os.scandir(folder) as entries:  # nothing depends on it: the next one tries again
        for entry in entries:
            if entry.name.startswith(prefix) and _is_abandoned(entry.name.removeprefix(prefix)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    Path(entry.path).unlink()


@functools.cache
def _machine() -> str:
    """Where the numbers of processes are those of here: a host, and on Linux a container."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _mark() -> str:
    return f"{_machine()}-{os.getpid()}-"


def _is_abandoned(name: str) -> bool:
    """Whether a name ends with the mark of a process of this machine, and there is no such process any longer."""
    found = _MARK.search(name)
    if found is None or found[1] != _machine() or sys.platform == "win32":  # there, kill(pid, 0) is no question
        return False
    try:
        os.kill(int(found[2]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


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
