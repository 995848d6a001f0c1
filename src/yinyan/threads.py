"""How many threads compute, and how they wait for each other."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from yinyan.errors import SettingsError

__all__ = ["available_cores", "use_threads", "wait_passively"]

_VARIABLE = "YINYAN_THREADS"
_POLICY = "OMP_WAIT_POLICY"
_POLICIES = (_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # by which somebody may have chosen
_LOOKS, _PAUSE = 5, 0.004  # at the processes that run now, and seconds between
_GROUPS = Path("/sys/fs/cgroup")
_LOAD = Path("/proc/loadavg")

_spins = False  # whether torch's threads wait by spinning


def wait_passively() -> None:
    """Let the threads of OpenMP sleep while they wait for each other; without effect once torch is loaded.

    By default they spin, and so keep the core that the thread they wait for needs: with other processes on the same
    cores a fit by two threads takes many times as long as one by a single thread.
    """
    global _spins
    chosen = any(name in os.environ for name in _POLICIES)
    _spins = "torch" in sys.modules and not chosen
    if not chosen and not _spins:
        os.environ[_POLICY] = "PASSIVE"


def use_threads(threads: int | None) -> str | None:
    """Compute with so many threads, in the whole process; returns a remark, if there is one.

    Without a number it is that of YINYAN_THREADS, or torch's own, which is lowered to the cores that this process may
    use. Only where threads spin, since torch was loaded first, it is lowered to those that other processes leave free.
    """
    import torch

    given = os.environ.get(_VARIABLE) if threads is None else threads
    if given is not None:
        torch.set_num_threads(_checked(given, "threads" if threads is not None else _VARIABLE))
        return None
    if "OMP_NUM_THREADS" in os.environ:
        return None
    now, cores = torch.get_num_threads(), available_cores()
    most = min(now, cores)
    free = max(1, cores - _others()) if _spins and most > 1 else most
    if min(most, free) < now:
        torch.set_num_threads(min(most, free))
    if free >= most:
        return None
    return (
        f"other processes are busy on the {cores} cores, so that {free} of {most} threads are used (import yinyan "
        f"before torch to share cores without loss, or set threads)"
    )


def available_cores() -> int:
    """Cores that this process may use: of the machine, by its affinity, and by the quota of its control group."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def _checked(given: object, name: str) -> int:
    try:
        number = int(given) if isinstance(given, str) else given
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SettingsError(f"'{name}' needs to be a positive integer (got {given!r})")
    return number


def _quota() -> float | None:
    """Cores by the quota of the control group, version 2 or 1; None without one."""
    whole = _words(_GROUPS / "cpu.max")
    parts = whole or [*_words(_GROUPS / "cpu/cpu.cfs_quota_us"), *_words(_GROUPS / "cpu/cpu.cfs_period_us")]
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        return None  # 'max' and -1 are no limits
    return int(parts[0]) / int(parts[1])


def _others() -> int:
    """Other threads that compute at this moment, on the whole machine."""
    seen = []
    for _ in range(_LOOKS):
        words = _words(_LOAD)
        running = words[3].partition("/")[0] if len(words) > 3 else "1"
        seen.append(int(running) - 1 if running.isdigit() else 0)
        time.sleep(_PAUSE)
    return max(0, sorted(seen)[_LOOKS // 2])


def _words(path: Path) -> list[str]:
    """The words of a file of the system; none where there is no such file."""
    try:
        return path.read_text().split()
    except OSError:
        return []
