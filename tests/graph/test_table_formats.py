"""JSON lines and Excel, read and written wherever CSV and Parquet are."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from command_line import TINY, refused, works
from yinyan import Graph
from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.graph import excel_files, json_lines
from yinyan.graph.table_writing import rows_writer, write_rows
from yinyan.graph.tables import open_table, read_table

openpyxl = pytest.importorskip("openpyxl")


def lines(path: Path, *rows: Any) -> Path:
    text = "".join((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def sheet(path: Path, *rows: list[Any], **others: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for title, content in others.items():
        added = book.create_sheet(title)
        for row in content:
            added.append(row)
    book.save(path)
    return path


class TestJsonLines:
    @pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson", "x.jsonl.gz", "x.data"])
    def test_types_are_kept_and_keys_may_lack(self, name: str, tmp_path: Path) -> None:
        path = lines(
            tmp_path / name, {"id": 7, "word": "łódź\n"}, "", {"id": 8, "x": 1.5}, {"id": 9, "x": 2, "tags": ["a"]}
        )
        table = read_table(path)
        assert table.to_pylist() == [
            {"id": 7, "word": "łódź\n", "x": None, "tags": None},
            {"id": 8, "word": None, "x": 1.5, "tags": None},
            {"id": 9, "word": None, "x": 2.0, "tags": ["a"]},
        ]
        assert table.schema.field("id").type == pa.int64()

    def test_blocks_are_joined(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A column may begin late, end early, and hold a missing value as the only text of a block."""
        monkeypatch.setattr(json_lines, "_LINES", 2)
        rows: list[dict[str, Any]] = [{"a": 1}, {"a": 2}, {"a": "NA", "late": 1}, {"a": None}, {"a": 2.5}, {"b": "x"}]
        table = read_table(lines(tmp_path / "x.jsonl", *rows))
        assert table["a"].to_pylist() == [1, 2, None, None, 2.5, None]
        assert table["late"].to_pylist() == [None, None, 1, None, None, None]
        assert table["b"].to_pylist() == [None] * 5 + ["x"]
        with pytest.raises(InputError, match=r"column 'a' holds values of several types \(int64, string\)"):
            read_table(lines(tmp_path / "x.jsonl", {"a": 1}, {"a": 2}, {"a": "x"}))

    def test_a_byte_order_mark_and_windows_line_ends(self, tmp_path: Path) -> None:
        (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}')
        assert read_table(tmp_path / "x.jsonl")["a"].to_pylist() == [1, 2]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"a": 1}\n{"a": 2\n', r"x\.jsonl, line 2: this is no JSON object"),
            ('{"a": 1}\n\n[2]\n', r"line 3: expected a JSON object"),
            ('{"a": 1} {"a": 2}\n', r"line 1: this is no JSON object"),
            ('{"a": 1},{"a": 2}\n', r"line 1: this is no JSON object"),
            ('{"a": 1}\n{"a": "x"}\n', r"line 2: column 'a' holds text here and a number above"),
            ('{"a": [1]}\n{"a": true}\n', r"line 2: column 'a' holds true or false here and a list above"),
            ('{"a": 123456789012345678901234567890}\n', r"column 'a' cannot be read"),
            (b'{"a": 1}\n{"a": "\xff"}\n', r"line 2: JSON lines need to be UTF-8"),
        ],
    )
    def test_bad_lines_are_named(self, content: str | bytes, message: str, tmp_path: Path) -> None:
        path = tmp_path / "x.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(InputError, match=message):
            read_table(path)

    def test_an_array_is_refused_with_the_cure(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"is one JSON array: write one object per line"):
            read_table(lines(tmp_path / "x.json", [{"a": 1}]))


