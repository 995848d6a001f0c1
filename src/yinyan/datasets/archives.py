"""Zip archives, unpacked into one folder and nowhere else."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from yinyan.datasets.digests import record_digest
from yinyan.errors import InputError, StoreError
from yinyan.files import remove_abandoned, temporary_beside, write_error
from yinyan.graph.packed_files import check_unpacked_size

__all__ = ["unpack"]


def unpack(archive: Path, folder: Path, inner: str) -> None:
    """Unpack what the archive has under `inner`/ as `folder`: all of it, or nothing.

    Each file's CRC is checked by the way, and its SHA-256 written beside it.
    """
    if folder.exists():
        raise StoreError(f"cannot unpack '{archive}': '{folder}' exists, but lacks files (move it out of the way)")
    unfinished = temporary_beside(folder)
    remove_abandoned(folder.parent, f".{folder.name}.")
    try:
        with zipfile.ZipFile(archive) as held:
            members = _members(archive, held, inner)
            size = sum(member.file_size for member in members.values())
            check_unpacked_size(archive, archive.stat().st_size, size)
            _refuse_too_large(archive, unfinished.parent, size)
            for place, member in members.items():
                _write(held, member, unfinished / place)
        unfinished.replace(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"'{archive}' is not a zip archive, or is damaged ({error}): delete it and try again"
        ) from error
    except OSError as error:
        raise write_error(folder, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _members(archive: Path, held: zipfile.ZipFile, inner: str) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """The files under `inner`, by their path within; one that points elsewhere spoils the whole archive."""
    members = {}
    for member in held.infolist():
        path = PurePosixPath(member.filename)
        link = stat.S_ISLNK(member.external_attr >> 16)
        # a colon names a drive or a stream, and a backslash separates, on Windows
        if path.is_absolute() or ".." in path.parts or link or ":" in member.filename or "\\" in member.filename:
            raise InputError(f"'{archive}' holds {member.filename!r}, which points outside its folder: not unpacked")
        if path.parts[:1] == (inner,) and not member.is_dir():
            members[path.relative_to(inner)] = member
    if not members:
        raise InputError(f"'{archive}' has no folder {inner!r}: it is another archive than expected")
    return members


def _refuse_too_large(archive: Path, folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StoreError(
            f"cannot unpack '{archive}': it needs {size / 1e9:,.1f} GB, and '{folder}' has {free / 1e9:,.1f} GB left "
            "(free some space)"
        )


def _write(held: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with held.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    record_digest(path)
