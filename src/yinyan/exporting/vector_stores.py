"""Vectors of nodes into vector stores, each by its own way of loading many at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from yinyan.connect.databases import Postgres, is_table_name
from yinyan.connect.tables import opened_database
from yinyan.connect.urls import imported
from yinyan.errors import InputError

if TYPE_CHECKING:
    from yinyan.exporting.node_vectors import NodeVectors

__all__ = ["STORES", "into_lancedb", "into_pgvector", "into_qdrant", "store_of"]

_BLOCK = 1_024  # points that are sent to Qdrant at a time
_SQL_TYPES = {pa.int64(): ("BIGINT", "int8"), pa.int8(): ("SMALLINT", "int2"), pa.large_string(): ("TEXT", "text")}


def into_qdrant(vectors: NodeVectors, place: Any, collection: str, if_exists: str) -> int:
    """A new collection; one that is not whole is removed again."""
    qdrant = _package("qdrant_client", "qdrant")
    models = qdrant.models
    _check(if_exists)
    if if_exists == "replace":
        raise InputError(
            "Qdrant cannot put one collection in the place of another in one step: write a collection of a new name, "
            "and move an alias to it"
        )
    with _qdrant_client(qdrant, place) as client:
        if client.collection_exists(collection):
            raise InputError(f"Qdrant has a collection {collection!r} already: choose another name (--table)")
        distance = models.Distance.DOT if vectors.kind == "inner-product" else models.Distance.COSINE
        config: Any = models.VectorParams(size=vectors.width, distance=distance)
        if vectors.has_queries:  # never searched, only looked up
            unsearched = models.HnswConfigDiff(m=0)
            query = models.VectorParams(size=vectors.width, distance=distance, hnsw_config=unsearched)
            config = {"vector": config, "query": query}
        client.create_collection(collection, vectors_config=config)
        try:
            client.upload_points(collection, _points(models, vectors), batch_size=_BLOCK, wait=True)
            count = int(client.count(collection, exact=True).count)
            if count != len(vectors):
                raise InputError(f"Qdrant has {count:,} of {len(vectors):,} points: its collection is removed again")
        except BaseException:
            client.delete_collection(collection)
            raise
    return count


def _points(models: Any, vectors: NodeVectors) -> Iterator[Any]:
    """A point per node: its row number, its vectors, and the other columns as payload."""
    number = 0
    for batch in vectors.batches(_BLOCK):
        for row in batch.to_pylist():
            vector = row.pop("vector")
            if vectors.has_queries:
                vector = {"vector": vector, "query": row.pop("query")}
            payload = {name: value for name, value in row.items() if value is not None}
            yield models.PointStruct(id=number, vector=vector, payload=payload)
            number += 1


@contextmanager
def _qdrant_client(qdrant: Any, place: Any) -> Iterator[Any]:
    """A client: the caller's, of a server, or of a folder, which one process at a time can open."""
    if hasattr(place, "create_collection"):
        yield place
        return
    is_server = isinstance(place, str) and place.startswith(("http://", "https://"))
    try:
        client = qdrant.QdrantClient(url=place) if is_server else qdrant.QdrantClient(path=str(place))
    except RuntimeError as error:  # another process holds the folder
        raise InputError(f"Qdrant cannot open '{place}': {error}") from error
    with closing(client):
        yield client


def into_lancedb(vectors: NodeVectors, place: Any, table: str, if_exists: str) -> int:
    """A new table, or a new version of one, which readers see as a whole."""
    lancedb = _package("lancedb", "lancedb")
    _check(if_exists)
    database = place if hasattr(place, "create_table") else lancedb.connect(str(place))
    there = table in _lance_tables(database)
    if there and if_exists == "error":
        raise InputError(
            f"LanceDB has a table {table!r} already: choose another name (--table), or pass if_exists='replace' "
            "(--if-exists replace)"
        )
    reader = pa.RecordBatchReader.from_batches(vectors.schema, vectors.batches())
    made = database.create_table(table, data=reader, mode="overwrite" if there else "create")
    return int(made.count_rows())


