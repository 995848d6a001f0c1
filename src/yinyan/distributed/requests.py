"""What signals ask a training for: a checkpoint, or a checkpoint and the end."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

__all__ = ["SAVE", "STOP", "Requests"]

SAVE, STOP = 1, 2
_SAME = 1.0  # seconds in which a second signal is the first again: torchrun and the terminal may both send one


class Requests:
    """Within, SIGUSR1 asks for a checkpoint; SIGINT and SIGTERM for one and the end, and a second one ends at once."""

    def __init__(self) -> None:
        self._wanted, self._stopped_at = 0, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Requests:
        if threading.current_thread() is threading.main_thread():  # others get no signals
            names = ("SIGUSR1", "SIGINT", "SIGTERM")
            kinds = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGUSR1
            self._before = {kind: signal.signal(kind, self._asked) for kind in kinds}
        return self

    def __exit__(self, *error: object) -> None:
        for kind, handler in self._before.items():
            signal.signal(kind, handler)

    def taken(self) -> int:
        """0, SAVE or STOP; a request for a checkpoint is taken once."""
        wanted = self._wanted
        self._wanted = wanted if wanted == STOP else 0
        return wanted

    def _asked(self, kind: int, frame: FrameType | None) -> None:
        if kind not in (signal.SIGINT, signal.SIGTERM):
            self._wanted = max(self._wanted, SAVE)
            return
        now = time.monotonic()
        if self._wanted == STOP and now - self._stopped_at > _SAME:
            signal.signal(kind, self._before[kind])
            signal.raise_signal(kind)
        if self._wanted < STOP:
            self._wanted, self._stopped_at = STOP, now
