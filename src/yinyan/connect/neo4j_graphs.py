"""Neo4j through its own driver: results of Cypher as tables, predictions as relationships."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from yinyan.connect.arrow_rows import arrow_table
from yinyan.connect.urls import DatabaseUrl, imported
from yinyan.errors import InputError

__all__ = ["Neo4j", "open_neo4j"]

_BLOCK = 10_000  # rows at a time
_MISSING = "neo4j:// URLs need the driver of Neo4j: pip install 'yinyan[neo4j]'"


class Neo4j:
    """A database of Neo4j, behind a driver."""

    def __init__(self, driver: Any, name: str = "the database", database: str | None = None) -> None:
        self.driver, self.name, self.database = driver, name, database

    def reached(self) -> Neo4j:
        """Itself, if the server answers; queries would try again for half a minute."""
        with self._saying("cannot be opened"):
            self.driver.verify_connectivity()
        return self

    def read(self, query: str) -> pa.Table:
        """All rows of a query in Cypher."""

        def rows(result: Any) -> pa.Table:
            return arrow_table(list(result.keys()), iter(lambda: result.fetch(_BLOCK), []), self.name)

        with self._saying("the query failed"):
            found: pa.Table = self.driver.execute_query(
                query, routing_="r", database_=self.database, result_transformer_=rows
            )
        return found

    def whole(self, table: str) -> str:
        """There are no tables: a query needs to be Cypher."""
        raise InputError(
            f"{self.name} has no table {table!r}: write Cypher, such as MATCH (a)-[:CITES]->(b) RETURN a.id AS source, "
            "b.id AS target"
        )

    def tables(self) -> list[str]:
        """None, as in `whole`."""
        return []

    def write(self, links: pa.Table, relationship: str, key: str, labels: tuple[str, str], if_exists: str) -> int:
        """A relationship for each row with `source` and `target`, all or none; other columns are its properties."""
        kind, property_ = _quoted(relationship), _quoted(key)
        first, second = (f":{_quoted(label)}" if label else "" for label in labels)
        statement = (
            "UNWIND $rows AS row "
            f"MATCH (a{first} {{{property_}: row.source}}) MATCH (b{second} {{{property_}: row.target}}) "
            f"CREATE (a)-[r:{kind}]->(b) SET r = row.properties"
        )

        def work(transaction: Any) -> int:
            count = transaction.run(f"MATCH ()-[r:{kind}]->() RETURN count(r) AS count").single()["count"]
            if count and if_exists == "error":
                raise InputError(
                    f"{self.name} has {count:,} relationships of type {relationship!r} already: choose another type, "
                    "or pass if_exists='append' or 'replace'"
                )
            if count and if_exists == "replace":
                transaction.run(f"MATCH ()-[r:{kind}]->() DELETE r").consume()
            for rows in _blocks(links):
                made = transaction.run(statement, rows=rows).consume().counters.relationships_created
                if made != len(rows):
                    raise InputError(
                        f"{self.name}: {len(rows):,} links would have made {made:,} relationships, and nothing was "
                        f"written: each id needs to be the property {key!r} of exactly one node (check key= and "
                        "label=)"
                    )
            return int(links.num_rows)

        if if_exists not in ("error", "append", "replace"):
            raise InputError(f"if_exists needs to be error, append or replace (got {if_exists!r})")
        with self._saying("nothing was written"), self.driver.session(database=self.database) as session:
            written: int = session.execute_write(work)
        return written

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """Errors of the driver become errors that name the database."""
        errors = imported("neo4j.exceptions", _MISSING)
        try:
            yield
        except (errors.Neo4jError, errors.DriverError) as error:
            raise InputError(f"{self.name}: {what}: {' '.join(str(error).split())}") from error


def open_neo4j(url: DatabaseUrl) -> tuple[Any, str | None]:
    """A driver by a URL such as neo4j://user:password@host:7687/database, and the name of the database."""
    neo4j = imported("neo4j", _MISSING)
    try:
        parts = urlsplit(url)
        auth = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        where = parts.netloc.rpartition("@")[2]
        return neo4j.GraphDatabase.driver(f"{url.scheme}://{where}", auth=auth), parts.path.strip("/") or None
    except (ValueError, neo4j.exceptions.DriverError):  # the message may quote the whole URL
        raise InputError(
            f"the URL of {url.shown} cannot be read: expected neo4j://user:password@host:7687/database (write @ : / ? "
            "% in a name or password as %40 %3A %2F %3F %25)"
        ) from None


def _blocks(links: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """Rows as parameters: both ends, and the other columns as properties."""
    for block in links.to_batches(_BLOCK):
        made = []
        for row in block.to_pylist():
            ends = {"source": row.pop("source"), "target": row.pop("target")}
            made.append({**ends, "properties": {name: value for name, value in row.items() if value is not None}})
        yield made


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
