"""Training as people see it: its lines and its bar, on the command line and in Python."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Literal

from yinyan.errors import SettingsError
from yinyan.model.fitted import EpochRecord
from yinyan.progress import Progress, aligned, interruptible, show_progress
from yinyan.training.hooks import Hooks

__all__ = ["Verbose", "progress_hooks", "watched"]

Verbose = bool | Literal["auto"]

_LONG = 10.0  # seconds from which on a run is not silent


def progress_hooks(progress: Progress, title: str = "epoch") -> Hooks:
    """Callbacks that show a training as `progress`."""

    def on_epoch(record: EpochRecord) -> None:
        hits = "" if record.hits is None else f"   valid hits@10% {record.hits:.3f}   auc {record.auc:.3f}"
        progress.advance(record.epoch, f"loss {record.loss:.3f}{hits}")

    return Hooks(
        tell=lambda text: progress.note(aligned(text)),
        on_forecast=progress.forecast,
        on_start=lambda epochs, done: progress.start(title, epochs, done),
        on_epoch=on_epoch,
        on_step=lambda done: progress.advance(done, None),
    )


@contextmanager
def watched(hooks: Hooks | None, verbose: Verbose, *, keep_best: bool) -> Iterator[Hooks]:
    """The callbacks of a training in Python: those given, with what `verbose` shows, and with Ctrl-C to stop it."""
    given = hooks or Hooks()
    progress = _progress(False if hooks is not None and verbose == "auto" else verbose)
    ours = _both(given, progress_hooks(progress))
    try:
        with _stopping(progress.note) if keep_best else nullcontext(lambda: False) as asked:
            chosen = replace(ours, should_stop=lambda: asked() or given.should_stop())
            yield replace(chosen, keep_best=True) if keep_best else chosen
    finally:
        progress.finish()


def _stopping(say: Callable[[str], None]) -> AbstractContextManager[Callable[[], bool]]:
    """Ctrl-C as a question to stop; only the first thread of a process gets signals."""
    if threading.current_thread() is not threading.main_thread():
        return nullcontext(lambda: False)
    return interruptible(say)


def _both(first: Hooks, second: Hooks) -> Hooks:
    """The callbacks of two, one after the other."""

    def in_turn(name: str) -> Callable[..., None]:
        calls = getattr(first, name), getattr(second, name)

        def call(*given: Any) -> None:
            for one in calls:
                one(*given)

        return call

    return replace(
        first,
        tell=in_turn("tell"),
        on_forecast=in_turn("on_forecast"),
        on_start=in_turn("on_start"),
        on_epoch=in_turn("on_epoch"),
        on_step=in_turn("on_step"),
    )


def _progress(verbose: Verbose) -> Progress:
    """What `fit(verbose=…)` shows: everything, nothing, or ('auto') long runs."""
    if verbose not in (True, False, "auto"):
        raise SettingsError(f"'verbose' needs to be True, False or 'auto' (got {verbose!r})")
    if sys.stderr is None:  # without a console
        return Progress()
    return _OfLongRuns(show_progress()) if verbose == "auto" else show_progress(quiet=not verbose)


class _OfLongRuns(Progress):
    """Shows a run once its forecast or its time so far is long, with the notes before; a short run shows nothing."""

    def __init__(self, shown: Progress) -> None:
        self._shown, self._notes, self._is_long = shown, list[str](), False
        self._begun = time.monotonic()
        self._task: tuple[str, int, float] | None = None

    def forecast(self, seconds: float) -> None:
        self._look(seconds >= _LONG)

    def start(self, title: str, total: int, done: float = 0) -> None:
        self._task = title, total, done
        if self._is_long:
            self._shown.start(*self._task)

    def advance(self, done: float, text: str | None = "") -> None:
        if self._task is not None:
            self._task = *self._task[:2], done  # shown from here on, the time left is that of the rest
        self._look()
        if self._is_long:
            self._shown.advance(done, text)

    def finish(self) -> None:
        if self._is_long:
            self._shown.finish()

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._look()
        if self._is_long:
            self._tell()

    def _look(self, is_long: bool = False) -> None:
        """Begin to show the run once it is long, whatever its forecast was."""
        if not self._is_long and (is_long or time.monotonic() - self._begun >= _LONG):
            self._is_long = True
            self._tell()
            if self._task is not None:
                self._shown.start(*self._task)

    def _tell(self) -> None:
        for note in self._notes:
            self._shown.note(note)
        self._notes.clear()
