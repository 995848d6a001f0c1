"""Processes that serve: one, or several behind one socket."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import uvicorn
from pydantic import TypeAdapter
from starlette.types import ASGIApp

from yinyan.errors import SettingsError
from yinyan.files import remove_abandoned_folders, temporary_folder
from yinyan.service.context import Room
from yinyan.service.keys import read_keys
from yinyan.service.options import Options, is_loopback
from yinyan.service.routes import create_app
from yinyan.service.slow_clients import SlowClientProtocol

__all__ = ["app_of_environment", "serve", "uvicorn_settings"]

_OPTIONS = TypeAdapter(Options)
_VARIABLE = "YINYAN_SERVICE"  # options of a child process
_PATIENCE = 600  # seconds in which a child has to have read the model
_SWITCH = 0.0005  # seconds a thread may keep the interpreter: the event loop must not wait for those who compute


def serve(options: Options, *, tell: Callable[[str], None] = lambda text: None) -> None:
    """Serve until told to stop."""
    if options.keys is not None:
        read_keys(options.keys)  # a mistake in it is told before anything starts
    elif not is_loopback(options.host):
        raise SettingsError(
            f"'{options.host}' can be reached by others, so API keys are required: make one with "
            "'yinyan keys FILE' and start with --api-keys FILE (or serve on 127.0.0.1)"
        )
    sys.setswitchinterval(_SWITCH)
    remove_abandoned_folders()
    if options.workers == 1:
        room = Room(options)
        _on_hangup(room)
        tell(str(room.now.served.finder))
        _run_one(uvicorn.Config(create_app(room), **uvicorn_settings(options)), options, tell)
        return
    with temporary_folder() as folder:
        options = replace(options, shared=folder)
        trial = Room(replace(options, workers=1, read_only=True))  # what is wrong is said once, and not by each child
        tell(str(trial.now.served.finder))
        trial.close()
        os.environ[_VARIABLE] = _OPTIONS.dump_json(options).decode()
        tell(f"serving '{options.model}' with {options.workers} processes at {_address(options, options.port)}")
        uvicorn.run(f"{__name__}:app_of_environment", factory=True, **uvicorn_settings(options))


def _run_one(config: uvicorn.Config, options: Options, tell: Callable[[str], None]) -> None:
    """Serve in this process; the address is printed once the port is open."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            tell(f"serving '{options.model}' at {_address(options, port)}")

    server = Server(config)
    with suppress(KeyboardInterrupt):  # Ctrl-C ends a service; it is no error
        server.run()
    if not server.started:
        raise SystemExit(1)


def app_of_environment() -> ASGIApp:
    """The application of a child process."""
    sys.setswitchinterval(_SWITCH)
    room = Room(_OPTIONS.validate_json(os.environ[_VARIABLE]))
    _on_hangup(room)
    return create_app(room)


def uvicorn_settings(options: Options) -> dict[str, Any]:
    """How uvicorn is to run."""
    limits = options.limits
    return {
        "http": SlowClientProtocol,
        "host": options.host,
        "port": options.port,
        "workers": options.workers,
        "access_log": False,  # the gate keeps one
        "log_level": "warning",
        "server_header": False,
        "limit_concurrency": limits.connections,
        "timeout_graceful_shutdown": int(limits.seconds) + 1,
        "timeout_worker_healthcheck": _PATIENCE,
        "ws": "none",
    }


def _on_hangup(room: Room) -> None:
    """SIGHUP reads the model again."""

    def reload(signum: int, frame: FrameType | None) -> None:
        room.keeper.reload()

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, reload)


def _address(options: Options, port: int) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{port}"
