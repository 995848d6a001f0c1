"""Small requests do not cost much: counts, lengths, readers that never read, a log that nobody reads."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from serving_tools import Child, run_with_unread_errors, served
from yinyan.service.bodies import Bodies
from yinyan.service.log_lines import LogLines
from yinyan.service.options import Limits
from yinyan.service.problems import TooMuchError
from yinyan.service.schemas import ScoreBody
from yinyan.service.sizes import TEXT
from yinyan.service.slow_clients import SlowClientProtocol


@pytest.fixture(scope="module")
def shared(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service for questions that change nothing."""
    import shutil

    folder = tmp_path_factory.mktemp("limits")
    shutil.copytree(models / "plain", folder / "model")
    with served(folder / "model") as client:
        yield client


_WRONG = {
    "one id per pair": b'{"pairs":[' + b",".join([b"[1.5]"] * 610_000) + b"]}",
    "empty lists": b'{"pairs":[' + b",".join([b"[]"] * 1_200_000) + b"]}",
    "as many as allowed": b'{"pairs":[' + b",".join([b'["' + b"x" * 350 + b'",1.5,{}]'] * 10_000) + b"]}",
    "in one pair": b'{"pairs":[[' + b",".join([b"0.5"] * 950_000) + b"]]}",
    "another shape": b'{"pairs":{' + b",".join(b'"%d":[]' % n for n in range(300_000)) + b"}}",
}


@pytest.mark.parametrize("kind", _WRONG)
def test_large_wrong_bodies_are_refused_quickly(shared: httpx.Client, kind: str) -> None:
    """3.7 MB of wrong pairs blocked the event loop for 6 s and took 1.5 GB."""
    slowest, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal slowest
        with httpx.Client(base_url=shared.base_url, trust_env=False, timeout=20) as mine:
            while not done.is_set():
                started = time.perf_counter()
                mine.get("/healthz")
                slowest = max(slowest, time.perf_counter() - started)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    headers = {"Content-Type": "application/json"}
    response = shared.post("/v1/score", content=_WRONG[kind], headers=headers)
    took = time.perf_counter() - started
    done.set()
    watcher.join(20)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> (20 if sys.platform == "darwin" else 10)
    assert response.status_code in (413, 422) and len(response.content) < 1_000, response.text[:300]
    assert took < 2 and slowest < 1 and grown < 200


def test_counts_and_lengths_come_before_types(shared: httpx.Client) -> None:
    """A list that is too long is refused whatever it holds, and validation stops at the first fault."""
    post = shared.post
    assert post("/v1/score", json={"pairs": [None] * 10_001}).status_code == 413
    assert post("/v1/recommend", json={"nodes": [{}] * 101}).status_code == 413
    assert post("/v1/recommend", json={"nodes": [], "among": [[]] * 10_001}).status_code == 413
    assert post("/v1/embed", json={"nodes": [None] * 1_001}).status_code == 413
    assert post("/v1/edges", json={"edges": [None] * 10_001}).status_code == 413
    assert post("/v1/nodes", json={"nodes": [None] * 1_001}).status_code == 413
    near = [{"id": f"x{n}", "neighbours": [None] * 5_001} for n in range(2)]
    assert post("/v1/nodes", json={"nodes": near}).status_code == 413
    assert post("/v1/nodes", json={"nodes": [{"id": "x", "features": [0] * 100_001}]}).status_code == 413
    faults = post("/v1/score", json={"pairs": [[None, None]] * 10_000}).json()["detail"]
    assert faults.startswith("pairs.0.0") and "; 2 more" in faults  # neither a text, nor an integer, nor a typed node
    with pytest.raises(TooMuchError, match="50,000 lists"):
        Bodies(Limits()).parsed(b"[" * 50_001, ScoreBody)
    brackets = json.dumps({"pairs": [["[" * 1_000, "x"]] * 60}).encode()
    assert len(Bodies(Limits()).parsed(brackets, ScoreBody).model_dump()["pairs"]) == 60  # those in texts do not count


