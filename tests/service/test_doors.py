"""Who comes in, by which name and with which key, and what is written down of it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import yinyan
from serving_tools import access_lines, served
from yinyan.errors import ServiceError, SettingsError, StoreError
from yinyan.service.keys import add_key
from yinyan.service.options import Options
from yinyan.service.serving import serve

_ODD = "/v1/nodes/%0D%0A%1B%5B31m%E2%80%A8%E2%80%A9%7F"


@pytest.fixture(scope="module")
def shared(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service without keys, for questions that change nothing."""
    import shutil

    folder = tmp_path_factory.mktemp("doors")
    shutil.copytree(models / "plain", folder / "model")
    with served(folder / "model") as client:
        yield client


def test_a_path_that_is_not_exactly_public_needs_a_key(model: Path, tmp_path: Path) -> None:
    """/metrics%0A and /openapi.json%0A answered without a key: `$` accepts a last newline."""
    key = add_key(tmp_path / "keys", "ann")
    private = ["/metrics%0A", "/openapi.json%0A", "/metrics/", "/healthz%0A", "/%0A", "/docs%0A", "/docs/", "/nowhere"]
    with served(model, keys=str(tmp_path / "keys")) as client:
        for path in private:
            assert client.get(path).status_code == 401, path
            assert client.get(path, headers={"X-API-Key": key}).status_code == 404, path
        for path in ("/", "/docs", "/healthz", "/readyz", "/assets/explorer.js", "/assets/docs.js"):
            assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("name", ["%00", "x" * 300, "%0A", "explorer.js%0A", "%2e%2e/index.html", "a/" * 200, "%FF"])
def test_an_odd_name_of_an_asset_is_not_found(shared: httpx.Client, name: str) -> None:
    """/assets/%00 and names of 300 letters were errors of our own, with a traceback in the log."""
    assert shared.get(f"/assets/{name}").status_code == 404


