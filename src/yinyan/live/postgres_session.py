"""A session with PostgreSQL that is opened again when it was lost; the password of its URL is in no message."""

from __future__ import annotations

import logging
import time
import zlib
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from yinyan.errors import SettingsError
from yinyan.live.database_url import DatabaseUrl
from yinyan.live.shared_log import LogFullError, LogUnreachableError

__all__ = ["Session"]

_log = logging.getLogger("yinyan.service")

_PAUSE = 0.5  # seconds after a connection that failed in which no other is tried
# A host that is cut off is noticed on both sides within half a minute, and holds the lock no longer than that
_CONNECTION: dict[str, str | int] = {
    "application_name": "yinyan",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "target_session_attrs": "read-write",
}
_SESSION = {
    "lock_timeout": "20s",  # for another process that writes
    "idle_in_transaction_session_timeout": "300s",  # a writer that hangs; it computes rows within its transaction
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_DURABILITY = "SELECT current_setting('synchronous_commit'), current_setting('fsync')"


class Session:
    """A connection, and what is done on it."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self.woken = True  # a message of the channel came, or some may have been missed
        # one number for the lock and the channel of a schema; both belong to a database
        self.key = zlib.crc32(f"yinyan change log {url.schema}".encode())
        self.channel = f"yinyan_{url.schema}"
        self._db: psycopg.Connection[tuple[Any, ...]] | None = None
        self._try_at, self._fault = 0.0, ""
        try:
            self._options = {**_CONNECTION, **conninfo_to_dict(url.connection), "client_encoding": "utf8"}
        except psycopg.Error:  # its message may quote the whole URL
            raise SettingsError(
                f"the URL of the change log '{url}' cannot be read: expected options of libpq after the question "
                "mark, as sslmode=require, or schema=NAME"
            ) from None
        self._secret = str(self._options.get("password") or "")

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that has not been lost, as far as is known."""
        return self._db is not None and not self._db.closed

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun, and neither committed nor rolled back."""
        return self.is_open and self._connected().info.transaction_status != pq.TransactionStatus.IDLE

    def begin(self, statement: str) -> None:
        """Begin a transaction; a connection that was lost meanwhile is opened again."""
        for is_last in (False, True):
            db = self._connected()
            try:
                db.execute(statement.encode())
                return
            except psycopg.Error as error:
                if is_last or not db.closed:
                    self.roll_back()
                    raise self.failed(error) from error

    def run(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """What a statement finds; a connection that was lost within a transaction is an error."""
        if self._db is None:
            raise psycopg.OperationalError("the connection was lost")
        cursor = self._db.execute(statement.replace("?", "%s").encode(), values or None)
        return cursor.fetchall() if cursor.description is not None else []

    def run_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """A statement for each row, sent together."""
        if self._db is None:
            raise psycopg.OperationalError("the connection was lost")
        with self._db.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s").encode(), rows)

    def roll_back(self) -> None:
        """End a transaction without a trace; a connection on which that fails is closed, which does the same."""
        if self.in_transaction:
            try:
                self._connected().execute("ROLLBACK")
            except psycopg.Error:
                self.close()

    def listen(self) -> bool:
        """Whether the channel had a message of others since this was last asked; does not wait."""
        pgconn = self._connected().pgconn
        pgconn.consume_input()
        while (message := pgconn.notifies()) is not None:
            self._note(message.be_pid)
        woken, self.woken = self.woken, False
        return woken

    def close(self) -> None:
        """End the connection; the next question opens another."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def failed(self, error: psycopg.Error) -> LogFullError:
        """What is said of an error of the database, without credentials."""
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            self.close()  # it is no longer the primary: ask for that again
        words = self._clean(error)
        if not self.is_open:
            return LogUnreachableError(f"the change log '{self.url}' cannot be reached: {words} (nothing changed)")
        if isinstance(error, psycopg.errors.LockNotAvailable):
            words = f"another service has been writing for {_SESSION['lock_timeout']}"
        return LogFullError(f"the change log '{self.url}' cannot be used: {words} (nothing changed)")

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._db is not None and not self._db.closed:
            return self._db
        if time.monotonic() < self._try_at:
            raise LogUnreachableError(self._fault)
        self.close()
        try:
            self._db = psycopg.connect(autocommit=True, prepare_threshold=None, **self._options)  # type: ignore[arg-type]
            self._set_up(self._db)
        except psycopg.Error as error:
            self.close()
            self._fault = str(self.failed(error))
            self._try_at = time.monotonic() + _PAUSE
            raise LogUnreachableError(self._fault) from None  # of a connection, libpq may quote options
        self.woken = True
        return self._db

    def _set_up(self, db: psycopg.Connection[tuple[Any, ...]]) -> None:
        settings = {**_SESSION, "search_path": f'"{self.url.schema}"'}
        given = [text for setting in settings.items() for text in setting]
        db.execute(b"SELECT " + b", ".join([b"set_config(%s, %s, false)"] * len(settings)), given)
        db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
        db.add_notify_handler(lambda message: self._note(message.pid))
        (commit, fsync), *_ = db.execute(_DURABILITY).fetchall()
        if commit == "off":  # it would acknowledge what is not on the disk
            db.execute("SET synchronous_commit = on")
        if fsync == "off":
            _log.warning("the database '%s' runs with fsync = off: a power failure may lose changes", self.url)

    def _note(self, pid: int) -> None:
        if self._db is None or pid != self._db.info.backend_pid:
            self.woken = True

    def _clean(self, error: psycopg.Error) -> str:
        """The text of an error in one line, without the password and the user's name."""
        text = " ".join(str(error).split())
        text = text.replace(self._secret, "…") if self._secret else text
        user = str(self._options.get("user") or "")
        return text.replace(f'"{user}"', '"…"') if user else text
