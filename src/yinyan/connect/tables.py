"""A table of a database, named by a URL or a connection and a query; and rows into one."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from yinyan.connect.databases import Database, DuckDb, Postgres, Sqlite, is_table_name
from yinyan.connect.neo4j_graphs import Neo4j, open_neo4j
from yinyan.connect.urls import DatabaseUrl, imported, is_url
from yinyan.errors import InputError, MissingExtraError
from yinyan.text import listed

__all__ = ["DatabaseTable", "is_database", "opened_database", "refuse_no_query", "write_relationships", "write_rows_to"]

_SESSION = ("exec_driver_sql",)  # what a connection of SQLAlchemy has
_DRIVER = ("execute_query",)  # and a driver of Neo4j


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a database, or the result of a query: it stands wherever a table is expected.

    Examples
    --------
    >>> import sqlite3
    >>> from yinyan import Graph, DatabaseTable
    >>> db = sqlite3.connect(":memory:")
    >>> _ = db.execute("CREATE TABLE cites (citing TEXT, cited TEXT)")
    >>> _ = db.execute("INSERT INTO cites VALUES ('p1', 'p2'), ('p1', 'p3')")
    >>> Graph.from_table(DatabaseTable(db, "cites"), source="citing", target="cited")
    Graph(undirected, nodes=3, edges=2, features=None)
    """

    database: Any = field(repr=False)  # a URL, a DB-API connection, an engine of SQLAlchemy or a driver of Neo4j
    query: str  # a SELECT, the name of a table, or Cypher

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"table {self.query!r}" if is_table_name(self.query) else "the query"

    def read(self) -> pa.Table:
        """Read all rows.

        Returns
        -------
        pyarrow.Table
            The rows, each column of one type.

        Raises
        ------
        InputError
            If the database cannot be opened, or refuses the query.
        MissingExtraError
            If the driver of a URL is not installed.

        Examples
        --------
        >>> import sqlite3
        >>> from yinyan import DatabaseTable
        >>> DatabaseTable(sqlite3.connect(":memory:"), "SELECT 1 AS a, 'x' AS b").read().to_pylist()
        [{'a': 1, 'b': 'x'}]
        """
        with _readable(self.database) as database:
            return database.read(database.whole(self.query) if is_table_name(self.query) else self.query)


def is_database(source: Any) -> bool:
    """Whether an object is a URL, a DB-API connection, an engine or connection of SQLAlchemy, or a driver of Neo4j."""
    if hasattr(source, "columns") or hasattr(source, "__arrow_c_stream__"):  # a frame; a column may be called cursor
        return False
    return is_url(source) or any(hasattr(source, name) for name in ("cursor", "raw_connection", *_SESSION, *_DRIVER))


def refuse_no_query(source: Any) -> InputError:
    """What is wrong with a database without a query, with the names of its tables."""
    with _readable(source) as database:
        tables = database.tables()
        shown = f"; its tables: {listed(tables)}" if tables else ""
        return InputError(
            f"{database.name} is a database: name a table of it or a SELECT with query= (--query) or "
            f"DatabaseTable(database, query){shown}"
        )


def write_rows_to(
    database: Any, table: str, schema: pa.Schema, parts: Iterable[pa.Table], if_exists: str = "error"
) -> int:
    """Write rows to a table of a database, all or none; returns how many."""
    with opened_database(database) as opened:
        return opened.write(table, schema, parts, if_exists)


@contextmanager
def _readable(source: Any) -> Iterator[Database | Neo4j]:
    """Whatever answers queries."""
    with _neo4j(source) if _is_neo4j(source) else opened_database(source, writing=False) as database:
        yield database


def write_relationships(
    database: Any, links: pa.Table, relationship: str, key: str, labels: tuple[str, str], if_exists: str
) -> int:
    """Write rows as relationships of a Neo4j database, all or none; returns how many."""
    if not _is_neo4j(database):
        raise InputError(
            "expected a Neo4j database: a driver, or a URL such as neo4j://user:password@host:7687 (got "
            f"{DatabaseUrl(database).shown if is_url(database) else type(database).__name__})"
        )
    with _neo4j(database) as opened:
        return opened.write(links, relationship, key, labels, if_exists)


def _is_neo4j(source: Any) -> bool:
    if isinstance(source, str):
        return DatabaseUrl(source).scheme.partition("+")[0] in ("neo4j", "bolt")
    return hasattr(source, *_DRIVER)


@contextmanager
def _neo4j(source: Any) -> Iterator[Neo4j]:
    if not isinstance(source, str):
        yield Neo4j(source)
        return
    driver, database = open_neo4j(DatabaseUrl(source))
    with driver:
        yield Neo4j(driver, DatabaseUrl(source).shown, database).reached()


