"""Downloads, from a server that stalls, lies and breaks off."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from loopback import Handler, Server, serving

from yinyan.datasets.digests import check_digest
from yinyan.datasets.download import DownloadError, fetch
from yinyan.errors import InputError, StoreError, YinYanError
from yinyan.progress import Progress

CONTENT = bytes(range(256)) * 1_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()

quickly = partial(fetch, timeout=0.3, pause=0.0)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(CONTENT) as state:
        yield state


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "data.bin"


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def cut(count: int) -> Callable[[Handler], None]:
    """The body ends before its announced length."""

    def answer(handler: Handler) -> None:
        handler.reply(200, CONTENT[:count], length=len(CONTENT))
        handler.close_connection = True

    return answer


def status(code: int) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(code, b"no")


def test_a_file_is_placed_with_its_checksum_beside(server: Server, target: Path) -> None:
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert names(target) == ["data.bin", "data.bin.sha256"]
    assert (target.parent / "data.bin.sha256").read_text() == f"{DIGEST}  data.bin\n"
    assert server.asked[0]["user-agent"].startswith("yinyan/") and "range" not in server.asked[0]
    check_digest(target)
    target.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(InputError, match=r"has changed since it was downloaded .* delete it"):
        check_digest(target)


def test_only_missing_bytes_are_sent_after_a_break(server: Server, target: Path) -> None:
    server.answers = [cut(100_000)]
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert server.sent == [100_000, len(CONTENT) - 100_000]
    assert server.asked[1]["range"] == "bytes=100000-" and server.asked[1]["if-range"] == '"one"'
    assert names(target) == ["data.bin", "data.bin.sha256"]


def test_the_next_call_goes_on_where_the_last_one_stopped(server: Server, target: Path) -> None:
    server.answers = [cut(100_000)]
    with pytest.raises(DownloadError, match="ended after 100,000 of 256,000 bytes; 100,000 bytes are kept"):
        quickly(server.url, target, attempts=1)
    assert names(target) == ["data.bin.part", "data.bin.part.json"] and not target.exists()
    quickly(server.url, target, attempts=1)
    assert target.read_bytes() == CONTENT and server.sent == [100_000, 156_000]


def test_a_stall_ends_and_what_came_is_kept(server: Server, target: Path) -> None:
    def stall(handler: Handler) -> None:
        handler.reply(200, CONTENT[:50_000], length=len(CONTENT))
        server.released.wait(5)

    server.answers = [stall]
    begun = time.monotonic()
    quickly(server.url, target, sha256=DIGEST)
    assert time.monotonic() - begun < 2
    assert target.read_bytes() == CONTENT and server.sent == [50_000, 206_000]
    server.answers = [stall]
    with pytest.raises(DownloadError, match=r"nothing came for 0\.3 seconds"):
        quickly(server.url, target.with_name("other"), attempts=1)


def test_a_server_that_never_answers_is_given_up(target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(DownloadError, match="timed out"):
        quickly(f"http://127.0.0.1:{silent.getsockname()[1]}/x", target, timeout=0.1, attempts=2)


def test_wrong_bytes_of_the_right_length_are_refused(server: Server, target: Path) -> None:
    server.content = CONTENT[::-1]
    with pytest.raises(DownloadError, match=f"its SHA-256 begins with .*, expected {DIGEST[:12]}"):
        quickly(server.url, target, sha256=DIGEST)
    assert len(server.sent) == 1  # the same would come again
    assert names(target) == []


def test_a_part_that_does_not_fit_is_fetched_anew(server: Server, target: Path) -> None:
    target.parent.mkdir(parents=True)
    (target.parent / "data.bin.part").write_bytes(b"x" * 100)
    (target.parent / "data.bin.part.json").write_text(json.dumps({"url": server.url, "tag": None, "total": 256_000}))
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT and server.sent == [255_900, 256_000]


@pytest.mark.parametrize("memory", ["", "[]", '{"url": "http://elsewhere/data.bin"}', None])
def test_a_part_of_another_source_is_not_used(server: Server, target: Path, memory: str | None) -> None:
    target.parent.mkdir(parents=True)
    (target.parent / "data.bin.part").write_bytes(CONTENT[:100])
    if memory is not None:
        (target.parent / "data.bin.part.json").write_text(memory)
    quickly(server.url, target)
    assert target.read_bytes() == CONTENT and "range" not in server.asked[0]


def test_a_server_without_ranges_sends_all_again(server: Server, target: Path) -> None:
    server.answers = [cut(100_000), lambda handler: handler.reply(200, CONTENT)]
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT and server.sent == [100_000, 256_000]


def test_a_file_that_changed_in_between_is_fetched_anew(server: Server, target: Path) -> None:
    server.answers = [cut(100_000)]
    with pytest.raises(DownloadError):
        quickly(server.url, target, attempts=1)
    server.content, server.etag = CONTENT[::-1] + b"!", '"two"'
    quickly(server.url, target)
    assert target.read_bytes() == CONTENT[::-1] + b"!"


@pytest.mark.parametrize("where", ["bytes 5-255999/256000", "bytes 100000-199999/200000", "nonsense", ""])
def test_a_wrong_range_is_not_appended(server: Server, target: Path, where: str) -> None:
    wrong = {"Content-Range": where} if where else {}
    server.answers = [cut(100_000), lambda handler: handler.reply(206, CONTENT[100_000:], wrong)]
    quickly(server.url, target)  # no checksum: the header alone gives it away
    assert target.read_bytes() == CONTENT
    assert [("range" in asked) for asked in server.asked] == [False, True, False]


def test_weak_tags_do_not_promise_the_same_bytes(server: Server, target: Path) -> None:
    server.etag = 'W/"one"'
    server.answers = [cut(100_000)]
    quickly(server.url, target)
    assert "if-range" not in server.asked[1] and target.read_bytes() == CONTENT


def test_a_part_that_is_complete_is_placed(server: Server, target: Path) -> None:
    target.parent.mkdir(parents=True)
    part, memory = target.parent / "data.bin.part", target.parent / "data.bin.part.json"
    part.write_bytes(CONTENT)
    memory.write_text(json.dumps({"url": server.url, "tag": None, "total": len(CONTENT)}))
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT and server.sent == [0]
    part.write_bytes(CONTENT + b"too long")
    memory.write_text(json.dumps({"url": server.url, "tag": None, "total": None}))
    quickly(server.url, target)
    assert target.read_bytes() == CONTENT and server.sent == [0, 0, 256_000]


def test_absent_files_are_not_asked_for_again(server: Server, target: Path) -> None:
    server.answers = [status(404)]
    with pytest.raises(DownloadError, match="the server answered 404 Not Found") as caught:
        quickly(server.url, target)
    assert len(server.asked) == 1 and isinstance(caught.value, YinYanError)


def test_passing_troubles_are_tried_again(server: Server, target: Path) -> None:
    server.answers = [status(503), status(429), cut(10)]
    quickly(server.url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT and server.sent[-1] == 255_990
    server.answers = [status(500)] * 9
    with pytest.raises(DownloadError, match="500"):
        quickly(server.url, target.with_name("other"), attempts=3)
    assert len(server.asked) == 4 + 3


def test_offline_the_message_says_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/data.bin"
    with pytest.raises(DownloadError) as caught:
        quickly(url, tmp_path / "data.bin", attempts=2)
    assert f"cannot download '{url}' to '{tmp_path / 'data.bin'}': " in str(caught.value)
    assert "refused" in str(caught.value) and "YINYAN_DATA" in str(caught.value)


def test_pauses_grow(server: Server, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    server.answers = [status(503)] * 3
    fetch(server.url, target, pause=0.5)
    assert slept == [0, 0.5, 1.0, 2.0]


def test_progress_is_told(server: Server, target: Path) -> None:
    said: list[tuple[str | int, ...]] = []

    class Told(Progress):
        def start(self, title: str, total: int, done: int = 0) -> None:
            said.append((title, total, done))

        def advance(self, done: int, text: str = "") -> None:
            said.append((done,))

        def finish(self) -> None:
            said.append(("end",))

    server.answers = [cut(100_000)]
    quickly(server.url, target, progress=Told())
    assert said[0] == ("downloading data.bin (kB)", 256, 0) and said[-2:] == [(256,), ("end",)]
    assert ("downloading data.bin (kB)", 256, 100) in said
    assert sum(entry == ("end",) for entry in said) == 2


def test_a_disk_that_takes_no_more_is_not_the_networks_fault(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write '.*data\.bin'"):
        quickly(server.url, tmp_path / "file" / "data.bin")
    assert server.asked == []
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full to fill a disk with")
    monkeypatch.setattr("yinyan.datasets.download._Partial.discard", lambda partial: None)
    (tmp_path / "data.bin.part").symlink_to("/dev/full")
    with pytest.raises(StoreError, match="the disk is full"):
        quickly(server.url, tmp_path / "data.bin")
    assert len(server.asked) == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_download_ends_where_it_is_larger_than_it_may_be(server: Server, target: Path, named: bool) -> None:
    """There was no limit: a server that never ends filled the disk."""

    def endless(handler: Handler) -> None:
        handler.send_response(200)
        if named:
            handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        for _ in range(10_000):
            try:
                handler.wfile.write(b"0" * 10_000)
            except OSError:
                return  # the client has had enough
            handler.served.sent[-1] += 10_000

    server.answers = [endless] * 4
    with pytest.raises(DownloadError, match=r"it has more than the 0\.0005 GB that are expected at most"):
        quickly(server.url, target, most=500_000)
    assert names(target) == [] and len(server.asked) == 1


def test_a_file_of_the_largest_size_is_taken(server: Server, target: Path) -> None:
    quickly(server.url, target, most=len(CONTENT))
    assert target.read_bytes() == CONTENT
