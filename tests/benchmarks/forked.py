"""Runs a script in a process that is forked from one with torch imported, which saves its imports each time."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_IMPORTED = ["torch", "scipy.sparse", "yinyan", "yinyan.evaluation"]


@dataclass(frozen=True)
class Ended:
    """As `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def run_script(path: Path, arguments: list[str], folder: Path, files: Path, seconds: float = 300) -> Ended:
    """The script's exit code and what it printed; it runs in `folder`, with one thread and without YINYAN_DATA."""
    if os.name == "nt":  # no fork
        command = [sys.executable, str(path), *arguments]
        run = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=seconds)
        return Ended(run.returncode, run.stdout, run.stderr)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    out, err = files / "out.txt", files / "err.txt"
    process = context.Process(target=_script, args=(path, arguments, folder, out, err))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        raise TimeoutError(f"{path.name} ran for more than {seconds:g} s")
    return Ended(process.exitcode or 0, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "YINYAN_DATA"}
    return kept | {"OMP_NUM_THREADS": "1"}


def _script(path: Path, arguments: list[str], folder: Path, out: Path, err: Path) -> None:
    """In the forked process: the script's streams, folder, environment and arguments, then the script."""
    for stream, file in ((1, out), (2, err)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, stream)
        os.close(opened)
    environment = _environment()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    import torch

    torch.set_num_threads(1)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")
