"""The files of a table: found by folder, glob or URL, checked, and read a block at a time."""

from __future__ import annotations

import fnmatch
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from yinyan.errors import InputError
from yinyan.files import temporary_beside, write_error
from yinyan.graph.column_types import na_texts
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource, open_table
from yinyan.text import listed

__all__ = [
    "MOST_ROWS",
    "Paths",
    "Piece",
    "SourceFile",
    "divided",
    "find_files",
    "opened",
    "read_blocks",
    "refuse_missing",
]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_BYTES_PER_ROW = 16  # at least, in files that do not count their rows
MOST_ROWS = 1 << 18  # of a block


@dataclass(frozen=True)
class SourceFile:
    """One file of a table. Size and time of change tell whether it is still the same."""

    name: str  # what messages call it: the path or URL
    size: int  # bytes
    changed: int  # nanoseconds since 1970, 0 where the file system does not tell

    @property
    def remote(self) -> bool:
        """Whether it is behind a URL."""
        return "://" in self.name


@dataclass(frozen=True)
class Piece:
    """A file, or some row groups of a Parquet file."""

    file: SourceFile
    rows: int  # of a Parquet file counted, else estimated from the size
    row_groups: tuple[int, ...] | None = None
    first_row: int = 0


def find_files(paths: Paths, what: str) -> tuple[SourceFile, ...]:
    """The files of a table, in the order given; those of a folder or glob by name. None at all are refused."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise InputError(f"{what} needs paths, globs or URLs of files (got {paths!r})")
    given_paths = [os.fspath(path) for path in given]
    found = [file for path in given_paths for file in (_behind(path) if "://" in path else _local(path))]
    names = [file.name for file in found]
    repeated = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if repeated is not None:
        raise InputError(f"{what} names the file '{repeated}' twice: leave one out")
    return tuple(found)


def divided(files: Sequence[SourceFile], rows: int) -> list[tuple[Piece, ...]]:
    """The files in groups of about so many rows; large Parquet files are divided between row groups."""
    groups: list[list[Piece]] = [[]]
    for piece in (piece for file in files for piece in _pieces(file, rows)):
        if groups[-1] and sum(other.rows for other in groups[-1]) + piece.rows > rows:
            groups.append([])
        groups[-1].append(piece)
    return [tuple(group) for group in groups if group]


@contextmanager
def opened(file: SourceFile, options: TableOptions, scratch: Path) -> Iterator[TableSource]:
    """A file with its columns known. One behind a URL is copied to the scratch folder as long as it is read."""
    if not file.remote:
        yield _open(Path(file.name), file, options)
        return
    local = temporary_beside(scratch / "copy")
    try:
        _copy(file, local)
        yield _open(local, file, options)
    finally:
        local.unlink(missing_ok=True)


def read_blocks(
    piece: Piece, columns: Sequence[str], options: TableOptions, scratch: Path, rows: int
) -> Iterator[tuple[TableSource, int, pa.Table]]:
    """Blocks of rows of some columns: the table, the number of the block's first row, and the block."""
    with opened(piece.file, options, scratch) as source:
        refuse_missing(source, columns)
        first = piece.first_row
        for block in source.blocks(columns, rows, row_groups=piece.row_groups):
            yield source, first, block
            first += block.num_rows


def refuse_missing(source: TableSource, columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column of the first one."""
    lacking = [name for name in columns if name not in source.names]
    if lacking:
        raise InputError(
            f"{source.label} has no column {lacking[0]!r}, which the first file has (its columns are "
            f"{listed(source.names)}): add the column, or prepare files of one form only"
        )


def _open(path: Path, file: SourceFile, options: TableOptions) -> TableSource:
    source = open_table(
        path,
        header=options.header,
        delimiter=options.delimiter,
        encoding=options.encoding,
        na_values=na_texts(options.na_values),
    )
    return replace(source, label=file.name)


def _local(given: str) -> Iterator[SourceFile]:
    path = Path(given).expanduser()
    if path.is_dir():
        names = sorted(name for name in path.rglob("*") if name.is_file() and not _is_hidden(name.relative_to(path)))
        if not names:
            raise InputError(f"the folder '{given}' holds no files (hidden ones are left out)")
    elif path.exists() or not glob.has_magic(given):
        names = [path]
    else:
        names = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207 - of any path
        names = [name for name in names if name.is_file()]
        if not names:
            raise InputError(f"no file matches '{given}'")
    for name in names:
        state = name.stat() if name.exists() else None  # what is wrong with a path, `open_table` says
        yield SourceFile(str(name), state.st_size if state else 0, state.st_mtime_ns if state else 0)


def _behind(url: str) -> Iterator[SourceFile]:
    """The files behind a URL of a file or folder; its last part may be a glob."""
    scheme = url[: url.index("://") + 3]
    folder, _, last = url.rpartition("/")
    pattern = last if glob.has_magic(last) else None
    try:
        files, path = pa.fs.FileSystem.from_uri(folder if pattern else url)
        info = files.get_file_info(path)
        if info.type == pa.fs.FileType.Directory:
            infos = files.get_file_info(pa.fs.FileSelector(path, recursive=pattern is None))
        else:
            infos = [info]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"'{url}' cannot be opened ({error})") from None
    infos = [info for info in infos if info.type == pa.fs.FileType.File]
    infos = [info for info in infos if pattern is None or fnmatch.fnmatch(info.base_name, pattern)]
    if path not in {info.path for info in infos}:
        infos = [info for info in infos if not _is_hidden(PurePosixPath(info.path).relative_to(path))]
    if not infos:
        raise InputError(f"there is no file behind '{url}'")
    for info in sorted(infos, key=lambda info: info.path):
        yield SourceFile(scheme + info.path, info.size, info.mtime_ns or 0)


def _is_hidden(path: PurePosixPath | Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _copy(file: SourceFile, local: Path) -> None:
    try:
        files, path = pa.fs.FileSystem.from_uri(file.name)
        with files.open_input_stream(path) as stream, local.open("wb") as target:
            shutil.copyfileobj(stream, target, 1 << 20)
    except pa.ArrowException as error:
        raise InputError(f"'{file.name}' cannot be read ({error})") from None
    except OSError as error:
        raise write_error(local, error) from error


def _pieces(file: SourceFile, rows: int) -> Iterator[Piece]:
    if file.remote or not _is_parquet(Path(file.name)):
        yield Piece(file, max(1, file.size // _BYTES_PER_ROW))
        return
    counts = _row_groups(Path(file.name))
    begin, first = 0, 0
    while begin < len(counts):
        end, count = begin + 1, counts[begin]
        while end < len(counts) and count + counts[end] <= rows:
            count, end = count + counts[end], end + 1
        yield Piece(file, count, tuple(range(begin, end)), first)
        begin, first = end, first + count


def _is_parquet(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _row_groups(path: Path) -> list[int]:
    try:
        facts = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is a damaged Parquet file ({error}): is the download complete?") from None
    return [facts.row_group(number).num_rows for number in range(facts.num_row_groups)]
