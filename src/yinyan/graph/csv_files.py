"""Delimited text files, read as columns of text."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from yinyan.errors import InputError
from yinyan.graph.columns import has_edge_names
from yinyan.graph.packed_files import SAMPLE_BYTES, blocks_of, is_gzip, unpacked

__all__ = ["CsvLayout", "csv_blocks", "csv_layout", "line_numbers", "read_csv"]

_SAMPLE_ROWS = 50
_BLOCK_BYTES = 1 << 24  # a row must fit into one block
_DELIMITERS = ("\t", ",", ";", "|")
_SPACES = re.compile(rb"[ \t]+")


@dataclass(frozen=True)
class CsvLayout:
    """How one file is to be read: its delimiter, its column names and where its rows begin."""

    path: Path
    delimiter: str  # " " stands for any run of spaces and tabs
    names: tuple[str, ...]
    skipped_lines: int  # comments, blank lines and the header before the first row
    encoding: str


def csv_layout(path: Path, *, header: bool, delimiter: str | None, encoding: str) -> CsvLayout:
    """Look at the beginning of a file and find out how to read it."""
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"delimiter must be one character (got {delimiter!r})")
    text = _sample_text(path, encoding)
    comments, body = _split_comments(text)
    if not body.strip():
        raise InputError(f"{path.name} is empty: it holds no rows")
    chosen = delimiter if delimiter is not None else _guess_delimiter(body)
    rows, first_lines = _parse(body, chosen)
    first = [field.strip() for field in rows[0]]
    skipped = len(comments) + (first_lines if header else 0)
    names = tuple(first) if header else tuple(f"column {number}" for number in range(1, len(first) + 1))
    commented = _parse(comments[-1].strip().lstrip("#"), chosen)[0][0] if comments and header else []
    commented = [field.strip() for field in commented]
    if len(commented) == len(first) and (has_edge_names(commented) or _looks_like_data(rows)):
        names, skipped = tuple(commented), len(comments)  # SNAP: the last comment names the columns
    elif header and _looks_like_data(rows):
        raise InputError(
            f"{path.name} seems to have no header line: its first line is {_shortened(rows[0])}. "
            "Pass header=False (--no-header), or add a line of column names"
        )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path.name} has two columns named {repeated!r}: rename one, or pass header=False")
    return CsvLayout(path, chosen, names, skipped, encoding)


def read_csv(layout: CsvLayout, columns: Sequence[str] | None = None) -> pa.Table:
    """Read some columns (or all) as text; an empty field is null, a quoted empty one is not."""
    options = _arrow_options(layout, list(layout.names if columns is None else columns))
    has_odd_quotes = _has_odd_quotes(layout.path)  # reads all of it, so that arrow reads nothing damaged or endless
    try:
        with _byte_source(layout) as stream:
            table = pa.csv.read_csv(stream, **options)
    except (pa.ArrowInvalid, UnicodeError, EOFError, OSError) as error:
        raise InputError(_read_failure(layout, error)) from None
    if has_odd_quotes and (fault := _first_fault(layout)):
        raise InputError(fault)  # arrow takes all lines after an open quote for one value
    return table


def csv_blocks(layout: CsvLayout, columns: Sequence[str]) -> Iterator[pa.Table]:
    """As `read_csv`, a block of lines at a time; a file whose columns are parted by spaces is read whole."""
    if _has_odd_quotes(layout.path) and (fault := _first_fault(layout)):
        raise InputError(fault)
    try:
        with _byte_source(layout) as stream:
            reader = pa.csv.open_csv(stream, **_arrow_options(layout, list(columns)))
            for batch in reader:
                yield pa.Table.from_batches([batch])
    except (pa.ArrowInvalid, UnicodeError, EOFError, OSError) as error:
        raise InputError(_read_failure(layout, error)) from None


def _arrow_options(layout: CsvLayout, columns: list[str]) -> dict[str, Any]:
    """How arrow is to read these columns of a file."""
    read = pa.csv.ReadOptions(
        column_names=list(layout.names),
        skip_rows=layout.skipped_lines,
        block_size=_BLOCK_BYTES,
        encoding="utf8" if layout.delimiter == " " else layout.encoding,
    )
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.large_string()),
        include_columns=columns,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pa.csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    return {"read_options": read, "parse_options": parse, "convert_options": convert}


def line_numbers(layout: CsvLayout, rows: Sequence[int]) -> list[int]:
    """The line, from 1, that each of some rows of a file begins with; rows may span lines, and blank lines are none."""
    text = unpacked(layout.path).decode(_text_encoding(layout.encoding))
    if layout.delimiter == " ":
        text = _single_spaces(text.encode()).decode()
    lines = itertools.islice(io.StringIO(text, newline=""), layout.skipped_lines, None)
    reader, wanted = csv.reader(lines, delimiter=layout.delimiter), set(rows)
    found: dict[int, int] = {}
    number, begins = 0, layout.skipped_lines + 1
    for row in reader:
        if row:
            if number in wanted:
                found[number] = begins
            number += 1
        begins = layout.skipped_lines + reader.line_num + 1
    return [found[row] for row in rows]


def _byte_source(layout: CsvLayout) -> pa.NativeFile:
    """The bytes for arrow's reader, with runs of spaces made single where they delimit."""
    if layout.delimiter != " ":
        return pa.input_stream(str(layout.path), compression="gzip" if is_gzip(layout.path) else None)
    data = unpacked(layout.path)
    if _codec(layout.encoding) != "utf-8":
        data = data.decode(layout.encoding).encode()
    return pa.BufferReader(_single_spaces(data))