@pytest.mark.parametrize("value", ["x" * (TEXT + 1), 10**TEXT, -(10**TEXT)], ids=["text", "integer", "negative"])
def test_an_id_has_at_most_1024_characters(shared: httpx.Client, value: Any) -> None:
    """Ids could be 3.9 MB long, and one GET then answered 160 MB."""
    for path, body in {
        "/v1/nodes": {"nodes": [{"id": value}]},
        "/v1/score": {"pairs": [["n00", value]]},
        "/v1/recommend": {"nodes": [value]},
        "/v1/edges": {"edges": [["n00", value]]},
    }.items():
        assert shared.post(path, json=body).status_code == 422, path
    for path in ("nodes", "neighbourhood"):
        assert shared.get(f"/v1/{path}/{value}").status_code == 422
    if isinstance(value, str):
        assert shared.post("/v1/nodes", json={"nodes": [{"id": "x", "label": value}]}).status_code == 422
        assert shared.get(f"/v1/nodes/{value[:TEXT]}").status_code == 404


def test_a_client_that_never_reads_is_disconnected(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that never read held 8 MB each for ever."""
    made = SlowClientProtocol.connection_made

    def small(self: Any, transport: Any) -> None:  # so that little is enough to fill the system's own buffer
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        made(self, transport)

    monkeypatch.setattr(SlowClientProtocol, "connection_made", small)
    monkeypatch.setattr(SlowClientProtocol, "read_seconds", 1.5)  # a busy machine stalls for some tenths
    monkeypatch.setattr(SlowClientProtocol, "read_bytes", 4_096)
    with served(model) as client, socket.socket() as idle, socket.socket() as slow:
        body = json.dumps({"nodes": ["n00"] * 400}).encode()
        head = b"POST /v1/embed HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        for sock in (idle, slow):
            sock.settimeout(10)
            sock.connect(("127.0.0.1", client.base_url.port))
            sock.sendall(head % len(body) + b"Connection: close\r\n\r\n" + body)
        gone = select.poll()
        gone.register(idle, select.POLLHUP | select.POLLERR)  # without reading
        taken = 0
        while part := slow.recv(4_096):  # one who reads slowly gets all of it
            taken += len(part)
            time.sleep(0.01)
        assert gone.poll(10_000), "still connected"
        assert taken > 50_000
        assert client.get("/healthz").status_code == 200


def test_a_log_that_nobody_reads_stops_nothing(model: Path, child: Callable[..., Child]) -> None:
    """With nobody reading standard error everything hung after 416 requests, /healthz included."""
    service = child(model, run=run_with_unread_errors).wait_ready()
    ask = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        for _ in range(20):
            sock.sendall(ask * 100)
            answers = b""
            while answers.count(b"alive") < 100:
                answers += sock.recv(1 << 16)
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as sock:
        sock.sendall(b"no HTTP\r\n\r\n")  # uvicorn warns of it
        assert b"400" in sock.recv(1 << 12)
    assert service.client.get("/healthz").status_code == 200
    assert service.stop() in (0, -signal.SIGTERM)  # and it ends when it is told to


def test_lines_that_find_no_room_are_dropped_and_counted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    dropped: list[int] = []
    lines = LogLines(tmp_path / "pipe", lambda: dropped.append(1), waiting=10)
    started = time.monotonic()
    for _ in range(200):
        lines.put("x" * 4_000)
    lines.close(0.1)
    assert time.monotonic() - started < 2
    assert len(dropped) > 100
    os.close(read)


def test_dropped_lines_are_in_the_metrics(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(model) as client:
        assert "yinyan_log_lines_dropped_total 0\n" in client.get("/metrics").text
        monkeypatch.setattr("os.write", lambda *args: (_ for _ in ()).throw(OSError("full")))
        client.get("/healthz")
        deadline = time.monotonic() + 5
        while "yinyan_log_lines_dropped_total 0\n" in client.get("/metrics").text and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "yinyan_log_lines_dropped_total 0\n" not in client.get("/metrics").text
        monkeypatch.undo()


def test_answers_of_several_processes_do_not_wait_for_the_network() -> None:
    """Every answer of several workers took 44 ms: asyncio leaves a socket as it is that names no protocol."""
    seen: list[int] = []

    class Recording(SlowClientProtocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            seen.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with socket.socket() as shared_by_workers:  # as uvicorn makes it: of protocol 0
        shared_by_workers.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, http=Recording, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([shared_by_workers],), daemon=True)
        thread.start()
        try:
            address = f"http://127.0.0.1:{shared_by_workers.getsockname()[1]}"
            deadline = time.monotonic() + 10
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            assert httpx.get(address, trust_env=False).text == "ok"
        finally:
            server.should_exit = True
            thread.join(10)
    assert seen and all(seen)
