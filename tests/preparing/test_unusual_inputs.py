"""Inputs that are unusual or wrong: read all the same, or refused by file, column and row."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from preparing_tables import assert_same_graph, edge_table, write_files
from yinyan import Graph, InputError, MissingExtraError, prepare, read_prepared
from yinyan.preparing import hashing, numbering, tasks
from yinyan.preparing.inputs import find_files

EDGES = "source,target\n" + "".join(f"a{i},b{i % 7}\n" for i in range(40))


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(EDGES)
    return path


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "parts": ({"parts": 0}, r"'parts' \(--parts\) needs to be a positive integer \(got 0\)"),
    "too many parts": ({"parts": 500}, r"at most the number of nodes, 47 \(got 500\)"),
    "partition": ({"partition": "best"}, r"'partition' \(--partition\) needs to be one of 'communities'"),
    "protocol": ({"protocol": "released"}, r"'protocol' .* one of 'holdout', 'clean', 'temporal'"),
    "memory": ({"memory": -1}, r"'memory' \(--memory\) needs to be a positive number of GiB"),
    "engine": ({"engine": "spark"}, r"'engine' \(--engine\) needs to be 'auto', 'process' or 'ray'"),
    "shares": ({"protocol": "clean", "valid_share": 0.5, "test_share": 0.5}, r"leave edges for training"),
    "test of holdout": ({"test_share": 0.2}, r"protocol 'holdout' has no test edges"),
    "no test": ({"protocol": "clean", "test_share": 0.0}, r"protocol 'clean' needs test edges"),
    "times": ({"protocol": "temporal"}, r"needs the times of the edges"),
    "column": ({"source": "from"}, r"there is no source column 'from'"),
    "weight column": ({"weight": "source"}, r"weight 'source' needs numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_are_refused_by_name(tmp_path: Path, edges: Path, case: str) -> None:
    options, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        prepare(edges, tmp_path / "out", **{"parts": 2, **options})
    assert not (tmp_path / "out/manifest.json").exists()


def test_a_url_is_no_place_to_write_to(edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It made a folder of the name 's3:'."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"is a URL: a prepared folder is written to a file system"):
        prepare(edges, "s3://bucket/prepared", parts=2)
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]


FILES: dict[str, tuple[str, str]] = {
    "another form": ("from,to\nx,y\n", r"b.csv has no column 'source', which the first file has"),
    "short row": ("source,target\nx,y\nx\n", r"b.csv, line 3: expected 2 columns, found 1"),
    "open quote": ('source,target\nx,"y\n', r"b.csv, line \d: a quote is opened"),
    "missing id": ("source,target\nx,y\nNA,y\n", r"b.csv, column 'source': the id in row 2 .* is 'NA'"),
    "empty": ("", r"b.csv is empty"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files_are_refused_by_name(tmp_path: Path, case: str) -> None:
    text, words = FILES[case]
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "a.csv").write_text(EDGES)
    (folder / "b.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        prepare(folder, tmp_path / "out", parts=2)


def test_damaged_parquet_is_refused_by_name(tmp_path: Path) -> None:
    files = write_files(edge_table(), tmp_path / "edges", 2)
    path = files / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"part-1.parquet is a damaged Parquet file"):
        prepare(files, tmp_path / "out", parts=2)


def test_bad_weights_and_times_are_named_by_row(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    for column, value, words in (
        ("weight", "-1", r"weight 'weight' is negative \(-1\) in row 41"),
        ("weight", "x", r"weight 'weight' needs numbers"),
        ("time", "1.5", r"time 'time' is 1.5 in row 41 .* whole numbers or dates"),
        ("time", "", r"time 'time' is missing in row 41"),
    ):
        rows = "".join(f"a{i},b{i % 7},1\n" for i in range(40))
        path.write_text(f"source,target,{column}\n{rows}z,y,{value}\n")
        with pytest.raises(InputError, match=words):
            prepare(path, tmp_path / "out", parts=1, restart=True, **{column: column})


def test_dates_and_numbers_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target,time\n" + "".join(f"a{i},b{i % 7},{i}\n" for i in range(40)))
    (tmp_path / "b.csv").write_text("source,target,time\nx,y,2024-05-31\n")
    with pytest.raises(InputError, match=r"times are dates in .*b.csv and numbers in .*a.csv"):
        prepare(tmp_path / "*.csv", tmp_path / "out", parts=1)


def test_ids_of_two_kinds_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": [1, 2], "target": [3, 4]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text(EDGES)
    with pytest.raises(InputError, match=r"integers in .*a.parquet.* and text in .*b.csv.*--id-type text"):
        prepare([tmp_path / "a.parquet", tmp_path / "b.csv"], tmp_path / "out", parts=1)


def test_repeated_nodes_are_refused(tmp_path: Path, edges: Path) -> None:
    ids = sorted({line.split(",")[0] for line in EDGES.split()[1:]} | {f"b{i}" for i in range(7)})
    (tmp_path / "nodes.csv").write_text("id,size\n" + "".join(f"{i},{n}\n" for n, i in enumerate([*ids, "b3"])))
    with pytest.raises(InputError, match=r"id 'b3' occurs more than once in the node tables"):
        prepare(edges, tmp_path / "out", nodes=tmp_path / "nodes.csv", parts=1)


def test_files_are_found_by_folder_glob_and_url(tmp_path: Path) -> None:
    table = edge_table()
    folder = write_files(table, tmp_path / "edges", 3)
    (folder / "_SUCCESS").write_text("")
    wanted = Graph.from_table(table)
    forms = (folder, str(folder / "part-*.parquet"), sorted(map(str, folder.glob("*.parquet"))), folder.as_uri(),
             folder.as_uri() + "/*.parquet")  # fmt: skip
    for number, form in enumerate(forms):
        prepare(form, tmp_path / f"out{number}", parts=2)
        assert_same_graph(read_prepared(tmp_path / f"out{number}")[0], wanted)
    with pytest.raises(InputError, match="no file matches"):
        find_files(str(folder / "*.csv"), "edges")
    with pytest.raises(InputError, match="there is no file"):
        prepare(tmp_path / "nothing.csv", tmp_path / "no", parts=1)
    with pytest.raises(InputError, match="there is no file behind"):
        find_files(folder.as_uri() + "/*.csv", "edges")
    with pytest.raises(InputError, match=r"names the file .* twice"):
        find_files([folder, folder / "part-0.parquet"], "edges")
    with pytest.raises(InputError, match="cannot be opened"):
        find_files("nosuch://bucket/edges", "edges")


def test_empty_parts_unusual_text_and_missing_ends(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["", " ", "é", "日本語", "a" * 5000, "\x00", "\x00\x00", "NULL?", "0", "00", *map(str, range(1, 40))]
    table = pa.table({"source": [names[i] for i in rng.integers(1, 49, 600)] + [None, "x"], "target": [
        names[i] for i in rng.integers(1, 49, 600)] + ["x", None]})  # fmt: skip
    files = write_files(table, tmp_path / "edges", 3)
    pq.write_table(table.slice(0, 0), files / "empty.parquet")
    said: list[str] = []
    prepare(files, tmp_path / "out", parts=2, tell=said.append)
    assert_same_graph(read_prepared(tmp_path / "out")[0], Graph.from_table(table))
    assert any(line.startswith("read-edges: 602 rows in, 600 rows out (2 without an id dropped)") for line in said)


def test_packed_files_and_header_only_files(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "a.csv.gz").write_bytes(gzip.compress(EDGES.encode()))
    (folder / "b.csv").write_text("source,target\n")
    prepare(folder, tmp_path / "out", parts=2)
    (tmp_path / "plain.csv").write_text(EDGES)
    assert_same_graph(read_prepared(tmp_path / "out")[0], Graph.from_table(tmp_path / "plain.csv"))


def test_too_few_edges_are_refused(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("source,target\na,b\nb,c\na,a\n")
    with pytest.raises(InputError, match="at least 10 are needed"):
        prepare(tmp_path / "few.csv", tmp_path / "out", parts=1)
    (tmp_path / "none.csv").write_text("source,target\n,b\n")
    with pytest.raises(InputError, match="no row with both a source and a target"):
        prepare(tmp_path / "none.csv", tmp_path / "none", parts=1)


def test_missing_packages_are_named(tmp_path: Path, edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"yinyan\[cluster\]"):
        prepare(edges, tmp_path / "out", parts=1, engine="ray")
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    with pytest.raises(MissingExtraError, match=r"yinyan\[metis\]"):
        prepare(edges, tmp_path / "out", parts=1, partition="metis")


def test_ids_of_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = lambda ids: hashing.mixed(np.arange(len(ids), dtype=np.int64) * 0)  # noqa: E731
    ids = pa.array(["b", "c", "a"], pa.large_string())
    monkeypatch.setattr(numbering, "id_hashes", few)
    assert ids.take(pa.array(numbering._order(ids))).to_pylist() == ["a", "b", "c"]


def test_hashes_depend_on_the_text_alone() -> None:
    texts = ["", "a", "b", "ab", "ba", "\x00", "\x00\x00", "x" * 3_000_000, "é"]
    whole = hashing.id_hashes(pa.array(texts, pa.large_string()))
    assert len(set(whole.tolist())) == len(texts)
    for place in range(len(texts)):
        assert hashing.id_hashes(pa.array(texts, pa.large_string()).slice(place, 1))[0] == whole[place]


@pytest.mark.parametrize("top", [50, 2**20, 2**64 - 1])
def test_the_number_at_a_rank(top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_FEW", 10)
    values = np.random.default_rng(0).integers(0, top, 5_000, dtype=np.uint64)
    blocks = np.array_split(values, 7)
    for rank in (1, 2, 2_500, 5_000):
        assert hashing.ranked_value(lambda: blocks, rank) == int(np.sort(values)[rank - 1])


def peak(folder: Path, rows: int) -> tuple[int, int]:
    """The most bytes that numpy and arrow hold while so many rows between the same nodes are prepared."""
    files = write_files(edge_table(rows, 900), folder / f"edges-{rows}", 2)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        prepare(files, folder / f"out-{rows}", parts=2, memory=0.02)
        return tracemalloc.get_traced_memory()[1], pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def test_memory_does_not_grow_with_the_tables(tmp_path: Path) -> None:
    few, many = peak(tmp_path, 50_000), peak(tmp_path, 200_000)
    assert sum(many) < 1.5 * sum(few), (few, many)
