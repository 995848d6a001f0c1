"""The cache of compiled libraries: what others can have written, and what is damaged, is never loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from yinyan import files
from yinyan.cli.doctor import examine
from yinyan.native import compiling, library_cache
from yinyan.native.compiling import compiled

pytestmark = pytest.mark.skipif(
    os.name != "posix" or not any(map(shutil.which, compiling._COMPILERS)), reason="no compiler, or not POSIX"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library_cache._private_folder.cache_clear()
    yield tmp_path / "cache" / "yinyan" / "native"
    library_cache._private_folder.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    return path


def built(source: Path) -> tuple[Path, int]:
    library = compiled(source)
    return Path(library._name), int(library.answer())


def other_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A library that works, and is another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "planter"))
    other = tmp_path / "other.cpp"
    other.write_text('extern "C" int answer() { return 666; }\n')
    made = built(other)[0].read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


def test_a_library_is_built_once_and_private(cache: Path, source: Path) -> None:
    path, answer = built(source)
    assert answer == 42 and path.parent == cache
    assert path.stat().st_mode & 0o077 == 0 and cache.stat().st_mode & 0o077 == 0
    assert built(source) == (path, 42) and list(cache.iterdir()) == [path]


@pytest.mark.parametrize("how", ["truncated", "empty", "altered", "another library", "a link", "writable by others"])
def test_what_is_damaged_or_planted_is_compiled_anew(
    cache: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A truncated library ended every start with a signal; a planted one ran."""
    path, _ = built(source)
    whole = path.read_bytes()
    path.unlink()  # the process has mapped it
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "empty":
        path.touch()
    elif how == "altered":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif how == "another library":
        path.write_bytes(other_library(tmp_path, monkeypatch))
    elif how == "a link":
        (tmp_path / "elsewhere.so").write_bytes(whole)
        path.symlink_to(tmp_path / "elsewhere.so")
    else:
        path.write_bytes(whole)
    path.chmod(0o777 if how == "writable by others" else 0o700) if how != "a link" else None
    assert path.name in library_cache.describe_cache()
    assert built(source)[1] == 42
    assert path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o022 == 0
    assert library_cache.describe_cache() == f"'{cache}', intact"


def test_a_library_of_another_user_is_not_loaded(cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library planted in a shared XDG_CACHE_HOME ran as another user."""
    path, _ = built(source)
    real = Path.lstat

    def planted(self: Path) -> os.stat_result:
        facts = real(self)
        return os.stat_result((*facts[:4], facts.st_uid + 1, *facts[5:])) if self == path else facts

    with monkeypatch.context() as patch:
        patch.setattr(Path, "lstat", planted)
        assert library_cache.find_library(cache, path.name.split(".")[0]) is None


@pytest.mark.parametrize("whose", ["folder", "parent"])
def test_a_place_of_another_user_is_left_for_a_private_one(
    cache: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    built(source)
    place, real = (cache if whose == "folder" else cache.parent), Path.stat

    def foreign(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        facts = real(self, follow_symlinks=follow_symlinks)
        return os.stat_result((*facts[:4], facts.st_uid + 1, *facts[5:])) if self == place else facts

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(files.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(Path, "stat", foreign)
    path, answer = built(source)
    assert answer == 42 and path.parent.parent == tmp_path / "temporary"
    assert "belongs to another user: libraries are compiled at every start" in library_cache.describe_cache()


def test_a_folder_that_anybody_can_swap_is_left_for_a_private_one(
    cache: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    monkeypatch.setattr(files.tempfile, "gettempdir", lambda: str(tmp_path))
    path, answer = built(source)
    assert answer == 42 and cache not in path.parents
    assert f"others can write to '{tmp_path / 'cache'}'" in library_cache.describe_cache()
    (tmp_path / "cache").chmod(0o1777)  # as the system's own folder for temporary files
    assert built(source)[0].parent == cache


def test_our_own_folder_is_closed_to_others(cache: Path, source: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert built(source)[0].parent == cache and cache.stat().st_mode & 0o022 == 0


def test_a_library_is_on_the_disk_before_it_has_its_name(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[Path, list[str]]] = []
    monkeypatch.setattr(
        library_cache, "flush_to_disk", lambda path: flushed.append((path, [p.name for p in cache.glob("*.so")]))
    )
    path, _ = built(source)
    assert [(place.name, names) for place, names in flushed] == [("kernels.so", []), ("native", [path.name])]


def test_doctor_says_where_the_cache_is_and_whether_it_is_intact(cache: Path, source: Path) -> None:
    assert examine()["kernel_cache"] == f"'{cache}', empty"
    path, _ = built(source)
    assert examine()["kernel_cache"] == f"'{cache}', intact"
    path.unlink()
    path.write_bytes(b"\x7fELF")
    path.chmod(0o700)
    assert examine()["kernel_cache"] == f"'{cache}', {path.name} is damaged (compiled again when needed)"
