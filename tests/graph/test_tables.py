"""Tables: what goes in comes out, and what cannot is refused with a cure."""

from __future__ import annotations

import errno
import gzip
import os
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yinyan.errors import InputError, StoreError
from yinyan.graph import packed_files
from yinyan.graph.column_types import typed_column
from yinyan.graph.columns import (
    find_column,
    guess_column,
    guess_edge_columns,
    guess_node_column,
)
from yinyan.graph.tables import open_table, read_table, write_parquet


def write(folder: Path, text: str | bytes, name: str = "edges.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " ", "   "])
def test_delimiters_are_found(tmp_path: Path, delimiter: str) -> None:
    lines = [("source", "target", "weight"), ("007", "7", "0.5"), ("a-b", "ü", "1")]
    path = write(tmp_path, "\n".join(delimiter.join(line) for line in lines))
    table = read_table(path)
    assert table.column_names == ["source", "target", "weight"]
    assert rows(table) == lines[1:]


def test_spaces_around_lines_do_not_count_where_spaces_delimit(tmp_path: Path) -> None:
    path = write(tmp_path, "  source target \r\n  1   2 \r\n 3 4\r\n")
    assert rows(read_table(path)) == [("1", "2"), ("3", "4")]


def test_a_given_delimiter_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path, "source:target\na,b:c\n")
    assert rows(open_table(path, delimiter=":").read()) == [("a,b", "c")]
    with pytest.raises(InputError, match="one character"):
        open_table(path, delimiter="::")


def test_strange_ids_survive(tmp_path: Path) -> None:
    strange = ["a,b", 'say "hi"', "two\nlines", "🐙", " padded ", "NA", "null", "#x", "1e5", "007"]
    quoted = [f'"{value}"' for value in (text.replace('"', '""') for text in strange)]
    path = write(tmp_path, "source,target\n" + "".join(f"{field},x\n" for field in quoted))
    assert [row[0] for row in rows(read_table(path))] == strange


field = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(field, field), min_size=1, max_size=8))
def test_any_quoted_text_survives(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    lines = [",".join('"' + end.replace('"', '""') + '"' for end in pair) for pair in pairs]
    path = write(tmp_path_factory.mktemp("csv"), "source,target\n" + "\n".join(lines) + "\n")
    assert rows(read_table(path)) == pairs


def test_an_empty_field_is_missing_and_a_quoted_one_is_not(tmp_path: Path) -> None:
    path = write(tmp_path, 'source,target\n,a\n"",b\n')
    assert rows(read_table(path)) == [(None, "a"), ("", "b")]


@pytest.mark.parametrize("header", [True, False])
def test_byte_order_mark(tmp_path: Path, header: bool) -> None:
    body = "source,target\n1,2\n" if header else "1,2\n"
    table = read_table(write(tmp_path, b"\xef\xbb\xbf" + body.encode()), header=header)
    assert rows(table) == [("1", "2")]
    assert table.column_names == (["source", "target"] if header else ["column 1", "column 2"])


def test_comments_at_the_top_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, "# a graph\n\n# made today\nsource,target\na,b\n#c,d\n")
    assert rows(read_table(path)) == [("a", "b"), ("#c", "d")]


def test_snap_files_name_their_columns_in_the_last_comment(tmp_path: Path) -> None:
    path = write(tmp_path, "# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n", "graph.txt")
    table = read_table(path)
    assert table.column_names == ["FromNodeId", "ToNodeId"]
    assert rows(table) == [("0", "1"), ("1", "2")]
    assert rows(read_table(path, header=False)) == [("0", "1"), ("1", "2")]


def test_line_ends_and_headers_of_several_lines(tmp_path: Path) -> None:
    for end in ("\n", "\r\n", "\r"):
        text = "# note\nsource,target\n\na,b\n\nc,d\n".replace("\n", end)
        assert rows(read_table(write(tmp_path, text))) == [("a", "b"), ("c", "d")]
    table = read_table(write(tmp_path, '"the\nsource","the\ntarget"\na,b\n'))
    assert table.column_names == ["the\nsource", "the\ntarget"]
    assert rows(table) == [("a", "b")]