class TestExcel:
    def test_types_are_kept(self, tmp_path: Path) -> None:
        day = datetime(2024, 5, 31, 12, 30)
        path = sheet(
            tmp_path / "x.xlsx",
            ["id", "x", "day", "flag", "code", None],
            [1, 1.5, day, True, "007", None],
            [None, None, None, None, None, None],
            [2, None, day, False, "#N/A", None],
        )
        table = read_table(path)
        assert table.to_pylist() == [
            {"id": 1, "x": 1.5, "day": day, "flag": True, "code": "007"},
            {"id": 2, "x": None, "day": day, "flag": False, "code": None},
        ]
        assert open_table(path).label == "x.xlsx"

    def test_numbers_among_text_become_text_but_not_because_of_missing_values(self, tmp_path: Path) -> None:
        path = sheet(tmp_path / "x.xlsx", ["id", "x", "y"], ["a1", 1, 1.0], [12, "NA", 2], [date(2024, 1, 2), 3, 3])
        assert read_table(path).to_pylist() == [
            {"id": "a1", "x": 1, "y": 1},
            {"id": "12", "x": None, "y": 2},
            {"id": "2024-01-02T00:00:00", "x": 3, "y": 3},
        ]
        kept = open_table(path, na_values=()).read()
        assert kept["x"].to_pylist() == ["1", "NA", "3"]

    def test_without_a_header(self, tmp_path: Path) -> None:
        path = sheet(tmp_path / "x.xlsx", ["a", "b"], ["b", "c"])
        assert Graph.from_table(path, header=False).num_edges == 2
        assert open_table(path, header=False).names == ("column 1", "column 2")

    def test_the_first_sheet_with_rows_is_read_and_named(self, tmp_path: Path) -> None:
        path = sheet(tmp_path / "x.xlsx", links=[["u", "v"], ["a", "b"]], others=[["x"], [1]])
        opened = open_table(path)
        assert opened.names == ("u", "v")
        assert opened.label == "x.xlsx, sheet 'links' (the first of 2)"

    def test_bad_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(InputError, match="is empty"):
            read_table(sheet(tmp_path / "empty.xlsx"))
        with pytest.raises(InputError, match="two columns named 'a'"):
            read_table(sheet(tmp_path / "twice.xlsx", ["a", "a"], [1, 2]))
        with pytest.raises(InputError, match="no rows"):
            read_table(sheet(tmp_path / "head.xlsx", ["a", "b"]))
        path = tmp_path / "damaged.xlsx"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("xl/workbook.xml", "<no")
        with pytest.raises(InputError, match=r"damaged\.xlsx is a damaged spreadsheet"):
            read_table(path)
        (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
        with pytest.raises(InputError, match=r"old format: save it as \.xlsx"):
            read_table(tmp_path / "old.xls")
        with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
            archive.writestr("a.csv", "source,target\n")
        with pytest.raises(InputError, match="is a zip archive or a damaged spreadsheet: unpack it"):
            read_table(tmp_path / "some.zip")
        monkeypatch.setenv("YINYAN_UNPACK_GB", "0.000001")
        with pytest.raises(InputError, match="unpacks to more than"):
            read_table(sheet(tmp_path / "bomb.xlsx", ["a", "b"], [1, 2]))

    def test_the_missing_package_names_the_extra(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = sheet(tmp_path / "x.xlsx", ["a", "b"], [1, 2])
        monkeypatch.setitem(sys.modules, "openpyxl", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[excel\]'"):
            read_table(path)
        with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[excel\]'"):
            write_rows(pa.table({"a": [1]}), tmp_path / "y.xlsx")
        assert not (tmp_path / "y.xlsx").exists()


ROWS = pa.table(
    {
        "source": ["=1+1", "ł", "a"],
        "target": pa.array([2**60, 2, -3], pa.int64()),
        "score": pa.array([0.1, -2.5, None], pa.float32()),
        "rank": [1, 2, 3],
    }
)


class TestWriting:
    @pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".xlsx", ".parquet", ".csv", ".arrow", ".feather"])
    def test_rows_come_back(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"rows{suffix}"
        with rows_writer(path, ROWS.schema) as write:  # part by part, as for every node
            write(ROWS.slice(0, 2))
            write(ROWS.slice(2))
        found = read_table(path).to_pylist()
        assert [row["source"] for row in found] == ["=1+1", "ł", "a"], "no formula"
        assert [int(row["target"]) for row in found] == [2**60, 2, -3], "a spreadsheet keeps 15 digits of a number"
        assert [row["score"] and float(np.float32(row["score"])) for row in found] == [
            *map(float, np.float32([0.1, -2.5])),
            None,
        ]
        assert [int(row["rank"]) for row in found] == [1, 2, 3]
        assert list(tmp_path.iterdir()) == [path]

    def test_json_is_short_and_finite(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.jsonl"
        write_rows(
            pa.table({"x": pa.array([0.1, float("nan"), float("inf")], pa.float32()), "y": ["ł", None, "a"]}), path
        )
        assert (
            path.read_text(encoding="utf-8") == '{"x": 0.1, "y": "ł"}\n{"x": null, "y": null}\n{"x": null, "y": "a"}\n'
        )

    def test_what_a_worksheet_cannot_hold_leaves_no_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "rows.xlsx"
        with pytest.raises(StoreError, match=r"cannot hold the text 'a\\x00b'"):
            write_rows(pa.table({"x": ["a\0b"]}), path)
        monkeypatch.setattr(excel_files, "_MOST_ROWS", 2)
        with pytest.raises(StoreError, match=r"a worksheet holds 2 rows: use \.csv or \.parquet"):
            write_rows(ROWS, path)
        assert list(tmp_path.iterdir()) == []

    def test_other_names_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(
            InputError, match=r"needs to end in \.parquet, \.csv, \.jsonl, \.ndjson, \.arrow, \.feather or \.xlsx"
        ):
            write_rows(ROWS, tmp_path / "rows.txt")


EDGES = [(f"n{i}", f"n{(i * step + 1) % 40}") for i in range(40) for step in (1, 3)]


def test_the_same_graph_from_every_format(tmp_path: Path) -> None:
    csv = tmp_path / "edges.csv"
    csv.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in EDGES))
    nodes = [
        {"id": f"n{i}", "size": i % 7 / 2, "kind": "xyz"[i % 3], "when": f"2024-01-{i % 28 + 1:02d}"} for i in range(40)
    ]
    plain = tmp_path / "nodes.csv"
    plain.write_text("id,size,kind,when\n" + "".join(",".join(map(str, row.values())) + "\n" for row in nodes))
    expected = Graph.from_table(csv, nodes=plain)
    for edges, described in (
        (
            lines(tmp_path / "edges.jsonl", *({"source": a, "target": b} for a, b in EDGES)),
            lines(tmp_path / "nodes.jsonl.gz", *nodes),
        ),
        (
            sheet(tmp_path / "edges.xlsx", ["source", "target"], *map(list, EDGES)),
            sheet(tmp_path / "nodes.xlsx", list(nodes[0]), *(list(row.values()) for row in nodes)),
        ),
    ):
        graph = Graph.from_table(edges, nodes=described)
        assert np.array_equal(graph.edges, expected.edges)
        assert np.allclose(np.asarray(graph.features), np.asarray(expected.features))
        assert [use[1:] for use in graph.columns] == [use[1:] for use in expected.columns]


def test_the_command_line_reads_and_writes_them(tmp_path: Path) -> None:
    edges = lines(tmp_path / "edges.jsonl", *({"source": a, "target": b} for a, b in EDGES))
    nodes = sheet(tmp_path / "nodes.xlsx", ["id", "kind"], *([f"n{i}", "xy"[i % 2]] for i in range(40)))
    model = tmp_path / "model"
    said = works("fit", edges, "--nodes", nodes, "--out", model, *TINY).err
    assert "columns    source = 'source', target = 'target' (guessed)\n" in said
    assert "columns    node id = 'id' of nodes.xlsx (guessed); categorical = 'kind'\n" in said
    for name in ("one.jsonl", "one.xlsx"):
        works("recommend", model, "n1", "n2", "-k", "3", "--out", tmp_path / name)
        assert read_table(tmp_path / name).column_names == ["source", "target", "score", "rank", "probability"]
    works("recommend", model, "--all", "-k", "2", "--exact", "--out", tmp_path / "all.xlsx")
    assert read_table(tmp_path / "all.xlsx").num_rows == 80
    pairs = sheet(tmp_path / "pairs.xlsx", ["source", "target"], ["n1", "n5"], ["n2", "n9"])
    works("score", model, pairs, "--out", tmp_path / "scores.ndjson")
    found = read_table(tmp_path / "scores.ndjson")
    assert found.num_rows == 2 and "probability" in found.column_names
    works("best-links", model, "-k", "5", "--out", tmp_path / "best.jsonl")
    assert read_table(tmp_path / "best.jsonl").num_rows == 5
    assert "needs to end in" in refused("recommend", model, "n1", "--out", tmp_path / "rows.doc")