def _single_spaces(data: bytes) -> bytes:
    if b"\t" in data or b"  " in data or b" \n" in data or b"\n " in data or b" \r" in data:
        data = _SPACES.sub(b" ", data)
        data = data.replace(b" \r\n", b"\n").replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return data.strip(b" ")


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise InputError(f"encoding {encoding!r} is unknown: try 'utf-8', 'latin-1' or 'utf-16'") from None


def _text_encoding(encoding: str) -> str:
    """The codec to read with: plain UTF-8 may begin with a byte order mark."""
    return "utf-8-sig" if _codec(encoding) == "utf-8" else encoding


def _sample_text(path: Path, encoding: str) -> str:
    """The beginning of a file as text, cut at a line end."""
    codec = _text_encoding(encoding)
    data = b"".join(itertools.islice(blocks_of(path), 1))
    partial = len(data) == SAMPLE_BYTES
    if b"\0" in data and "16" not in codec and "32" not in codec:
        raise InputError(f"{path.name} is a binary file: expected CSV or TSV text, or Parquet")
    try:
        text = codecs.getincrementaldecoder(codec)().decode(data, final=not partial)
    except UnicodeError as error:
        raise InputError(_decoding_failure(path, encoding, error, data)) from None
    if partial and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text


def _decoding_failure(path: Path, encoding: str, error: UnicodeError, data: bytes) -> str:
    control = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in data[:4096])
    if control > len(data[:4096]) // 50:
        return f"{path.name} is a binary file: expected CSV or TSV text, or Parquet"
    where = ""
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        where = f" (byte 0x{error.object[error.start]:02x} in line {line:,})"
    other = "latin-1" if _codec(encoding) == "utf-8" else "utf-8"
    return f"{path.name} is not {encoding} text{where}: pass for example encoding={other!r} (--encoding)"


def _split_comments(text: str) -> tuple[list[str], str]:
    """Part the leading `#` lines (and blank lines among them) from the rest."""
    lines = list(io.StringIO(text, newline="")) if text[:1] in "#\r\n\t " else []
    count = 0
    while count < len(lines) and (lines[count].startswith("#") or not lines[count].strip()):
        count += 1
    return lines[:count], text[sum(map(len, lines[:count])) :]


def _parse(text: str, delimiter: str) -> tuple[list[list[str]], int]:
    """The first rows of some text, and how many lines the first of them takes."""
    if delimiter == " ":
        text = _single_spaces(text.encode()).decode()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    first_lines = 0
    try:
        for row in reader:
            if row:
                rows.append(row)
                first_lines = first_lines or reader.line_num
            if len(rows) == _SAMPLE_ROWS:
                break
    except csv.Error as error:
        raise InputError(
            f"the text cannot be read as a table ({error}): an unclosed quote is the usual cause"
        ) from None
    return rows or [[""]], first_lines


def _guess_delimiter(text: str) -> str:
    """The character that cuts most rows into the same number of fields, the more fields the better."""
    scores = {delimiter: _regularity(text, delimiter) for delimiter in (*_DELIMITERS, " ")}
    best = max(_DELIMITERS, key=lambda delimiter: scores[delimiter])
    if scores[best][1] > 1:
        return best
    return " " if scores[" "][0] > 0.5 else ","


def _regularity(text: str, delimiter: str) -> tuple[float, int]:
    """The share of rows as wide as the first, 0 if that is one field wide, and this width."""
    widths = [len(row) for row in _parse(text, delimiter)[0]]
    return (widths.count(widths[0]) / len(widths) if widths[0] > 1 else 0.0), widths[0]


def _looks_like_data(rows: list[list[str]]) -> bool:
    """Whether the first row is data: it begins with a number, or its ids come again below."""
    ends = [field.strip() for field in rows[0][:2]]
    if has_edge_names(rows[0]) or not ends[0]:
        return False
    if _is_number(ends[0]):
        return True
    below = {field.strip() for row in rows[1:] for field in row[:2]}
    return any(end in below for end in ends if not _is_number(end))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in {"nan", "inf", "infinity"}


def _read_failure(layout: CsvLayout, error: Exception) -> str:
    """Say which line arrow's reader stumbled over, and why."""
    name = layout.path.name
    if "Could not skip" in str(error) or "Empty CSV" in str(error):
        return f"{name} has a header line but no rows"
    if isinstance(error, (EOFError, OSError)):
        return f"{name} cannot be read ({error}): is the download complete?"
    fault = _first_fault(layout)
    return fault or f"{name} cannot be read as a table ({error}): an unclosed quote is the usual cause"


def _has_odd_quotes(path: Path) -> bool:
    return sum(block.count(b'"') for block in blocks_of(path)) % 2 == 1


def _first_fault(layout: CsvLayout) -> str | None:
    """The first line that is no row of the table, and why: its bytes, its columns, or a quote that stays open."""
    name, width, line = layout.path.name, len(layout.names), layout.skipped_lines
    data = unpacked(layout.path)
    try:
        text = data.decode(_text_encoding(layout.encoding))
    except UnicodeError as error:
        return _decoding_failure(layout.path, layout.encoding, error, b"")
    if layout.delimiter == " ":
        text = _single_spaces(text.encode()).decode()
    lines = itertools.islice(io.StringIO(text, newline=""), line, None)
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True)
    try:
        for row in reader:
            line = layout.skipped_lines + reader.line_num
            if row and len(row) != width:
                return (
                    f"{name}, line {line:,}: expected {width} columns, found {len(row)} ({_shortened(row)}): "
                    "mend the line, or pass delimiter= (--delimiter)"
                )
    except csv.Error as error:
        if "end of data" in str(error):
            return f"{name}, line {line + 1:,}: a quote is opened and never closed"
    return None


def _shortened(row: Sequence[str]) -> str:
    shown = ", ".join(repr(field[:20]) for field in row[:4])
    return shown if len(row) <= 4 else f"{shown}, ..."
