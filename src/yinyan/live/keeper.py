"""The keeper of the live graph: one thread that writes changes down, makes them, and shows the next state."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from yinyan.errors import StoreError, YinYanError
from yinyan.live.change_log import ChangeLog, Logged
from yinyan.live.live_state import LiveState, Served
from yinyan.live.new_nodes import Inputs
from yinyan.live.renewal import Renewal, renewal_for
from yinyan.live.structure import Change, ConflictError, Effect, Structure, planned
from yinyan.progress import stage
from yinyan.text import counted

__all__ = ["Keeper", "Made"]

_log = logging.getLogger("yinyan.service")

_POLL = 0.02  # seconds between looks at what other processes have written
_MOST = 256  # changes that are written down together


class Made(NamedTuple):
    """What a change has done, and its number."""

    num: int
    version: int


@dataclass
class _Job:
    change: Change
    done: Future[Made] = field(default_factory=Future)


class _ReloadSeenError(Exception):
    """Another process has taken up another model."""


class Keeper:
    """Holds the current state. Readers take `now`, once a request; nothing they read is changed afterwards.

    Every process that serves the model has a keeper of its own, and the log is what they share: who writes takes its
    lock, makes what others have written first, checks the change against that, and appends it.
    """

    def __init__(
        self,
        load: Callable[[], Served],
        log: ChangeLog,
        *,
        read_only: bool = False,
        follow: bool = False,
        carry_over: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`follow` looks for changes of other processes; `carry_over` keeps a log when the model is another one.

        `tell` is called with lines about the start.
        """
        self._load, self._log = load, log
        self._read_only, self._follow = read_only, follow
        self.carry_over = carry_over
        self._jobs: queue.Queue[_Job | Callable[[], None] | None] = queue.Queue()
        self._renewal: Renewal | None = None
        self.failure: str | None = None  # why the embeddings no longer follow the log
        served = load()
        log.bind(served.fingerprint, carry_over=carry_over)
        count = log.last()
        with stage(tell, f"replaying {counted(count, 'change')}") if count else nullcontext():
            self._now = self._opened(served)
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    @property
    def now(self) -> LiveState:
        """The current state."""
        return self._now

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._read_only

    def submit(self, change: Change) -> Future[Made]:
        """Ask for a change; the future is done when it is on the disk and the answers know of it."""
        if self._read_only:
            raise ConflictError("this service is read-only: start it without --read-only to change the graph")
        job = _Job(change)
        self._jobs.put(job)
        return job.done

    def reload(self) -> Future[Made]:
        """Read the model directory again; those who are being answered keep what they began with."""
        done: Future[Made] = Future()

        def work() -> None:
            try:
                served = self._load()
                self._log.bind(served.fingerprint, carry_over=self.carry_over, reload=True)
                self._take_up(served)
                done.set_result(Made(1, self._now.version))
            except Exception as error:  # told to the one who asked
                done.set_exception(error)

        self._jobs.put(work)
        return done

    def close(self) -> None:
        """Finish what was asked for, and stop."""
        self._jobs.put(None)
        self._thread.join()
        self._log.close()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._read_only:
            self._prepared()
        while True:
            try:
                first = self._jobs.get(timeout=_POLL if self._follow else None)
            except queue.Empty:
                self._guarded([])
                continue
            if first is None:
                return
            if callable(first):
                first()
                continue
            self._guarded([first, *self._more()])

    def _more(self) -> list[_Job]:
        """Jobs that are waiting, up to the next one of another kind."""
        jobs: list[_Job] = []
        while len(jobs) < _MOST and self._jobs.qsize() and isinstance(self._jobs.queue[0], _Job):
            job = self._jobs.get_nowait()
            if isinstance(job, _Job):
                jobs.append(job)
        return jobs

    def _guarded(self, jobs: Sequence[_Job]) -> None:
        """Make changes; what goes wrong is told to those who wait, and the thread goes on."""
        try:
            while True:
                try:
                    return self._write(jobs) if jobs else self._catch_up()
                except _ReloadSeenError:
                    self._take_up(self._load())
        except Exception as error:
            _log.warning("changes failed: %s", error)
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)

    def _write(self, jobs: Sequence[_Job]) -> None:
        made: list[tuple[_Job, Made]] = []
        with self._log.writing():
            structure, effects, version = self._missed()
            for job in jobs:
                try:
                    after, effect = planned(structure, job.change)
                except YinYanError as error:
                    job.done.set_exception(error)
                    continue
                if effect.num:
                    version = self._log.append(job.change)
                    structure, effects = after, [*effects, effect]
                made.append((job, Made(effect.num, version)))
        self._show(structure, effects, version)
        for job, result in made:
            job.done.set_result(result)

    def _catch_up(self) -> None:
        if self._log.last() > self._now.version:
            self._show(*self._missed())

    def _missed(self) -> tuple[Structure, list[Effect], int]:
        """The structure with what others have written, its effects, and the number of the last change."""
        found = self._log.after(self._now.version)
        if any(logged.change["kind"] == "reload" for logged in found):
            raise _ReloadSeenError
        return _replayed(self._now.structure, found, self._now.version)

    def _show(self, structure: Structure, effects: Sequence[Effect], version: int) -> None:
        """Compute what changes reach, and let readers have it."""
        before = self._now
        if version == before.version:
            return
        inputs, drift = before.inputs, before.drift
        if any(effect.nodes or effect.added or effect.removed for effect in effects):
            try:
                renewal = self._prepared()
                rows, values = renewal.apply(structure, effects)
            except Exception as error:
                self.failure = f"the embeddings do not follow the change log: {error}"
                raise StoreError(f"{self.failure} (the change is kept: start the service again)") from error
            before.served.finder.update(rows, values)
            inputs, drift = renewal.inputs, renewal.drift()
        self._now = LiveState(before.served, version, structure, before.served.finder.snapshot, inputs, drift)

    def _prepared(self) -> Renewal:
        if self._renewal is None:
            self._renewal = renewal_for(self._now.served.fitted)
        return self._renewal

    def _take_up(self, served: Served) -> None:
        self._renewal = None
        self._now = self._opened(served)
        if not self._read_only:
            self._prepared()

    def _opened(self, served: Served) -> LiveState:
        """The state of a model after all changes in the log."""
        fitted = served.fitted
        inputs, drift = Inputs.of(fitted), 0.0
        structure, effects, version = _replayed(Structure.of(fitted.graph, served.labels), self._log.after(0), 0)
        if any(effect.nodes or effect.added or effect.removed for effect in effects):
            self._renewal = renewal_for(fitted)
            served.finder.update(*self._renewal.apply(structure, effects))
            inputs, drift = self._renewal.inputs, self._renewal.drift()
        return LiveState(served, version, structure, served.finder.snapshot, inputs, drift)


def _replayed(structure: Structure, found: Sequence[Logged], version: int) -> tuple[Structure, list[Effect], int]:
    """Changes of the log made again; one that fits the model no longer is left out and said."""
    effects: list[Effect] = []
    for version, change in found:
        if change["kind"] == "reload":
            continue
        try:
            structure, effect = planned(structure, change, lenient=True)
            effects.append(effect)
        except YinYanError as error:
            _log.warning("change %d does not fit this model and is left out: %s", version, error)
    return structure, effects, version
