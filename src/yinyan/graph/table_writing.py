"""Rows to files: the format follows from the end of the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from yinyan.errors import InputError, StoreError
from yinyan.files import atomic_path
from yinyan.graph.excel_files import check_excel, excel_writer
from yinyan.graph.json_lines import json_rows

__all__ = ["check_rows_file", "rows_writer", "write_rows"]

Write: TypeAlias = Callable[[pa.Table], None]

_SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson", ".arrow", ".feather", ".xlsx")


def check_rows_file(path: Path | None) -> None:
    """Refuse a file that cannot hold rows before they are made, not after; None is no file."""
    if path is None:
        return
    if path.suffix not in _SUFFIXES:
        raise InputError(f"'{path}' needs to end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    if path.is_dir():
        raise StoreError(f"cannot write '{path}': it is a directory (choose another name)")
    if not path.parent.is_dir():
        raise StoreError(f"cannot write '{path}': its folder does not exist (create it first)")
    if path.suffix == ".xlsx":
        check_excel()


def write_rows(table: pa.Table, path: Path) -> None:
    """A table to a file, whole or not at all."""
    with rows_writer(path, table.schema) as write:
        write(table)


@contextmanager
def rows_writer(path: Path, schema: pa.Schema) -> Iterator[Write]:
    """What appends tables of one schema to a file, which replaces `path` in one step at the end."""
    check_rows_file(path)
    with atomic_path(path) as temporary:
        if path.suffix == ".xlsx":
            with excel_writer(temporary, schema, str(path)) as write:
                yield write
        elif path.suffix in (".jsonl", ".ndjson"):
            with temporary.open("w", encoding="utf-8", newline="\n") as lines:
                yield lambda table: lines.writelines(json_rows(table))
        else:
            kinds = {".parquet": pq.ParquetWriter, ".csv": pa_csv.CSVWriter}
            with temporary.open("wb") as file, kinds.get(path.suffix, pa.ipc.new_file)(file, schema) as writer:
                yield writer.write_table