def test_gzip_by_content(tmp_path: Path) -> None:
    packed = gzip.compress(b"source,target\na,b\n")
    for name in ("edges.csv.gz", "edges.csv"):
        assert rows(read_table(write(tmp_path, packed, name))) == [("a", "b")]
    spaced = gzip.compress(b"source  target\na  b\n")
    assert rows(read_table(write(tmp_path, spaced, "spaced.gz"))) == [("a", "b")]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", " "])
def test_other_encodings(tmp_path: Path, encoding: str, delimiter: str) -> None:
    path = write(tmp_path, f"source{delimiter}target\né{delimiter}b\n".encode(encoding))
    assert rows(open_table(path, encoding=encoding).read()) == [("é", "b")]


def test_parquet_keeps_types(tmp_path: Path) -> None:
    table = pa.table({"source": [1, 2], "target": ["a", "b"]})
    path = tmp_path / "edges.data"  # recognised by content
    write_parquet(table, path)
    assert read_table(path) == table
    assert open_table(str(path)).names == ("source", "target")


def test_columns_of_text_files_are_text_until_their_type_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "source,target,weight,flag,day,word\n01,2,1.5,true,2020-01-02,x\n3,4,NA,false,,y\n")
    table = read_table(path)
    typed = pa.table({name: typed_column(table[name]) for name in table.column_names[2:]})
    assert rows(typed) == [
        (1.5, True, datetime(2020, 1, 2), "x"),
        (None, False, None, "y"),
    ]
    assert set(table.schema.types) == {pa.large_string()}


def test_types_need_every_value() -> None:
    late = ["1"] * 100_000 + ["1.5"]  # a reader that looks at the first rows only would fail here
    assert typed_column(pa.chunked_array([late])).type == pa.float64()
    assert typed_column(pa.chunked_array([["1", "x"]])).type == pa.string()
    assert typed_column(pa.chunked_array([["", "NA"]])).type == pa.string()
    assert typed_column(pa.chunked_array([[" 1", "2 "]])).to_pylist() == [1, 2]
    assert typed_column(pa.chunked_array([[1, 2]])).to_pylist() == [1, 2]
    assert pa.types.is_timestamp(typed_column(pa.chunked_array([["2020-01-02T03:04:05Z"]])).type)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("# only a comment\n", "is empty"),
        ("source,target\n", "a header line but no rows"),
        ("source,target", "a header line but no rows"),
        ("# a comment\nsource,target", "a header line but no rows"),
        ("1,2\n3,4\n", r"no header line.*'1', '2'.*header=False \(--no-header\)"),
        ("alice,bob\nbob,carol\n", "no header line"),
        ("source,target\na,b\nc\n", "line 3: expected 2 columns, found 1"),
        ('source,target\n"a\nb",c\nd,e,f\n', "line 4: expected 2 columns, found 3"),
        ("source\ttarget\na\tb\nc\td\te\n", "line 3: expected 2 columns, found 3"),
        ("source target\na b\nc d\ne f g\n", "line 4: expected 2 columns, found 3"),
        ("source,source\na,b\n", "two columns named 'source'"),
        (b"\x00\x01\x02\xff" * 99, "is a binary file"),
        (bytes(range(1, 256)) * 9, "is a binary file"),
        (b"PK\x03\x04 spreadsheet", "zip archive or a damaged spreadsheet"),
        (b"PAR1 but no more", "damaged Parquet file"),
        (b"\x1f\x8b\x08 broken", "cannot be unpacked"),
        (gzip.compress(b"source,target\n" + b"a,b\n" * 999, mtime=0)[:-20], "cannot be unpacked|cannot be read"),
        (
            "source,target\nRené,b\n".encode("latin-1"),
            r"not utf-8 text \(byte 0xe9 in line 2\).*encoding='latin-1'",
        ),
        ('source,target\na,b\nc,"d\ne,f\n', "line 3: a quote is opened and never closed"),
        ('source,target\na,b\n"c,d\ne,f\n', "line 3: a quote is opened and never closed"),
    ],
)
def test_bad_files_are_refused_with_a_cure(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, content))


