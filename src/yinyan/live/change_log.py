"""The embedded log of changes: SQLite with a write-ahead log, each change on the disk before it is acknowledged."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from yinyan.errors import StoreError
from yinyan.live.log_head import Head, read_head, write_head
from yinyan.live.log_records import (
    CHANGES,
    NET,
    START,
    Facts,
    Logged,
    Row,
    checked_changes,
    checked_net,
    damaged,
    digest_of,
)
from yinyan.live.shared_log import CompactedError, History, LogFullError, SharedLog
from yinyan.text import counted

__all__ = ["ChangeLog", "CompactedError", "History", "LogFullError", "Logged", "log_path", "verify_log"]

_log = logging.getLogger("yinyan.service")

_DAMAGES = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes a damaged text
_PATIENCE = 20.0  # seconds to wait for another process that writes

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (
    version INTEGER PRIMARY KEY, time REAL NOT NULL, change TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS net (
    place INTEGER PRIMARY KEY, time REAL NOT NULL, change TEXT NOT NULL, digest TEXT NOT NULL
);
"""


def log_path(model: Path) -> Path:
    """Where the changes of a model are kept: beside its directory, which a new fit replaces."""
    place = model.resolve()
    return place.with_name(f"{place.name}.changes.sqlite")


class ChangeLog(SharedLog):
    """Changes in a file, shared by all processes of one host that serve a model."""

    def __init__(self, path: Path, *, accept_loss: bool = False) -> None:
        """`accept_loss` goes on with what is left of a log that lost or damaged its newest changes."""
        super().__init__(path)
        self.path = path
        self._data_version = -1
        try:
            self._db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        try:
            with self._errors():
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            with self.writing():
                self._prepare()
                if accept_loss:
                    self._drop_damaged()
            self._compare_head(accept_loss=accept_loss)
        except BaseException:
            self._db.close()
            raise

    # -- opening -------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make the tables of a new log; read an older format and write it anew."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "changes" not in tables:
            if tables:
                raise self._unreadable(f"its tables are {', '.join(sorted(map(str, tables)))}")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._write_facts(Facts())
            return
        found = dict(self._db.execute("SELECT name, value FROM facts"))
        version = found.get("format")
        if version == "1":
            self._upgrade(found)
        else:
            self._check_format(version)

    def _upgrade(self, found: dict[str, str]) -> None:
        """Format 1 had neither digests nor a net effect."""
        for statement in ("ALTER TABLE changes RENAME TO older", *_TABLES.split(";"), "DELETE FROM facts"):
            self._db.execute(statement)
        number, digest = 0, START
        for version, moment, text in self._db.execute("SELECT version, time, change FROM older ORDER BY version"):
            if version != number + 1 or not isinstance(text, str) or not isinstance(moment, float):
                raise damaged(self.path, f"change {number + 1:,}: it is missing or no text")
            number, digest = version, digest_of(digest, version, moment, text)
            self._db.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (version, moment, text, digest))
        self._db.execute("DROP TABLE older")
        self._write_facts(Facts(model=found.get("model", ""), count=number, head=digest))

    def _compare_head(self, *, accept_loss: bool) -> None:
        """Refuse a log that has fewer changes than it once had, or others."""
        try:
            known = read_head(self.path)  # before the facts: a process that writes meanwhile makes these the newer
            with self._reading():
                facts = self._facts()
                if known is not None:
                    self._follows(known, facts)
        except StoreError as error:
            if not accept_loss:
                raise
            _log.warning("%s: the loss is accepted", error)
            facts = self.facts()
            write_head(self.path, Head(facts.count, facts.head), lower=True)
        write_head(self.path, Head(facts.count, facts.head))

    def _follows(self, known: Head, facts: Facts) -> None:
        if known.count > facts.count:
            lost = known.count - facts.count
            raise StoreError(
                f"the change log '{self.path}' lacks its newest {counted(lost, 'change')}: it ends at {facts.count:,}, "
                f"and {known.count:,} were acknowledged. Was '{self.path.name}-wal' damaged or left behind? "
                "(restore a copy of all files of the log, or start with --accept-loss to go on without them)"
            )
        if known.count > facts.base and known.digest != self._digest_at(known.count, facts):
            raise damaged(self.path, f"change {known.count:,}: it is not the one that was acknowledged")

    # -- writing -------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within, nobody else writes; what was appended is on the disk at the end, or not there at all."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            if self._pending is not None:
                self._db.execute("DELETE FROM facts")
                self._db.executemany("INSERT INTO facts VALUES (?, ?)", self._pending.rows())
            self._db.execute("COMMIT")
        except BaseException as error:
            self._pending = None
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise LogFullError(
                    f"the change log '{self.path}' cannot be written: {error} (nothing changed)"
                ) from error
            if isinstance(error, _DAMAGES):
                raise self._unreadable(error) from error
            raise
        written, self._pending = self._pending, None
        if written is not None:
            self._note_head(Head(written.count, written.head))

    def _insert(self, table: str, row: Row) -> None:
        self._db.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", row)

    def shrink(self) -> None:
        """Give the room of removed records back to the file system, unless somebody is reading or writing."""
        try:
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:  # the room is used for what comes next
            _log.warning("the change log '%s' keeps its size: %s", self.path, error)

    def _note_head(self, head: Head) -> None:
        """After the commit: what is on the disk is there, whether or not the head can be written."""
        try:
            write_head(self.path, head)
        except StoreError as error:
            _log.warning("the newest changes of the log are not guarded against loss: %s", error)

    # -- reading -------------------------------------------------------------------------------------------

    def _run(self, statement: str, *values: object) -> Iterable[tuple[Any, ...]]:
        return self._db.execute(statement, values)

    def was_written(self) -> bool:
        """Whether another process has written since this was last asked; cheap."""
        with self._errors():
            version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        before, self._data_version = self._data_version, version
        return before != version

    def size(self) -> int:
        """Bytes of the file and of its write-ahead file."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Within, all that is read is of one state of the file."""
        with self._errors():
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGES as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: object) -> StoreError:
        return StoreError(
            f"the change log '{self.path}' cannot be opened: {error} (name another file with --log, or restore it)"
        )


def verify_log(path: Path) -> list[str]:
    """What is wrong with a log, or nothing; it is only read, also beside a service that writes."""
    if not path.exists():
        return []
    findings: list[str] = []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as db:
            known = read_head(path)
            db.execute("BEGIN")
            for (line,) in db.execute("PRAGMA integrity_check"):
                if line != "ok":
                    findings.append(f"the change log '{path}' is damaged: {line}")
            found = dict(db.execute("SELECT name, value FROM facts"))
            if found.get("format") == "1":
                return [*findings, f"the change log '{path}' has format 1, without digests: yinyan serve upgrades it"]
            facts = Facts.read(list(found.items()), path)
            checked_net(db.execute(NET), path, facts)
            changes = db.execute(CHANGES, (facts.base,))
            checked_changes(changes, path, facts, facts.base, facts.base_head)
            if known is not None and known.count > facts.count:
                findings.append(
                    f"the change log '{path}' lacks its newest {counted(known.count - facts.count, 'change')}"
                )
    except _DAMAGES as error:
        findings.append(f"the change log '{path}' cannot be read: {error}")
    except StoreError as error:
        findings.append(str(error))
    return findings
