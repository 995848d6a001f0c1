"""The log of changes in PostgreSQL, for services on several hosts: a change is committed before it is acknowledged."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from yinyan.errors import StoreError
from yinyan.live.database_url import DatabaseUrl
from yinyan.live.log_records import Facts, Row
from yinyan.live.postgres_session import Session
from yinyan.live.shared_log import LogFullError, SharedLog, UncertainError

__all__ = ["PostgresLog"]

_log = logging.getLogger("yinyan.service")

_LOOK = 1.0  # seconds after which the log is looked at in any case: a message may have been lost
_PATIENCE = 10.0  # seconds for a database to come back that was lost during a commit

_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = ?"
_SCHEMAS = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
_CREATE = """
CREATE TABLE facts (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE changes (version bigint PRIMARY KEY, time float8 NOT NULL, change text NOT NULL, digest text NOT NULL);
CREATE TABLE net (place bigint PRIMARY KEY, time float8 NOT NULL, change text NOT NULL, digest text NOT NULL)
"""
# only the rows that differ are written anew
_FACTS = """
INSERT INTO facts SELECT * FROM unnest(?::text[], ?::text[])
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE facts.value <> excluded.value
"""
_SIZE = (
    "SELECT sum(pg_total_relation_size(name))::bigint FROM unnest(ARRAY['facts', 'changes', 'net']::regclass[]) name"
)


class PostgresLog(SharedLog):
    """Changes in a schema of a database; a lock of the database decides which process of which host writes."""

    spans_hosts = True

    def __init__(self, place: DatabaseUrl, *, accept_loss: bool = False, create: bool = True) -> None:
        """`accept_loss` goes on with what is left of a log with damaged changes; `create` makes a new log."""
        super().__init__(place)
        self._session = Session(place)
        # each statement sees what was committed before it, so that those after the lock see what its last holder wrote
        self._write = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock({self._session.key})"
        self._inserted: dict[str, list[Row]] = {}  # in this transaction: sent together at its end
        self._is_writing = False
        self._looked = 0.0
        try:
            with self._reading():
                is_there = self._is_there()
            if not is_there and not create:
                raise StoreError(f"there is no change log in '{place}' (yinyan serve makes it)")
            if not is_there:
                with self.writing():
                    self._create()
            if accept_loss:
                with self.writing():
                    self._drop_damaged()
        except BaseException:
            self.close()
            raise

    # -- opening -------------------------------------------------------------------------------------------

    def _is_there(self) -> bool:
        """Whether there is a log; another format, or tables of somebody else, are refused."""
        schema = self._session.url.schema
        tables = {str(name) for (name,) in self._run(_TABLES, schema)}
        if not tables:
            return False
        if "changes" not in tables or "facts" not in tables:
            names = ", ".join(sorted(tables)[:5])
            raise self._unreadable(f"its schema '{schema}' has other tables ({names}): add schema=NAME to the URL")
        self._check_format(dict(self._run("SELECT name, value FROM facts")).get("format"))
        return True

    def _create(self) -> None:
        """Make the tables, unless another host has meanwhile."""
        if self._is_there():
            return
        schema = self._session.url.schema
        if not self._run(_SCHEMAS, schema):
            self._run(f'CREATE SCHEMA "{schema}"')
        for statement in _CREATE.split(";"):
            self._run(statement)
        self._write_facts(Facts())

    # -- writing -------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within, nobody else writes; what was appended is committed at the end, or not there at all."""
        session = self._session
        session.begin(self._write)
        self._is_writing = True  # what is read within is read on this connection alone: another has no lock
        try:
            yield
            self._send()
        except BaseException as error:
            self._pending, self._inserted = None, {}
            session.roll_back()
            if isinstance(error, psycopg.Error):
                raise session.failed(error) from error
            raise
        finally:
            self._is_writing = False
        written, appended = self._pending, "changes" in self._inserted
        self._pending, self._inserted = None, {}
        try:
            session.run("COMMIT")
        except psycopg.Error as error:
            if session.is_open or written is None or not self._is_committed(written, appended=appended):
                session.roll_back()
                raise session.failed(error) from error

    def _insert(self, table: str, row: Row) -> None:
        self._inserted.setdefault(table, []).append(row)

    def _send(self) -> None:
        """All that is to be committed, and a message to those who follow."""
        session = self._session
        for table, rows in self._inserted.items():
            session.run_many(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
        if self._pending is not None:
            names, values = zip(*self._pending.rows(), strict=True)
            session.run(_FACTS, (list(names), list(values)))
            session.run("SELECT pg_notify(?, '')", (session.channel,))

    def _is_committed(self, written: Facts, *, appended: bool) -> bool:
        """Whether a commit took place whose answer never came: the lock is free when that is decided."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._session.begin(self._write)
                try:
                    return self._holds(written, appended=appended)
                finally:
                    self._session.roll_back()
            except (LogFullError, psycopg.Error) as error:
                if time.monotonic() > deadline:
                    raise self._uncertain(f"did not come back within {_PATIENCE:g} s") from error
                time.sleep(0.05)

    def _holds(self, written: Facts, *, appended: bool) -> bool:
        """Whether the log has what a transaction was to write; others may have written since."""
        facts = self._facts()
        if not appended:
            return facts == written
        if facts.base > written.count:
            raise self._uncertain("was compacted since")
        return written.count <= facts.count and self._digest_at(written.count, facts) == written.head

    def _uncertain(self, why: str) -> UncertainError:
        return UncertainError(
            f"the change log '{self.place}' was lost while a change was committed, and {why}: whether the change was "
            "made is not known (look before sending it again)"
        )

    def shrink(self) -> None:
        """Let the database use the room of removed records for others."""
        try:
            self._session.run("VACUUM facts, changes, net")
        except psycopg.Error as error:  # autovacuum does it later
            _log.warning("the change log '%s' keeps its size: %s", self.place, self._session.failed(error))

    # -- reading -------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        session = self._session
        try:
            if self._is_writing:
                yield
                return
            session.begin(_READ)
            try:
                yield
            finally:
                session.roll_back()
        except psycopg.Error as error:
            raise session.failed(error) from error

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._session.run(statement, values)

    def was_written(self) -> bool:
        """Whether a message of another writer has come, or none for a while."""
        try:
            woken = self._session.listen()
        except psycopg.Error as error:
            self._session.close()
            raise self._session.failed(error) from error
        now = time.monotonic()
        if not woken and now < self._looked + _LOOK:
            return False
        self._looked = now
        return True

    def size(self) -> int:
        """Bytes of the tables and their indexes."""
        with self._reading():
            ((found,),) = self._run(_SIZE)
            return int(found)

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _unreadable(self, error: object) -> StoreError:
        return StoreError(f"the change log '{self.place}' cannot be opened: {error}")
