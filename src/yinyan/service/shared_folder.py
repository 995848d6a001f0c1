"""The folder that the processes of a service share; the folders of killed services are removed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["remove_abandoned", "shared_folder"]

_PREFIX, _LOCK = "yinyan-", "owner.lock"


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A temporary folder whose lock this process holds."""
    while True:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
            lock = Path(name) / _LOCK
            with lock.open("ab") as file:
                if _took(file) and lock.exists():  # else another start took the lock first, and has removed the folder
                    yield Path(name)
                    return


def remove_abandoned() -> None:
    """Remove the folders whose lock nobody holds: their services were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            with (folder / _LOCK).open("r+b") as file:  # a folder without one is none of ours
                if _took(file):
                    shutil.rmtree(folder, ignore_errors=True)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # another start has removed it, or it is somebody else's


def _took(file: BinaryIO) -> bool:
    """Whether this process has the lock of a file now; it is freed when the process ends, in whatever way."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
