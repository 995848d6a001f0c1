"""The durable log of changes: SQLite with a write-ahead log, each change on the disk before it is acknowledged."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from yinyan.errors import StoreError
from yinyan.live.structure import Change

__all__ = ["ChangeLog", "LogFullError", "Logged", "log_path"]

_FORMAT = 1
_PATIENCE = 20.0  # seconds to wait for another process that writes

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (version INTEGER PRIMARY KEY, time REAL NOT NULL, change TEXT NOT NULL);
"""


class LogFullError(StoreError):
    """A change could not be written down, and was not made."""


class Logged(NamedTuple):
    """A change, and its number from 1 on."""

    version: int
    change: Change


def log_path(model: Path) -> Path:
    """Where the changes of a model are kept: beside its directory, which a new fit replaces."""
    place = model.resolve()
    return place.with_name(f"{place.name}.changes.sqlite")


class ChangeLog:
    """Changes in order, shared by all processes that serve a model; an object belongs to one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise StoreError(
                f"the change log '{path}' cannot be opened: {error} (name another file with --log, or restore it)"
            ) from error

    def bind(self, fingerprint: str, *, carry_over: bool = False, reload: bool = False) -> None:
        """Say whose changes these are; a log of another model is refused unless it is to be carried over.

        `reload` tells the other processes that the model is to be read again.
        """
        with self.writing():
            facts = dict(self._db.execute("SELECT name, value FROM facts"))
            if int(facts.get("format", _FORMAT)) != _FORMAT:
                raise StoreError(
                    f"the change log '{self.path}' has format {facts['format']}, and this library reads {_FORMAT} "
                    "(upgrade yinyan, or name another file with --log)"
                )
            if facts.get("model", fingerprint) != fingerprint and self.last() and not carry_over:
                raise StoreError(
                    f"the change log '{self.path}' holds {self.last():,} changes of another model "
                    f"({facts['model'][:12]}…, and this is {fingerprint[:12]}…): pass --carry-over to apply those that "
                    "fit this model, or name another file with --log"
                )
            self._db.executemany(
                "INSERT OR REPLACE INTO facts VALUES (?, ?)", [("format", str(_FORMAT)), ("model", fingerprint)]
            )
            if reload:
                self.append({"kind": "reload", "model": fingerprint})

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within, nobody else writes; what was appended is on the disk at the end, or not there at all."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            raise LogFullError(f"the change log '{self.path}' cannot be written: {error} (nothing changed)") from error

    def append(self, change: Change) -> int:
        """Write a change down, within `writing`; returns its number."""
        text = json.dumps(change, separators=(",", ":"))
        cursor = self._db.execute("INSERT INTO changes (time, change) VALUES (?, ?)", (time.time(), text))
        return int(cursor.lastrowid or 0)

    def after(self, version: int) -> list[Logged]:
        """The changes that came after one, in order."""
        rows = self._db.execute("SELECT version, change FROM changes WHERE version > ? ORDER BY version", (version,))
        return [Logged(number, json.loads(text)) for number, text in rows]

    def last(self) -> int:
        """The number of the last change; 0 where there is none."""
        return int(self._db.execute("SELECT coalesce(max(version), 0) FROM changes").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
