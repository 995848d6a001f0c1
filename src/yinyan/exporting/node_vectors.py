"""The vectors of all nodes with ids and labels, block after block, to files and vector stores."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from yinyan.errors import InputError, StoreError
from yinyan.exporting.inner_products import InnerProducts
from yinyan.exporting.vector_stores import into_lancedb, into_pgvector, into_qdrant
from yinyan.files import atomic_path
from yinyan.graph.table_writing import rows_writer
from yinyan.retrieval.state import SearchState

__all__ = ["KINDS", "Kind", "NodeVectors", "check_vectors_file", "matrix_of"]

Kind = Literal["embedding", "row", "inner-product"]

KINDS: tuple[str, ...] = get_args(Kind)
_ROWS = 65_536  # of a block
_TABLES = (".parquet", ".arrow", ".feather")


class NodeVectors:
    """The vectors of all nodes, with ids and labels: to files, to vector stores, to whatever reads Arrow.

    Rows are computed in blocks, so that large models need no second copy in memory. `LinkPredictor.vectors`
    makes one.

    Examples
    --------
    >>> vectors = model.vectors()
    >>> len(vectors) == model.graph_.num_nodes, vectors.kind
    (True, 'embedding')
    """

    def __init__(self, state: SearchState, kind: Kind = "embedding") -> None:
        if kind not in KINDS:
            raise InputError(f"'kind' (--vectors) needs to be {', '.join(KINDS[:-1])} or {KINDS[-1]} (got {kind!r})")
        self.kind = kind
        self._state = state
        self._products = InnerProducts.of(state) if kind == "inner-product" else None
        first = self._block(np.arange(min(1, len(self))))
        self.schema = pa.schema(first.schema, metadata={"yinyan": json.dumps(self.facts)})

    def __len__(self) -> int:
        return self._state.num_nodes

    def __repr__(self) -> str:
        return f"NodeVectors({self.kind}, nodes={len(self)}, width={self.width})"

    @property
    def width(self) -> int:
        """The number of columns of a vector."""
        if self._products is not None:
            return self._products.width
        if self.kind == "embedding":
            return self._state.decoder.embedding_size
        return int(self._state.vectors(np.zeros(min(1, len(self)), dtype=np.int64)).shape[1])

    @property
    def facts(self) -> dict[str, Any]:
        """What the vectors are: kind, width, and the offset that makes an inner product a score."""
        made: dict[str, Any] = {"vectors": self.kind, "width": self.width}
        return made if self._products is None else {**made, "score": "query · vector + offset", "offset": self.offset}

    @property
    def offset(self) -> float:
        """What is added to the inner product of a query and a vector, to make it the score; 0 for other kinds."""
        return 0.0 if self._products is None else self._products.offset

    @property
    def has_queries(self) -> bool:
        """Whether a node that is asked about has another vector than a candidate, in the column `query`."""
        return self._products is not None and not self._products.is_one

    def batches(self, rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
        """Blocks of rows with the columns of `to_arrow`.

        Parameters
        ----------
        rows
            Rows per block, at most.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            The blocks, in the order of the nodes.

        Examples
        --------
        >>> next(model.vectors().batches(10)).num_rows
        10
        """
        for start in range(0, len(self), rows):
            yield self._block(np.arange(start, min(start + rows, len(self)))).cast(self.schema)

    def to_arrow(self) -> pa.Table:
        """All vectors as an Arrow table.

        Returns
        -------
        pyarrow.Table
            Columns id and vector; label where the graph has labels, side in a bipartite graph, type with relations,
            and query where a node that is asked about has another vector than a candidate.

        Examples
        --------
        >>> model.vectors().to_arrow().column_names
        ['id', 'vector']
        """
        return pa.Table.from_batches(self.batches(), self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vectors to a file, whole or not at all.

        Parameters
        ----------
        path
            A name that ends in .parquet, .arrow, .feather or .npy. Beside `vectors.npy` stand `vectors.ids.parquet`
            with the other columns in the same order, and `vectors.query.npy` where there are queries.

        Raises
        ------
        InputError
            If the name ends otherwise.
        StoreError
            If the file cannot be written.

        Examples
        --------
        >>> model.vectors().save("vectors.parquet")
        """
        path = Path(path)
        check_vectors_file(path)
        if path.suffix == ".npy":
            self._save_arrays(path)
            return
        with rows_writer(path, self.schema) as write:
            for batch in self.batches():
                write(pa.Table.from_batches([batch]))

    def to_qdrant(self, place: Any, collection: str) -> int:
        """Load the vectors into a new collection of Qdrant.

        Points have row numbers as ids; id, label, side and type are payload. The distance is the cosine, for inner
        products the dot product. Where there are queries, points have two named vectors, `vector` and `query`.

        Parameters
        ----------
        place
            A client of qdrant-client, the URL of a server, or a folder for its local mode.
        collection
            The name of the collection, which is created.

        Returns
        -------
        int
            The number of points.

        Raises
        ------
        InputError
            If the collection exists. One that was not finished is removed.
        MissingExtraError
            If qdrant-client is not installed (`pip install 'yinyan[qdrant]'`).

        Examples
        --------
        >>> from qdrant_client import QdrantClient
        >>> model.vectors().to_qdrant(QdrantClient(":memory:"), "nodes") == model.graph_.num_nodes
        True
        """
        return into_qdrant(self, place, collection, "error")

    def to_lancedb(self, place: Any, table: str, *, if_exists: Literal["error", "replace"] = "error") -> int:
        """Load the vectors into a table of LanceDB.

        Parameters
        ----------
        place
            A connection of lancedb, or the folder or URL of a database.
        table
            The name of the table.
        if_exists
            What to do if there is such a table: 'error' or 'replace', which adds a version.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        InputError
            If the table exists and `if_exists` is 'error'.
        MissingExtraError
            If lancedb is not installed (`pip install 'yinyan[lancedb]'`).

        Examples
        --------
        >>> model.vectors().to_lancedb("vectors.lance", "nodes") == model.graph_.num_nodes
        True
        """
        return into_lancedb(self, place, table, if_exists)

    def to_pgvector(self, database: Any, table: str, *, if_exists: Literal["error", "replace"] = "error") -> int:
        """Load the vectors into a table of PostgreSQL with pgvector, by binary COPY in one transaction.

        Parameters
        ----------
        database
            A URL, a connection of psycopg, or an engine of SQLAlchemy over psycopg. On a connection with an open
            transaction the rows belong to it, and you commit it.
        table
            The name of the table, perhaps with its schema.
        if_exists
            What to do if there is such a table: 'error' or 'replace'.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        InputError
            If the table exists and `if_exists` is 'error', or the database has no pgvector. Nothing is written then.
        MissingExtraError
            If pgvector or psycopg is not installed (`pip install 'yinyan[pgvector]'`).

        Examples
        --------
        >>> model.vectors().to_pgvector("sqlite:///vectors.db", "nodes")
        Traceback (most recent call last):
        yinyan.errors.InputError: sqlite:///vectors.db is no PostgreSQL database reached through psycopg: pgvector \
needs one
        """
        return into_pgvector(self, database, table, if_exists)

    def _save_arrays(self, path: Path) -> None:
        names = ["vector", "query"] if self.has_queries else ["vector"]
        rest = pa.schema([field for field in self.schema if field.name not in names], self.schema.metadata)
        targets = [path, path.with_suffix(".query.npy")][: len(names)]
        shape = (len(self), self.width)
        with rows_writer(path.with_suffix(".ids.parquet"), rest) as write, _arrays(targets, shape) as arrays:
            done = 0
            for batch in self.batches():
                for name, array in zip(names, arrays, strict=True):
                    array[done : done + batch.num_rows] = matrix_of(batch[name])
                write(pa.Table.from_batches([batch]).select(rest.names))
                done += batch.num_rows

    @functools.cached_property
    def _has_integers(self) -> bool:
        """Whether all ids are integers; others become text."""
        state = self._state
        if state.names is None:
            return state.graph.ids.kind == "integer"
        return all(isinstance(value, int) for value in state.ids(np.arange(len(self))))

    def _block(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        state = self._state
        ids = state.ids(rows)
        columns: dict[str, Any] = {"id": pa.array(ids, pa.int64()) if self._has_integers else _texts(map(str, ids))}
        if (types := state.types(rows)) is not None:
            columns["type"] = _texts(types)
        if (labels := state.labels(rows)) is not None:
            columns["label"] = _texts(labels)
        if state.num_left is not None and types is None:
            columns["side"] = pa.array((rows >= state.num_left).astype(np.int8))
        stored = state.vectors(rows).cpu().float()
        if self._products is None:
            columns["vector"] = _lists(stored[:, : self.width].numpy())
        else:
            queries, vectors = self._products.of_rows(stored)
            columns["vector"] = _lists(vectors.numpy())
            if self.has_queries:
                columns["query"] = _lists(queries.numpy())
        return pa.RecordBatch.from_pydict(columns)


def check_vectors_file(path: Path) -> None:
    """Refuse a file that cannot hold vectors before they are made."""
    if path.suffix not in (*_TABLES, ".npy"):
        raise InputError(f"'{path}' needs to end in {', '.join(_TABLES)} or .npy")
    if not path.parent.is_dir():
        raise StoreError(f"cannot write '{path}': its folder does not exist (create it first)")
    if path.is_dir():
        raise StoreError(f"cannot write '{path}': it is a directory (choose another name)")


def matrix_of(column: pa.Array) -> NDArray[np.float32]:
    """(rows, width) numbers of a column of vectors."""
    width: int = column.type.list_size
    matrix: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return matrix


@contextmanager
def _arrays(paths: Sequence[Path], shape: tuple[int, int]) -> Iterator[list[NDArray[np.float32]]]:
    """Arrays to fill, each in a file that takes its place at the end."""
    with ExitStack() as stack:
        places = [stack.enter_context(atomic_path(path)) for path in paths]
        arrays = [np.lib.format.open_memmap(place, "w+", np.float32, shape) for place in places]
        yield list(arrays)
        for array in arrays:
            array.flush()


def _texts(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.large_string())


def _lists(rows: NDArray[np.float32]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])
