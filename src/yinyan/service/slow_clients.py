"""Connections: slow and idle clients are disconnected, by limits that uvicorn does not have; answers leave at once."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["SlowClientProtocol"]


class SlowClientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes a connection whose client is too slow.

    The complete head of a request has to arrive within `head_seconds`. While an answer waits to be read, at least
    `read_bytes` of it have to be taken every `read_seconds`.
    """

    head_seconds = 10.0
    read_seconds = 10.0
    read_bytes = 64 << 10
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The limit starts when the connection does."""
        super().connection_made(transport)
        _send_at_once(transport)
        transport.set_write_buffer_limits(high=0)  # whatever is not taken at once starts the limit for readers
        self._start()

    def data_received(self, data: bytes) -> None:
        """The limit holds while no request is being answered; more bytes do not extend it."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start()
        else:
            self._stop()

    def pause_writing(self) -> None:
        """An answer waits for its reader."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """All of it has been taken."""
        self._stop_reading()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """No limit without a connection."""
        self._stop()
        self._stop_reading()
        super().connection_lost(exc)

    def _start(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.head_seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()

    def _expect_reading(self) -> None:
        self._stop_reading()
        waiting = self.transport.get_write_buffer_size()
        self._reading = asyncio.get_running_loop().call_later(self.read_seconds, self._unread, waiting)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _unread(self, before: int) -> None:
        self._reading = None
        if before - self.transport.get_write_buffer_size() >= self.read_bytes:
            self._expect_reading()
        else:
            self._reset()

    def _reset(self) -> None:
        """End the connection, and free what is buffered here and in the system: `close` would wait for the reader."""
        found = self.transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
            )
        self.transport.abort()


def _send_at_once(transport: Any) -> None:
    """Head and body of an answer go out as they are written: else the body waits 40 ms for the client's system.

    asyncio does this for sockets that name their protocol; those that uvicorn shares among processes do not.
    """
    found = transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
