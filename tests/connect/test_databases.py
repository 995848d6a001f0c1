"""Tables of databases in, predictions out: SQLite, DuckDB and PostgreSQL, by URL, by DB-API and by SQLAlchemy."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import sqlite3
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from command_line import TINY, refused, works
from contracts import planted_graph, tiny
from postgres_tools import PASSWORD, PLAIN_PASSWORD, Server
from yinyan import DatabaseTable, Graph, LinkPredictor
from yinyan.connect import databases
from yinyan.connect.databases import Database
from yinyan.connect.tables import opened_database, write_rows_to
from yinyan.errors import InputError, MissingExtraError
from yinyan.graph.conversion import as_graph

CITES = [("p1", "p2", 2.0), ("p1", "p3", 1.0), ("p2", "p3", None), ("p3", "p4", 1.5)]
PAPERS = [("p1", 1990, "On one"), ("p2", 1991, "On two"), ("p3", 1992, "On three"), ("p4", 1993, "On four")]
ROWS = pa.table({"source": ["a", "b"], "target": ["c", "d"], "rank": [1, 2], "probability": [0.5, None]})


def statements(database: Any) -> Callable[[str], list[Any]]:
    """What runs a statement on a database of any kind, and commits."""

    def run(statement: str) -> list[Any]:
        with opened_database(database) as opened:
            cursor = opened.connection.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if statement.startswith("SELECT") else []

    return run


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with a table of citations and one of papers."""
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("database")
        name = request.getfixturevalue("schema")
        server.execute(f"CREATE SCHEMA {name}", schema="public")
        made = server.url(f"?options=-csearch_path%3D{name}")
    else:
        if request.param == "duckdb":
            pytest.importorskip("duckdb")
        made = f"{request.param}:///{tmp_path}/papers.db"
    run = statements(made)
    run("CREATE TABLE cites (citing TEXT, cited TEXT, strength DOUBLE PRECISION)")
    run("CREATE TABLE papers (id TEXT, year INTEGER, title TEXT)")
    values = ", ".join(f"('{a}', '{b}', {'NULL' if w is None else w})" for a, b, w in CITES)
    run(f"INSERT INTO cites VALUES {values}")
    run(f"INSERT INTO papers VALUES {', '.join(map(repr, PAPERS))}")
    return made


