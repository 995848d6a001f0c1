"""Databases behind a DB-API connection: how each is queried, and how rows are written all or none."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import pyarrow as pa

from yinyan.connect.arrow_rows import arrow_table
from yinyan.errors import InputError

__all__ = ["Database", "DuckDb", "IfExists", "Postgres", "Sqlite", "is_table_name"]

IfExists = Literal["error", "append", "replace"]

_CHOICES = ("error", "append", "replace")
_NAME = re.compile(r"[\w$]+(\.[\w$]+)*")
_BLOCK = 20_000  # rows that are sent at a time
_SAVEPOINT = "yinyan_rows"
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}  # the others number them
_UNDOES_CREATION = ("psycopg2", "pg8000")  # beside those with a class of their own


def is_table_name(text: str) -> bool:
    """Whether a text is the name of a table, perhaps with its schema, and no query."""
    return _NAME.fullmatch(text) is not None


class Database:
    """A DB-API 2.0 connection of any driver; a subclass knows what is different in its database.

    `session` is a connection of SQLAlchemy, whose transactions are then used.
    """

    quote = '"'
    undoes_creation = False  # whether a rollback also undoes CREATE TABLE and DROP TABLE

    def __init__(self, connection: Any, name: str = "the database", *, session: Any = None) -> None:
        self.connection, self.name, self.session = connection, name, session
        module = type(connection).__module__.partition(".")[0]
        driver: Any = importlib.import_module(module)
        self.error: type[Exception] = getattr(driver, "Error", Exception)
        self._style = str(getattr(driver, "paramstyle", "qmark"))
        self.undoes_creation = self.undoes_creation or module in _UNDOES_CREATION
        if module in ("pymysql", "mysql", "MySQLdb", "mariadb"):
            self.quote = "`"

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, query: str) -> pa.Table:
        """All rows of a query."""
        with self.saying("the query failed"):
            return self.rows_of(query)

    def rows_of(self, query: str) -> pa.Table:
        """The same, with the errors of the driver."""
        cursor = self.connection.cursor()
        try:
            return self.fetched(cursor, query)
        finally:
            cursor.close()

    def fetched(self, cursor: Any, query: str) -> pa.Table:
        """All rows that a cursor finds, block after block."""
        cursor.execute(query)
        if cursor.description is None:
            raise InputError(f"{self.name}: the query returns no rows: it needs to be a SELECT")
        names = [str(column[0]) for column in cursor.description]
        return arrow_table(names, iter(lambda: cursor.fetchmany(_BLOCK), []), self.name)

    def whole(self, table: str) -> str:
        """The query of all rows of a table."""
        return f"SELECT * FROM {self.quoted(table)}"

    def tables(self) -> list[str]:
        """The names of its tables, where they are known."""
        return []

    # -- writing -------------------------------------------------------------------------------------------

    def check(self, table: str, if_exists: str) -> bool:
        """Refuse what cannot be written before the rows are made; returns whether the table has to be created."""
        if if_exists not in _CHOICES:
            raise InputError(f"if_exists (--if-exists) needs to be error, append or replace (got {if_exists!r})")
        if not is_table_name(table):
            raise InputError(f"{table!r} is no name of a table: expected letters, digits and _, perhaps schema.table")
        there = self.has(table)
        if there and if_exists == "error":
            raise InputError(
                f"{self.name} has a table {table!r} already: choose another name, or pass if_exists='append' or "
                "'replace' (--if-exists)"
            )
        creates = if_exists == "replace" or not there
        if creates and not self.undoes_creation:
            raise InputError(
                f"{self.name} cannot undo the creation of a table, so that it might be left with some of the rows: "
                f"create {table!r} first, and pass if_exists='append' (--if-exists append)"
            )
        return creates

    def write(self, table: str, schema: pa.Schema, parts: Iterable[pa.Table], if_exists: str = "error") -> int:
        """Write rows to a table, all of them or none; returns how many."""
        creates, count = self.check(table, if_exists), 0
        quoted = self.quoted(table)
        with self.saying(f"nothing was written to {table!r}"), self.transaction():
            if creates:
                self._run(f"DROP TABLE IF EXISTS {quoted}")
                columns = ", ".join(f"{self.quoted_part(field.name)} {_type_of(field)}" for field in schema)
                self._run(f"CREATE TABLE {quoted} ({columns})")
            for part in parts:
                self.insert(quoted, part)
                count += part.num_rows
        return count

    def insert(self, quoted: str, rows: pa.Table) -> None:
        """Add rows within the transaction."""
        marks = ", ".join(self._mark(place) for place in range(1, rows.num_columns + 1))
        statement = f"INSERT INTO {quoted} ({self.columns_of(rows)}) VALUES ({marks})"
        cursor = self.connection.cursor()
        try:
            for block in rows.to_batches(_BLOCK):
                cursor.executemany(statement, _tuples(block))
        finally:
            cursor.close()

    def has(self, table: str) -> bool:
        """Whether there is a table of this name."""
        try:
            with self.transaction():
                self._run(f"SELECT 1 FROM {self.quoted(table)} WHERE 1 = 0")
        except InputError:
            raise
        except self.error:
            return False
        return True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done within is undone by an error. A transaction that the caller began goes on afterwards."""
        if self.session is not None:
            with self.session.begin_nested() if self.session.in_transaction() else self.session.begin():
                yield
            return
        if getattr(self.connection, "autocommit", None) is True:
            raise InputError(
                f"{self.name} commits after each statement, and rows are written all or none: turn autocommit off"
            )
        with self._savepoint():
            yield

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        self._run(f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield
        except BaseException:
            self._run(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            self._run(f"RELEASE SAVEPOINT {_SAVEPOINT}")
            raise
        self._run(f"RELEASE SAVEPOINT {_SAVEPOINT}")

    # -- words ---------------------------------------------------------------------------------------------

    def quoted(self, table: str) -> str:
        """A name of a table as statements have it; a point separates schema and table."""
        return ".".join(self.quoted_part(part) for part in table.split("."))

    def quoted_part(self, name: str) -> str:
        """A single name as statements have it."""
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"

    def columns_of(self, rows: pa.Table) -> str:
        """The names of columns as statements have them."""
        return ", ".join(map(self.quoted_part, rows.column_names))

    @contextmanager
    def saying(self, what: str) -> Iterator[None]:
        """Errors of the driver become errors that name the database."""
        try:
            yield
        except InputError:
            raise
        except self.error as error:
            raise InputError(f"{self.name}: {what}: {' '.join(str(error).split())}") from error

    def _mark(self, place: int) -> str:
        return _MARKS.get(self._style, f":{place}")

    def _run(self, statement: str) -> None:
        cursor = self.connection.cursor()
        try:
            cursor.execute(statement)
        finally:
            cursor.close()


class Sqlite(Database):
    """SQLite, whose savepoints begin a transaction, and end one that they began."""

    undoes_creation = True

    def tables(self) -> list[str]:
        """The names of its tables and views."""
        cursor = self.connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        return [name for (name,) in cursor.fetchall()]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A savepoint; the driver puts off the BEGIN of a transaction of SQLAlchemy, and it has to come first."""
        if self.session is not None and self.session.in_transaction() and not self.connection.in_transaction:
            self._run("BEGIN")
        with self._savepoint():
            yield


class DuckDb(Database):
    """DuckDB, which hands over and takes Arrow tables."""

    undoes_creation = True

    def rows_of(self, query: str) -> pa.Table:
        """The rows of a query, without a detour by Python's objects."""
        found = self.connection.sql(query)
        if found is None:
            raise InputError(f"{self.name}: the query returns no rows: it needs to be a SELECT")
        return pa.table(found)

    def tables(self) -> list[str]:
        """The names of its tables and views."""
        return [name for (name,) in self.connection.execute("SHOW TABLES").fetchall()]

    def has(self, table: str) -> bool:
        """Whether there is a table of this name; a query that fails would end the caller's transaction."""
        *schema, name = table.split(".")[-2:]
        query = (
            "SELECT 1 FROM information_schema.tables WHERE lower(table_name) = lower(?) "
            "AND lower(table_schema) = lower(coalesce(?, current_schema()))"
        )
        return self.connection.execute(query, [name, schema[0] if schema else None]).fetchone() is not None

    def insert(self, quoted: str, rows: pa.Table) -> None:
        """Add an Arrow table."""
        columns = self.columns_of(rows)
        self.connection.register(_SAVEPOINT, rows)
        try:
            self._run(f"INSERT INTO {quoted} ({columns}) SELECT {columns} FROM {_SAVEPOINT}")
        finally:
            self.connection.unregister(_SAVEPOINT)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, unless the caller began one: there are no savepoints."""
        first, second = (self.connection.execute("SELECT txid_current()").fetchone() for _ in range(2))
        if first == second:  # else each statement is a transaction of its own
            yield
            return
        self._run("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def _run(self, statement: str) -> None:
        self.connection.execute(statement)


class Postgres(Database):
    """PostgreSQL through psycopg, with rows sent by COPY."""

    undoes_creation = True

    def rows_of(self, query: str) -> pa.Table:
        """The rows of a query, which stay on the server until their block is asked for."""
        with self.connection.transaction(), self.connection.cursor(name=_SAVEPOINT) as cursor:
            return self.fetched(cursor, query)

    def tables(self) -> list[str]:
        """The names of the tables and views that a name without schema finds."""
        query = (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY (current_schemas(false)) "
            "ORDER BY 1"
        )
        return [name for (name,) in self.connection.execute(query).fetchall()]

    def insert(self, quoted: str, rows: pa.Table) -> None:
        """Add rows by COPY."""
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {quoted} ({self.columns_of(rows)}) FROM STDIN") as copy,
        ):
            for block in rows.to_batches(_BLOCK):
                for row in _tuples(block):
                    copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, or a savepoint within that of the caller."""
        own: Callable[[], AbstractContextManager[object]] = self.connection.transaction
        with own() if self.session is None else super().transaction():
            yield


def _tuples(block: pa.RecordBatch) -> Sequence[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in block.columns), strict=True))


def _type_of(field: pa.Field) -> str:
    """The type of a column, in words that SQLite, DuckDB and PostgreSQL share."""
    if pa.types.is_integer(field.type):
        return "BIGINT"
    if pa.types.is_floating(field.type):
        return "REAL" if field.type == pa.float32() else "DOUBLE PRECISION"
    return "BOOLEAN" if pa.types.is_boolean(field.type) else "TEXT"
