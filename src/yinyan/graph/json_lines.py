"""JSON lines: one object per line, plain or compressed with gzip."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from yinyan.errors import InputError
from yinyan.graph.column_types import NA_VALUES, is_text, known_texts
from yinyan.graph.packed_files import blocks_of

__all__ = ["is_json_lines", "json_rows", "plain_values", "read_json_lines"]

_LINES = 20_000  # lines that are parsed at a time
_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


class _Line(NamedTuple):
    number: int  # from 1
    text: bytes


def is_json_lines(path: Path) -> bool:
    """Whether a file begins as JSON lines do, by its content; one JSON array is refused with a cure."""
    head = b"".join(itertools.islice(blocks_of(path), 1)).removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"[") and ".json" in path.suffixes:
        raise InputError(f"{path.name} is one JSON array: write one object per line (.jsonl)")
    return head.startswith(b"{")


def read_json_lines(path: Path, na_values: Sequence[str] = NA_VALUES) -> pa.Table:
    """All lines as a table; a key that some lines lack is missing there. Every column needs values of one type."""
    chunks: dict[str, list[pa.Array]] = {}
    done = 0
    lines = _lines(path)
    while block := list(itertools.islice(lines, _LINES)):
        rows = _objects(block, path)
        for name in dict.fromkeys(name for row in rows for name in row):
            column = _column(name, [row.get(name) for row in rows], block, na_values, path)
            before = chunks.setdefault(name, [])
            before += [pa.nulls(done - known)] if (known := sum(map(len, before))) < done else []
            before.append(column)
        done += len(rows)
    if not chunks:
        raise InputError(f"{path.name} is empty: it holds no rows")
    columns = {name: _joined(name, parts, done, na_values, path) for name, parts in chunks.items()}
    return pa.table(columns)


def json_rows(table: pa.Table) -> Iterator[str]:
    """A line of JSON for each row; numbers that are not finite become null."""
    columns = [plain_values(table[name]) for name in table.column_names]
    for row in zip(*columns, strict=True):
        yield json.dumps(dict(zip(table.column_names, row, strict=True)), ensure_ascii=False) + "\n"


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Python's values, floats as short as their type allows (0.1, not 0.10000000149) and finite."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_float32(column.type):
        values = [None if text is None else float(text) for text in column.cast(pa.string()).to_pylist()]
    if pa.types.is_floating(column.type):
        return [value if value is not None and abs(value) < float("inf") else None for value in values]
    return values


def _lines(path: Path) -> Iterator[_Line]:
    """Every line that is not blank, with its number."""
    rest, number = b"", 0
    for block in itertools.chain(blocks_of(path), [b""]):
        parts = (rest + block).split(b"\n")
        rest = parts.pop() if block else b""
        for part in parts:
            number += 1
            text = part.removeprefix(b"\xef\xbb\xbf") if number == 1 else part
            if text.strip():
                yield _Line(number, text)


def _objects(lines: Sequence[_Line], path: Path) -> list[dict[str, Any]]:
    try:
        rows: list[Any] = json.loads(b"[" + b",".join(line.text for line in lines) + b"]")
    except ValueError:  # also of bytes that are no UTF-8
        rows = []
    if len(rows) != len(lines):  # a line holds no JSON, or two objects
        rows = [_object(line, path) for line in lines]
    for line, row in zip(lines, rows, strict=True):
        if not isinstance(row, dict):
            raise InputError(f'{path.name}, line {line.number:,}: expected a JSON object such as {{"source": 1}}')
    return rows


def _object(line: _Line, path: Path) -> Any:
    try:
        return json.loads(line.text)
    except UnicodeDecodeError:
        raise InputError(f"{path.name}, line {line.number:,}: JSON lines need to be UTF-8") from None
    except ValueError as error:
        raise InputError(f"{path.name}, line {line.number:,}: this is no JSON object ({error})") from None


def _column(name: str, values: list[Any], lines: Sequence[_Line], na_values: Sequence[str], path: Path) -> pa.Array:
    """Some values as arrow's; texts that mean a missing value may stand among numbers."""
    kinds = {_KINDS.get(type(value), "") for value in values if value is not None}
    if len(kinds) > 1 and "text" in kinds:
        values = [None if isinstance(value, str) and value.strip() in na_values else value for value in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        first = next(_KINDS.get(type(value), "") for value in values if value is not None)
        for line, value in zip(lines, values, strict=True):
            if value is not None and _KINDS.get(type(value), "") != first:
                raise InputError(_mixed(path, line.number, name, _KINDS[type(value)], first)) from None
        raise InputError(f"{path.name}: column {name!r} cannot be read ({error})") from None


def _joined(name: str, parts: list[pa.Array], rows: int, na_values: Sequence[str], path: Path) -> pa.ChunkedArray:
    """The parts of one column in one type."""
    missing = rows - sum(map(len, parts))
    parts = [*parts, *([pa.nulls(missing)] if missing else [])]
    if len({is_text(part.type) for part in parts if not pa.types.is_null(part.type)}) > 1:
        cleared = [known_texts(pa.chunked_array([part]), na_values).combine_chunks() for part in parts]
        parts = [pa.nulls(len(part)) if part.null_count == len(part) else part for part in cleared]
    try:
        schemas = [pa.schema([pa.field(name, part.type)]) for part in parts]
        kind = pa.unify_schemas(schemas, promote_options="permissive").field(0).type
        return pa.chunked_array([part.cast(kind) for part in parts], kind)
    except (pa.ArrowException, TypeError):
        kinds = sorted({str(part.type) for part in parts if not pa.types.is_null(part.type)})
        raise InputError(
            f"{path.name}: column {name!r} holds values of several types ({', '.join(kinds)}): give it one type"
        ) from None


def _mixed(path: Path, line: int, name: str, here: str, before: str) -> str:
    return f"{path.name}, line {line:,}: column {name!r} holds {here} here and {before} above: give it one type"