class TestReading:
    def test_a_graph_from_a_query_and_a_table(self, url: str) -> None:
        query = "SELECT citing, cited, strength AS weight FROM cites WHERE strength IS NOT NULL"
        graph = Graph.from_table(url, query=query, nodes_query="papers", directed=True)
        assert (graph.num_nodes, graph.num_edges, graph.directed) == (4, 3, True)
        assert graph.weights is not None
        assert sorted(graph.weights.tolist()) == [1.0, 1.5, 2.0]
        assert graph.features is not None and graph.label_column == "title"
        assert [use.table for use in graph.columns] == ["the query"] * 3 + ["table 'papers'"] * 3

    def test_it_stands_where_a_table_is_expected(self, url: str) -> None:
        """As one of several relations, and as a table of nodes beside edges in memory."""
        typed = Graph.from_tables({"cites": DatabaseTable(url, "SELECT citing, cited FROM cites")})
        assert typed.relations["cites"].edges.shape == (4, 2)
        edges = {"source": ["p1"], "target": ["p4"]}
        graph = Graph.from_table(edges, nodes=DatabaseTable(url, "papers"), unmatched="keep")
        assert graph.num_nodes == 4

    def test_a_database_without_a_query_names_its_tables(self, url: str) -> None:
        with pytest.raises(InputError, match=r"query= \(--query\).*'cites', 'papers'") as failed:
            Graph.from_table(url)
        assert "s3cret" not in str(failed.value)

    def test_a_query_that_fails(self, url: str) -> None:
        with pytest.raises(InputError, match=r"the query failed.*nowhere"):
            DatabaseTable(url, "SELECT a FROM nowhere").read()

    def test_a_query_without_rows_is_refused_by_the_graph(self, url: str) -> None:
        with pytest.raises(InputError, match="the query has no rows"):
            Graph.from_table(url, query="SELECT citing, cited FROM cites WHERE citing = 'x'")

    def test_reading_creates_no_file(self, tmp_path: Path) -> None:
        for scheme in ("sqlite", "duckdb"):
            with pytest.raises(InputError, match=r"no file .*missing\.db"):
                Graph.from_table(f"{scheme}:///{tmp_path}/missing.db", query="cites")
        assert list(tmp_path.iterdir()) == []

    def test_other_urls_go_through_sqlalchemy(self, tmp_path: Path) -> None:
        pytest.importorskip("sqlalchemy")
        edges = pa.table({"a": ["x", "y"], "b": ["y", "z"]})
        url = f"sqlite+pysqlite:///{tmp_path}/edges.db"
        assert write_rows_to(url, "links", edges.schema, [edges]) == 2
        assert Graph.from_table(url, query="SELECT a, b FROM links").num_edges == 2
        with pytest.raises(InputError, match=r"sqlite\+pysqlite:///.*the query failed"):
            DatabaseTable(url, "SELECT c FROM links").read()
        with pytest.raises(InputError, match="already"):
            write_rows_to(url, "links", edges.schema, [edges])

    def test_rows_come_in_blocks(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(databases, "_BLOCK", 3)
        assert DatabaseTable(url, "SELECT id FROM papers ORDER BY 1;").read()["id"].to_pylist() == [
            "p1",
            "p2",
            "p3",
            "p4",
        ]

    def test_fit_takes_a_table_of_a_database(self, url: str) -> None:
        assert as_graph(DatabaseTable(url, "SELECT citing, cited FROM cites")).num_edges == 4

    @pytest.mark.parametrize(
        ("url", "module", "extra"),
        [
            ("duckdb:///edges.db", "duckdb", "sql"),
            ("postgresql://localhost/edges", "psycopg", "postgres"),
            ("mysql+pymysql://localhost/edges", "sqlalchemy", "sql"),
            ("neo4j://localhost", "neo4j", "neo4j"),
        ],
    )
    def test_a_missing_package_names_its_extra(
        self, url: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "edges.db").touch()
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtraError, match=rf"pip install 'yinyan\[{extra}\]'"):
            DatabaseTable(url, "cites").read()

    def test_the_command(self, tmp_path: Path) -> None:
        database = f"sqlite:///{tmp_path}/edges.db"
        graph = planted_graph()
        edges = pa.table({"a": graph.edges[:, 0], "b": graph.edges[:, 1]})
        write_rows_to(database, "links", edges.schema, [edges])
        ran = works("fit", database, "--query", "SELECT * FROM links", "--out", tmp_path / "model", *TINY)
        assert f"{graph.num_nodes} nodes" in ran.err
        assert "'links'" in refused("fit", database, "--out", tmp_path / "other")
        assert "reads files" in refused("prepare", "x.csv", "--query", "links", "--parts", "2")


