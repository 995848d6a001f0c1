"""Services in processes of their own: killed, stopped, several at once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from serving_tools import Child, free_port, run_without_recall, tiny_predictor, two_rings
from yinyan import Graph
from yinyan.cli import main
from yinyan.live.change_log import ChangeLog, log_path
from yinyan.service.keys import key_name, read_keys


def test_every_acknowledged_change_survives_kill_9(model: Path, child: Callable[..., Child]) -> None:
    chance = random.Random(5)
    acknowledged: set[str] = set()
    for round_ in range(3):
        service = child(model, "--access-log", os.devnull).wait_ready()
        known = _names(service)
        assert acknowledged <= known, "an acknowledged change is lost"
        killer = threading.Timer(chance.uniform(0.02, 0.5), service.process.kill)
        killer.start()
        sent = 0
        try:
            while sent < 2_000:
                name = f"r{round_}-{sent}"
                sent += 1
                body = {"nodes": [{"id": name, "neighbours": ["n00"]}]}
                if service.client.post("/v1/nodes", json=body).status_code == 200:
                    acknowledged.add(name)
        except httpx.TransportError:
            pass  # the answer to the last one never came
        killer.join()
        service.kill()
    log = ChangeLog(log_path(model))
    logged = {node["id"] for entry in log.after(0) for node in entry.change["nodes"]}
    log.close()
    assert acknowledged and acknowledged <= logged
    assert len(logged - acknowledged) <= 3  # written down, and the answer cut off: one a round


def _names(service: Child) -> set[str]:
    found: set[str] = set()
    while True:
        page = service.client.get("/v1/nodes/n00", params={"limit": 1_000, "offset": len(found)}).json()["neighbours"]
        found |= {node["id"] for node in page}
        if not page:
            return found


def test_two_processes_see_one_change_and_stop_together(model: Path, child: Callable[..., Child]) -> None:
    service = child(model, "--workers", "2", "--access-log", str(model.parent / "log")).wait_ready()
    seen: set[int] = set()
    address = f"http://127.0.0.1:{service.port}"

    def ask(path: str) -> httpx.Response:
        with httpx.Client(base_url=address, trust_env=False, timeout=20) as fresh:  # any of the processes
            return fresh.get(path)

    assert service.client.post("/v1/edges", json={"edges": [["n00", "n30"]]}).json() == {"added": 1, "version": 1}
    time.sleep(0.5)
    answers = [ask("/v1/model").json()["live"]["version"] for _ in range(30)]
    assert set(answers) == {1}
    # both write: every change is in the log once, and both know all of them
    threads = [threading.Thread(target=_write, args=(address, part, seen)) for part in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == set(range(2, 22))  # twenty changes, each with a number of its own
    time.sleep(0.5)
    assert {ask("/v1/nodes/n00").json()["degree"] for _ in range(10)} == {6 + 20}
    total = 'yinyan_requests_total{route="/v1/nodes",method="POST",status="200"} 20'
    assert total in ask("/metrics").text  # added up over both
    assert service.client.post("/v1/reload").status_code == 200
    time.sleep(0.5)
    assert {ask("/v1/model").json()["live"]["version"] for _ in range(10)} == {22}
    service.stop()
    with pytest.raises(httpx.TransportError):
        ask("/healthz")


def _write(address: str, part: int, seen: set[int]) -> None:
    for number in range(10):
        with httpx.Client(base_url=address, trust_env=False, timeout=20) as client:
            node = {"id": f"{part}-{number}", "neighbours": ["n00"]}
            seen.add(client.post("/v1/nodes", json={"nodes": [node]}).json()["version"])


def test_a_model_is_reloaded_under_load(model: Path, child: Callable[..., Child]) -> None:
    service = child(model, "--access-log", os.devnull, "--carry-over").wait_ready()
    assert service.client.post("/v1/edges", json={"edges": [["n00", "n30"]]}).json()["added"] == 1
    first = service.client.get("/v1/model").json()["model"]["fingerprint"]
    statuses: list[int] = []
    done = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=service.client.base_url, trust_env=False, timeout=20) as mine:
            while not done.is_set():
                statuses.append(mine.post("/v1/recommend", json={"nodes": ["n00"], "k": 3}).status_code)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    ids = [f"n{i:02d}" for i in range(42)]
    tiny_predictor(training={"epochs": 1}).fit(Graph.from_arrays(two_rings(42), ids=ids)).save(model)
    answer = service.client.post("/v1/reload").json()
    tiny_predictor(training={"epochs": 2}).fit(Graph.from_arrays(two_rings(42), ids=ids)).save(model)
    service.signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        page = service.client.get("/v1/model").json()
        if page["model"]["fingerprint"] not in (first, answer["fingerprint"]):
            break
        time.sleep(0.05)
    done.set()
    for thread in threads:
        thread.join(20)
    assert answer["fingerprint"] != first and page["model"]["num_nodes"] == 42
    assert page["model"]["fingerprint"] not in (first, answer["fingerprint"])
    assert page["live"]["added_links"] == 1  # the change was carried over
    assert set(statuses) == {200} and len(statuses) > 20
    assert service.stop() in (0, -signal.SIGTERM)


def test_a_service_starts_although_no_effort_reaches_the_recall(tmp_path: Path, child: Callable[..., Child]) -> None:
    pairs = np.random.default_rng(0).integers(0, 1_500, (6_000, 2))
    graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=1_500)
    tiny_predictor(encoder={"num_negatives": 0}).fit(graph).save(tmp_path / "model")
    service = child(tmp_path / "model", "--access-log", os.devnull, run=run_without_recall).wait_ready()
    answer = service.client.post("/v1/recommend", json={"nodes": [3], "k": 7}).json()
    assert len(answer["results"][0]["recommendations"]) == 7
    note = service.client.get("/v1/model").json()["index"]["note"]
    printed = service.errors.read_text()
    assert "no effort reaches a recall of 0.98 at k = 100: the best recall tried was 0." in note and note in printed
    assert printed.splitlines()[-1].endswith(f" at http://127.0.0.1:{service.port}")  # said when the port is open


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--host", "0.0.0.0"], "API keys are required"),
        (["--host", "::", "--api-keys", "none"], "cannot be read"),
        (["--index", "none"], "'index' needs to be"),
        (["--proxy", "*"], "'proxy' needs to be an IP address"),
        (["--labels", "none.csv"], "none.csv"),
        (["--log", "no/folder/log.sqlite"], "cannot be opened"),
        ([], "there is no model directory"),
    ],
)
def test_a_service_that_cannot_start_says_why(
    model: Path, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["serve", str(model if flags else model / "none"), "--port", str(free_port()), *flags])
    assert stopped.value.code == 1
    assert words in capsys.readouterr().err


def test_keys_are_made_once_and_kept_as_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys"
    with pytest.raises(SystemExit) as stopped:
        main(["keys", str(file), "--name", "ann"])
    key = capsys.readouterr().out.strip()
    assert stopped.value.code == 0 and key.startswith("yy_") and key not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert key_name(read_keys(file), {b"x-api-key": key.encode()}) == "ann"
    with pytest.raises(SystemExit):
        main(["keys", str(file), "--name", "ann"])
    assert "already" in capsys.readouterr().err
