"""Compiled libraries on disk: loaded only where nobody else can have written them, and if they are what was built.

A library is named after what it was made of and after its own SHA-256, so that one rename puts both in place.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import stat
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from yinyan.files import cache_folder, flush_to_disk, temporary_folder

__all__ = ["describe_cache", "find_library", "keep_library", "library_folder"]

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def library_folder() -> Path:
    """The folder of the user's cache, or one of this process where others could write to that."""
    folder = _cache()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder = folder.resolve()
        _close_to_others(folder.parent, folder)
    except PermissionError:
        return _private_folder()
    return folder if _distrust(folder) is None else _private_folder()


def _close_to_others(*places: Path) -> None:
    """Folders of ours, made under a generous umask."""
    for place in places if sys.platform != "win32" else ():
        facts = place.stat()
        if facts.st_uid == os.geteuid() and facts.st_mode & _FOR_OTHERS:
            place.chmod(stat.S_IMODE(facts.st_mode) & ~_FOR_OTHERS)


def find_library(folder: Path, key: str) -> Path | None:
    """The library that was made of this, if it is intact; what is not is removed."""
    for path in sorted(folder.glob(f"{key}.*.so")):
        if _fault(path) is None:
            return path
        with suppress(OSError):  # of another user, perhaps: it is passed over in any case
            path.unlink()
    return None


def keep_library(made: Path, folder: Path, key: str) -> Path:
    """Put a library into the folder, on the disk before it has its name."""
    made.chmod(0o700)
    target = folder / f"{key}.{_digest(made)}.so"
    flush_to_disk(made)
    made.replace(target)  # at once: a second process sees all of it or nothing
    flush_to_disk(folder)
    return target


def describe_cache() -> str:
    """Where libraries are kept, and whether they are intact."""
    folder = _cache()
    if not folder.is_dir():
        return f"'{folder}', empty"
    why = _distrust(folder.resolve())
    if why is not None:
        return (
            f"not used, because {why}: libraries are compiled at every start (set XDG_CACHE_HOME to a private folder)"
        )
    faults = [fault for path in sorted(folder.glob("*.*.so")) if (fault := _fault(path)) is not None]
    return f"'{folder}', {'; '.join(faults)} (compiled again when needed)" if faults else f"'{folder}', intact"


def _cache() -> Path:
    return cache_folder() / "native"


@functools.cache
def _private_folder() -> Path:
    held = ExitStack()
    folder = held.enter_context(temporary_folder())
    atexit.register(held.close)
    return folder


def _distrust(folder: Path) -> str | None:
    """Why another user could put something into a folder, or swap it for another; None if nobody can."""
    if sys.platform == "win32":  # a profile's own folders are private there
        return None
    for place in (folder, *folder.parents[:-1]):
        facts, ours = place.stat(), place in (folder, folder.parent)
        if facts.st_uid != os.geteuid() and (ours or facts.st_uid != 0):
            return f"'{place}' belongs to another user"
        if ours and facts.st_mode & _FOR_OTHERS:
            return f"others can write to '{place}'"
        shared = facts.st_mode & stat.S_IWOTH or (
            facts.st_mode & stat.S_IWGRP and facts.st_gid not in (0, os.getegid())
        )
        if shared and not facts.st_mode & stat.S_ISVTX:
            return f"others can write to '{place}'"
    return None


def _fault(path: Path) -> str | None:
    """What is wrong with a library, if anything."""
    try:
        facts = path.lstat()
        if not stat.S_ISREG(facts.st_mode):
            return f"{path.name} is no file"
        if sys.platform != "win32" and (facts.st_uid != os.geteuid() or facts.st_mode & _FOR_OTHERS):
            return f"{path.name} belongs to another user, or others can write to it"
        return None if _digest(path) == path.name.split(".")[1] else f"{path.name} is damaged"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