class TestTypes:
    def read(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        """What a driver of another database may hand over."""
        return Database(Fake(rows), "fake").read("SELECT a, b FROM t")

    def test_decimals_uuids_and_dates(self) -> None:
        first, second = uuid.UUID(int=1), uuid.UUID(int=2)
        whole, share = decimal.Decimal("12"), decimal.Decimal("0.25")
        assert self.read([(whole, first), (whole, None)]).to_pydict() == {"a": [12, 12], "b": [str(first), None]}
        assert self.read([(share, second), (whole, first)])["a"].to_pylist() == [0.25, 12.0]
        day = datetime.date(2024, 5, 31)
        assert self.read([(day, 1), (None, 2.5)]).to_pydict() == {"a": [day, None], "b": [1.0, 2.5]}

    def test_a_column_of_several_types_is_named(self) -> None:
        with pytest.raises(InputError, match=r"column 'b' holds values of several types.*CAST\(b AS TEXT\)"):
            self.read([(1, 1), (2, "two")])
        late = [(1, 1)] * 30_000 + [(2, "two")]  # in another block
        with pytest.raises(InputError, match="column 'b' holds values of several types"):
            self.read(late)

    def test_columns_of_one_name(self) -> None:
        with pytest.raises(InputError, match="two columns named 'a'"):
            DatabaseTable(sqlite3.connect(":memory:"), "SELECT 1 AS a, 2 AS a").read()


class Fake:
    """A DB-API connection of a driver that nobody knows."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def cursor(self) -> Fake:
        return self

    description = (("a",), ("b",))

    def execute(self, query: str) -> None:
        self.left = list(self.rows)

    def fetchmany(self, count: int) -> list[tuple[Any, ...]]:
        some, self.left = self.left[:count], self.left[count:]
        return some

    def close(self) -> None: ...


def broken() -> Iterator[pa.Table]:
    yield ROWS
    raise RuntimeError("the lights went out")


class TestWriting:
    def test_creates_appends_replaces(self, url: str) -> None:
        run = statements(url)
        assert write_rows_to(url, "links", ROWS.schema, [ROWS, ROWS]) == 4
        assert write_rows_to(url, "links", ROWS.schema, [ROWS], "append") == 2
        assert run("SELECT count(*), max(rank) FROM links") == [(6, 2)]
        found = run("SELECT DISTINCT source, target, rank, probability FROM links ORDER BY 1")
        assert [tuple(row) for row in found] == [("a", "c", 1, 0.5), ("b", "d", 2, None)]
        other = ROWS.select(["source", "rank"])
        assert write_rows_to(url, "links", other.schema, [other], "replace") == 2
        assert run("SELECT * FROM links ORDER BY 1") == [("a", 1), ("b", 2)]

    def test_never_overwrites_unless_asked(self, url: str) -> None:
        write_rows_to(url, "links", ROWS.schema, [ROWS])
        with pytest.raises(InputError, match=r"has a table 'links' already.*--if-exists"):
            write_rows_to(url, "links", ROWS.schema, [ROWS])
        assert statements(url)("SELECT count(*) FROM links") == [(2,)]

    @pytest.mark.parametrize("if_exists", ["append", "replace"])
    def test_all_or_nothing(self, url: str, if_exists: Any) -> None:
        write_rows_to(url, "links", ROWS.schema, [ROWS])
        with pytest.raises(RuntimeError, match="lights"):
            write_rows_to(url, "links", ROWS.schema, broken(), if_exists)
        assert statements(url)("SELECT count(*) FROM links") == [(2,)]
        with pytest.raises(RuntimeError, match="lights"):
            write_rows_to(url, "fresh", ROWS.schema, broken())
        with pytest.raises(InputError, match="fresh"):
            DatabaseTable(url, "fresh").read()

    def test_rows_that_do_not_fit_leave_the_table_as_it_was(self, url: str) -> None:
        with pytest.raises(InputError, match="nothing was written to 'cites'"):
            write_rows_to(url, "cites", ROWS.schema, [ROWS], "append")
        assert statements(url)("SELECT count(*) FROM cites") == [(4,)]

    def test_names_are_quoted_and_checked(self, url: str) -> None:
        write_rows_to(url, "order", ROWS.schema, [ROWS])  # a word of SQL
        assert DatabaseTable(url, "order").read().num_rows == 2
        with pytest.raises(InputError, match="no name of a table"):
            write_rows_to(url, 'x"; DROP TABLE cites; --', ROWS.schema, [ROWS])

    def test_through_sqlalchemy(self, url: str) -> None:
        """An engine commits; a connection within a transaction leaves that to its owner."""
        alchemy = pytest.importorskip("sqlalchemy")
        if url.startswith("duckdb"):
            pytest.skip("SQLAlchemy has no DuckDB of its own")
        engine = alchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        write_rows_to(engine, "links", ROWS.schema, [ROWS])
        assert statements(url)("SELECT count(*) FROM links") == [(2,)]
        with contextlib.suppress(RuntimeError), engine.begin() as session:
            write_rows_to(session, "links", ROWS.schema, [ROWS], "append")
            assert DatabaseTable(session, "links").read().num_rows == 4
            raise RuntimeError
        assert statements(url)("SELECT count(*) FROM links") == [(2,)]
        with engine.begin() as session:
            write_rows_to(session, "links", ROWS.schema, [ROWS], "append")
        assert Graph.from_table(engine, query="links").num_edges == 2
        assert statements(url)("SELECT count(*) FROM links") == [(4,)]
        engine.dispose()

    def test_rows_belong_to_the_transaction_of_the_caller(self, url: str) -> None:
        with opened_database(url) as opened:
            connection = opened.connection
            connection.execute("BEGIN")
            connection.execute("INSERT INTO papers VALUES ('p9', 2000, 'On nine')")
            write_rows_to(connection, "links", ROWS.schema, [ROWS])
            connection.execute("ROLLBACK")
        with pytest.raises(InputError, match="links"):
            DatabaseTable(url, "links").read()
        assert DatabaseTable(url, "papers").read().num_rows == 4

    def test_a_plain_connection_of_sqlite_commits(self, tmp_path: Path) -> None:
        connection = sqlite3.connect(tmp_path / "links.db")
        write_rows_to(connection, "links", ROWS.schema, [ROWS])
        connection.close()
        assert DatabaseTable(f"sqlite:///{tmp_path}/links.db", "links").read().num_rows == 2

    def test_a_driver_that_nobody_knows(self, tmp_path: Path) -> None:
        """By the standard alone: rows of the caller's transaction, undone to a savepoint, never committed."""
        connection = sqlite3.connect(tmp_path / "links.db", isolation_level=None)
        connection.execute("CREATE TABLE links (source TEXT, target TEXT, rank INTEGER, probability REAL)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO links VALUES ('x', 'y', 0, 0)")
        plain = Database(connection, "plain")
        assert plain.write("links", ROWS.schema, [ROWS], "append") == 2
        with pytest.raises(RuntimeError, match="lights"):
            plain.write("links", ROWS.schema, broken(), "append")
        assert connection.execute("SELECT count(*) FROM links").fetchone() == (3,)
        assert plain.read("SELECT source FROM links")["source"].to_pylist() == ["x", "a", "b"]
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM links").fetchone() == (0,)
        for if_exists in ("replace", "error"):
            with pytest.raises(InputError, match=r"links"):
                plain.write("links", ROWS.schema, [ROWS], if_exists)

    def test_a_connection_that_commits_each_statement(self) -> None:
        class Committing(Fake):
            autocommit = True

        with pytest.raises(InputError, match="turn autocommit off"):
            Database(Committing([]), "fake").write("links", ROWS.schema, [ROWS], "append")

    def test_a_database_that_cannot_undo_a_creation(self) -> None:
        """MySQL and Oracle commit when a table is created: half a table could be left."""
        with pytest.raises(InputError, match=r"create 'links' first, and pass if_exists='append'"):
            Unknown().write("links", ROWS.schema, [ROWS])


class Unknown(Database):
    """A database without the table, of which nothing is known."""

    def __init__(self) -> None:
        super().__init__(Fake([]), "fake")

    def has(self, table: str) -> bool:
        return False


class TestPredictions:
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("predictions") / "model"
        LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph()).save(folder)
        return folder

    def test_of_a_model(self, model: Path, url: str) -> None:
        found = LinkPredictor.load(model).best_links(4)
        assert found.to_sql(url, "links") == 4
        assert DatabaseTable(url, "links").read().select(["source", "target"]).to_pylist() == [
            {"source": link.source, "target": link.target} for link in found
        ]

    def test_every_node_by_command(self, model: Path, url: str) -> None:
        ran = works("recommend", model, "--all", "-k", "2", "--to-sql", url, "--table", "links")
        assert "wrote 80 rows to table 'links' of " in ran.out and PASSWORD not in ran.out
        assert DatabaseTable(url, "links").read().num_rows == 80
        assert not list(model.parent.glob("*.parts"))
        again = refused("recommend", model, "--all", "-k", "2", "--to-sql", url, "--table", "links")
        assert "already" in again and PLAIN_PASSWORD not in again
        best = works(
            "best-links", model, "-k", "3", "--to-sql", url, "--table", "links", "--if-exists", "append", "--json"
        )
        assert best.json == {"rows": 3, "table": "links"}
        assert DatabaseTable(url, "links").read().num_rows == 83

    @pytest.mark.parametrize(
        ("arguments", "cure"),
        [
            (("--to-sql", "sqlite:///links.db"), "add --table links"),
            (("--table", "links"), "options of --to-sql"),
            (("--to-sql", "sqlite:///x/links.db", "--table", "a"), "its folder does not exist"),
            (("--to-sql", "sqlite://links.db", "--table", "a"), "names no file"),
            (("--to-sql", "links.db", "--table", "a"), "expected the URL of a database"),
            (("--to-sql", "sqlite:///links.db", "--table", "a", "--out", "b.csv"), "exclude each other"),
        ],
    )
    def test_what_the_command_refuses(
        self, arguments: tuple[str, ...], cure: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for command in (("recommend", model, "0"), ("best-links", model)):
            assert cure in refused(*command, *arguments)
        assert list(tmp_path.iterdir()) == []


class TestSecrets:
    def test_no_message_quotes_a_password(self) -> None:
        for text in (
            "postgresql://me:s3cret@127.0.0.1:1/db?connect_timeout=1",
            "postgresql://me:s3cret@[half/db",
            "mysql+nothing://me:s3cret@127.0.0.1/db",
        ):
            with pytest.raises((InputError, MissingExtraError)) as failed:
                DatabaseTable(text, "cites").read()
            assert "s3cret" not in str(failed.value) and "s3cret" not in repr(DatabaseTable(text, "cites"))