def test_what_a_client_sends_is_escaped_and_cut_in_the_log(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The raw path went into the log, with CR, ESC and U+2028."""
    with served(model) as client:
        client.get("/assets/%00")
        assert client.get(_ODD).status_code == 404
        assert client.get("/v1/nodes/" + "x" * 5_000).status_code == 422
        monkeypatch.setattr("yinyan.service.browsing.node_page", lambda *args: 1 / 0)
        assert client.get(_ODD).status_code == 500
    text = (model.parent / "access.jsonl").read_text(encoding="utf-8")
    for written in (text.replace("\n", ""), *(record.getMessage() for record in caplog.records)):
        assert not {"\r", "\x1b", "\x7f", "\u2028", "\u2029"} & set(written)
        assert "\n" not in written
    assert text.count("Traceback") == 1 and "ZeroDivisionError" in text  # for our own error, and for none of a client
    notes = [line for line in text.splitlines() if line.startswith("{")]
    assert len(notes) == 4 and max(len(line) for line in notes) < 1_000


@pytest.mark.parametrize(
    "host",
    [
        *("[::1].evil.example", "[[::1]]evil", "[[::1]]", "127.0.0.1:80:evil", "127.0.0.1.evil.example", "127.0.0.1:"),
        *("localhost.evil.example", "evil.example", "[::1]x", "127.0.0.1:8x", "", "127.0.0.1,evil"),
    ],
)
def test_a_host_that_is_not_exactly_local_is_refused(shared: httpx.Client, host: str) -> None:
    """[::1].evil.example, [[::1]]evil and 127.0.0.1:80:evil passed as loopback."""
    assert shared.get("/v1/model", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]", "[::1]:8000", "127.9.9.9:65535"])
def test_a_local_host_is_answered(shared: httpx.Client, host: str) -> None:
    assert shared.get("/v1/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["", "null", "x://{}", "{}", "//{}", "http://{}.evil", "http://{}/", "http://a@{}", "http://127.0.0.1:1"]
)
def test_an_origin_that_is_not_exactly_ours_is_refused(shared: httpx.Client, origin: str) -> None:
    """An empty Origin and x://127.0.0.1:PORT passed."""
    host = f"127.0.0.1:{shared.base_url.port}"
    assert shared.post("/v1/score", json={"pairs": []}, headers={"Origin": f"http://{host}"}).status_code == 200
    assert shared.post("/v1/score", json={"pairs": []}, headers={"Origin": origin.format(host)}).status_code == 403


def test_forwarded_addresses_are_believed_only_of_a_named_proxy(model: Path) -> None:
    """X-Forwarded-For was believed from loopback."""
    asked = {"X-Forwarded-For": "6.6.6.6"}
    for proxy in (None, "127.0.0.1"):
        with served(model, proxy=proxy) as client:
            client.get("/healthz", headers=asked)
    assert [line["client"] for line in access_lines(model)] == ["127.0.0.1", "6.6.6.6"]


def test_a_removed_key_opens_nothing_from_the_next_request_on(model: Path, tmp_path: Path) -> None:
    """A removed key worked until the service was started again."""
    file = tmp_path / "keys"
    ann, bob = add_key(file, "ann"), add_key(file, "bob")
    both = file.read_text()
    with served(model, keys=str(file)) as client:

        def statuses() -> list[int]:
            return [client.get("/v1/model", headers={"X-API-Key": key}).status_code for key in (ann, bob)]

        assert statuses() == [200, 200]
        file.write_text(both.splitlines()[1] + "\n")
        assert statuses() == [401, 200]
        carl = add_key(file, "carl")  # and a new one works at once
        assert client.get("/v1/model", headers={"X-API-Key": carl}).status_code == 200
        file.write_text(both)
        assert statuses() == [200, 200]
        file.write_text("half a li")  # the last good keys remain
        assert statuses() == [200, 200]
        file.write_text("# nobody\n")
        assert statuses() == [401, 401]
        file.write_text(both)
        assert statuses() == [200, 200]
        file.unlink()
        assert statuses() == [401, 401]
    log = (model.parent / "access.jsonl").read_text(encoding="utf-8")
    assert log.count("line 1: expected NAME:sha256:DIGEST") == 1 and "is gone" in log


@contextmanager
def _web(answer: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_client_carries_its_key_to_no_other_address() -> None:
    """`yinyan.Client` followed redirects to other hosts, with its key."""
    seen: list[str | None] = []

    class Thief(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("X-API-Key"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"version": 1}')

        def log_message(self, *args: object) -> None:
            """Quiet."""

    with _web(Thief) as thief:

        class Redirects(Thief):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("Location", f"{thief}/v1/model")
                self.end_headers()

        with _web(Redirects) as address, pytest.raises(ServiceError, match=r"redirects to .* are not followed") as told:
            yinyan.Client(address, key="yy_secret").model()
    assert seen == [] and told.value.status == 302 and thief in str(told.value)


def test_metrics_have_keys_of_their_own(model: Path, tmp_path: Path) -> None:
    """Whoever read /metrics needed a key that also reads and changes the graph."""
    ann, scraper = add_key(tmp_path / "keys", "ann"), add_key(tmp_path / "scrapers", "prometheus")

    def status(client: httpx.Client, path: str, key: str | None = None) -> int:
        return client.get(path, headers={} if key is None else {"X-API-Key": key}).status_code

    with served(model, keys=str(tmp_path / "keys"), metrics_keys=str(tmp_path / "scrapers")) as client:
        assert [status(client, "/metrics", key) for key in (None, "yy_wrong", scraper, ann)] == [401, 401, 200, 200]
        assert [status(client, "/v1/model", key) for key in (None, scraper, ann)] == [401, 401, 200]
        assert [status(client, path, scraper) for path in ("/metrics/", "/metrics%0A", "/openapi.json")] == [401] * 3
    assert [line["key"] for line in access_lines(model)[:4]] == [None, None, "prometheus", "ann"]
    with served(model, metrics_keys=str(tmp_path / "scrapers")) as client:  # and no other keys
        assert [status(client, "/metrics", key) for key in (None, ann, scraper)] == [401, 401, 200]
        assert status(client, "/v1/model") == 200
        assert client.get("/metrics", headers={"X-API-Key": scraper, "Host": "evil.example"}).status_code == 403


def test_metrics_may_need_no_key(model: Path, tmp_path: Path) -> None:
    add_key(tmp_path / "keys", "ann")
    for is_open, wanted in ((False, 401), (True, 200)):
        with served(model, keys=str(tmp_path / "keys"), metrics_open=is_open) as client:
            assert client.get("/metrics").status_code == wanted
            assert client.get("/metrics%0A").status_code == client.get("/v1/model").status_code == 401


def test_contradictory_wishes_about_metrics_are_refused(model: Path, tmp_path: Path) -> None:
    add_key(tmp_path / "scrapers", "prometheus")
    with pytest.raises(SettingsError, match="--metrics-open and --metrics-keys exclude each other"):
        serve(Options(model, metrics_keys=tmp_path / "scrapers", metrics_open=True))
    with pytest.raises(StoreError, match="cannot be read"):
        serve(Options(model, metrics_keys=tmp_path / "none"))
