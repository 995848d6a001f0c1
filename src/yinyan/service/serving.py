"""Processes that serve: one, or several behind one socket."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import threading
import time
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
from yinyan.progress import stage
from yinyan.service.context import Room
from yinyan.service.keys import read_keys
from yinyan.service.options import Options, check_metrics, check_proxy, is_loopback
from yinyan.service.ports import wait_for_port
from yinyan.service.routes import create_app
from yinyan.service.slow_clients import SlowClientProtocol
from yinyan.service.supervisor import Supervisor

__all__ = ["app_of_environment", "serve", "uvicorn_settings"]

_OPTIONS = TypeAdapter(Options)
_VARIABLE = "YINYAN_SERVICE"  # options of a child process
_READY = "ready-"  # begins the name of the file by which a child says that it has read the model
_LOOK = 0.05  # seconds between looks at whether they have
_PATIENCE = 600  # seconds in which a child has to have read the model
_SWITCH = 0.0005  # seconds a thread may keep the interpreter: the event loop must not wait for those who compute


def serve(options: Options, *, tell: Callable[[str], None] = lambda text: None) -> None:
    """Serve until a signal stops it."""
    check_proxy(options.proxy)
    check_metrics(options)
    if options.metrics_keys is not None:
        read_keys(options.metrics_keys)
    if options.keys is not None:
        read_keys(options.keys)  # a mistake in it is reported before anything starts
    elif not is_loopback(options.host):
        raise SettingsError(
            f"'{options.host}' can be reached by others, so API keys are required: make one with "
            "'yinyan keys FILE' and start with --api-keys FILE (or serve on 127.0.0.1)"
        )
    sys.setswitchinterval(_SWITCH)
    wait_for_port(options.host, options.port)  # before minutes are spent on a model
    remove_abandoned_folders()
    if options.workers == 1:
        room = Room(options, tell=tell)
        _on_hangup(room)
        tell(str(room.now.served.finder))
        _run_one(uvicorn.Config(create_app(room), **uvicorn_settings(options)), options, tell)
        return
    with temporary_folder() as folder:
        options = replace(options, shared=folder, port=options.port or _free_port(options.host))
        # what is wrong is said once, and not by each child
        trial = Room(replace(options, workers=1, read_only=True), tell=tell)
        tell(str(trial.now.served.finder))
        trial.close()
        os.environ[_VARIABLE] = _OPTIONS.dump_json(options).decode()
        _run_several(options, tell)


def _run_several(options: Options, tell: Callable[[str], None]) -> None:
    """Serve in processes behind one socket; the address is printed when all of them have read the model."""
    threading.Thread(target=_announce, args=(options, tell), name="address", daemon=True).start()
    config = uvicorn.Config("yinyan.service.parent:worker_app", factory=True, **uvicorn_settings(options))
    Supervisor(config, sockets=[config.bind_socket()]).run()


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _announce(options: Options, tell: Callable[[str], None]) -> None:
    """Wait until all processes are ready and one answers."""
    several = f"{options.workers} processes"
    if options.shared is None:
        raise ValueError("several processes need a folder that they share")
    with stage(tell, f"starting {several}") as say:
        while (count := len(list(options.shared.glob(f"{_READY}*")))) < options.workers or not _answers(options):
            say(f"{count} of them have read the model")
            time.sleep(_LOOK)
    tell(f"serving '{options.model}' with {several} at {_address(options, options.port)}")


def _answers(options: Options) -> bool:
    """Whether a request to the port is answered."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)
    connection = http.client.HTTPConnection(host, options.port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


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
    options = _OPTIONS.validate_json(os.environ[_VARIABLE])
    room = Room(options)
    _on_hangup(room)
    app = create_app(room)
    if options.shared is not None:
        (options.shared / f"{_READY}{os.getpid()}").touch()
    return app


def uvicorn_settings(options: Options) -> dict[str, Any]:
    """How uvicorn is to run."""
    limits = options.limits
    return {
        "http": SlowClientProtocol,
        "host": options.host,
        "port": options.port,
        "workers": options.workers,
        "access_log": False,  # the gate keeps one
        "log_config": None,  # its handlers would wait for whoever reads standard error
        "proxy_headers": options.proxy is not None,
        "forwarded_allow_ips": options.proxy or "",
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
