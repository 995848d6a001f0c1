"""How much memory a device has left for a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

__all__ = ["free_memory"]


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that a run on a device may still take; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        most = getattr(torch.mps, "recommended_max_memory", None)  # since torch 2.5
        return None if most is None else max(0, int(most()) - int(torch.mps.driver_allocated_memory()))
    if sys.platform.startswith("linux"):
        known = [free for free in (_available(root), *_cgroup_rooms(root)) if free is not None]
        return min(known) if known else None
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf, macOS no such name
        return None


def _available(root: Path) -> int | None:
    """What Linux could hand out without swapping."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), None)


def _cgroup_rooms(root: Path) -> Iterator[int]:
    """What each control group of this process, of either version, leaves below its limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = (line if line.count(":") > 1 else "-:-:-").split(":", 2)
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        place = base / path.strip("/")
        while place != base.parent:  # a parent's limit binds as well; in a container only the base may be there
            room = _room(place, *names)
            if room is not None:
                yield room
            place = place.parent


def _room(place: Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        most, used = (place / limit).read_text().strip(), int((place / usage).read_text())
    except (OSError, ValueError):
        return None
    if not most.isdecimal():  # 'max': no limit here
        return None
    try:
        stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
        used -= int(stat.get(cache, 0))  # pages of files that nobody misses
    except (OSError, ValueError):
        pass
    return max(0, int(most) - used)
