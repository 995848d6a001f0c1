"""Tables in (CSV, TSV, Parquet, JSON lines, Excel, Arrow, data frames, databases) and Parquet out."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from yinyan.connect.tables import DatabaseTable, is_database, refuse_no_query
from yinyan.errors import InputError
from yinyan.files import atomic_path
from yinyan.graph.column_types import NA_VALUES
from yinyan.graph.csv_files import CsvLayout, csv_blocks, csv_layout, line_numbers, read_csv
from yinyan.graph.excel_files import is_excel, read_excel
from yinyan.graph.json_lines import is_json_lines, read_json_lines

__all__ = ["TableSource", "open_table", "read_table", "write_parquet"]


@dataclass(frozen=True)
class TableSource:
    """A table whose column names are known and whose rows are still to be read."""

    label: str  # what messages call it
    names: tuple[str, ...]
    origin: CsvLayout | Path | pa.Table

    @property
    def is_text(self) -> bool:
        """Whether every column is text until its type is looked for, as in CSV."""
        return isinstance(self.origin, CsvLayout)

    @property
    def is_empty(self) -> bool:
        """Whether it is a table in memory without rows."""
        return isinstance(self.origin, pa.Table) and not self.origin.num_rows

    def places(self, rows: Sequence[int]) -> str:
        """Some rows in words: by their lines in a text file, else by number; both from 1."""
        numbers = line_numbers(self.origin, rows) if isinstance(self.origin, CsvLayout) else [row + 1 for row in rows]
        return (
            f"{'line' if self.is_text else 'row'}{'' if len(rows) == 1 else 's'} {', '.join(f'{n:,}' for n in numbers)}"
        )

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read some columns, or all."""
        wanted = list(self.names if columns is None else dict.fromkeys(columns))
        if isinstance(self.origin, CsvLayout):
            table = read_csv(self.origin, wanted)
        elif isinstance(self.origin, Path):
            with _refuse_damaged(self.origin):
                table = pq.ParquetFile(self.origin).read(columns=wanted)
        else:
            table = self.origin.select(wanted)
        table = _without_views(table)
        if not table.num_rows:
            raise InputError(f"{self.label} has {'a header line but ' if self.is_text else ''}no rows")
        return table

    def blocks(
        self, columns: Sequence[str], rows: int, *, row_groups: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        """Read some columns, up to so many rows at a time; of a Parquet file perhaps some row groups only."""
        wanted = list(dict.fromkeys(columns))
        if isinstance(self.origin, CsvLayout):
            yield from csv_blocks(self.origin, wanted)
        elif isinstance(self.origin, Path):
            with _refuse_damaged(self.origin), pq.ParquetFile(self.origin) as file:
                for batch in file.iter_batches(rows, row_groups, wanted, use_threads=False):
                    yield _without_views(pa.Table.from_batches([batch]))
        else:
            for start in range(0, self.origin.num_rows, rows):
                yield _without_views(self.origin.select(wanted).slice(start, rows))


def open_table(
    source: Any,
    *,
    header: bool = True,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    label: str = "the table",
    na_values: Sequence[str] = NA_VALUES,
) -> TableSource:
    """Find out what a path, data frame, arrow table, dict of columns or table of a database holds."""
    if isinstance(source, DatabaseTable):
        return _opened(source.read(), source.label)
    if is_database(source):
        raise refuse_no_query(source)
    if not isinstance(source, (str, os.PathLike)):
        table = _from_frame(source, label)
        return TableSource(label, _without_index(table.column_names), table)
    path = _existing_file(Path(os.fspath(source)).expanduser())
    with path.open("rb") as file:
        magic = file.read(8)
    if magic.startswith(b"PAR1"):
        with _refuse_damaged(path):
            return TableSource(path.name, _without_index(pq.read_schema(path).names), path)
    if magic.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        with _refuse_damaged(path, "Arrow"):
            return _opened(_read_arrow(path, is_stream=magic.startswith(b"\xff")), path.name)
    if magic.startswith(b"PK\x03\x04"):
        if not is_excel(path):
            raise InputError(f"{path.name} is a zip archive or a damaged spreadsheet: unpack it, or export it as CSV")
        return _opened(*read_excel(path, header=header, na_values=na_values))
    if magic.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(f"{path.name} is a spreadsheet of an old format: save it as .xlsx or .csv")
    if is_json_lines(path):
        return _opened(read_json_lines(path, na_values), path.name)
    layout = csv_layout(path, header=header, delimiter=delimiter, encoding=encoding)
    return TableSource(path.name, layout.names, layout)


def _opened(table: pa.Table, label: str) -> TableSource:
    return TableSource(label, tuple(table.column_names), table)


def read_table(source: Any, *, header: bool = True) -> pa.Table:
    """Read a whole table. Columns of a CSV file stay text, so that ids come out as they are written."""
    return open_table(source, header=header).read()


def write_parquet(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table whole or not at all: an existing file is replaced in one step."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def _existing_file(path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"{path} is a directory: expected a CSV, TSV, Parquet, JSON lines, Excel or Arrow file")
    if not path.exists():
        try:
            names = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
        except OSError:
            raise InputError(f"there is no file {path}: its folder cannot be read") from None
        near = ", ".join(repr(name) for name in difflib.get_close_matches(path.name, names, n=3, cutoff=0.5))
        raise InputError(f"there is no file {path}{'; nearest in its folder: ' + near if near else ''}")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: permission is denied")
    if not path.is_file():
        raise InputError(f"{path} is a pipe or a device: save it to a file first")
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty: it holds no rows")
    return path


def _read_arrow(path: Path, *, is_stream: bool) -> pa.Table:
    """An Arrow file, whose columns stay on the disk until they are used, or a stream that was kept in a file."""
    with pa.memory_map(str(path)) as source:
        return (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(source).read_all()


@contextmanager
def _refuse_damaged(path: Path, kind: str = "Parquet") -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path.name} is a damaged {kind} file ({error}): is the download complete?") from None


def _from_frame(source: Any, label: str) -> pa.Table:
    """An arrow table out of whatever holds columns."""
    if not hasattr(source, "__arrow_c_stream__") and not hasattr(source, "columns") and not isinstance(source, Mapping):
        raise InputError(
            f"{label} must be a path, a data frame, an arrow table or a dict of columns (got {type(source).__name__})"
        )
    try:
        if isinstance(source, Mapping):
            source = {str(name): _plain_column(column) for name, column in source.items()}
        table = pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{label} cannot be turned into columns ({error}): give each column one type, for example "
            "by casting ids to text"
        ) from None
    names = table.column_names
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{label} has two columns named {repeated!r}: rename one")
    return table


def _plain_column(column: Any) -> Any:
    """A column arrow understands; an array of vectors becomes a column of lists."""
    if isinstance(column, np.ndarray) and column.ndim == 2:
        values = pa.array(np.ascontiguousarray(column).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(values, column.shape[1])
    if isinstance(column, np.ndarray) and column.dtype.kind in "UT":
        return pa.array(column.tolist(), pa.large_string())
    return column


def _without_index(names: Sequence[str]) -> tuple[str, ...]:
    """Leave out the row numbers that pandas adds to a frame whose index has no name."""
    return tuple(name for name in names if not name.startswith("__index_level_"))


def _without_views(table: pa.Table) -> pa.Table:
    """Copy the string views that polars hands out: arrow cannot filter or take them yet."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for place, name in enumerate(table.column_names):
        column, kind = table[name], table.schema.field(place).type
        if pa.types.is_dictionary(kind) and kind.value_type in plain:
            wanted = plain[kind.value_type]
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(wanted)).dictionary_decode()
                for chunk in column.chunks
            ]
            table = table.set_column(place, name, pa.chunked_array(chunks, wanted))
        elif kind in plain:
            table = table.set_column(place, name, column.cast(plain[kind]))
    return table
