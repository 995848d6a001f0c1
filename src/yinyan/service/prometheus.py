"""Counters in Prometheus' text format, added up over all processes of a service."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["DROPPED", "Counters"]

DROPPED = "yinyan_log_lines_dropped_total"

# Every process counts in a mapped file of its own, and whoever is asked adds the files up: a process that dies takes
# no counts with it. Routes and classes of status are few and known, so that the files have a fixed layout.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 500, 503, 504, 0)  # 0: any other
_METHODS = ("GET", "POST", "DELETE", "other")
_OTHER = "other"
_EVENTS = {DROPPED: "Log lines that were dropped because nobody read them in time."}  # beside requests


class Counters:
    """How many requests of each route ended how, and how long they took."""

    def __init__(self, routes: Sequence[str], folder: Path | None = None) -> None:
        self._routes = (*routes, _OTHER)
        self._place = {route: place for place, route in enumerate(self._routes)}
        self._folder = folder
        per_method, per_route = len(_STATUSES), len(_BOUNDS) + 2  # beyond all bounds, and the sum
        self._shape = (len(self._routes) + 1, len(_METHODS) * per_method + per_route)  # the last row: events
        self._lock = threading.Lock()
        self._values: NDArray[np.float64] = np.zeros(self._shape)
        if folder is not None:
            path = folder / f"counters-{os.getpid()}.bin"
            path.touch()
            self._values = np.memmap(path, np.float64, "r+", shape=self._shape)

    def count(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        row = self._place.get(route or _OTHER, len(self._routes) - 1)
        kind = _METHODS.index(method) if method in _METHODS else len(_METHODS) - 1
        how = _STATUSES.index(status) if status in _STATUSES else len(_STATUSES) - 1
        base = len(_METHODS) * len(_STATUSES)
        with self._lock:
            self._values[row, kind * len(_STATUSES) + how] += 1
            self._values[row, base + int(np.searchsorted(_BOUNDS, seconds))] += 1
            self._values[row, -1] += seconds

    def note(self, event: str) -> None:
        """Something has happened."""
        with self._lock:
            self._values[-1, list(_EVENTS).index(event)] += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All counts, and some values of now with what they mean."""
        total, base = self._total(), len(_METHODS) * len(_STATUSES)
        lines = [
            "# HELP yinyan_requests_total Requests that were answered.",
            "# TYPE yinyan_requests_total counter",
        ]
        for row, route in enumerate(self._routes):
            for kind, method in enumerate(_METHODS):
                for how, status in enumerate(_STATUSES):
                    value = total[row, kind * len(_STATUSES) + how]
                    if value:
                        labels = f'route="{route}",method="{method}",status="{status or _OTHER}"'
                        lines.append(f"yinyan_requests_total{{{labels}}} {value:.0f}")
        lines += [
            "# HELP yinyan_request_seconds Time from a request's head to the end of its answer.",
            "# TYPE yinyan_request_seconds histogram",
        ]
        for row, route in enumerate(self._routes):
            counts = total[row, base:-1]
            if counts.sum():
                bounds = [*(f"{bound:g}" for bound in _BOUNDS), "+Inf"]
                for bound, value in zip(bounds, np.cumsum(counts), strict=True):
                    lines.append(f'yinyan_request_seconds_bucket{{route="{route}",le="{bound}"}} {value:.0f}')
                lines.append(f'yinyan_request_seconds_sum{{route="{route}"}} {total[row, -1]:.6f}')
                lines.append(f'yinyan_request_seconds_count{{route="{route}"}} {counts.sum():.0f}')
        for place, (name, words) in enumerate(_EVENTS.items()):
            lines += [f"# HELP {name} {words}", f"# TYPE {name} counter", f"{name} {total[-1, place]:.0f}"]
        for name, (words, value) in gauges.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join([*lines, ""])

    def _total(self) -> NDArray[np.float64]:
        if self._folder is None:
            return self._values.copy()
        total = np.zeros(self._shape)
        for path in sorted(self._folder.glob("counters-*.bin")):
            content = path.read_bytes()
            if len(content) == total.nbytes:
                total += np.frombuffer(content).reshape(self._shape)
        return total
