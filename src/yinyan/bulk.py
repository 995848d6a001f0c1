"""Recommendations for every node, streamed to a file: bounded memory, and a stopped run goes on where it was."""

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
from yinyan.fitting import graph_fingerprint
from yinyan.predictor import LinkPredictor
from yinyan.tables import write_parquet

__all__ = ["recommend_all"]

_BLOCK = 500  # sources a part


def recommend_all(
    model: LinkPredictor,
    path: Path,
    k: int,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Write the `k` best new partners of every node to a Parquet or CSV file; returns the number of rows.

    Finished parts lie in a folder beside `path` until all are there, so a second call with the same model and `k`
    goes on after an interruption.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise InputError(f"'{path}' needs to end in .parquet or .csv")
    if not path.parent.is_dir():
        raise StoreError(f"cannot write '{path}': its folder does not exist (create it first)")
    ids = model.graph_.ids
    folder = path.with_name(f"{path.name}.parts")
    _prepare(folder, model, k)
    starts = range(0, len(ids), _BLOCK)
    for start in starts:
        part = folder / f"{start:012d}.parquet"
        if not part.exists():
            if should_stop():
                raise StoppedError(
                    f"stopped after {start:,} of {len(ids):,} nodes; the finished parts are in '{folder}'"
                )
            rows = range(start, min(start + _BLOCK, len(ids)))
            write_parquet(model.recommend(ids.take(rows), k).to_arrow(), part)
        on_progress(min(start + _BLOCK, len(ids)), len(ids))
    count = _join([folder / f"{start:012d}.parquet" for start in starts], path)
    shutil.rmtree(folder, ignore_errors=True)
    return count


def _prepare(folder: Path, model: LinkPredictor, k: int) -> None:
    """The folder of parts, emptied if they are of another model or k."""
    digest = hashlib.blake2b(model.embeddings_.tobytes(), digest_size=16).hexdigest()
    mark = json.dumps({"model": digest, "graph": graph_fingerprint(model.graph_), "k": k, "block": _BLOCK})
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
    schema = pa.unify_schemas([pq.read_schema(part) for part in parts], promote_options="permissive")
    # a part without rows does not know whether ids are numbers or text: the others decide
    filled = [pq.read_schema(part) for part in parts if pq.read_metadata(part).num_rows]
    schema = filled[0] if filled else schema
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        opened = pq.ParquetWriter(file, schema) if path.suffix == ".parquet" else pa_csv.CSVWriter(file, schema)
        with opened as writer:
            for part in parts:
                table = pq.read_table(part)
                if table.num_rows:
                    writer.write_table(table.cast(schema))
                    count += table.num_rows
    return count
