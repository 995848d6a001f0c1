"""Where data files are looked for: a folder given, $YINYAN_DATA, the user's cache, and the network at last."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from yinyan.datasets.archives import unpack
from yinyan.datasets.digests import check_digest
from yinyan.datasets.download import MOST_BYTES, fetch
from yinyan.errors import InputError, StoreError
from yinyan.files import cache_folder
from yinyan.progress import Progress

__all__ = ["Group", "Places", "Source"]


class Source(NamedTuple):
    """Where a file can be downloaded, its SHA-256 if that is known, and how large it can be."""

    url: str
    sha256: str | None = None
    most: int = MOST_BYTES


@dataclass(frozen=True)
class Group:
    """Files of one folder that are needed together."""

    folder: str
    files: tuple[str, ...]
    sources: Mapping[str, Source] = field(default_factory=dict)  # a file's own
    archive: Source | None = None  # a zip file of the whole folder
    inner: str = ""  # the folder's name within it
    home: str = ""  # a page for people, where nothing can be downloaded by program
    form: str = ""  # the files and their lines in words, where there is no such page either


@dataclass(frozen=True)
class Places:
    """The folders to search, and whether to download what none of them has.

    A folder that is given is the only one searched, and takes the downloads. Otherwise these go to the cache.
    """

    folder: Path | None = None
    download: bool = True
    progress: Progress | None = None

    @property
    def searched(self) -> tuple[Path, ...]:
        """The folders, in the order of the search."""
        if self.folder is not None:
            return (self.folder,)
        named = os.environ.get("YINYAN_DATA")
        if named and not Path(named).is_dir():
            raise InputError(f"YINYAN_DATA names '{named}', which is not a folder: correct or unset it")
        return (*((Path(named),) if named else ()), cache_folder())

    def find(self, folder: str, files: Sequence[str]) -> Path | None:
        """The first of some files that stand for each other, in the first place that has one."""
        for place in self.searched:
            for path in (place / folder / file for file in files):
                if path.is_file():
                    check_digest(path)
                    return path
        return None

    def obtain(self, group: Group) -> Path:
        """The folder with all files of a group, downloaded if need be."""
        for place in self.searched:
            if not _lacking(place, group):
                return _checked(place, group)
        place = self.searched[-1]
        if not self.download or not (group.archive or group.sources):
            raise InputError(self._absent(group))
        if group.archive is not None:
            if (place / group.folder).exists():  # said before gigabytes are fetched in vain
                lacking = _lacking(place, group)[0]
                raise StoreError(f"'{place / group.folder}' lacks '{lacking}': complete it, or move it out of the way")
            self._obtain_archive(place / group.folder, group.archive, group.inner)
        for file in _lacking(place, group):
            if file not in group.sources:
                raise InputError(self._absent(group))
            self._fetch(group.sources[file], place / group.folder / file)
        return _checked(place, group)

    def _obtain_archive(self, folder: Path, source: Source, inner: str) -> None:
        file = folder.with_name(source.url.rpartition("/")[2])
        if file.is_file():
            check_digest(file)  # downloaded, but not unpacked to the end
        else:
            self._fetch(source, file)
        unpack(file, folder, inner)
        for spent in (file, file.with_name(f"{file.name}.sha256")):
            spent.unlink(missing_ok=True)

    def _fetch(self, source: Source, file: Path) -> None:
        fetch(source.url, file, sha256=source.sha256, most=source.most, progress=self.progress)

    def _absent(self, group: Group) -> str:
        places = self.searched
        nearest = min(places, key=lambda place: len(_lacking(place, group)))
        file = f"{group.folder}/{_lacking(nearest, group)[0]}"
        looked = " or ".join(f"'{place}'" for place in places)
        source = group.sources.get(_lacking(nearest, group)[0], group.archive)
        cure = f"get it from {group.home}" if source is None else f"allow the download of {source.url}"
        cure = f"{cure}, or place it there yourself"
        if group.form:
            cure = f"it cannot be downloaded; place it there yourself ({group.form})"
        return f"no file '{file}' in {looked}: {cure}, or name a folder that has it in the variable YINYAN_DATA"


def _lacking(place: Path, group: Group) -> list[str]:
    return [file for file in group.files if not (place / group.folder / file).is_file()]


def _checked(place: Path, group: Group) -> Path:
    lacking = _lacking(place, group)
    if lacking:
        raise InputError(f"the download of '{place / group.folder}' lacks '{lacking[0]}': it is another than expected")
    for file in group.files:
        check_digest(place / group.folder / file)
    return place / group.folder