@contextmanager
def opened_database(source: Any, *, writing: bool = True) -> Iterator[Database]:
    """An SQL database by its URL or connection; what is opened here is closed again."""
    if _is_neo4j(source):
        raise InputError("this needs an SQL database: links go into Neo4j as relationships, with to_neo4j")
    if isinstance(source, str):
        with _of_url(DatabaseUrl(source), writing=writing) as database:
            yield database
    elif hasattr(source, "raw_connection"):
        with source.connect() as session:
            yield _of_session(session)
    elif hasattr(source, *_SESSION):
        yield _of_session(source)
    elif hasattr(source, "cursor"):
        yield _of_connection(source, "the database")
    else:
        raise InputError(
            "expected a database: a URL such as sqlite:///edges.db, a DB-API connection, an engine of SQLAlchemy or a "
            f"driver of Neo4j (got {type(source).__name__})"
        )


@contextmanager
def _of_url(url: DatabaseUrl, *, writing: bool) -> Iterator[Database]:
    if not is_url(url):
        raise InputError(f"expected the URL of a database, such as sqlite:///edges.db (got {str(url)!r})")
    if url.scheme in ("sqlite", "duckdb"):
        connection = _open_file(url, writing=writing)
    elif url.scheme in ("postgres", "postgresql"):
        connection = _open_postgres(url)
    else:
        engine = _engine(url)
        with _explained(importlib.import_module("sqlalchemy").exc.SQLAlchemyError, url):
            session = engine.connect()
        with session:
            yield _of_session(session, url.shown)
        return
    try:
        yield _of_connection(connection, url.shown)
    finally:
        connection.close()


def _open_file(url: DatabaseUrl, *, writing: bool) -> Any:
    """SQLite and DuckDB have a database in a file; to read, it needs to be there."""
    if not url.rest.startswith("/") or url.rest == "/":
        raise InputError(
            f"{url.shown} names no file: write {url.scheme}:///edges.db for a file in this folder, "
            f"{url.scheme}:////data/edges.db for a path from the root"
        )
    path = Path(url.rest[1:]).expanduser()
    if not writing and not path.is_file():
        raise InputError(f"there is no file {path} (from {url.shown})")
    if not path.parent.is_dir():
        raise InputError(f"{url.shown} cannot be written: its folder does not exist (create it first)")
    if url.scheme == "sqlite":
        mode = "rwc" if writing else "ro"
        with _explained(sqlite3.Error, url):
            return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)
    duckdb: Any = imported("duckdb", "duckdb:// URLs need DuckDB: pip install 'yinyan[sql]'")
    with _explained(duckdb.Error, url):
        return duckdb.connect(str(path), read_only=not writing)


def _open_postgres(url: DatabaseUrl) -> Any:
    psycopg: Any = imported("psycopg", "postgresql:// URLs need psycopg: pip install 'yinyan[postgres]'")
    try:
        return psycopg.connect(str(url), autocommit=True, connect_timeout=10)
    except psycopg.ProgrammingError:  # its message may quote the whole URL
        raise InputError(
            f"the URL of {url.shown} cannot be read: expected postgresql://user:password@host:5432/database (write "
            "@ : / ? % in a name or password as %40 %3A %2F %3F %25)"
        ) from None
    except psycopg.Error as error:
        raise InputError(f"{url.shown} cannot be opened: {' '.join(str(error).split())}") from None


def _engine(url: DatabaseUrl) -> Any:
    alchemy: Any = imported("sqlalchemy", f"{url.shown} needs SQLAlchemy: pip install 'yinyan[sql]'")
    try:
        return alchemy.create_engine(str(url), poolclass=importlib.import_module("sqlalchemy.pool").NullPool)
    except ImportError as error:
        raise MissingExtraError(
            f"{url.shown} needs a driver that is not installed: pip install {error.name}"
        ) from error
    except alchemy.exc.ArgumentError as error:  # of an unknown kind of database too
        raise InputError(f"{url.shown}: SQLAlchemy does not support such a database, or cannot read the URL") from error


def _of_session(session: Any, name: str = "the database") -> Database:
    """A connection of SQLAlchemy, by its driver's."""
    return _of_connection(session.connection.driver_connection, name, session)


def _of_connection(connection: Any, name: str, session: Any = None) -> Database:
    module = type(connection).__module__.partition(".")[0]
    kind = {"sqlite3": Sqlite, "_duckdb": DuckDb, "duckdb": DuckDb, "psycopg": Postgres}.get(module, Database)
    return kind(connection, name, session=session)


@contextmanager
def _explained(errors: type[Exception], url: DatabaseUrl) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise InputError(f"{url.shown} cannot be opened: {' '.join(str(error).split())}") from None