def test_bad_bytes_far_down_are_found_by_their_line(tmp_path: Path) -> None:
    good = b"source,target\n" + b"some-long-id,another-long-id\n" * 100_000
    with pytest.raises(InputError, match=r"not utf-8 text \(byte 0xe9 in line 100,002\)"):
        read_table(write(tmp_path, good + b"Ren\xe9,b\n"))
    with pytest.raises(InputError, match="line 100,002: expected 2 columns, found 3"):
        read_table(write(tmp_path, good + b"a,b,c\n"))


def test_a_header_of_numbers_is_fine_after_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, "id,0,1\na,1,0\nb,0,1\n", "nodes.csv")
    assert read_table(path).column_names == ["id", "0", "1"]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    write(tmp_path, "source,target\na,b\n", "edges.csv")
    with pytest.raises(InputError, match=r"there is no file .*egdes.csv; nearest in its folder: 'edges.csv'"):
        read_table(tmp_path / "egdes.csv")
    with pytest.raises(InputError, match=r"no file .*folder cannot be read"):
        read_table(tmp_path / "nowhere" / "edges.csv")
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="encoding 'klingon' is unknown"):
        open_table(tmp_path / "edges.csv", encoding="klingon")


def test_frames_and_dicts() -> None:
    expected = [(1, "a"), (2, "b")]
    table = pa.table({"x": [1, 2], "y": ["a", "b"]})
    assert rows(read_table(table)) == expected
    assert rows(read_table(table.to_batches()[0])) == expected
    assert rows(read_table({"x": np.array([1, 2]), "y": np.array(["a", "b"])})) == expected
    vectors = read_table({"id": ["a"], "v": np.eye(1, 3)})
    assert vectors["v"].to_pylist() == [[1.0, 0.0, 0.0]]


def test_pandas_and_polars() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "c"]})
    assert rows(read_table(frame)) == [(1, "a"), (2, "b"), (3, "c")]
    assert read_table(frame[frame.x > 1]).column_names == ["x", "y"]  # the index is no column
    assert set(read_table(frame.set_index("y")).column_names) == {"x", "y"}  # unless it has a name
    with pytest.raises(InputError, match="casting ids to text"):
        read_table(pandas.DataFrame({"x": [1, "a"]}))
    polars = pytest.importorskip("polars")
    views = polars.DataFrame({"x": [1], "y": ["a"], "z": [b"b"], "c": polars.Series(["d"], dtype=polars.Categorical)})
    assert rows(read_table(views)) == [(1, "a", b"b", "d")]
    assert read_table(views).take([0]).num_rows == 1  # which arrow refuses for string views


@pytest.mark.parametrize("source", [5, None, [("a", "b")], {"x": [1, 2], "y": [1]}, {"x": [1, "a"]}])
def test_bad_frames_are_refused(source: Any) -> None:
    with pytest.raises(InputError):
        read_table(source)
    with pytest.raises(InputError, match="no rows"):
        read_table({"x": [], "y": []})
    with pytest.raises(InputError, match="two columns named 'x'"):
        read_table(pa.table([[1], [2]], names=["x", "x"]))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["weight", "Source", "Target"], ("Source", "Target")),
        (["dst", "src"], ("src", "dst")),
        (["date", "from", "to"], ("from", "to")),
        (["citing", "cited"], ("citing", "cited")),
        (["rating", "user_id", "movie_id"], ("user_id", "movie_id")),
        (["x", "sourceNodeId", "targetNodeId"], ("sourceNodeId", "targetNodeId")),
        (["t", "id1", "id2"], ("id1", "id2")),
        (["w", "u", "v"], ("u", "v")),
        (["head", "relation", "tail"], ("head", "tail")),
        (["airline", "source_airport_id", "destination_airport_id"], ("source_airport_id", "destination_airport_id")),
        (["day", "Origin", "Dest", "delay"], ("Origin", "Dest")),
        (["src_port", "dst_port", "src id", "dst id"], ("src id", "dst id")),
        (["ride", "start_time", "end_time", "start_station", "end_station"], ("start_station", "end_station")),
        (["foo", "bar", "from_date", "to_date"], ("foo", "bar")),
        (["foo", "bar", "baz"], ("foo", "bar")),
        (["", "foo", "bar"], ("foo", "bar")),
    ],
)
def test_edge_columns_are_guessed(names: list[str], expected: tuple[str, str]) -> None:
    assert guess_edge_columns(names) == expected