def _lance_tables(database: Any) -> list[str]:
    """The names of all tables, page after page."""
    page = database.list_tables()
    names = list(page.tables)
    while page.page_token:
        page = database.list_tables(page_token=page.page_token)
        names += page.tables
    return names


def into_pgvector(vectors: NodeVectors, place: Any, table: str, if_exists: str) -> int:
    """A table of PostgreSQL with columns of pgvector's type, by binary COPY in one transaction."""
    pgvector = _package("pgvector.psycopg", "pgvector")
    _check(if_exists)
    if not is_table_name(table):
        raise InputError(f"{table!r} is no name of a table: expected letters, digits and _, perhaps schema.table")
    with opened_database(place) as database:
        if not isinstance(database, Postgres):
            raise InputError(f"{database.name} is no PostgreSQL database reached through psycopg: pgvector needs one")
        connection, quoted, types = database.connection, database.quoted(table), _sql_types(vectors)
        columns = ", ".join(f"{database.quoted_part(name)} {kind}" for name, (kind, _) in types.items())
        try:
            pgvector.register_vector(connection)
        except Exception as error:
            raise InputError(
                f"{database.name} has no type for vectors ({error}): install pgvector, and run CREATE EXTENSION vector"
            ) from error
        database.check(table, if_exists)
        with database.saying(f"nothing was written to {table!r}"), database.transaction():
            if if_exists == "replace":
                connection.execute(f"DROP TABLE IF EXISTS {quoted}")
            connection.execute(f"CREATE TABLE {quoted} ({columns})")
            _copy(connection, quoted, vectors, [name for _, name in types.values()])
            connection.execute(f"COMMENT ON TABLE {quoted} IS '" + json.dumps(vectors.facts, ensure_ascii=False) + "'")
    return len(vectors)


def _sql_types(vectors: NodeVectors) -> dict[str, tuple[str, str]]:
    """For each column its type in SQL, and the name that COPY knows it by."""
    kind = (f"vector({vectors.width})", "vector")
    return {field.name: _SQL_TYPES.get(field.type, kind) for field in vectors.schema}


def _copy(connection: Any, quoted: str, vectors: NodeVectors, types: list[str]) -> None:
    from yinyan.exporting.node_vectors import matrix_of

    with connection.cursor() as cursor, cursor.copy(f"COPY {quoted} FROM STDIN WITH (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for batch in vectors.batches():
            columns = [
                matrix_of(column) if pa.types.is_fixed_size_list(column.type) else column.to_pylist()
                for column in batch.columns
            ]
            for row in zip(*columns, strict=True):
                copy.write_row(row)


Into = Callable[["NodeVectors", Any, str, str], int]

STORES: dict[str, Into] = {"qdrant": into_qdrant, "lancedb": into_lancedb, "postgresql": into_pgvector}


def store_of(place: str) -> tuple[Into, Any] | None:
    """What loads vectors into a place, and the place as it takes it; None for a file.

    A place is `qdrant:FOLDER`, `qdrant:http://host:6333`, `lancedb:FOLDER`, or the URL of a PostgreSQL database.
    """
    scheme, colon, rest = place.partition(":")
    scheme = "postgresql" if scheme == "postgres" else scheme
    if not colon or scheme not in STORES:
        return None
    if scheme == "postgresql":
        return into_pgvector, place
    return STORES[scheme], rest if rest.startswith(("http://", "https://", "s3://", "gs://")) else Path(rest)


def _check(if_exists: str) -> None:
    if if_exists not in ("error", "replace"):
        raise InputError(f"if_exists (--if-exists) needs to be error or replace for vectors (got {if_exists!r})")


def _package(module: str, extra: str) -> Any:
    name = module.partition(".")[0].replace("_", "-")
    return imported(module, f"this needs {name}: pip install 'yinyan[{extra}]'")
