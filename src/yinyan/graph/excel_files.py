"""Spreadsheets (.xlsx): one worksheet is one table."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.graph.column_types import NA_VALUES
from yinyan.graph.json_lines import plain_values
from yinyan.graph.packed_files import check_unpacked_size

__all__ = ["check_excel", "excel_writer", "is_excel", "read_excel"]

_ERRORS = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"}
_MOST_ROWS = 1_048_575  # of a worksheet, the header apart
_EXACT = 10**15  # a spreadsheet keeps 15 digits of a number
_SUFFIX = ".xlsx"


def is_excel(path: Path) -> bool:
    """Whether a zip archive is a spreadsheet, by its content."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def check_excel() -> Any:
    """The package that reads and writes spreadsheets."""
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError(f"{_SUFFIX} files need openpyxl: pip install 'yinyan[excel]'") from error
    return openpyxl


def read_excel(path: Path, *, header: bool = True, na_values: Sequence[str] = NA_VALUES) -> tuple[pa.Table, str]:
    """The first worksheet that holds anything, and what messages call it."""
    openpyxl = check_excel()
    with zipfile.ZipFile(path) as archive:
        check_unpacked_size(path, path.stat().st_size, sum(part.file_size for part in archive.infolist()))
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            filled = [sheet for sheet in book.worksheets if next(_filled(sheet), None) is not None]
            rows = list(_filled(filled[0])) if filled else []
            titles = [sheet.title for sheet in filled]
        finally:
            book.close()
    except Exception as error:  # the package raises many kinds of errors for damaged files
        raise InputError(f"{path.name} is a damaged spreadsheet ({error!r}): is the download complete?") from None
    if not rows:
        raise InputError(f"{path.name} is empty: it holds no rows")
    label = path.name if len(titles) == 1 else f"{path.name}, sheet {titles[0]!r} (the first of {len(titles)})"
    return _table(rows, label, header=header, na_values=na_values), label


@contextmanager
def excel_writer(path: Path, schema: pa.Schema, name: str) -> Iterator[Any]:
    """What writes tables of one schema to the rows of one worksheet."""
    book = check_excel().Workbook(write_only=True)
    sheet = book.create_sheet("links")
    sheet.append([_cell(sheet, column) for column in schema.names])
    written = 0

    def write(table: pa.Table) -> None:
        nonlocal written
        written += table.num_rows
        if written > _MOST_ROWS:
            raise StoreError(f"cannot write '{name}': a worksheet holds {_MOST_ROWS:,} rows: use .csv or .parquet")
        columns = [plain_values(table[column]) for column in table.column_names]
        for row in zip(*columns, strict=True):
            sheet.append([_cell(sheet, value) for value in row])

    try:
        yield write
    except BaseException:
        sheet.close()  # it has a temporary file open
        raise
    book.save(path)


def _cell(sheet: Any, value: Any) -> Any:
    """A value for a cell: text stays text, also if it begins with '='; long integers keep all digits as text."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        value = str(value)
    if not isinstance(value, str):
        return value
    if ILLEGAL_CHARACTERS_RE.search(value) or len(value) > 32_767:
        raise StoreError(f"a spreadsheet cannot hold the text {value[:40]!r}: use .csv, .jsonl or .parquet")
    cell = WriteOnlyCell(sheet, value=value)
    cell.data_type = "s"
    return cell


def _filled(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a worksheet that are not empty."""
    sheet.reset_dimensions()  # some programs write wrong ones
    return (row for row in sheet.iter_rows(values_only=True) if any(value is not None for value in row))


def _table(rows: Sequence[tuple[Any, ...]], label: str, *, header: bool, na_values: Sequence[str]) -> pa.Table:
    width = max(map(len, rows))
    body = rows[1:] if header else rows
    names = ["" if value is None else str(value).strip() for value in rows[0]] if header else []
    names += [""] * (width - len(names)) if header else [f"column {place}" for place in range(1, width + 1)]
    columns: dict[str, pa.Array] = {}
    for place, name in enumerate(names):
        cells = [row[place] if place < len(row) else None for row in body]
        if not name and all(cell is None for cell in cells):
            continue  # cells that only have a format
        if name in columns:
            raise InputError(f"{label} has two columns named {name!r}: rename one, or pass header=False")
        columns[name] = _column(name, cells, label, na_values)
    return pa.table(columns)


def _column(name: str, cells: list[Any], label: str, na_values: Sequence[str]) -> pa.Array:
    """Cells as arrow's values; numbers and dates among text become text, since a spreadsheet shows them alike."""
    values = [None if isinstance(cell, str) and cell in _ERRORS else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        known = [None if isinstance(value, str) and value.strip() in na_values else value for value in values]
        kinds = {type(value) for value in known if value is not None}
        values = [None if v is None else _text(v) for v in values] if str in kinds else known
    if kinds == {int, float} and all(v is None or float(v).is_integer() for v in values):
        values = [None if value is None else int(value) for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise InputError(f"{label}: column {name!r} holds values of several types ({error})") from None


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value.total_seconds()) if isinstance(value, timedelta) else str(value)
