"""The command line under test: within this process, or as a process of its own."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import yinyan
from yinyan.cli import main

TINY = tuple(
    part
    for text in ("training.epochs=2", "encoder.hidden_size=8", "decoder.width=8", "encoder.embedding_size=8")
    for part in ("--set", text)
)

ODD = ["O'Neil, Ann", 'say "hi"', "line\nbreak", "🐼 panda", "Łódź", " padded ", "007", "7", "-5", "a;b"]
MESSY = [*ODD, *(f"p{i}" for i in range(20))]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: object) -> Ran:
    """A command in this process; standard output and standard error apart."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as left:
            code = int(left.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def works(*arguments: object) -> Ran:
    """A command that is to succeed."""
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    return ran


def refused(*arguments: object) -> str:
    """The one line on standard error of a command that is to fail; nothing else may be said."""
    ran = run(*arguments, "--quiet") if arguments[0] in ("fit", "evaluate", "tune", "demo") else run(*arguments)
    assert ran.code == 1, (ran.out, ran.err)
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.err


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """A command as a process of its own, with one thread as here."""
    source = str(Path(yinyan.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "yinyan", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    """Wait for something that a running process does."""
    end = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def write_links(path: Path, *, nodes: int = 60, each: int = 4, seed: int = 0) -> Path:
    """A CSV of random links between n0, n1, ..."""
    generator = np.random.default_rng(seed)
    rows = [f"n{a},n{b}" for a in range(nodes) for b in generator.choice(nodes, each, replace=False)]
    path.write_text("source,target\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def write_messy(path: Path) -> Path:
    """A CSV of odd ids under odd column names: repeated links, a self loop, rows that lack an end."""
    rows = [[a, MESSY[(i + step) % len(MESSY)], 1 + i % 3] for i, a in enumerate(MESSY) for step in (1, 3, 7)]
    rows += [*rows[:5], ["007", "007", 1], ["", "7", 1], ["7", "", 1]]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["Quelle (ID)", "Ziel, Name", "Rating"], *rows])
    return path
