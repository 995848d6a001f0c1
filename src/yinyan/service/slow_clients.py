"""Uvicorn's connections, with a limit to the time that a request's head may take."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["PatientProtocol"]


class PatientProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes a connection over which no request has come whole in `head_seconds`, however many bytes drip in."""

    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Time runs from the first moment on."""
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        """Time runs while bytes come and no request is being answered."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
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
