"""The durable log of changes: SQLite with a write-ahead log, each change on the disk before it is acknowledged."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from yinyan.errors import StoreError
from yinyan.live.log_head import Head, read_head, write_head
from yinyan.live.log_records import (
    FORMAT,
    START,
    Facts,
    Logged,
    chained,
    checked_changes,
    checked_net,
    damaged,
    digest_of,
    text_of,
)
from yinyan.live.structure import Change
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


class LogFullError(StoreError):
    """A change could not be written down, and was not made."""


class CompactedError(StoreError):
    """Changes that are asked for are no longer kept one by one."""


class History(NamedTuple):
    """All that a log holds: the net effect of older changes, and the newer ones."""

    net: list[Change]
    base: int  # the number of the last change in the net effect
    changes: list[Logged]


def log_path(model: Path) -> Path:
    """Where the changes of a model are kept: beside its directory, which a new fit replaces."""
    place = model.resolve()
    return place.with_name(f"{place.name}.changes.sqlite")


class ChangeLog:
    """Changes in order, shared by all processes that serve a model; an object belongs to one thread at a time."""

    def __init__(self, path: Path, *, accept_loss: bool = False) -> None:
        """`accept_loss` goes on with what is left of a log that lost or damaged its newest changes."""
        self.path = path
        self._seen = (0, START)  # the last change that was read, and its digest
        self._data_version = -1
        self._pending: Facts | None = None  # what a transaction is going to write
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
        elif version != str(FORMAT):
            raise StoreError(
                f"the change log '{self.path}' has format {version}, and this library reads {FORMAT} "
                "(upgrade yinyan, or name another file with --log)"
            )

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

    def _drop_damaged(self) -> None:
        """Keep the changes before the first that is damaged."""
        facts = self._facts()
        checked_net(self._db, self.path, facts)
        good = Head(facts.base, facts.base_head)
        rows = self._db.execute("SELECT version, time, change, digest FROM changes ORDER BY version")
        try:
            for logged, digest in chained(self.path, "change", rows, good.count, good.digest):
                good = Head(logged.version, digest)
        except StoreError as error:
            _log.warning("%s: what follows change %d is dropped", error, good.count)
        if good != Head(facts.count, facts.head):
            self._db.execute("DELETE FROM changes WHERE version > ?", (good.count,))
            self._write_facts(replace(facts, count=good.count, head=good.digest))

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

    def bind(
        self, fingerprint: str, *, directed: bool | None = None, carry_over: bool = False, reload: bool = False
    ) -> None:
        """Say whose changes these are; a log of another model is refused unless it is to be carried over.

        `reload` tells the other processes that the model is to be read again.
        """
        with self.writing():
            facts = self._facts()
            if facts.model not in ("", fingerprint) and facts.count and not carry_over:
                raise StoreError(
                    f"the change log '{self.path}' holds {facts.count:,} changes of another model "
                    f"({facts.model[:12]}…, and this is {fingerprint[:12]}…): pass --carry-over to apply those that "
                    "fit this model, or name another file with --log"
                )
            direction = facts.directed if directed is None else "yes" if directed else "no"
            if (fingerprint, direction) != (facts.model, facts.directed):
                self._write_facts(replace(facts, model=fingerprint, directed=direction))
            if reload:
                self.append({"kind": "reload", "model": fingerprint})

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

    def append(self, change: Change) -> int:
        """Write a change down, within `writing`; returns its number."""
        facts, text, moment = self._facts(), text_of(change), time.time()
        version = facts.count + 1
        digest = digest_of(facts.head, version, moment, text)
        self._db.execute("INSERT INTO changes VALUES (?, ?, ?, ?)", (version, moment, text, digest))
        self._write_facts(replace(facts, count=version, head=digest))
        return version

    def replace_until(self, version: int, base: int, net: Sequence[Change], items: int) -> bool:
        """Put a net effect in the place of all changes up to a version; False if another one was put there meanwhile.

        `base` is the version up to which there was a net effect when this one was computed.
        """
        with self.writing():
            facts = self._facts()
            if facts.base != base or version > facts.count:
                return False
            kept = self._digest_at(version, facts)
            self._db.execute("DELETE FROM net")
            digest, moment = START, time.time()
            for place, change in enumerate(net, 1):
                text = text_of(change)
                digest = digest_of(digest, place, moment, text)
                self._db.execute("INSERT INTO net VALUES (?, ?, ?, ?)", (place, moment, text, digest))
            self._db.execute("DELETE FROM changes WHERE version <= ?", (version,))
            facts = replace(facts, base=version, base_head=kept)
            self._write_facts(replace(facts, net_count=len(net), net_items=items, net_head=digest))
        return True

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

    def facts(self) -> Facts:
        """What the log says about itself."""
        with self._reading():
            return self._facts()

    def history(self) -> History:
        """Everything, each record checked against its digest."""
        with self._reading():
            facts = self._facts()
            net = checked_net(self._db, self.path, facts)
            changes = checked_changes(self._db, self.path, facts, facts.base, facts.base_head)
            self._seen = (facts.count, facts.head)
            return History(net, facts.base, changes)

    def after(self, version: int) -> list[Logged]:
        """The changes that came after one, in order, each checked against its digest."""
        with self._reading():
            facts = self._facts()
            if version < facts.base:
                raise CompactedError(f"changes up to {facts.base:,} are no longer kept one by one (read the history)")
            known = self._seen[1] if self._seen[0] == version else self._digest_at(version, facts)
            found = checked_changes(self._db, self.path, facts, version, known)
            self._seen = (facts.count, facts.head)
            return found

    def last(self) -> int:
        """The number of the last change; 0 where there is none."""
        return self.facts().count

    def was_written(self) -> bool:
        """Whether another process has written since this was last asked; cheap."""
        with self._errors():
            version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        before, self._data_version = self._data_version, version
        return before != version

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

    def _facts(self) -> Facts:
        if self._pending is not None:
            return self._pending
        return Facts.read(self._db.execute("SELECT name, value FROM facts").fetchall(), self.path)

    def _write_facts(self, facts: Facts) -> None:
        """Within `writing`, which puts them on the disk together with the changes."""
        self._pending = facts

    def _digest_at(self, version: int, facts: Facts) -> str:
        if version == facts.base:
            return facts.base_head
        found = self._db.execute("SELECT digest FROM changes WHERE version = ?", (version,)).fetchone()
        if found is None or not isinstance(found[0], str):
            raise damaged(self.path, f"change {version:,}: it is missing")
        return found[0]


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
            checked_net(db, path, facts)
            checked_changes(db, path, facts, facts.base, facts.base_head)
            if known is not None and known.count > facts.count:
                findings.append(
                    f"the change log '{path}' lacks its newest {counted(known.count - facts.count, 'change')}"
                )
    except _DAMAGES as error:
        findings.append(f"the change log '{path}' cannot be read: {error}")
    except StoreError as error:
        findings.append(str(error))
    return findings
