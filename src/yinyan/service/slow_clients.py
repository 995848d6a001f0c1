"""Slow and idle clients are disconnected: a time limit for the head of a request, which uvicorn does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["SlowClientProtocol"]


class SlowClientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes a connection whose client does not send the complete head of a request within `head_seconds`."""

    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """The limit starts when the connection does."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """The limit holds while no request is being answered; more bytes do not extend it."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """No limit without a connection."""
        self._stop()
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
