"""Progress for people: a bar with the time left on a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

__all__ = ["JsonLines", "Progress", "interruptible", "show_progress"]

_LINE_SECONDS = 5.0  # between plain lines


class Progress:
    """A task of `total` parts; this base tells nobody."""

    def start(self, title: str, total: int, done: int = 0) -> None:
        """Begin a task, `done` parts of which were done before."""

    def advance(self, done: int, text: str = "") -> None:
        """`done` parts are done; `text` holds figures worth seeing."""

    def finish(self) -> None:
        """The task is over, complete or not."""

    def note(self, text: str) -> None:
        """Say something beside the task."""


class _Lines(Progress):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = ""

    def start(self, title: str, total: int, done: int = 0) -> None:
        self._title, self._total, self._first = title, total, done
        self._begun = self._spoke = time.monotonic()
        self._last = ""

    def advance(self, done: int, text: str = "") -> None:
        now = time.monotonic()
        left = (now - self._begun) / max(1, done - self._first) * (self._total - done)
        self._last = f"{self._title} {done}/{self._total}" + (f", {text}" if text else "")
        if now - self._spoke >= _LINE_SECONDS and done < self._total:
            self._say(f"{self._last}, about {_duration(left)} left")
            self._spoke, self._last = now, ""

    def finish(self) -> None:
        if self._last:
            self._say(f"{self._last}, {_duration(time.monotonic() - self._begun)}")
            self._last = ""

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class _Bar(Progress):
    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[figures]}"),
        )
        self._rich = RichProgress(*columns, console=Console(file=stream, highlight=False), transient=False)

    def start(self, title: str, total: int, done: int = 0) -> None:
        self._rich.start()
        self._task = self._rich.add_task(title, total=total, completed=done, figures="")

    def advance(self, done: int, text: str = "") -> None:
        self._rich.update(self._task, completed=done, figures=text)

    def finish(self) -> None:
        self._rich.stop()
        for task in self._rich.task_ids:
            self._rich.remove_task(task)

    def note(self, text: str) -> None:
        self._rich.console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_progress(*, quiet: bool = False, stream: TextIO | None = None) -> Progress:
    """The kind of progress that suits `stream` (standard error)."""
    stream = stream or sys.stderr
    if quiet:
        return Progress()
    return _Bar(stream) if stream.isatty() else _Lines(stream)


class JsonLines:
    """A tracker that appends each record to a file as a line of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        """Append one record."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": step, **figures}) + "\n")


@contextmanager
def interruptible(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop at the next safe point (the yielded function tells); a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("stopping at the next safe point (Ctrl-C again stops at once)")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
