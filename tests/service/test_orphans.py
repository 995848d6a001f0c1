"""What kill -9 of a service leaves behind: no workers, no port, no folders, and every acknowledged change."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from serving_tools import Child, free_port
from yinyan.errors import SettingsError
from yinyan.live.change_log import ChangeLog, log_path
from yinyan.service import ports
from yinyan.service.ports import wait_for_port


def until(is_true: Callable[[], bool], seconds: float) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_workers_of_a_killed_parent_went_on_acknowledging_and_kept_the_port(
    model: Path, child: Callable[..., Child]
) -> None:
    service = child(model, "--workers", "2", "--access-log", os.devnull).wait_ready()
    acknowledged: set[str] = set()
    writers = [threading.Thread(target=_write_until_refused, args=(service.port, w, acknowledged)) for w in range(2)]
    for writer in writers:
        writer.start()
    assert until(lambda: len(acknowledged) >= 5, 20)
    service.process.kill()
    killed = time.monotonic()
    again = child(model, "--access-log", os.devnull, port=service.port)  # at once, on the same port
    assert until(service.is_gone, 5)
    seconds = time.monotonic() - killed
    for writer in writers:
        writer.join(20)
    again.wait_ready()
    assert seconds < 2, f"workers ran for {seconds:.1f} s without their parent"  # 1 s, and as much on a busy machine
    log = ChangeLog(log_path(model))
    logged = [node["id"] for entry in log.after(0) for node in entry.change["nodes"]]
    log.close()
    assert acknowledged <= set(logged) and len(logged) == len(set(logged))
    assert again.client.get("/v1/model").json()["live"]["version"] == len(logged)


def _workers(service: Child) -> set[int]:
    """Processes that the first one of a service has started to answer requests."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            if parent == service.process.pid and b"spawn_main" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_a_worker_that_ended_while_it_was_asked_for_a_sign_of_life_was_not_replaced(
    model: Path, child: Callable[..., Child]
) -> None:
    """For ten minutes one worker was missing, and SIGTERM was not handled."""
    service = child(model, "--workers", "2", "--access-log", os.devnull).wait_ready()
    assert until(lambda: len(_workers(service)) == 2, 20)
    victim = min(_workers(service))
    os.kill(victim, signal.SIGSTOP)  # it answers no more
    time.sleep(1.5)  # the first process asks twice a second, and waits now
    os.kill(victim, signal.SIGKILL)
    assert until(lambda: len(_workers(service) - {victim}) == 2, 20), "nobody took its place"
    assert service.stop() == 0


def _write_until_refused(port: int, writer: int, acknowledged: set[str]) -> None:
    """Adds nodes, each over a new connection, until nobody listens."""
    for number in range(2_000):
        name = f"w{writer}-{number}"
        body = {"nodes": [{"id": name, "neighbours": ["n00"]}]}
        try:
            answer = httpx.post(f"http://127.0.0.1:{port}/v1/nodes", json=body, timeout=20, trust_env=False)
        except httpx.TransportError:
            return
        if answer.status_code == 200:
            acknowledged.add(name)


def test_a_port_that_is_freed_in_time_is_waited_for() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        freed = threading.Timer(0.2, held.close)
        freed.start()
        wait_for_port("127.0.0.1", port)
        freed.join()
    wait_for_port("127.0.0.1", 0)  # any port: nothing to wait for


def test_a_port_in_use_is_said_before_the_model_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_PATIENCE", 0.1)
    port = free_port()
    with socket.socket() as held:
        held.bind(("127.0.0.1", port))
        held.listen()
        with pytest.raises(SettingsError, match=f"port {port} of 127.0.0.1 is in use: .* --port"):
            wait_for_port("127.0.0.1", port)
