"""Services on free ports of this machine, in this process or in one of their own."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
import uvicorn

from yinyan import Graph, LinkPredictor
from yinyan.cli import main
from yinyan.retrieval import building, efforts
from yinyan.service.context import Room
from yinyan.service.options import Limits, Options
from yinyan.service.routes import create_app
from yinyan.service.serving import uvicorn_settings

TINY = {
    "encoder": {"hidden_size": 8, "embedding_size": 8, "num_steps": 2},
    "decoder": {"width": 8},
    "training": {"epochs": 2},
}


def two_rings(count: int = 40) -> np.ndarray[Any, Any]:
    """Pairs of two rings with chords, and one bridge."""
    half = count // 2
    ring = [(base + i, base + (i + step) % half) for base in (0, half) for i in range(half) for step in (1, 2)]
    return np.array([*ring, (0, half)])


def tiny_predictor(**settings: Any) -> LinkPredictor:
    groups = {name: {**TINY[name], **settings.get(name, {})} for name in TINY}
    return LinkPredictor(seed=1, device="cpu", **groups)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(model: Path, *, limits: Limits | None = None, **options: Any) -> Iterator[httpx.Client]:
    """A service in a thread of this process, and a client of it; `client.room` is what it runs in."""
    log = model.parent / "access.jsonl"
    chosen = Options(str(model), port=free_port(), access_log=str(log), limits=limits or Limits(), **options)
    room = Room(chosen)
    config = uvicorn.Config(create_app(room), **{**uvicorn_settings(chosen), "log_level": "critical"})
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{chosen.port}", trust_env=False, timeout=20) as client:
            client.room = room  # type: ignore[attr-defined]
            yield client
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


FORKS = multiprocessing.get_context("forkserver")  # imports once, and not for every process again
FORKS.set_forkserver_preload(
    # there is one such server in a process of tests: commands that train need what optimisers import
    ["yinyan.service.serving", "yinyan.cli", "yinyan.cli.common", "yinyan.training.fit", "torch._dynamo", "pandas"]
)


def _run(arguments: list[str], errors: str) -> None:
    os.setsid()
    for stream in (1, 2):
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.stdin = None  # type: ignore[assignment]  # the fork server has closed it, and uvicorn would pass it on
    torch.set_num_threads(1)
    main(arguments)


def run_without_recall(arguments: list[str], errors: str) -> None:
    """As `_run`, in a process in which `auto` builds lists of small graphs, and no effort finds much."""
    building.EXACT_BELOW, efforts._MOST_CANDIDATES = 100, 50  # type: ignore[misc]
    _run(arguments, errors)


def run_with_unread_errors(arguments: list[str], errors: str) -> None:
    """As `_run`, with a pipe as standard error that nobody reads."""
    os.setsid()
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    _, write = os.pipe()
    os.dup2(write, 2)
    sys.stderr = os.fdopen(2, "w", closefd=False)  # the old one may take it for a file
    sys.stdin = None  # type: ignore[assignment]
    torch.set_num_threads(1)
    main(arguments)


def _runs(group: int) -> bool:
    """Whether a process of a group runs; the system may remember for seconds those that have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            state, _, of_group, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
            if int(of_group) == group and state not in "ZX":
                return True
    return False


class Child:
    """A service in a process of its own, started by the command line."""

    def __init__(
        self, model: Path, *flags: str, port: int | None = None, run: Callable[[list[str], str], None] = _run
    ) -> None:
        self.port = free_port() if port is None else port
        self.errors = model.parent / f"errors-{self.port}.txt"
        arguments = ["serve", str(model), "--port", str(self.port), *flags]
        self.process = FORKS.Process(target=run, args=(arguments, str(self.errors)))
        self.process.start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=20)

    def wait_ready(self, seconds: float = 40) -> Child:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.is_alive(), self.errors.read_text()
            try:
                if self.client.get("/readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"not ready within {seconds} s: {self.errors.read_text()}")

    def signal(self, number: int) -> None:
        """As from a shell."""
        os.kill(self.process.pid or 0, number)

    def kill(self) -> None:
        """All of its processes, without a chance to tidy up; workers may outlive the first one."""
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # all have ended already
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join(10)
        self.client.close()

    def is_gone(self) -> bool:
        """Whether none of its processes runs any more."""
        self.process.join(0)
        return not _runs(self.process.pid or 0)

    def stop(self) -> int | None:
        """As a service manager stops it."""
        self.signal(signal.SIGTERM)
        self.process.join(20)
        self.client.close()
        return self.process.exitcode


def access_lines(model: Path) -> list[dict[str, Any]]:
    lines = (model.parent / "access.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of saved models: 'plain' with text ids, 'mixed' with ids of both types."""
    folder = tmp_path_factory.mktemp("models")
    texts = [f"n{i:02d}" for i in range(40)]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=texts)).save(folder / "plain")
    odd: list[Any] = [7, "7", "007", "a/b", "ä?#", "", *range(100, 134)]
    tiny_predictor().fit(Graph.from_arrays(two_rings(), ids=odd)).save(folder / "mixed")
    return folder


@pytest.fixture
def model(models: Path, tmp_path: Path) -> Path:
    """A copy of the plain model, to be changed."""
    shutil.copytree(models / "plain", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def mixed(models: Path, tmp_path: Path) -> Path:
    """A copy of the model with mixed ids."""
    shutil.copytree(models / "mixed", tmp_path / "mixed")
    return tmp_path / "mixed"
