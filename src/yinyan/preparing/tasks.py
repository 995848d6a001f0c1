"""Stages of independent tasks: in one process or on Ray, each done once, also if a run is killed and started again."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from yinyan.errors import InputError, MissingExtraError
from yinyan.files import remove_abandoned, write_text
from yinyan.progress import duration, make_folder

__all__ = ["Engine", "Summary", "check_engine", "map_tasks", "run_stage", "stage_done", "task_files"]

Engine: TypeAlias = Literal["auto", "process", "ray"]
Summary: TypeAlias = dict[str, Any]
Task = TypeVar("Task")


def check_engine(engine: Engine) -> Engine:
    """The engine to use: 'auto' is Ray if this process has joined a cluster or RAY_ADDRESS names one."""
    if engine not in ("auto", "process", "ray"):
        raise InputError(f"'engine' (--engine) needs to be 'auto', 'process' or 'ray' (got {engine!r})")
    if engine == "auto":
        joined = "ray" in sys.modules and sys.modules["ray"].is_initialized()
        engine = "ray" if joined or os.environ.get("RAY_ADDRESS") else "process"
    if engine == "ray" and importlib.util.find_spec("ray") is None:
        raise MissingExtraError("engine 'ray' needs the package ray: pip install 'yinyan[cluster]'")
    return engine


def map_tasks(
    function: Callable[[Task], Summary], tasks: Sequence[Task], engine: Engine = "process"
) -> Iterator[Summary]:
    """What the function returns for each task, in their order. Tasks do not depend on each other."""
    if engine != "ray":
        yield from map(function, tasks)
        return
    ray: Any = importlib.import_module("ray")
    if not tasks:
        return
    waiting = [ray.remote(_call).remote(function, task) for task in tasks]
    try:
        for one in waiting:
            yield ray.get(one)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    finally:
        ray.wait(waiting, num_returns=len(waiting))  # after an error too: nothing writes when this returns


def run_stage(
    work: Path,
    name: str,
    function: Callable[[Path, Task], Summary],
    tasks: Sequence[Task],
    *,
    engine: Engine,
    describe: Callable[[list[Summary]], str],
    tell: Callable[[str], None],
) -> list[Summary]:
    """The summaries of all tasks; what an earlier run has done is not done again.

    The function gets a path, to which it adds the endings of its files, and a task. A task is done when its summary is
    on disk, and the stage when all summaries are.
    """
    marker, begun = work / f"{name}.json", time.monotonic()
    if marker.exists():
        done: list[Summary] = json.loads(marker.read_text(encoding="utf-8"))
        tell(f"{name}: {describe(done)} (done before)")
        return done
    folder = work / name
    make_folder(folder, marker)
    remove_abandoned(folder, ".")
    places = [folder / f"{number:05d}" for number in range(len(tasks))]
    left = [(place, task) for place, task in zip(places, tasks, strict=True) if not _summary(place).exists()]
    for _ in map_tasks(partial(_finish, function), left, engine):
        pass
    found = [json.loads(_summary(place).read_text(encoding="utf-8")) for place in places]
    write_text(marker, json.dumps(found))
    tell(f"{name}: {describe(found)}, {duration(time.monotonic() - begun)}")
    return found


def stage_done(work: Path, name: str) -> bool:
    """Whether all tasks of a stage are done."""
    return (work / f"{name}.json").exists()


def task_files(work: Path, name: str, ending: str) -> list[Path]:
    """The files with an ending that the tasks of a stage wrote, in the order of the tasks."""
    return sorted((work / name).glob(f"[0-9]*{ending}"))


def _summary(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def _finish(function: Callable[[Path, Task], Summary], given: tuple[Path, Task]) -> Summary:
    place, task = given
    summary = function(place, task)
    write_text(_summary(place), json.dumps(summary))
    return summary


def _call(function: Callable[[Task], Summary], task: Task) -> Summary:
    return function(task)
