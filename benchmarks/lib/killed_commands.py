"""Commands that write, killed with kill -9 at chosen steps of their writing, and then run again.

A process counts the steps at which its command touches files below a folder (it opens one for writing, renames,
removes, makes a folder), and kills itself before a chosen one. After that, what was there before has to be whole, or
what is new, and the same command has to work.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from lib.soak_checks import answers_of_log
from yinyan import LinkPredictor
from yinyan.cli import main
from yinyan.cli.commands import app
from yinyan.service.context import Room
from yinyan.service.options import Options

FORKS = multiprocessing.get_context("forkserver")  # imports once, and not for every command again
FORKS.set_forkserver_preload(
    [
        *("torch._dynamo", "pandas"),  # which optimisers and pyarrow import
        *("yinyan.cli.commands", "yinyan.cli.common", "yinyan.cli.bulk", "yinyan.predictor", "yinyan.training.fit"),
        *("yinyan.evaluation", "yinyan.reproduce.pages", "yinyan.reproduce.measuring", "yinyan.reporting.report"),
        *("yinyan.service.context", "yinyan.live.change_log"),
    ]
)
_STEPS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "shutil.rmtree"}
_PATIENCE = 300.0
TINY = [
    part
    for text in ("training.epochs=3", "encoder.hidden_size=8", "decoder.width=8", "encoder.embedding_size=8")
    for part in ("--set", text)
]


class Case(NamedTuple):
    """A command, and a digest of what it leaves, which fails on what is not whole; '' for nothing."""

    arguments: tuple[str, ...]
    left: Callable[[Path], str]
    again: Callable[[Path], Sequence[str]] = lambda folder: ()  # options of the second run
    may_be_nothing: bool = False  # as where the shell has emptied the file before the command begins
    run: Callable[[list[str]], None] = main


def _model(folder: Path) -> str:
    return _digest(LinkPredictor.load(folder / "model", device="cpu").embeddings_.tobytes())


def _index(folder: Path) -> str:
    predictor = LinkPredictor.load(folder / "model", device="cpu")
    index = predictor.load_index(folder / "model")
    found = index.recommend(predictor.graph_.ids.take(range(20)), 5)
    if len(found) != 100:
        raise ValueError(f"the index gave {len(found)} of 100 rows")
    facts = index.metadata  # its effort depends on measured times, and with it the rows that are missed
    return _digest(repr((facts.kind, facts.seed, facts.fingerprint)).encode())


def _rows(folder: Path) -> str:
    return _digest(repr(pq.read_table(folder / "rows.parquet").to_pylist()).encode())


def _report(folder: Path) -> str:
    text = (folder / "report.html").read_text(encoding="utf-8")
    if not text.rstrip().endswith("</html>"):
        raise ValueError("the report is cut off")
    return _digest(_model(folder).encode())  # its text holds times of day


def _printed(folder: Path) -> str:
    text = (folder / "printed.txt").read_text(encoding="utf-8")
    return "" if not text else _digest(json.dumps(json.loads(text), sort_keys=True).encode())


def _pages(folder: Path) -> str:
    found = folder / "results" / "smoke" / "collab.json"
    if not found.exists():
        return ""
    rows = json.loads(found.read_text(encoding="utf-8"))["rows"]
    return _digest(json.dumps([row["method"] for row in rows]).encode())


def _graph(folder: Path) -> str:
    return answers_of_log(folder / "model")


def _resume(folder: Path) -> Sequence[str]:
    """--resume, once there is something to go on from."""
    return ["--resume"] if list(folder.glob("*.checkpoint/*.safetensors")) else []


def cases() -> dict[str, Case]:
    """By name; `compact` where this version has it."""
    fit = ("fit", "links.csv", "--out", "model", "--seed", "1", *TINY, "--quiet")
    evaluate = ("evaluate", "links.csv", "--peers", "cn", "--seeds", "2", *TINY, "--json", "--quiet")
    found = {
        "fit --report": Case((*fit, "--report", "report.html"), _report),
        "fit --resume": Case(fit, _model, _resume),
        "index": Case(("index", "model", "--kind", "flashlight", "--recall", "0.5", "--seed", "1", "--quiet"), _index),
        "recommend --out": Case(("recommend", "model", "--all", "-k", "3", "--out", "rows.parquet", "--quiet"), _rows),
        "evaluate --json": Case(evaluate, _printed, _resume, may_be_nothing=True),
        "reproduce": Case(
            ("reproduce", "collab", "--smoke", "--out", "results", "--quiet"), _pages, may_be_nothing=True
        ),
    }
    if any(command.name == "compact" or _called(command) == "compact" for command in app.registered_commands):
        found["compact"] = Case(("compact", "model"), _graph)
    return found


def _called(command: Any) -> str:
    return "" if command.callback is None else str(command.callback.__name__)


def prepared(folder: Path) -> Path:
    """A table of edges, a model of it, its index, a report, rows and a change log: all older than the commands."""
    rng = np.random.default_rng(0)
    lines = [f"n{a},n{b}" for a in range(60) for b in rng.choice(60, 4, replace=False)]
    (folder / "links.csv").write_text("source,target\n" + "\n".join(lines) + "\n", encoding="utf-8")
    fit = ["fit", "links.csv", "--out", "model", *TINY, "--quiet", "--report", "report.html"]
    index = ["index", "model", "--kind", "flashlight", "--recall", "0.5", "--quiet"]
    rows = ["recommend", "model", "--all", "-k", "2", "--out", "rows.parquet", "--quiet"]
    for arguments in (fit, index, rows):
        code, _ = ran(folder, arguments)
        if code:
            raise RuntimeError(f"{arguments} failed: {(folder / 'said.txt').read_text()}")
    room = Room(Options(model=folder / "model", index="exact"))
    for place in range(20):
        room.keeper.submit({"kind": "reject", "pairs": [[f"n{place}", f"n{place + 1}"]]}).result()
    room.close()
    return folder


def ran(
    folder: Path, arguments: Sequence[str], *, step: int = 0, run: Callable[[list[str]], None] = main
) -> tuple[int, int]:
    """The exit code of a command in a process of its own, and its steps of writing; killed before one of these."""
    here, there = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_command, args=(str(folder), list(arguments), step, run, there))
    process.start()
    there.close()
    process.join(_PATIENCE)
    process.kill()
    process.join()
    steps = here.recv() if here.poll() and process.exitcode == 0 else 0
    here.close()
    return process.exitcode or 0, steps


def killed(case: Case, start: Path, folder: Path, chance: random.Random, kills: int, stop: float) -> dict[str, Any]:
    """Kill a command `kills` times, each on a copy of `start`; what went wrong is in the list `broken`."""
    straight = _copied(start, folder)
    before = _left(case, straight)
    code, steps = ran(straight, case.arguments, run=case.run)
    after = _left(case, straight)
    broken = [] if code == 0 and after else [f"a straight run ended with {code}"]
    moments = sorted(chance.sample(range(1, steps + 1), min(kills, steps)))
    done = 0
    for step in moments:
        if done and time.monotonic() > stop:
            break
        place = _copied(start, folder)
        code, _ = ran(place, case.arguments, step=step, run=case.run)
        done += code == -signal.SIGKILL
        found = _left(case, place)
        if found not in (before, after) and not (found == "" and case.may_be_nothing):
            broken.append(f"step {step} of {steps}: left {found}")
        code, _ = ran(place, [*case.arguments, *case.again(place)], run=case.run)
        if code or _left(case, place) != after:
            said = (place / "said.txt").read_text(encoding="utf-8")[-300:]
            broken.append(f"step {step} of {steps}: running it again ended with {code}: {said}")
    shutil.rmtree(folder)
    return {"steps": steps, "kills": done, "broken": broken}


def _left(case: Case, folder: Path) -> str:
    try:
        return case.left(folder)
    except Exception as error:
        return "" if isinstance(error, FileNotFoundError) and case.may_be_nothing else f"not whole: {error!r}"


def _copied(start: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(start, folder)
    return folder


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _command(folder: str, arguments: list[str], step: int, run: Callable[[list[str]], None], pipe: Any) -> None:
    """A command in this process, with what it prints in files."""
    os.chdir(folder)
    for name, stream in (("printed.txt", 1), ("said.txt", 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    torch.set_num_threads(1)
    counted = _counting(folder, step)
    try:
        run(arguments)
    except SystemExit as left:
        if not left.code:
            sys.stdout.flush()
            pipe.send(counted[0])
        raise


def _counting(folder: str, step: int) -> list[int]:
    """Count the steps of writing below a folder, and end this process before one of them."""
    count = [0]

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, how = given
            writes = mode is None or bool(how & (os.O_WRONLY | os.O_RDWR))  # os.open is for writing or for a flush
        else:
            path, writes = (given[0], True) if event in _STEPS else (None, False)
        if not writes or not isinstance(path, (str, bytes, os.PathLike)):
            return
        if os.path.abspath(os.fsdecode(path)).startswith(folder):  # noqa: PTH100 - without a path object
            count[0] += 1
            if count[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count
