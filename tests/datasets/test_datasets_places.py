"""Where data are looked for, archives, and loading by name."""

from __future__ import annotations

import hashlib
import io
import stat
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopback import Server, serving
from test_datasets_ogb import collab, publish, write_ogb

from data_set_files import write_planetoid
from yinyan.datasets import NAMES, load, loading, ogb, planetoid, sources
from yinyan.datasets.archives import unpack
from yinyan.datasets.dataset import Size
from yinyan.datasets.download import DownloadError
from yinyan.datasets.places import Group, Places, Source
from yinyan.errors import InputError, StoreError
from yinyan.files import cache_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees or fills the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("YINYAN_DATA", raising=False)
    return tmp_path / "cache" / "yinyan"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(b"content") as state:
        yield state


def put(path: Path, text: str = "content") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


GROUP = Group("some", ("a", "b"))


def test_a_folder_given_is_the_only_one(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YINYAN_DATA", str(tmp_path))
    assert Places().searched == (tmp_path, cache)
    assert Places(tmp_path / "given").searched == (tmp_path / "given",)
    monkeypatch.setenv("YINYAN_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"YINYAN_DATA names '.*none', which is not a folder"):
        load("cora")
    monkeypatch.setenv("YINYAN_DATA", "")
    assert Places().searched == (cache,)


def test_a_place_needs_all_files(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YINYAN_DATA", str(tmp_path))
    put(tmp_path / "some/a")
    with pytest.raises(InputError, match=r"no file 'some/b' in '.*' or '.*yinyan': .* YINYAN_DATA"):
        Places().obtain(GROUP)
    put(cache / "some/a")
    put(cache / "some/b")
    assert Places().obtain(GROUP) == cache / "some"
    put(tmp_path / "some/b")
    assert Places().obtain(GROUP) == tmp_path / "some"
    assert Places().find("some", ("z", "b")) == tmp_path / "some/b"
    assert Places().find("some", ("z",)) is None


def test_missing_files_are_downloaded_to_the_cache(server: Server, cache: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"content").hexdigest()
    group = replace(GROUP, sources={file: Source(server.url, digest) for file in "ab"})
    put(cache / "some/a", "mine")
    assert Places().obtain(group) == cache / "some"
    assert (cache / "some/a").read_text() == "mine" and (cache / "some/b").read_text() == "content"
    assert len(server.asked) == 1
    assert Places(tmp_path / "given").obtain(group) == tmp_path / "given/some"
    with pytest.raises(InputError, match=f"allow the download of {server.url}"):
        Places(tmp_path / "other", download=False).obtain(group)
    assert len(server.asked) == 3


def test_a_damaged_cache_is_seen(server: Server, cache: Path) -> None:
    group = Group("some", ("a",), sources={"a": Source(server.url)})
    Places().obtain(group)
    (cache / "some/a").write_text("damaged")
    with pytest.raises(InputError, match="has changed since it was downloaded"):
        Places().obtain(group)
    (cache / "some/a").unlink()
    assert (Places().obtain(group) / "a").read_text() == "content"


def test_the_cache_is_where_the_system_wants_it(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", named)
        monkeypatch.setattr(sys, "platform", "linux")
        assert cache_folder() == tmp_path / ".cache" / "yinyan"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "yinyan"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "yinyan" / "Cache"


def zipped(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def test_an_archive_is_unpacked_whole_with_checksums(tmp_path: Path) -> None:
    (tmp_path / "ddi.zip").write_bytes(zipped(**{"ddi/": "", "ddi/raw/a": "1", "ddi/b": "2", "other/c": "3"}))
    unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_ddi", "ddi")
    found = sorted(str(path.relative_to(tmp_path / "ogbl_ddi")) for path in (tmp_path / "ogbl_ddi").rglob("*"))
    assert found == ["b", "b.sha256", "raw", "raw/a", "raw/a.sha256"]
    with pytest.raises(StoreError, match="exists, but lacks files"):
        unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_ddi", "ddi")
    with pytest.raises(InputError, match="has no folder 'collab'"):
        unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_collab", "collab")


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "ddi/../../evil", "C:/evil", "C:evil", "..\\evil", "ddi\\..\\..\\evil", "ddi/a:stream"]
)
def test_an_archive_cannot_reach_outside(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "ddi.zip").write_bytes(zipped(**{"ddi/good": "1", name: "evil"}))
    with pytest.raises(InputError, match="which points outside its folder: not unpacked"):
        unpack(inside / "ddi.zip", inside / "ogbl_ddi", "ddi")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["ddi.zip", "inside"]


def test_links_in_an_archive_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ddi.zip", "w") as archive:
        link = zipfile.ZipInfo("ddi/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="'ddi/link', which points outside"):
        unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_ddi", "ddi")


def test_damaged_archives_leave_no_trace(tmp_path: Path) -> None:
    whole = zipped(**{"ddi/a": "0123456789" * 1_000, "ddi/b": "2"})
    start = whole.index(b"ddi/a") + len("ddi/a")
    spoiled = whole[: start + 8] + bytes(8) + whole[start + 16 :]
    for content in (b"<html>", whole[: len(whole) // 2], spoiled):
        (tmp_path / "ddi.zip").write_bytes(content)
        with pytest.raises(InputError, match=r"ddi\.zip' is not a zip archive, or is damaged"):
            unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_ddi", "ddi")
        assert [path.name for path in tmp_path.iterdir()] == ["ddi.zip"]


def test_an_archive_larger_than_the_disk_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ddi.zip").write_bytes(zipped(**{"ddi/a": "12345"}))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 4}))
    with pytest.raises(StoreError, match=r"cannot unpack .* \(free some space\)"):
        unpack(tmp_path / "ddi.zip", tmp_path / "ogbl_ddi", "ddi")


def test_ogb_is_downloaded_unpacked_and_read(
    tmp_path: Path, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ogb(tmp_path, "ogbl-collab", 5, collab(), np.ones((5, 2)))
    folder = tmp_path / "ogbl_collab"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, Path("collab") / path.relative_to(folder))
    server.content = buffer.getvalue()
    monkeypatch.setattr(sources, "_OGB", server.url.rpartition("/")[0])
    publish(monkeypatch, "ogbl-collab", nodes=5, features=2, parts=(4, 2, 2))
    assert load("ogbl-collab").graph.num_edges == 4
    assert [path.name for path in cache.iterdir()] == ["ogbl_collab"]  # the archive is spent
    load("ogbl-collab", download=False)
    assert len(server.asked) == 1
    with (cache / "ogbl_collab/split/time/test.pt").open("ab") as file:
        file.write(b"?")
    with pytest.raises(InputError, match=r"test\.pt' has changed since it was downloaded"):
        load("ogbl-collab")


def test_an_incomplete_folder_is_seen_before_the_download(cache: Path, server: Server) -> None:
    put(cache / "some/a")
    with pytest.raises(StoreError, match=r"some' lacks 'b': complete it, or move it out of the way"):
        Places().obtain(replace(GROUP, archive=Source(server.url), inner="x"))
    assert server.asked == []


def test_planetoid_is_downloaded_and_checked(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    write_planetoid(tmp_path, "cora")
    monkeypatch.setattr(sources, "_PLANETOID", server.url.rpartition("/")[0])
    with pytest.raises(DownloadError, match="SHA-256"):
        load("cora")  # the server sends 'content'
    monkeypatch.setattr(
        loading, "planetoid_group", lambda name: Group(".", tuple(f"ind.{name}.{end}" for end in planetoid.ENDINGS))
    )
    monkeypatch.setitem(planetoid.SIZES, "cora", Size(nodes=6, edges=2, features=4))
    assert load("cora", folder=tmp_path).graph.num_nodes == 6


def test_names_are_known_and_the_nearest_is_offered() -> None:
    assert {"cora", "fixed-pubmed", "heart-citeseer", "usair", "collegemsg", *ogb.LAYOUTS} <= set(NAMES)
    with pytest.raises(InputError, match=r"no data set is called 'ogbl-dd' \(nearest: 'ogbl-ddi'"):
        load("ogbl-dd")
    with pytest.raises(InputError, match=r"\(known: 'cora'"):
        load("zzzzzzzzzz")
    with pytest.raises(InputError, match="'nowhere' is not a folder"):
        load("cora", folder="nowhere", download=False)


def test_heart_is_not_downloaded(cache: Path) -> None:
    with pytest.raises(InputError, match=r"no file 'heart/cora/train_pos.txt' in '.*': get it from https://"):
        load("heart-cora")
    assert not cache.exists()
