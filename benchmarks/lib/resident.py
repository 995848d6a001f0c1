"""Resident memory of this process, by the system's own count. Linux only: elsewhere nothing is measured."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def fresh_peak() -> int | None:
    """Bytes that are resident now, after unused ones were given back; from here on the peak counts anew.

    None where the system does not count.
    """
    if not (_STATUS.exists() and _RESET.exists()):
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _RESET.write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since `fresh_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
