"""Services on several hosts: each with its own copy of the model directory, and one change log in PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from postgres_tools import PLAIN_PASSWORD, USER, Server
from serving_tools import Child, free_port, served, tiny_predictor, two_rings
from yinyan import Graph
from yinyan.cli import main
from yinyan.live.log_places import log_place, open_log
from yinyan.service.options import Options

Urls = Callable[..., str]


@pytest.fixture
def hosts(models: Path, tmp_path: Path) -> list[Path]:
    """The model directories of two hosts."""
    return [Path(shutil.copytree(models / "plain", tmp_path / name / "model")) for name in ("first", "second")]


def wait_for(condition: Callable[[], Any], seconds: float = 15) -> float:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() < started + seconds, "it did not come to be"
        time.sleep(0.01)
    return time.monotonic() - started


def node(name: str) -> dict[str, Any]:
    return {"nodes": [{"id": name, "neighbours": ["n00"]}]}


def logged_names(url: str) -> list[str]:
    log = open_log(log_place(Path("model"), url))
    try:
        return [node["id"] for entry in log.history().changes for node in entry.change["nodes"]]
    finally:
        log.close()


def answers(client: httpx.Client) -> list[Any]:
    """What a host says about the graph."""
    asked = [
        client.post("/v1/recommend", json={"nodes": ["n00", "n07", "x0"], "k": 10}),
        client.post("/v1/score", json={"pairs": [["n00", "n30"], ["n01", "x1"]]}),
        client.post("/v1/similar", json={"nodes": ["n00"], "k": 5}),
        client.get("/v1/nodes/n00"),
        client.get("/v1/model"),
    ]
    assert [answer.status_code for answer in asked] == [200] * 5, [answer.text for answer in asked]
    *found, page = (answer.json() for answer in asked)
    return [*found, page["live"], page["model"]]


def test_two_hosts_see_each_other_and_answer_alike(
    hosts: list[Path], log_url: Urls, child: Callable[..., Child]
) -> None:
    one, other = (child(host, "--log", log_url(), "--access-log", os.devnull) for host in hosts)
    services = [one.wait_ready(), other.wait_ready()]
    seconds = []
    for number in range(8):
        writer, reader = services[number % 2].client, services[1 - number % 2].client
        made = writer.post("/v1/nodes", json=node(f"x{number}"))
        assert made.status_code == 200 and made.json()["version"] == number + 1
        seconds.append(wait_for(lambda: reader.get(f"/v1/nodes/x{number}").status_code == 200))  # noqa: B023
    assert max(seconds) < 1.0, seconds
    best = answers(one.client)[0]["results"][0]["recommendations"][0]["target"]
    version = other.client.post("/v1/rejections", json={"pairs": [["n00", best]]}).json()["version"]
    found = one.client.post("/v1/recommend", json={"nodes": ["n00"]}, headers={"X-Yinyan-Version": str(version)}).json()
    assert best not in [entry["target"] for entry in found["results"][0]["recommendations"]]
    assert answers(one.client) == answers(other.client)
    threads = [threading.Thread(target=_write, args=(service, part)) for part, service in enumerate(services)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    wait_for(lambda: {service.client.get("/v1/model").json()["version"] for service in services} == {29})
    assert answers(one.client) == answers(other.client)
    assert not list(hosts[0].parent.glob("*.sqlite*")), "nothing is kept on a host"
    for service in services:
        service.stop()


def _write(service: Child, part: int) -> None:
    for number in range(10):
        assert service.client.post("/v1/nodes", json=node(f"{part}-{number}")).status_code == 200


class Writer(threading.Thread):
    """Adds nodes at a host, one after the other, and notes which were acknowledged; goes on through failures."""

    def __init__(self, service: Child, name: str) -> None:
        super().__init__(daemon=True)
        self.service, self.prefix = service, name
        self.acknowledged: list[str] = []
        self.statuses: set[int] = set()
        self.stopping = threading.Event()
        self.start()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            name, number = f"{self.prefix}-{number}", number + 1
            try:
                status = self.service.client.post("/v1/nodes", json=node(name)).status_code
            except (httpx.TransportError, RuntimeError):  # the service was killed, or its client closed
                return
            self.statuses.add(status)
            if status == 200:
                self.acknowledged.append(name)
            else:
                time.sleep(0.02)

    def stop(self) -> list[str]:
        self.stopping.set()
        self.join(30)
        assert not self.is_alive()
        return self.acknowledged


def test_nothing_acknowledged_is_lost_by_kill_9_of_either_host_or_of_the_database(
    hosts: list[Path], database: Server, log_url: Urls, child: Callable[..., Child]
) -> None:
    flags = ("--log", log_url(), "--access-log", os.devnull)
    one, other = (child(host, *flags) for host in hosts)
    writers = [Writer(one.wait_ready(), "one"), Writer(other.wait_ready(), "other")]
    first, second = writers

    def goes_on(writer: Writer) -> None:
        count = len(writer.acknowledged)
        wait_for(lambda: len(writer.acknowledged) > count + 5, 30)

    for _ in range(2):
        goes_on(first)
        goes_on(second)
        database.kill()  # in the middle of what both write
        wait_for(lambda: one.client.get("/readyz").status_code == 503)
        assert one.client.get("/v1/nodes/n00").status_code == 200  # questions are answered from what is known
        database.start()
    goes_on(first)
    goes_on(second)
    assert {status for writer in writers for status in writer.statuses} == {200, 503}
    one.kill()
    goes_on(second)  # whatever lock the other one held
    again = child(hosts[0], *flags)
    third = Writer(again.wait_ready(), "again")
    goes_on(third)
    other.kill()  # and the other way round
    goes_on(third)
    acknowledged = [name for writer in (first, second, third) for name in writer.stop()]
    back = child(hosts[1], *flags).wait_ready()
    wait_for(lambda: again.client.get("/readyz").status_code == 200)
    names = logged_names(log_url())
    assert len(names) == len(set(names)) and set(acknowledged) <= set(names)
    assert len(names) - len(acknowledged) <= 6, "committed, and the answer cut off: one a host and kill"
    for host in (again, back):
        assert host.client.get("/v1/model").json()["version"] == len(names)
    assert back.client.get("/v1/nodes/n00").json() == again.client.get("/v1/nodes/n00").json()
    assert back.client.post("/v1/recommend", json={"nodes": ["n00"]}).json() == (
        again.client.post("/v1/recommend", json={"nodes": ["n00"]}).json()
    )
    again.stop()
    back.stop()


def test_a_change_is_durable_before_it_is_acknowledged(
    hosts: list[Path], database: Server, log_url: Urls, child: Callable[..., Child]
) -> None:
    """The database and both hosts are killed as soon as the answer is there, before anything else can happen."""
    flags = ("--log", log_url(), "--access-log", os.devnull)
    for number in range(3):
        one, other = (child(host, *flags) for host in hosts)
        writer = (one, other)[number % 2]
        for host in (one, other):
            host.wait_ready()
        made = writer.client.post("/v1/nodes", json=node(f"last-{number}"))
        database.kill()
        one.kill()
        other.kill()
        assert made.json()["version"] == number + 1
        database.start()
        assert logged_names(log_url()) == [f"last-{place}" for place in range(number + 1)]


@contextmanager
def two_hosts(hosts: list[Path], url: str, **options: Any) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    with served(hosts[0], log=url, **options) as one, served(hosts[1], log=url, **options) as other:
        yield one, other


def test_a_host_waits_for_its_copy_of_a_new_model(hosts: list[Path], log_url: Urls) -> None:
    """It would go on with the old one, and both would write to one log."""
    with two_hosts(hosts, log_url(), carry_over=True) as (one, other):
        assert one.post("/v1/edges", json={"edges": [["n00", "n30"]]}).json()["version"] == 1
        ids = [f"n{i:02d}" for i in range(42)]
        tiny_predictor(training={"epochs": 1}).fit(Graph.from_arrays(two_rings(42), ids=ids)).save(hosts[0])
        new = one.post("/v1/reload").json()
        wait_for(lambda: other.get("/readyz").status_code == 503)
        assert "copy the new model to its model directory" in other.get("/readyz").json()["detail"]
        refused = other.post("/v1/edges", json={"edges": [["n00", "n31"]]})
        assert refused.status_code == 409 and "this host has" in refused.json()["detail"]
        assert one.post("/v1/edges", json={"edges": [["n00", "n32"]]}).json()["version"] == 3
        shutil.rmtree(hosts[1])
        shutil.copytree(hosts[0], hosts[1])
        wait_for(lambda: other.get("/readyz").status_code == 200)
        page = other.get("/v1/model", headers={"X-Yinyan-Version": "3"}).json()
        assert page["model"]["fingerprint"] == new["fingerprint"] and page["live"]["added_links"] == 2
        assert other.post("/v1/edges", json={"edges": [["n00", "n33"]]}).json() == {"added": 1, "version": 4}


def test_the_log_of_another_model_is_refused_by_name(
    hosts: list[Path], log_url: Urls, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(hosts[0], log=log_url()) as one:
        one.post("/v1/edges", json={"edges": [["n00", "n30"]]})
    tiny_predictor(training={"epochs": 1}).fit(Graph.from_arrays(two_rings(42))).save(hosts[1])
    assert _run("serve", str(hosts[1]), "--port", str(free_port()), "--log", log_url()) == 1
    told = capsys.readouterr().err
    assert "holds 1 changes of another model" in told and "postgresql://127.0.0.1" in told and USER not in told


def _run(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    return stopped.value.code


def test_the_commands_about_logs_take_a_database(
    hosts: list[Path], database: Server, schema: str, log_url: Urls, capsys: pytest.CaptureFixture[str]
) -> None:
    model, url = str(hosts[0]), log_url()
    assert _run("check", model, "--log", url) == 1
    assert "there is no change log in 'postgresql://127.0.0.1" in capsys.readouterr().err
    with served(hosts[0], log=url) as one:
        for number in range(20, 40):
            one.post("/v1/edges", json={"edges": [["n01", f"n{number}"]]})
        assert _run("compact", model, "--log", url, "--keep", "3", "--json") == 0  # beside a service that runs
        assert json.loads(capsys.readouterr().out)["changes"] == 17
        assert one.post("/v1/edges", json={"edges": [["n02", "n31"]]}).json()["version"] == 21
    assert _run("check", model, "--log", url, "--json") == 0
    row = json.loads(capsys.readouterr().out)["files"][-1]
    assert (
        row["file"] == f"postgresql://127.0.0.1:{database.port}/postgres?schema={schema}" and row["state"] == "intact"
    )
    database.execute("DELETE FROM changes WHERE version = 20", schema=schema)
    assert _run("check", model, "--log", url) == 1
    assert "change 20: it is missing" in capsys.readouterr().out


def test_credentials_are_in_no_answer_and_no_log(
    hosts: list[Path], database: Server, log_url: Urls, child: Callable[..., Child]
) -> None:
    service = child(hosts[0], "--log", log_url()).wait_ready()
    texts = [service.client.get(path).text for path in ("/v1/model", "/readyz", "/metrics", "/openapi.json")]
    database.kill()
    wait_for(lambda: service.client.get("/readyz").status_code == 503)
    refused = service.client.post("/v1/edges", json={"edges": [["n00", "n30"]]})
    assert refused.status_code == 503 and "nothing changed" in refused.json()["detail"]
    texts += [refused.text, service.client.get("/readyz").text]
    database.start()
    wait_for(lambda: service.client.post("/v1/edges", json={"edges": [["n00", "n30"]]}).status_code == 200)
    service.stop()
    printed = service.errors.read_text()
    assert "the change log cannot be followed" in printed and "Traceback" not in printed
    secrets = (PLAIN_PASSWORD, PLAIN_PASSWORD.replace("/", "%2F"), USER)
    assert not [secret for secret in secrets for text in [*texts, printed] if secret in text]


def test_options_reach_other_processes_and_show_no_password(tmp_path: Path) -> None:
    """A URL became a path on its way to a worker, and its password a part of the error."""
    url = f"postgresql://{USER}:{PLAIN_PASSWORD}@host/db?sslmode=require"
    for log in (url, tmp_path / "log", None):
        options = Options(tmp_path, log=log)
        assert PLAIN_PASSWORD not in repr(options) and USER not in repr(options)
        passed = TypeAdapter(Options).validate_json(TypeAdapter(Options).dump_json(options))
        assert passed == options and passed.log == log
