"""Threads that answer questions: a few at a time, a few waiting, the others refused at once."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from yinyan.service.problems import OverloadedError, TookTooLongError

__all__ = ["Counter", "Desk", "within"]

A = TypeVar("A")
T = TypeVar("T")

_AGAIN = "ask again in a few seconds"


class Desk:
    """Works on `at_once` questions, lets `waiting` more wait, and gives each `seconds` from its arrival on."""

    def __init__(self, name: str, *, at_once: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._room, self._seconds = at_once + waiting, seconds
        self.pending = 0  # changed on the event loop alone

    @property
    def is_full(self) -> bool:
        """Whether a question would be refused."""
        return self.pending >= self._room

    async def ask(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs in a thread; one that nobody waits for any longer is not begun."""
        if self.is_full:
            raise OverloadedError(f"{self.pending} questions are being worked on or waiting, and no more may: {_AGAIN}")
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


class Counter(Generic[A, T]):
    """Answers questions of one kind together: all that wait when a thread is free, up to `most` of them."""

    def __init__(
        self,
        name: str,
        work: Callable[[Sequence[A]], Sequence[T | Exception]],
        *,
        waiting: int,
        seconds: float,
        most: int,
    ) -> None:
        """`work` gives an answer or an error for each question, in order."""
        self._work, self._waiting, self._seconds, self._most = work, waiting, seconds, most
        self._queue: queue.SimpleQueue[tuple[A, Future[T], float] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether a question would be refused."""
        return self._queue.qsize() >= self._waiting

    async def ask(self, question: A) -> T:
        """The answer to one question."""
        if self.is_full:
            raise OverloadedError(f"{self._queue.qsize()} questions are waiting, and no more may: {_AGAIN}")
        done: Future[T] = Future()
        self._queue.put((question, done, time.monotonic() + self._seconds))
        return await within(done, self._seconds)

    @property
    def pending(self) -> int:
        """Questions that wait."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finish what was asked."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            jobs, last = [first], False
            while len(jobs) < self._most and not self._queue.empty() and not last:
                job = self._queue.get()
                last = job is None
                jobs += [] if job is None else [job]
            now = time.monotonic()
            self._answer([(question, done) for question, done, deadline in jobs if deadline > now])
            if last:
                return

    def _answer(self, jobs: Sequence[tuple[A, Future[T]]]) -> None:
        try:
            answers = self._work([question for question, _ in jobs]) if jobs else []
        except Exception as error:  # reported to all who asked
            answers = [error] * len(jobs)
        for (_, done), answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Exception):
                done.set_exception(answer)
            else:
                done.set_result(answer)


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
