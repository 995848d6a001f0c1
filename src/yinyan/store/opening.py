"""The files of one saved model, opened once: whatever is saved meanwhile, all of them are of one generation."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from yinyan import __version__
from yinyan.errors import StoreError
from yinyan.files import is_held
from yinyan.store.mapping import mapped_arrays
from yinyan.store.parts import PARTS_FILE, PartedArray, parted_arrays_of

__all__ = [
    "FORMAT",
    "FORMAT_OF_PARTS",
    "MANIFEST",
    "OpenedModel",
    "opened_model",
    "previous_copy",
    "read_manifest",
    "saving_lock",
]

FORMAT = 1
FORMAT_OF_PARTS = 2  # of models with arrays in several files, which versions that know format 1 alone cannot read
MANIFEST = "manifest.json"
_PATIENCE = 60.0  # seconds of saves that follow one another, until one is whole for long enough to be opened
_LONGEST_MANIFEST = 1 << 20  # bytes
_BLOCK = 1 << 20

_HAS_FOLDER_HANDLES = os.open in os.supports_dir_fd


@dataclass(frozen=True)
class OpenedModel:
    """Open files of a model. They stay readable when the directory is replaced."""

    path: Path
    manifest: dict[str, Any]
    files: dict[str, BinaryIO]  # absent ones are left out
    missing: tuple[str, ...]

    def fault(self, name: str) -> str | None:
        """What is wrong with a file that the manifest lists, if anything."""
        if name in self.missing:
            return f"the model in '{self.path}' is incomplete: {name} is missing"
        file, facts = self.files[name], self.manifest["files"][name]
        size = os.fstat(file.fileno()).st_size
        if size != facts["bytes"]:
            return f"'{self.path / name}' is truncated or altered: {size:,} bytes, expected {facts['bytes']:,}"
        if _digest(file) != facts["sha256"]:
            what = "has been altered since it was saved, or is of another model"
            return f"'{self.path / name}' {what} (its checksum differs)"
        return None

    def text(self, name: str) -> str:
        """The content of a text file."""
        file = self._listed(name)
        file.seek(0)
        return file.read().decode("utf-8")

    def json(self, name: str) -> Any:
        """The content of a JSON file."""
        return json.loads(self.text(name))

    def file(self, name: str) -> BinaryIO:
        """A file, at its beginning."""
        file = self._listed(name)
        file.seek(0)
        return file

    def refuse_faults(self, names: Iterable[str]) -> None:
        """Raise an error for the first of some files that is missing or altered."""
        for name in names:
            fault = self.fault(name)
            if fault is not None:
                raise StoreError(fault)

    @functools.cached_property
    def parted(self) -> tuple[PartedArray, ...]:
        """The arrays that lie in several files."""
        return parted_arrays_of(self.json(PARTS_FILE)) if PARTS_FILE in self.manifest["files"] else ()

    @property
    def parted_names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(array.name for array in self.parted)

    def arrays(self, name: str, *, mapped: bool) -> dict[str, NDArray[Any]]:
        """The arrays of a file: in memory, or `mapped` and private. Those in several files are always mapped."""
        found = mapped_arrays(self._listed(name), writable=True)[0]
        apart = {array.name: array.read(self._listed) for array in self.parted if array.group == name}
        return (found if mapped else {key: array.copy() for key, array in found.items()}) | apart

    def rows(self, group: str, name: str, first: int, last: int) -> NDArray[Any]:
        """Some rows of an array, mapped; only the files that hold them are compared with their checksums."""
        array = next((array for array in self.parted if (array.group, array.name) == (group, name)), None)
        if array is None:
            self.refuse_faults([group])
            return mapped_arrays(self._listed(group), writable=True)[0][name][first:last]

        def checked(file: str) -> BinaryIO:
            self.refuse_faults([file])
            return self._listed(file)

        return array.read(checked, first, last)

    def _listed(self, name: str) -> BinaryIO:
        if name not in self.files:
            raise ValueError(f"{MANIFEST} does not list {name}")
        return self.files[name]


@contextmanager
def opened_model(path: Path, *, check: bool = True, wait: bool = True) -> Iterator[OpenedModel]:
    """The files of a model directory, all of one save, each compared with its checksum unless `check` is false.

    A directory that is being replaced is opened again, until it is whole; the one who replaces it does not `wait`.
    """
    deadline = time.monotonic() + (_PATIENCE if wait else 0)
    with ExitStack() as held:
        while True:
            before = _generation(path)
            try:
                opened = _opened_once(path, held, check=check)
                break
            except StoreError:
                held.close()
                replaced = _generation(path) != before or is_held(saving_lock(path))
                if not replaced or time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
        yield opened


def read_manifest(path: Path, *, wait: bool = True) -> dict[str, Any]:
    """The manifest of a model directory; refuses what is no model, or of a newer format."""
    with opened_model(path, check=False, wait=wait) as opened:
        return opened.manifest


def saving_lock(path: Path) -> Path:
    """The lock file that a save of this model holds."""
    place = path.resolve()
    return place.with_name(f".{place.name}.lock")


def previous_copy(path: Path) -> Path:
    """Where a save puts the model that it replaces, for a moment."""
    place = path.resolve()
    return place.with_name(f".{place.name}.previous")


def _present(path: Path) -> Path:
    """`path`, or the copy that a save was about to replace when it was cut off."""
    if path.is_dir():
        return path
    if previous_copy(path).is_dir():
        return previous_copy(path)
    raise StoreError(f"there is no model directory '{path}'" + (" (it is a file)" if path.exists() else ""))


def _generation(path: Path) -> tuple[int, ...] | None:
    """What differs between two saves to one place; None where there is none."""
    try:
        facts = [place.stat() for place in (path, path / MANIFEST)]
    except OSError:
        return None
    return tuple(number for fact in facts for number in (fact.st_dev, fact.st_ino, fact.st_ctime_ns))


def _opened_once(path: Path, held: ExitStack, *, check: bool) -> OpenedModel:
    place = _present(path)
    handle: int | None = None
    try:
        if _HAS_FOLDER_HANDLES:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, handle)
        first = _file(place, handle, MANIFEST, held)
    except OSError as error:
        raise StoreError(f"'{place}' cannot be opened: {error.strerror}") from error
    if first is None:
        raise StoreError(f"'{path}' is not a yinyan model: it has no {MANIFEST}")
    manifest = _parsed_manifest(first, place)
    files = {name: _file(place, handle, name, held) for name in manifest["files"]}
    present = {name: file for name, file in files.items() if file is not None}
    opened = OpenedModel(place, manifest, present, tuple(sorted(files.keys() - present.keys())))
    opened.refuse_faults(files if check else ())
    return opened


def _file(place: Path, handle: int | None, name: str, held: ExitStack) -> BinaryIO | None:
    """A plain file of the directory; None where there is none."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe must not be waited for
    try:
        number = os.open(place / name, flags) if handle is None else os.open(name, flags, dir_fd=handle)
    except (FileNotFoundError, IsADirectoryError):
        return None
    file = held.enter_context(os.fdopen(number, "rb"))
    return file if stat.S_ISREG(os.fstat(number).st_mode) else None


