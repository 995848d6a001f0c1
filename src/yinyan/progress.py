"""Progress for people (a bar on a terminal, plain lines elsewhere), and stopping when they ask."""

from __future__ import annotations

import html
import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TextIO

from yinyan.errors import StoppedError, StoreError
from yinyan.files import exclusive, remove_abandoned, write_error

__all__ = [
    "Checkpoints",
    "JsonLines",
    "Progress",
    "aligned",
    "duration",
    "interruptible",
    "is_notebook",
    "make_folder",
    "show_progress",
    "stage",
]

_LINE_SECONDS = 5.0  # between plain lines
_LINE_SHARE = 0.05  # of the time so far, at least: an hour is some 90 lines of a log
_REWRITE_SECONDS = 0.2  # between changes of a bar in a notebook
_GAP = "   "  # between the figures of a line
_BAR = 12  # cells of the bar: figures fit beside it on a terminal of 80 columns


@contextmanager
def stage(tell: Callable[[str], None], what: str) -> Iterator[Callable[[str], None]]:
    """Report work of unknown length: what it is, every few seconds that it goes on, and the seconds that it took.

    The function that it yields takes details; the latest of them is in the lines between.
    """
    begun, over, latest = time.monotonic(), threading.Event(), [""]

    def remind() -> None:
        while not over.wait(_LINE_SECONDS):
            tell(f"still {what}, {duration(time.monotonic() - begun)}" + (f": {latest[0]}" if latest[0] else ""))

    tell(what)
    reminder = threading.Thread(target=remind, name="stage", daemon=True)
    reminder.start()
    try:
        yield lambda text: latest.__setitem__(0, text)
    finally:
        over.set()
        reminder.join()
    tell(f"{what} took {time.monotonic() - begun:.1f} s")


class Progress:
    """A task of `total` parts; this base prints nothing."""

    def forecast(self, seconds: float) -> None:
        """The next task will take about so long."""

    def start(self, title: str, total: int, done: float = 0) -> None:
        """Begin a task, `done` parts of which were done before."""

    def advance(self, done: float, text: str | None = "") -> None:
        """`done` parts are done, the last of them maybe in part; `text` holds figures worth seeing, None: as before."""

    def finish(self) -> None:
        """The task is over, complete or not."""

    def note(self, text: str) -> None:
        """Say something beside the task."""


class _Lines(Progress):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = self._text = ""

    def start(self, title: str, total: int, done: float = 0) -> None:
        self._title, self._total, self._first = title, total, done
        self._begun = self._spoke = time.monotonic()
        self._last = self._text = ""

    def advance(self, done: float, text: str | None = "") -> None:
        now = time.monotonic()
        self._text = self._text if text is None else text
        self._last = f"{self._title} {_count(done)}/{self._total}" + (f"{_GAP}{self._text}" if self._text else "")
        if now - self._spoke >= max(_LINE_SECONDS, _LINE_SHARE * (now - self._begun)) and done < self._total:
            self._say(f"{self._last}{_GAP}{duration(self._left(done, now))} left")
            self._spoke, self._last = now, ""

    def _left(self, done: float, now: float) -> float:
        """Seconds until all is done, at the pace so far."""
        return (now - self._begun) / max(1e-9, done - self._first) * (self._total - done)

    def finish(self) -> None:
        if self._last:
            self._say(f"{self._last}{_GAP}took {duration(time.monotonic() - self._begun)}")
            self._last = ""

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class _Notebook(_Lines):
    """Lines and a bar below them, in one block of a cell's output: a saved notebook keeps the last state alone."""

    def __init__(self, stream: TextIO) -> None:
        from IPython.display import DisplayHandle  # each kernel of IPython has it

        super().__init__(stream)
        self._lines: list[str] = []  # notes, and tasks that are over
        self._now: tuple[float, str] | None = None  # the share that is done of the task, and its line
        self._handle, self._is_shown = DisplayHandle(), False

    def advance(self, done: float, text: str | None = "") -> None:
        now = time.monotonic()
        self._text = self._text if text is None else text
        count, left = f"{self._title} {_count(done)}/{self._total}", f"{duration(self._left(done, now))} left"
        self._last = _GAP.join(part for part in (count, self._text) if part)
        if now - self._spoke >= _REWRITE_SECONDS:
            self._now = done / max(1, self._total), _GAP.join(part for part in (count, left, self._text) if part)
            self._show()
            self._spoke = now

    def _say(self, text: str) -> None:
        self._now = None
        self._lines.append(text)
        self._show()

    def _show(self) -> None:
        (self._handle.update if self._is_shown else self._handle.display)(self)
        self._is_shown = True

    def __repr__(self) -> str:
        return "\n".join([*self._lines, *([] if self._now is None else [self._now[1]])])

    def _repr_html_(self) -> str:
        style = "margin:0;padding:0;border:0;background:none;white-space:pre-wrap;font-size:.9em"
        above = f'<pre style="{style}">{html.escape(chr(10).join(self._lines))}</pre>' if self._lines else ""
        if self._now is None:
            return above
        bar = f'<progress max="1" value="{self._now[0]:.4f}" style="width:12em;margin-right:1em"></progress>'
        line = f'<code style="background:none;white-space:pre-wrap">{html.escape(self._now[1])}</code>'
        return f"{above}<div>{bar}{line}</div>"


