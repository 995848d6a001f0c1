"""The keeper of the live graph: one thread that makes changes, writes them down, and shows the next state."""

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
from yinyan.graph.ids import Id
from yinyan.live.compaction import compact, is_due
from yinyan.live.course import Course, Step
from yinyan.live.live_state import LiveState, Served
from yinyan.live.log_records import Logged
from yinyan.live.opening import model_fingerprint
from yinyan.live.planning import Draft
from yinyan.live.refresh import Refresher
from yinyan.live.shared_log import CompactedError, LogFullError, OtherModelError, SharedLog, UncertainError
from yinyan.live.structure import Change, ConflictError
from yinyan.live.typed_course import NO_CHANGES, TypedCourse, TypedStep
from yinyan.live.typed_state import TypedServed, TypedState
from yinyan.progress import stage
from yinyan.text import counted

__all__ = ["Keeper", "Made"]

_log = logging.getLogger("yinyan.service")

_POLL = 0.02  # seconds between looks at what other processes have written
_MOST = 256  # changes that are written down together
_REFRESH = 10.0  # seconds that writes wait at most for a pass over the whole graph
_COMPACT = 1_000  # changes between looks at the size of the log


class Made(NamedTuple):
    """What a change has done, and its number."""

    num: int
    version: int
    clipped: tuple[Id, ...] = ()  # new nodes whose features were outside the range that training saw
    imputed: tuple[Id, ...] = ()  # new nodes without features, which got the mean of each column


@dataclass
class _Job:
    change: Change
    done: Future[Made] = field(default_factory=Future)


class _ReloadSeenError(Exception):
    """Another process has taken up another model."""


