"""Workers of a service, each of which ends when the process that started it is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["worker_app"]

_GRACE = 0.5  # seconds for requests that are being answered; then this process ends, whatever it does


def worker_app() -> ASGIApp:
    """The application of a worker. This module imports little, so that a worker is watched from its first moment."""
    _end_with_parent()
    from yinyan.service.serving import app_of_environment

    return app_of_environment()


def _end_with_parent() -> None:
    """Watch the process that started this one; when it is gone, refuse new requests and end within a second.

    Whoever kills the first process of a service means the service. A worker that went on would acknowledge changes
    that nobody supervises, and keep the port from the service that is started next.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:  # else it was not started as a worker
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: Any) -> None:
    parent.join()  # waits for the end of a pipe that the system closes however the parent ends
    signal.raise_signal(signal.SIGTERM)  # uvicorn closes the socket, and finishes what it has begun
    time.sleep(_GRACE)
    os._exit(1)  # as by kill -9: what was acknowledged is on the disk
