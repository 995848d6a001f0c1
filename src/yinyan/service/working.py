"""Threads that answer questions: a few at a time, a few waiting, the others refused at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from yinyan.service.problems import OverloadedError, TookTooLongError

__all__ = ["Desk"]

T = TypeVar("T")


class Desk:
    """Works on `at_once` questions, lets `waiting` more wait, and gives each `seconds` from its arrival on."""

    def __init__(self, name: str, *, at_once: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._room, self._seconds = at_once + waiting, seconds
        self.pending = 0  # changed on the event loop alone

    async def ask(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs in a thread; one that nobody waits for any longer is not begun."""
        if self.pending >= self._room:
            raise OverloadedError(
                f"{self.pending} questions are being worked on or waiting, and no more may: ask again in a moment"
            )
        deadline = time.monotonic() + self._seconds
        self.pending += 1
        loop = asyncio.get_running_loop()
        future = self._pool.submit(_unless_late, work, deadline)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        return await within(future, self._seconds)

    def close(self) -> None:
        """Finish what was begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _done(self) -> None:
        self.pending -= 1


async def within(future: Future[T], seconds: float) -> T:
    """What a future gives, if it does in time; it is not cancelled, since a thread may be at work on it."""
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), seconds)
    except asyncio.TimeoutError:
        raise TookTooLongError(
            f"the answer was not ready within {seconds:g} s: ask for less at a time, or ask again"
        ) from None


def _unless_late(work: Callable[[], T], deadline: float) -> T:
    if time.monotonic() > deadline:
        raise TookTooLongError("nobody waits for this any longer")
    return work()
