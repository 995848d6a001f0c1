"""Questions and answers in bulk: ids read from tables, rows written to files, for every node part by part."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from yinyan.errors import InputError, StoppedError, StoreError
from yinyan.files import atomic_path, write_error, write_text
from yinyan.graph.columns import find_column, guess_edge_columns
from yinyan.graph.tables import read_table, write_parquet
from yinyan.predictor import LinkPredictor
from yinyan.results import Id
from yinyan.retrieval.index import Index
from yinyan.training.fingerprints import graph_fingerprint

__all__ = ["candidates", "check_rows_file", "pairs_of", "recommend_all", "write_rows"]

_BLOCK = 500  # sources a part of an exact search
_INDEXED = 8192  # of one by an index, which asks for similar sources together


def check_rows_file(path: Path | None) -> None:
    """Refuse a file that cannot hold rows before they are made, not after; None is no file."""
    if path is None:
        return
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"'{path}' needs to end in .parquet or .csv")
    if path.is_dir():
        raise StoreError(f"cannot write '{path}': it is a directory (choose another name)")
    if not path.parent.is_dir():
        raise StoreError(f"cannot write '{path}': its folder does not exist (create it first)")


def write_rows(table: pa.Table, path: Path) -> None:
    """A table to Parquet or CSV, by the name of the file."""
    check_rows_file(path)
    if path.suffix == ".parquet":
        write_parquet(table, path)
        return
    with atomic_path(path) as temporary:
        pa_csv.write_csv(table, temporary)


def candidates(model: LinkPredictor, path: Path, *, header: bool = True) -> list[Id]:
    """The ids in the first column of a table."""
    table = read_table(path, header=header)
    return _own_ids(model, table, table.column_names[0], path)


def pairs_of(
    model: LinkPredictor, path: Path, source: str | None, target: str | None, *, header: bool = True
) -> tuple[list[Id], list[Id]]:
    """The ids of both ends of the pairs in a table; columns that are not named are guessed."""
    table = read_table(path, header=header)
    names = table.column_names
    first = None if source is None else find_column(names, source, "source")
    second = None if target is None else find_column(names, target, "target")
    if first is None or second is None:
        guessed = [name for name in guess_edge_columns(names) if name not in (first, second)]
        first, second = first or guessed[0], second or guessed[-1]
    return _own_ids(model, table, first, path), _own_ids(model, table, second, path)


def recommend_all(
    model: LinkPredictor,
    path: Path,
    k: int,
    *,
    index: Index | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Write the `k` best new partners of every node to a Parquet or CSV file; returns the number of rows.

    They are found exactly, or by an `index`. Finished parts lie in a folder beside `path` until all are there, so a
    second call with the same model, index and `k` goes on after an interruption.
    """
    check_rows_file(path)
    ids = model.graph_.ids
    folder = path.with_name(f"{path.name}.parts")
    block = _BLOCK if index is None else _INDEXED
    _prepare(folder, model, k, block, index)
    starts = range(0, len(ids), block)
    for start in starts:
        part = folder / f"{start:012d}.parquet"
        if not part.exists():
            if should_stop():
                raise StoppedError(
                    f"stopped after {start:,} of {len(ids):,} nodes; the finished parts are in '{folder}'"
                )
            nodes = ids.take(range(start, min(start + block, len(ids))))
            found = model.recommend(nodes, k, index=index, search="exact")
            write_parquet(found.to_arrow(), part)
        on_progress(min(start + block, len(ids)), len(ids))
    count = _join([folder / f"{start:012d}.parquet" for start in starts], path)
    shutil.rmtree(folder, ignore_errors=True)
    return count


def _own_ids(model: LinkPredictor, table: pa.Table, column: str, path: Path) -> list[Id]:
    """A column's ids in the model's own types: text from a CSV may mean an integer id."""
    values = table[column].to_pylist()
    if None in values:
        raise InputError(f"'{path}' has no id in row {values.index(None) + 1:,} of column {column!r} (the first is 1)")
    ids = model.graph_.ids
    distinct: list[Id] = list(dict.fromkeys(values))
    known = ids.find(distinct) >= 0
    own = {v: ids.parse(v) if isinstance(v, str) and not k else v for v, k in zip(distinct, known, strict=True)}
    return [own[value] for value in values]


def _prepare(folder: Path, model: LinkPredictor, k: int, block: int, index: Index | None) -> None:
    """The folder of parts, emptied if they are of another model, index or k."""
    digest = hashlib.blake2b(model.embeddings_.tobytes(), digest_size=16)
    ids = model.graph_.ids  # part of the answer, though no embedding depends on them
    for start in range(0, len(ids), _BLOCK):
        digest.update(repr(ids.take(range(start, min(start + _BLOCK, len(ids))))).encode())
    by = (
        None
        if index is None
        else {name: index.metadata.to_dict()[name] for name in ("kind", "effort", "cells", "seed")}
    )
    facts = {"model": digest.hexdigest(), "graph": graph_fingerprint(model.graph_), "k": k, "block": block, "by": by}
    mark = json.dumps(facts)
    label = folder / "parts.json"
    try:
        if folder.exists() and (not label.exists() or label.read_text(encoding="utf-8") != mark):
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    write_text(label, mark)


def _join(parts: list[Path], path: Path) -> int:
    """All parts as one file, a part in memory at a time."""
    count = 0
    schema = _joint_schema(parts)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        opened = pq.ParquetWriter(file, schema) if path.suffix == ".parquet" else pa_csv.CSVWriter(file, schema)
        with opened as writer:
            for part in parts:
                table = pq.read_table(part)
                if table.num_rows:
                    writer.write_table(table.cast(schema))
                    count += table.num_rows
    return count


def _joint_schema(parts: list[Path]) -> pa.Schema:
    """The parts' columns: integers where every part has integers, else text; a part without rows has no say."""
    filled = [pq.read_schema(part) for part in parts if pq.read_metadata(part).num_rows]
    if not filled:
        return pq.read_schema(parts[0])
    schema = filled[0]
    for other in filled[1:]:
        for place, field in enumerate(other):
            if field.type != schema.field(place).type:
                schema = schema.set(place, pa.field(field.name, pa.large_string()))
    return schema
