"""Fits in processes of their own: ours, that of an older revision of this clone, and implicit's."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[1]
SOURCE = BENCHMARKS.parent / "src"


class RunError(Exception):
    """A process that failed: the last line of what it printed."""


@contextlib.contextmanager
def revision(name: str) -> Iterator[Path]:
    """The `src` folder of a revision of this clone, in a temporary folder; RunError where git does not have it."""
    command = ["git", "-C", str(BENCHMARKS.parent), "archive", "--format=tar", name, "src"]
    try:
        packed = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise RunError("git is not installed") from error
    if packed.returncode:
        raise RunError(f"revision {name} is not in this clone: {_last_line(packed.stderr.decode())}")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder) / "src"


def fit(job: dict[str, Any], *, threads: int, source: Path = SOURCE, do: str = "fit") -> dict[str, Any]:
    """One job of `fit_child` with the package of a source folder."""
    given = {"quality": False, **job, "do": do, "source": str(source), "threads": threads}
    return _ran("lib.fit_child", given, source, {"OMP_NUM_THREADS": str(threads)})


def evaluated(job: dict[str, Any], *, threads: int, source: Path) -> dict[str, Any]:
    """Test figures of default settings on one split, with the package of a source folder."""
    return _ran("lib.evaluate_child", job | {"threads": threads}, source, {"OMP_NUM_THREADS": str(threads)})


def warm(source: Path, folder: Path, *, threads: int) -> None:
    """A tiny fit that is not measured: kernels are compiled, and files of the package are in the cache."""
    path = folder / "warm.csv"
    path.write_text("source,target\n" + "".join(f"{i},{(i + hop) % 40}\n" for i in range(40) for hop in (1, 2, 5)))
    job = {"case": "warm", "kind": "csv", "path": str(path), "bipartite": False, "training": {"epochs": 1}}
    fit(job, threads=threads, source=source)


def als(job: dict[str, Any], *, threads: int) -> dict[str, Any]:
    """implicit's ALS on the files of a case; its own advice is one thread for its BLAS."""
    return _ran("lib.als_child", job | {"threads": threads}, SOURCE, {"OPENBLAS_NUM_THREADS": "1"})


def has_als() -> bool:
    """Whether implicit and scipy are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("implicit", "scipy"))


def _ran(module: str, job: dict[str, Any], source: Path, extra: dict[str, str]) -> dict[str, Any]:
    environment = {**os.environ, **extra, "PYTHONPATH": os.pathsep.join([str(source), str(BENCHMARKS)])}
    if "YINYAN_DATA" in environment:
        environment["YINYAN_DATA"] = str(Path(environment["YINYAN_DATA"]).expanduser().resolve())
    command = [sys.executable, "-m", module, json.dumps(job | {"began": time.monotonic()})]
    run = subprocess.run(command, cwd=BENCHMARKS, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RunError(_last_line(run.stderr) or f"{module} ended with code {run.returncode}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