def test_other_columns_are_guessed() -> None:
    assert guess_column(["a", "b", "Rating"], "weight") == "Rating"
    assert guess_column(["a", "b"], "weight") is None
    assert guess_column(["a", "b", "Year"], "time") == "Year"
    assert guess_node_column(["x", "node_id"]) == "node_id"
    assert guess_node_column(["paper", "title"]) == "paper"
    with pytest.raises(InputError, match=r"two columns of node ids \(got 'only'\).*delimiter="):
        guess_edge_columns(["only"])
    with pytest.raises(InputError, match="needs a column of ids"):
        guess_node_column([""])


def test_columns_by_name_or_position() -> None:
    names = ["source", "target", "Weight"]
    assert find_column(names, "target", "target") == "target"
    assert find_column(names, 2, "weight") == "Weight"
    assert find_column(names, "0", "source") == "source"
    with pytest.raises(InputError, match=r"no weight column 'weigth' \(the columns are .*; nearest: 'Weight'\)"):
        find_column(names, "weigth", "weight")
    with pytest.raises(InputError, match="column 3 is out of range"):
        find_column(names, 3, "weight")


def test_write_parquet_is_whole_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    write_parquet(pa.table({"x": [1]}), path)
    write_parquet(pa.table({"x": [date(2020, 1, 1)]}), path)
    assert pq.read_table(path)["x"].to_pylist() == [date(2020, 1, 1)]

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match=r"table\.parquet.*disk is full: free some space"):
        write_parquet(pa.table({"x": [3]}), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.parquet"]
    assert pq.read_table(path)["x"].to_pylist() == [date(2020, 1, 1)]


# -- compressed files ------------------------------------------------------------------------------------------

_ROWS = b"source,target\n" + b"".join(b"a%d,b%d\n" % (i, i * 7) for i in range(120_000))  # more than is sampled
_PACKED = {char: gzip.compress(_ROWS.replace(b",", char.encode()), 1, mtime=0) for char in ", "}


@pytest.mark.parametrize("delimiter", [",", " "])
@pytest.mark.parametrize("how", ["truncated late", "no trailer", "bad CRC", "bad length", "a flipped bit", "garbage"])
def test_a_damaged_gzip_file_is_refused_by_name(tmp_path: Path, how: str, delimiter: str) -> None:
    """Damage beyond the first megabyte ended in a traceback of gzip or zlib."""
    whole = _PACKED[delimiter]
    damaged = {
        "truncated late": whole[:-2000],
        "no trailer": whole[:-8],
        "bad CRC": whole[:-8] + b"\0\0\0\0" + whole[-4:],
        "bad length": whole[:-4] + b"\1\2\3\4",
        "a flipped bit": whole[:-5000] + bytes([whole[-5000] ^ 8]) + whole[-4999:],
        "garbage": whole + b"garbage",
    }[how]
    with pytest.raises(InputError, match=r"edges\.csv\.gz cannot be unpacked .*is the download complete"):
        read_table(write(tmp_path, damaged, "edges.csv.gz"))


def test_a_gzip_bomb_is_refused_and_the_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes took all memory."""
    monkeypatch.setattr(packed_files, "_ALWAYS", 1 << 20)
    path = write(tmp_path, gzip.compress(b"source,target\n" + b"aaaa,bbbb\n" * 1_000_000), "edges.csv.gz")
    with pytest.raises(InputError, match=r"edges\.csv\.gz' has 0\.0 MB and unpacks to more than .*YINYAN_UNPACK_GB"):
        read_table(path)
    monkeypatch.setenv("YINYAN_UNPACK_GB", "0.1")
    assert read_table(path).num_rows == 1_000_000
    for wrong in ("much", "-1", "nan"):
        monkeypatch.setenv("YINYAN_UNPACK_GB", wrong)
        with pytest.raises(InputError, match="YINYAN_UNPACK_GB needs to be a number of gigabytes"):
            read_table(path)