def _parsed_manifest(file: BinaryIO, place: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(file.read(_LONGEST_MANIFEST).decode("utf-8"))
        number, files = int(manifest["format"]), manifest["files"]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StoreError(
            f"'{place / MANIFEST}' is damaged: {error!r} (restore it from a copy, or fit again)"
        ) from error
    if number not in (FORMAT, FORMAT_OF_PARTS):
        raise StoreError(
            f"'{place}' has format version {number}, and this library reads versions {FORMAT} and {FORMAT_OF_PARTS} "
            f"({'upgrade yinyan' if number > FORMAT else 'fit again'}; it was written by yinyan "
            f"{manifest.get('library', '?')}, this is {__version__})"
        )
    if not isinstance(files, dict) or not all(map(_is_entry, files.items())):
        raise StoreError(
            f"'{place / MANIFEST}' is damaged: expected the bytes and the sha256 of each file, by plain names "
            "(the model cannot be read: restore the manifest from a copy, or fit again)"
        )
    return manifest


def _is_entry(entry: tuple[str, Any]) -> bool:
    name, facts = entry
    plain = name not in ("", ".", "..", MANIFEST) and not set(name) & set("/\\:\0")
    return (
        plain and isinstance(facts, dict) and type(facts.get("bytes")) is int and isinstance(facts.get("sha256"), str)
    )


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()
