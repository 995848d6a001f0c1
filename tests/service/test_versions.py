"""A client that sends the version it has seen never reads an older state, whichever process answers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import yinyan
from serving_tools import Child, served
from yinyan.live.change_log import ChangeLog, log_path
from yinyan.service.client import ServiceError

HEADER = "X-Yinyan-Version"


def test_every_answer_says_its_version_in_body_and_header(mixed: Path) -> None:
    """/v1/model had no `version`, and nothing had the header."""
    with served(mixed) as client:
        assert client.post("/v1/edges", json={"edges": [[7, 120]]}).headers[HEADER] == "1"
        answers = [
            *(client.get(f"/v1/{path}") for path in ("model", "nodes", "nodes/7", "neighbourhood/7", "map")),
            client.post("/v1/score", json={"pairs": [[7, "7"]]}),
            client.post("/v1/recommend", json={"nodes": [7]}),
            client.post("/v1/recommend", json={"nodes": [7], "among": [110]}),
            client.post("/v1/similar", json={"nodes": [7]}),
            client.post("/v1/explain", json={"pairs": [[7, "7"]]}),
            client.post("/v1/embed", json={"nodes": [7]}),
            client.post("/v1/edges", json={"edges": [[7, 120]]}),
        ]
        assert {(a.status_code, a.json()["version"], a.headers[HEADER]) for a in answers} == {(200, 1, "1")}
        assert client.get("/v1/nodes/nobody").headers[HEADER] == "1"  # a refusal, too


def test_a_version_of_another_log_is_refused_at_once(model: Path) -> None:
    with served(model) as client:
        client.post("/v1/edges", json={"edges": [["n00", "n30"]]})
        started = time.monotonic()
        for method, path, body in (("GET", "/v1/model", None), ("POST", "/v1/edges", {"edges": [["n00", "n31"]]})):
            refused = client.request(method, path, json=body, headers={HEADER: "900"})
            assert refused.status_code == 412, refused.text
            assert "version 900 is not in the change log, which ends at 1" in refused.json()["detail"]
        assert time.monotonic() - started < 2
        assert client.get("/v1/model", headers={HEADER: "1"}).json()["live"]["added_links"] == 1
        mine = yinyan.Client(str(client.base_url))
        mine.version = 900
        with pytest.raises(ServiceError, match="set the client's 'version' to 0") as told:
            mine.model()
        assert told.value.status == 412
        mine.version = 0
        assert mine.model()["version"] == mine.version == 1


@pytest.mark.parametrize("value", ["-1", "1.0", "x", "", "9" * 30, "1 2"])
def test_a_version_that_is_no_number_is_refused(model: Path, value: str) -> None:
    with served(model) as client:
        assert client.get("/v1/model", headers={HEADER: value}).status_code == 400


def test_a_version_that_is_not_reached_in_time_is_a_503(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from yinyan.service.options import Limits

    with served(model, limits=Limits(seconds=0.2)) as client:
        keeper = client.room.keeper  # type: ignore[attr-defined]
        last: Future[int] = Future()
        last.set_result(5)
        monkeypatch.setattr(keeper, "last_logged", lambda: last)
        monkeypatch.setattr(keeper, "reached", lambda version: Future())
        refused = client.get("/v1/model", headers={HEADER: "5"})
        assert refused.status_code == 503 and refused.headers["Retry-After"] == "1"
        assert "version 5 was not reached within 0.2 s" in refused.json()["detail"]
        assert client.get("/v1/model", headers={HEADER: "0"}).status_code == 200


def test_a_service_waits_for_what_another_process_has_written(model: Path) -> None:
    with served(model) as client:
        log = ChangeLog(log_path(model))
        with log.writing():
            log.append({"kind": "add_links", "pairs": [["n00", "n30"]]})
        log.close()
        page = client.get("/v1/nodes/n00", headers={HEADER: "1"}).json()
        assert page["version"] == 1 and "n30" in [node["id"] for node in page["neighbours"]]


def test_no_write_is_followed_by_a_stale_read_of_another_process(model: Path, child: Callable[..., Child]) -> None:
    """With two workers 67 of 150 writes were followed by a stale read, and versions went backwards."""
    service = child(model, "--workers", "2", "--access-log", os.devnull).wait_ready()
    address, versions = f"http://127.0.0.1:{service.port}", [0]

    def ask(method: str, path: str, body: Any) -> Any:
        fresh = HTTPConnection("127.0.0.1", service.port, timeout=20)  # to any of the processes
        fresh.request(method, path, json.dumps(body), {HEADER: str(versions[-1]), "Content-Type": "application/json"})
        with closing(fresh), fresh.getresponse() as answer:
            assert answer.status == 200
            versions.append(int(answer.headers[HEADER]))
            return json.load(answer)

    stale = 0
    for number in range(150):
        pair = ["n00", f"n{3 + number % 14:02d}"]
        method = "POST" if number // 14 % 2 == 0 else "DELETE"
        assert ask(method, "/v1/edges", {"edges": [pair]})["version"] == number + 1
        stale += ask("POST", "/v1/score", {"pairs": [pair]})["scores"][0]["is_link"] != (method == "POST")
    assert stale == 0 and versions == sorted(versions) and versions[-1] == 150
    client, seen = yinyan.Client(address), []
    for number in range(20):
        pair = ("n00", f"n{21 + number % 10}")
        assert client.add_links([pair]) == (1 if number < 10 else 0)
        assert pair[1] in {node["id"] for node in client.node("n00")["neighbours"]}
        seen.append(client.version)
    assert seen == [min(151 + number, 160) for number in range(20)]
    service.stop()
