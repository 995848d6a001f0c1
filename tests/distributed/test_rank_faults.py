"""A network that is cut and a disk that is full: clear errors, and training that goes on where it stood."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from contracts import planted_graph
from rank_runs import command, environment, prepared
from yinyan import LinkPredictor

SECONDS = 4  # that a process waits for the others


def run_or_skip(*words: str, needs: str) -> None:
    """Run a command of the system; skip the test with the reason where it may not run."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{needs} needs the program {words[0]}")
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{needs} is not allowed here: {' '.join(words)}: {done.stderr.strip()}")


def started(rank: int, arguments: list[str], *before: str, **given: str) -> subprocess.Popen[str]:
    """One of two processes, as torchrun would start it."""
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "YINYAN_RANK_TIMEOUT": str(SECONDS), **given}
    return subprocess.Popen(
        [*before, *run_of(arguments)],
        env={**environment(), **place},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def waited_for(file: Path, processes: list[subprocess.Popen[str]], pattern: str) -> None:
    """Wait until a file of a pattern is there."""
    until = time.monotonic() + 120
    while not any(file.glob(pattern)):
        assert all(process.poll() is None for process in processes), [p.communicate()[0] for p in processes]
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces, joined by a cable: as two machines."""
    mark = uuid4().hex[:6]
    names, needs = (f"yy-{mark}-0", f"yy-{mark}-1"), "a network of two namespaces"
    with ExitStack() as held:
        for name in names:
            run_or_skip("ip", "netns", "add", name, needs=needs)
            held.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        run_or_skip(
            *f"ip link add eth0 netns {names[0]} type veth peer name eth0 netns {names[1]}".split(), needs=needs
        )
        for number, name in enumerate(names):
            run_or_skip(*f"ip -n {name} addr add 10.213.7.{number + 1}/24 dev eth0".split(), needs=needs)
            for device in ("lo", "eth0"):
                run_or_skip(*f"ip -n {name} link set {device} up".split(), needs=needs)
        yield names


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_a_process_that_is_cut_off_ends_all_with_an_error_within_the_timeout(
    hosts: tuple[str, str], tmp_path: Path
) -> None:
    folder, out = prepared(planted_graph(4, 20), tmp_path / "plain"), tmp_path / "model"
    endless = [*command(folder, out), "--set=training.epochs=100000"]
    given = {"MASTER_ADDR": "10.213.7.1", "MASTER_PORT": "29411", "GLOO_SOCKET_IFNAME": "eth0"}
    both = [started(rank, endless, "ip", "netns", "exec", host, **given) for rank, host in enumerate(hosts)]
    try:
        waited_for(tmp_path / "model.checkpoint", both, "epoch-00000[2-9]")
        subprocess.run(f"ip -n {hosts[1]} link set eth0 down".split(), check=True)
        cut = time.monotonic()
        said = [process.communicate(timeout=60)[0] for process in both]
        assert time.monotonic() - cut < SECONDS + 15
    finally:
        for process in both:
            process.kill()
    for rank, (process, text) in enumerate(zip(both, said, strict=True)):
        assert process.returncode == 1, text
        assert f"process {rank} of 2 lost the others" in text
        assert f"YINYAN_RANK_TIMEOUT={SECONDS}" in text
    assert any((tmp_path / "model.checkpoint").glob("epoch-*"))  # to go on from
    assert not out.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with little room."""
    place = tmp_path / "disk"
    place.mkdir()
    run_or_skip("mount", "-t", "tmpfs", "-o", "size=3m", "none", str(place), needs="a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_a_full_disk_is_an_error_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    """The last checkpoint stays, and with more room training goes on from it."""
    folder, out = prepared(planted_graph(4, 20), tmp_path / "plain"), small_disk / "model"
    calm, more = tmp_path / "calm", "--set=training.epochs=150"
    straight = subprocess.run(run_of([*command(folder, calm), more]), env=environment(), timeout=120)
    assert straight.returncode == 0
    process = subprocess.Popen(
        run_of([*command(folder, out), more]),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    waited_for(small_disk / "model.checkpoint", [process], "epoch-00000[2-9]")
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 1, said
    assert "free some" in said and ("No space left" in said or "the disk is full" in said)
    assert "Traceback" not in said
    assert any((small_disk / "model.checkpoint").glob("epoch-*[0-9]"))
    assert not out.exists()
    filler.unlink()
    resumed = subprocess.run(run_of([*command(folder, out), more, "--resume"]), env=environment(), timeout=120)
    assert resumed.returncode == 0
    models = [LinkPredictor.load(place) for place in (calm, out)]
    assert np.array_equal(models[0].embeddings_, models[1].embeddings_)


def run_of(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "yinyan", *arguments]
