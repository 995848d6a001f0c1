"""The port of a service: free, or said to be in use before a model is read."""

from __future__ import annotations

import errno
import os
import socket
import time

from yinyan.errors import SettingsError

__all__ = ["wait_for_port"]

_PATIENCE = 5.0  # seconds: workers of a service that was killed need one to end, or more if they were starting


def wait_for_port(host: str, port: int) -> None:
    """Return when a service can listen there; a port that stays in use is refused, as is an impossible address."""
    deadline = time.monotonic() + _PATIENCE
    while (error := _refusal(host, port)) is not None:
        if error.errno != errno.EADDRINUSE:
            raise SettingsError(
                f"cannot listen on port {port} of {host}: {error.strerror} (choose another with --host or --port)"
            )
        if time.monotonic() > deadline:
            raise SettingsError(
                f"port {port} of {host} is in use: stop the program that listens there, or choose another with --port"
            )
        time.sleep(0.05)


def _refusal(host: str, port: int) -> OSError | None:
    """Why the system does not let us listen there; None where it does."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                if os.name == "posix":  # as servers do: connections of the last one may be closing still
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except OSError as error:
        return error
    return None