class Keeper:
    """Holds the current state. Readers take `now`, once a request; nothing they read is changed afterwards.

    Every process that serves the model has a keeper of its own, and the log is what they share: who writes takes its
    lock, makes what others have written first, checks the change against that, computes what it does, and appends it.
    """

    def __init__(
        self,
        load: Callable[[], Served | TypedServed],
        log: SharedLog,
        *,
        read_only: bool = False,
        carry_over: bool = False,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`carry_over` keeps a log when the model is another one; `tell` is called with lines about the start."""
        self._load, self._log = load, log
        self._read_only = read_only
        self.carry_over = carry_over
        self._jobs: queue.Queue[_Job | Callable[[], None] | None] = queue.Queue()
        self._waiting: list[tuple[int, Future[LiveState | TypedState]]] = []
        self._lock = threading.Lock()  # of those who wait
        self.failure: str | None = None  # why the state does not follow the log
        self._refresher = Refresher()
        self._compactor: threading.Thread | None = None
        self._looked_at = 0  # the version at which the size of the log was last looked at
        served = load()
        log.bind(served.fingerprint, directed=served.directed, carry_over=carry_over)
        count = log.last()
        with stage(tell, f"replaying {counted(count, 'change')}") if count else nullcontext():
            self._course = self._opened(served)
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    @property
    def now(self) -> LiveState | TypedState:
        """The current state."""
        return self._course.state

    @property
    def read_only(self) -> bool:
        """Whether changes are refused, as those of a model with relations are."""
        return self._read_only or isinstance(self._course, TypedCourse)

    def submit(self, change: Change) -> Future[Made]:
        """Ask for a change; the future is done when it is on the disk and the answers know of it."""
        if self._read_only:
            raise ConflictError("this service is read-only: start it without --read-only to change the graph")
        if isinstance(self._course, TypedCourse):
            raise ConflictError(NO_CHANGES)
        job = _Job(change)
        self._jobs.put(job)
        return job.done

    def reached(self, version: int) -> Future[LiveState | TypedState]:
        """Done with the state of now when that has seen a version, at once if it has."""
        done: Future[LiveState | TypedState] = Future()
        with self._lock:
            if self.now.version < version:
                self._waiting.append((version, done))
                return done
        done.set_result(self.now)
        return done

    def reload(self) -> Future[Made]:
        """Read the model directory again; those who are being answered keep what they began with."""
        done: Future[Made] = Future()

        def work() -> None:
            try:
                served = self._load()
                self._log.bind(served.fingerprint, directed=served.directed, carry_over=self.carry_over, reload=True)
                self._take_up(served)
                done.set_result(Made(1, self.now.version))
            except Exception as error:  # reported to the one who asked
                done.set_exception(error)

        self._jobs.put(work)
        return done

    def last_logged(self) -> Future[int]:
        """The number of the last change in the log, of whichever process."""
        done: Future[int] = Future()

        def work() -> None:
            try:
                done.set_result(self._log.last())
            except Exception as error:  # reported to the one who asked
                done.set_exception(error)

        self._jobs.put(work)
        return done

    def close(self) -> None:
        """Finish what was asked for, and stop."""
        self._jobs.put(None)
        self._thread.join()
        self._refresher.join()
        if self._compactor is not None:
            self._compactor.join()
        self._log.close()
        for _, done in self._waiting:
            done.cancel()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._prepare(self._course)
        while True:
            try:
                first = self._jobs.get(timeout=_POLL)
            except queue.Empty:
                self._idle()
                continue
            if first is None:
                return
            if callable(first):
                first()
            else:
                self._work([first, *self._more()])
                self._compact()

    def _more(self) -> list[_Job]:
        """Jobs that are waiting, up to the next one of another kind."""
        jobs: list[_Job] = []
        while len(jobs) < _MOST and self._jobs.qsize() and isinstance(self._jobs.queue[0], _Job):
            job = self._jobs.get_nowait()
            if isinstance(job, _Job):
                jobs.append(job)
        return jobs

    def _idle(self) -> None:
        """Follow what other processes have written, and take up what was computed in the background."""
        try:
            self._refresh()
            if self._log.was_written() or self.failure is not None:
                self._again(lambda: self._follow(self._log.after(self.now.version)))
            self.failure = None
            self._compact()
        except Exception as error:
            if self.failure is None:
                _log.warning(
                    "the change log cannot be followed: %s", error, exc_info=not isinstance(error, YinYanError)
                )
            self.failure = f"the answers do not follow the change log: {error}"

    def _work(self, jobs: Sequence[_Job]) -> None:
        """Make changes together; if that fails, one by one, so that only those that cannot be made get an error."""
        try:
            course = self._changing()
            if self._refresher.is_outrun(course.renewal, course.state):
                self._refresher.wait(_REFRESH)
            self._refresh()
            self._again(lambda: self._write(jobs))
        except Exception as error:
            if len(jobs) > 1 and not isinstance(error, (LogFullError, UncertainError)):
                for job in jobs:
                    self._work([job])
                return
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(_told(error))

    def _again(self, work: Callable[[], None]) -> None:
        """Do something, after reading the model again if others have, or have compacted what this one has not read."""
        while True:
            try:
                return work()
            except (_ReloadSeenError, CompactedError, OtherModelError):
                if self._log.spans_hosts:  # before minutes are spent on a model that is not the one of the log
                    self._log.expect(model_fingerprint(self.now.served.path))
                self._take_up(self._load())

    def _write(self, jobs: Sequence[_Job]) -> None:
        made: list[tuple[_Job, Made]] = []
        refused: list[tuple[_Job, YinYanError]] = []
        course, is_computed = self._changing(), False
        try:
            with self._log.writing():
                self._follow(self._log.after(self.now.version))
                draft, version = Draft(course.state.structure), course.state.version
                for job in jobs:
                    try:
                        effect = draft.plan(job.change)
                    except YinYanError as error:
                        refused.append((job, error))
                        continue
                    if effect.num:
                        version = self._log.append(job.change)
                        draft.take(effect)
                    clipped = tuple(node.id for node in effect.nodes if node.clipped)
                    imputed = tuple(node.id for node in effect.nodes if node.imputed)
                    made.append((job, Made(effect.num, version, clipped, imputed)))
                is_computed = True
                step = course.computed(draft, version, self._refresher.limit(course.state))
        except BaseException:
            if is_computed:
                course.spoil()  # what was computed is not in the log
            raise
        self._show(step)
        for job, result in made:
            job.done.set_result(result)
        for job, why in refused:
            job.done.set_exception(why)

    def _follow(self, found: Sequence[Logged]) -> None:
        """Make what others have written."""
        if any(logged.change["kind"] == "reload" for logged in found):
            raise _ReloadSeenError
        if found:
            for step in self._course.replayed(found):
                self._show(step)

    def _changing(self) -> Course:
        """The course of a model whose graph changes; that of one with relations is refused."""
        if isinstance(self._course, TypedCourse):
            raise ConflictError(NO_CHANGES)
        return self._course

    def _show(self, step: Step | TypedStep | None) -> None:
        """Let readers have the next state."""
        course = self._course
        if isinstance(step, TypedStep) and isinstance(course, TypedCourse):
            course.show(step)
        elif isinstance(step, Step) and isinstance(course, Course):
            course.show(step)
            if step.is_whole:
                self._refresher.outdate()
            self._refresher.note(course.renewal, course.state, step.effects)
        self._tell()

    def _tell(self) -> None:
        """Answer those who wait for a version that the state has now seen."""
        with self._lock:
            state = self.now
            ready = [done for version, done in self._waiting if version <= state.version]
            self._waiting = [entry for entry in self._waiting if entry[0] > state.version]
        for done in ready:
            if done.set_running_or_notify_cancel():
                done.set_result(state)

    def _refresh(self) -> None:
        """Take up rows that were computed anew, with what has changed meanwhile."""
        course = self._course
        if isinstance(course, TypedCourse):
            return
        taken = self._refresher.taken()
        if taken is not None:
            course.take_up(*taken)
        measured = self._refresher.measured()
        if measured is not None:
            course.note(measured)

    def _compact(self) -> None:
        """Have the log compacted in the background when it has grown."""
        if self._read_only or self.now.version < self._looked_at + _COMPACT:
            return
        self._looked_at = self.now.version
        if self._compactor is None or not self._compactor.is_alive():
            self._compactor = threading.Thread(target=self._compacted, name="compaction", daemon=True)
            self._compactor.start()

    def _compacted(self) -> None:
        try:
            if is_due(self._log.place):
                compact(self._log.place)
        except Exception:  # the log is as it was
            _log.exception("the change log could not be compacted")

    def _prepare(self, course: Course | TypedCourse) -> None:
        """Make ready what computes the next state, where there will be one."""
        if not self._read_only and isinstance(course, Course):
            course.prepare()

    def _take_up(self, served: Served | TypedServed) -> None:
        self._refresher.join()
        self._refresher = Refresher()  # rows of the model before are of no use
        course = self._opened(served)
        self._prepare(course)
        self._course = course
        self._tell()

    def _opened(self, served: Served | TypedServed) -> Course | TypedCourse:
        """The state of a model after all changes in the log."""
        self._log.expect(served.fingerprint)
        history = self._log.history()
        found = [*(Logged(history.base, change) for change in history.net), *history.changes]
        if isinstance(served, TypedServed):
            typed = TypedCourse(served)
            for version in typed.replayed(found):
                typed.show(version)
            return typed
        course = Course(served)
        for step in course.replayed(found):
            course.show(step)
        return course


def _told(error: Exception) -> Exception:
    """What is said of a change that failed: an error that nobody foresaw is logged, and no part of the answer."""
    if isinstance(error, YinYanError):
        return error
    _log.error("a change failed", exc_info=error)
    return StoreError("the change cannot be made: the cause is in the log of the service (nothing was changed)")