class _Bar(Progress):
    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column
        from rich.text import Text

        class Left(ProgressColumn):
            def render(self, task: Task) -> Text:
                if task.finished or task.stop_time is not None:
                    return Text(f"took {duration(task.elapsed or 0.0)}")
                left = task.time_remaining
                return Text("" if left is None else f"{duration(left)} left", style="cyan")

        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ignore")),
            BarColumn(bar_width=_BAR, table_column=Column(min_width=_BAR)),
            TextColumn("{task.fields[done]}/{task.total}", table_column=Column(no_wrap=True, overflow="ignore")),
            Left(table_column=Column(min_width=len("9 min 50 s left"), no_wrap=True)),
            TextColumn("{task.fields[figures]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        )
        console = Console(file=stream, highlight=False)
        self._rich = RichProgress(*columns, console=console, expand=True)

    def start(self, title: str, total: int, done: float = 0) -> None:
        self._rich.start()
        self._task = self._rich.add_task(title, total=total, completed=int(done), figures="", done=_count(done))

    def advance(self, done: float, text: str | None = "") -> None:
        self._rich.update(self._task, completed=done, done=_count(done))
        if text is not None:
            self._rich.update(self._task, figures=text)

    def finish(self) -> None:
        for task in self._rich.task_ids:
            self._rich.stop_task(task)
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
    if is_notebook(stream):
        return _Notebook(stream)
    return _Bar(stream) if stream.isatty() else _Lines(stream)


def is_notebook(stream: TextIO) -> bool:
    """Whether a stream is that of a notebook's kernel."""
    return type(stream).__module__.startswith("ipykernel.")


def _count(done: float) -> int:
    """Whole parts that are done; what is done of the next does not count."""
    return int(done + 1e-6)


_TOPICS = ("graph", "columns", "model", "training", "memory", "time", "ranking", "trial")


def aligned(note: str) -> str:
    """'model: three steps' with the topic in a column of its own; other notes are of the topic 'note'."""
    topic, colon, text = note.partition(": ")
    if not colon or topic not in _TOPICS:
        topic, text = "note", note
    return f"{topic:<10} {text}"


class JsonLines:
    """A tracker that appends each record to a file as a line of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        """Append one record."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"epoch": step, **figures}) + "\n")
        except OSError as error:
            raise write_error(self._path, error) from error


@contextmanager
def interruptible(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop at the next safe point (the yielded function returns whether); a second one stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        with suppress(RuntimeError):  # the signal came in the midst of another line
            say("stopping at the next safe point (Ctrl-C again stops at once)")

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    except KeyboardInterrupt:
        raise StoppedError("stopped at once") from None
    finally:
        signal.signal(signal.SIGINT, before)


class Checkpoints:
    """A folder for the state of a run, gone at the end unless stopped, and held by one run at a time.

    A new run moves what a stopped one left out of its way, and says so: nothing is lost, and nothing is in the way.
    """

    def __init__(
        self,
        folder: Path,
        *,
        resume: bool,
        run: str = "",
        say: Callable[[str], None],
        what: str | None = None,
        or_else: str = "",
    ) -> None:
        """`what` names the run's result where another run works on the same, `or_else` what a stopped run offers."""
        self._or_else = or_else
        self._folder, self._resume, self._run, self._say = folder, resume, run, say
        self._what = what or f"'{folder}'"
        self._held = ExitStack()

    @staticmethod
    def lock(folder: Path, what: str) -> AbstractContextManager[None]:
        """What a run holds; refused at once where another run does."""
        return exclusive(folder.with_name(f".{folder.name}.lock"), what)

    def __enter__(self) -> None:
        if self._resume and not self._folder.is_dir():
            raise StoreError(f"there is nothing to resume: no folder '{self._folder}' (leave out --resume)")
        if not self._folder.parent.exists():
            make_folder(self._folder.parent, self._folder)
        if self._folder.parent.is_dir():
            self._held.enter_context(self.lock(self._folder, self._what))
        try:
            self._prepare()
        except BaseException:
            self._held.close()
            raise

    def _prepare(self) -> None:
        remove_abandoned(self._folder, ".")  # of a run that was killed while it wrote
        if self._resume and not self._useful():
            self._say(f"starting over: the stopped run had saved no state in '{self._folder}' yet")
            for file in self._folder.glob("*.jsonl"):
                file.unlink()
        elif self._resume and not any(self._folder.glob(f"{self._run}*")):
            raise StoreError(
                f"the state in '{self._folder}' is of another run: its graph, settings or protocol differ "
                "(start again without --resume, or restore them)"
            )
        if not self._resume and self._useful():
            names = (self._folder.with_name(f"{self._folder.name}.{i}") for i in itertools.count(1))
            aside = next(name for name in names if not name.exists())
            self._folder.replace(aside)
            self._say(f"starting anew (no --resume): the state of a stopped run is kept as '{aside}'")
        make_folder(self._folder, self._folder)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        useful = self._useful()
        with self._held:
            if kind is None or not useful:
                for file in self._folder.glob("*"):
                    if file.suffix in (".safetensors", ".json", ".jsonl"):
                        file.unlink()
                with suppress(OSError):  # somebody keeps files of their own here
                    self._folder.rmdir()
        if isinstance(error, StoppedError) and useful:
            raise StoppedError(f"{error}. Go on with the same command and --resume{self._or_else}") from None

    def _useful(self) -> bool:
        """Whether something is here to resume from; a log alone is not."""
        return any(file.suffix in (".safetensors", ".json") for file in self._folder.glob("*"))


def make_folder(folder: Path, wanted_for: Path) -> None:
    """Create a folder; an error names the file that it is wanted for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(wanted_for, error) from error


def duration(seconds: float) -> str:
    """Seconds in words: 0.4 s, 42 s, 3 min 20 s, 45 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 5 else f"{seconds:.0f} s"
    if seconds < 595:
        minutes, rest = divmod(round(seconds / 10), 6)
        return f"{minutes} min {10 * rest} s" if rest else f"{minutes} min"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
