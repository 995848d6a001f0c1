"""Running cells: one process per worker, one file per table, finished cells never run twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from yinyan import __version__
from yinyan.errors import StoppedError, StoreError
from yinyan.files import locked, write_text
from yinyan.reproduce.recipe import Cell

__all__ = ["CURVE", "Job", "Result", "kept_results", "run_cells"]

_NAMED = ("figure", "figures", "validation", "protocol", "seconds", "failure")  # what a line holds of a result

CURVE = "validation MRR after epoch "  # what figures of a learning curve are called, before the epoch


@dataclass(frozen=True)
class Result:
    """What a cell came to."""

    cell: Cell
    figure: float | None  # of the recipe's metric, in per cent; none where the training failed
    figures: dict[str, float]
    validation: float | None
    protocol: str  # in full: data, split, negatives, metric, seed
    seconds: float
    failure: str = ""  # what went wrong, in words


@dataclass(frozen=True)
class Job:
    """Where results go and how cells are run."""

    folder: Path
    device: str = "cpu"
    threads: int = 1
    smoke: bool = False


def run_cells(
    cells: Iterable[Cell],
    job: Job,
    *,
    workers: int = 1,
    on_done: Callable[[Result, int, int], None] = lambda result, done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run the cells that have no result yet; where `should_stop` says so, running ones are finished first."""
    missing = _missing({cell.digest: cell for cell in cells}.values(), job)
    if workers == 1:
        for done, cell in enumerate(missing):
            if should_stop():
                raise _stopped(done, len(missing))
            on_done(run_and_keep(cell, job), done + 1, len(missing))
        return
    others = set(active_children())
    with ProcessPoolExecutor(workers, get_context("spawn"), _ignore_interrupts) as pool:
        try:
            for done, result in enumerate(_in_parallel(pool, missing, job, workers, should_stop)):
                on_done(result, done + 1, len(missing))
        except KeyboardInterrupt:  # a second Ctrl-C: leaving the pool would wait for its workers
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
    left = len(_missing(missing, job))
    if left:
        raise _stopped(len(missing) - left, len(missing))


def run_and_keep(cell: Cell, job: Job) -> Result:
    """Run one cell and write its result down."""
    from yinyan.reproduce.measuring import measure

    result = measure(cell, device=job.device, threads=job.threads, smoke=job.smoke)
    path = result_file(cell, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(".lock")):  # other workers, and other commands, keep their results here too
        lines = _read_lines(path) | {cell.digest: {**asdict(result), "version": __version__}}
        write_text(path, "".join(json.dumps(line) + "\n" for line in sorted(lines.values(), key=_order)))
    return result


def kept_results(cells: Iterable[Cell], job: Job) -> list[Result]:
    """The results at hand, of this table or of another one that shares the run."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((job.folder / "cells").glob("*.jsonl")):
        found = _read_lines(path) | found
    kept = [(cell, found[cell.digest]) for cell in cells if cell.digest in found]
    return [Result(cell, **{name: line[name] for name in _NAMED}) for cell, line in kept]


def result_file(cell: Cell, job: Job) -> Path:
    """Where a cell's result is kept: a line in the file of the table that ran it."""
    return job.folder / "cells" / f"{cell.recipe}.jsonl"


def _missing(cells: Iterable[Cell], job: Job) -> list[Cell]:
    wanted = list(cells)
    done = {result.cell.digest for result in kept_results(wanted, job)}
    return [cell for cell in wanted if cell.digest not in done]


def _read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of a file by the digest of their cells."""
    found = {}
    for number, text in enumerate(path.read_bytes().splitlines() if path.exists() else (), start=1):
        try:
            line: dict[str, Any] = json.loads(text)
            if any(name not in line for name in _NAMED):
                raise ValueError
            found[Cell(**line["cell"]).digest] = line
        except (ValueError, KeyError, TypeError):  # the file was written whole, so that something else damaged it
            raise StoreError(
                f"line {number} of '{path}' is not a whole result: delete it, and the same command runs it again"
            ) from None
    return found


def _order(line: dict[str, Any]) -> tuple[Any, ...]:
    """The same for the same runs, in whatever order they ended."""
    cell = Cell(**line["cell"])
    return cell.method, cell.data, cell.protocol, cell.seed, cell.digest


def _in_parallel(
    pool: ProcessPoolExecutor, cells: Sequence[Cell], job: Job, workers: int, should_stop: Callable[[], bool]
) -> Iterator[Result]:
    """Results as they come; no more than one cell a worker is under way, so that a stop is not far."""
    waiting = list(reversed(cells))
    running: set[Future[Result]] = set()
    while waiting or running:
        while waiting and len(running) < workers and not should_stop():
            running.add(pool.submit(run_and_keep, waiting.pop(), job))
        if not running:
            return
        finished, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


def _ignore_interrupts() -> None:
    """Ctrl-C is the parent's to hear: a worker finishes its cell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stopped(done: int, total: int) -> StoppedError:
    return StoppedError(f"stopped after {done} of {total} runs; the same command goes on from there")
