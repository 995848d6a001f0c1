"""Files: whole or not at all, and errors that name a cure."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from safetensors import SafetensorError

from yinyan import files
from yinyan.errors import StoreError
from yinyan.files import (
    HeldError,
    atomic_path,
    exclusive,
    is_held,
    locked,
    system_errors,
    write_error,
    write_text,
)


def test_text_arrives_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "first\n")
    write_text(str(file), "päivää\nsecond\n")
    assert file.read_bytes() == "päivää\nsecond\n".encode()
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SafetensorError])
def test_what_is_cut_off_leaves_no_trace(tmp_path: Path, kind: type[BaseException]) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before")

    def write() -> None:
        with atomic_path(file) as temporary:
            temporary.write_text("half of")
            assert temporary.parent == tmp_path, "on the same file system, or the swap is none"
            raise kind("cut off")

    with pytest.raises(kind, match="cut off"):
        write()
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_the_content_reaches_the_disk_before_the_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before")
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "flush_to_disk", lambda path: seen.append((path.read_text(), file.read_text())))
    write_text(file, "after")
    assert seen == [("after", "before")]
    assert file.read_text() == "after"


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "the disk is full: free some space, or choose another place"),
        (errno.EDQUOT, "the disk quota is used up: free some space"),
        (errno.EFBIG, "the file would pass the size limit in force"),
        (errno.EROFS, "the file system is read-only: choose another place"),
        (errno.EACCES, "permission is denied: choose another place, or change the permissions"),
        (errno.EPERM, "permission is denied"),
        (errno.ENOENT, "its folder does not exist: create it first"),
        (errno.ENOTDIR, "a part of its path is a file"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_every_error_names_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, cure: str) -> None:
    def fail(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    file = tmp_path / "a.txt"
    file.write_text("before")
    monkeypatch.setattr(files, "flush_to_disk", fail)
    with pytest.raises(StoreError, match=cure) as caught:
        write_text(file, "after")
    assert str(caught.value).startswith(f"cannot write '{file}': ")
    assert str(caught.value).endswith("(nothing was changed)")
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_an_error_without_a_number_keeps_its_words() -> None:
    assert "the tape is full" in str(write_error("a.txt", OSError("the tape is full")))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="its folder does not exist"):
        write_text(tmp_path / "none" / "a.txt", "text")


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """The clean-up of a temporary file that never was must not hide why it never was."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a part of its path is a file"):
        write_text(tmp_path / "file" / "a.txt", "text")


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(StoreError, match=r"cannot write .*a\.txt"):
        write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").is_dir()
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_the_system_speaks_through_safetensors() -> None:
    with pytest.raises(OSError, match="No space left") as caught, system_errors():
        raise SafetensorError(f"Error while serializing: I/O error: No space left on device (os error {errno.ENOSPC})")
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(SafetensorError, match="duplicate"), system_errors():
        raise SafetensorError("duplicate names")


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with locked(tmp_path / ".lock"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.005)
            inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert most == 1 and inside == 0


def test_a_lock_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="its folder does not exist"), locked(tmp_path / "nowhere" / ".lock"):
        pass


# -- one at a time, and nothing of the dead --------------------------------------------------------------------


def ended() -> int:
    """The number of a process that is no more."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_what_is_held_is_refused_with_its_holder_and_removed_at_the_end(tmp_path: Path) -> None:
    lock = tmp_path / ".model.lock"
    with exclusive(lock, "'model'"):
        assert is_held(lock)
        words = rf"'model' is in use by process {os.getpid()} on .*: wait until that has ended"
        with pytest.raises(HeldError, match=words), exclusive(lock, "'model'"):
            pytest.fail("entered")
        assert is_held(lock), "a refusal frees nothing"
    assert not is_held(lock) and list(tmp_path.iterdir()) == []


def test_those_who_wait_enter_one_by_one_though_the_file_is_removed_each_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with exclusive(tmp_path / ".lock", "it", wait=20):
            inside += 1
            most = max(most, inside)
            time.sleep(0.002)
            inside -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert most == 1 and list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="processes are asked by POSIX")
def test_leftovers_of_killed_processes_are_removed_and_those_of_live_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary files of killed writers, and folders of killed services, stayed for ever."""
    mine = files.temporary_beside(tmp_path / "a.txt")
    dead = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{ended()}-"))
    alike = tmp_path / ".a.txt.mine.tmp"
    for file in (mine, dead, alike):
        file.touch()
    write_text(tmp_path / "a.txt", "text")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.txt", mine, alike])

    monkeypatch.setattr(files.tempfile, "gettempdir", lambda: str(tmp_path))
    with files.temporary_folder() as folder:
        of_the_dead = tmp_path / folder.name.replace(f"-{os.getpid()}-", f"-{ended()}-")
        of_the_dead.mkdir()
        (of_the_dead / "index").touch()
        (tmp_path / "yinyan-notes").mkdir()
        with files.temporary_folder() as second:
            assert folder.is_dir() and second.is_dir() and not of_the_dead.exists()
    assert not folder.exists() and (tmp_path / "yinyan-notes").is_dir()
