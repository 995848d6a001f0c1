"""The service of a soak: started as users start it, killed with kill -9, and started again on the same port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

READY = 300.0  # seconds in which a service has to be ready


class Service:
    """`yinyan serve` in processes of its own on 127.0.0.1."""

    def __init__(self, model: Path, workers: int, folder: Path) -> None:
        self.model, self.workers, self.port = model, workers, free_port()
        self.said = folder / f"said-{self.port}.txt"
        self.kills: list[dict[str, Any]] = []
        self.process = self._started()
        self.start_seconds = self._until_ready(time.monotonic())

    def kill_all(self) -> None:
        """The first process, as the out-of-memory killer would; then a start at once, on the same port."""
        at, began, old = time.time(), time.monotonic(), self.process
        os.kill(old.pid, signal.SIGKILL)
        old.wait()
        self.process = self._started()
        deadline = time.monotonic() + 60
        while _group(old.pid):
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {_group(old.pid)} outlive the service that was killed")
            time.sleep(0.01)
        ended = time.monotonic() - began
        ready = self._until_ready(began)
        self.kills.append({"what": "service", "from": at, "until": time.time(), "ended": ended, "ready": ready})

    def kill_worker(self, chance: Any) -> None:
        """One of several processes; the first one starts another."""
        workers = self._workers()
        victim, at, began = chance.choice(workers), time.time(), time.monotonic()
        os.kill(victim, signal.SIGKILL)
        while len(set(self._workers()) - {victim}) < self.workers:
            if time.monotonic() > began + READY:
                raise RuntimeError(f"worker {victim} was killed, and no other was started")
            time.sleep(0.05)
        ready = self._until_ready(began)
        self.kills.append({"what": "worker", "from": at, "until": time.time() + 0.5, "ready": ready})

    def stop(self) -> int:
        """As a service manager stops it."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def end(self) -> None:
        """Whatever state it is in."""
        for pid in _group(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def memory(self) -> float:
        """Resident megabytes of all its processes."""
        return sum(_resident(pid) for pid in _group(self.process.pid))

    def ask(self, path: str, body: Any = None) -> Any:
        """An answer over a connection of its own."""
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self.port}{path}", content, {"Content-Type": "application/json"})
        with urlopen(request, timeout=30) as response:
            return json.load(response)

    def version(self) -> int:
        """The number of the last change, when all changes have been seen by the process asked."""
        return int(self.ask("/v1/model")["live"]["version"])

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "yinyan", "serve", str(self.model), "--port", str(self.port)]
        command += ["--workers", str(self.workers), "--access-log", os.devnull]
        with self.said.open("ab") as said:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            return subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)

    def _until_ready(self, began: float) -> float:
        while True:
            if self.process.poll() is not None or time.monotonic() > began + READY:
                raise RuntimeError(f"the service did not start: {self.said.read_text()[-2_000:]}")
            try:
                self.ask("/readyz")
                return time.monotonic() - began
            except (URLError, OSError):
                time.sleep(0.02)

    def _workers(self) -> list[int]:
        return [pid for pid in _group(self.process.pid) if b"spawn_main" in _read(pid, "cmdline")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _group(leader: int) -> list[int]:
    """Running processes of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            facts = _read(int(entry.name), "stat").rpartition(b")")[2].split()
            if facts and int(facts[2]) == leader and facts[0] not in (b"Z", b"X"):
                found.append(int(entry.name))
    return found


def _resident(pid: int) -> float:
    lines = [line for line in _read(pid, "status").splitlines() if line.startswith(b"VmRSS")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # it has ended since it was listed
