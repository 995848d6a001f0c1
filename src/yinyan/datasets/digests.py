"""Checksums: a downloaded file has its own beside it, so that later damage is seen."""

from __future__ import annotations

from pathlib import Path

from yinyan.errors import InputError
from yinyan.files import file_digest, write_text

__all__ = ["check_digest", "record_digest"]


def record_digest(path: Path, digest: str | None = None) -> None:
    """Write a file's checksum beside it, in the form that `sha256sum --check` reads."""
    write_text(_beside(path), f"{digest or file_digest(path)}  {path.name}\n")


def check_digest(path: Path) -> None:
    """Refuse a file that differs from the checksum beside it; without one there is nothing to compare."""
    beside = _beside(path)
    if not beside.is_file():
        return
    recorded, found = beside.read_text(encoding="utf-8").split(" ")[0].strip(), file_digest(path)
    if found != recorded:
        raise InputError(
            f"'{path}' has changed since it was downloaded (its SHA-256 begins with {found[:12]}, expected "
            f"{recorded[:12]}): delete it, and it is downloaded again"
        )


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
