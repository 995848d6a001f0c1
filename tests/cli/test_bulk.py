from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from yinyan import Graph, LinkPredictor
from yinyan.cli import bulk
from yinyan.cli.bulk import candidates, check_rows_file, pairs_of, recommend_all, write_rows
from yinyan.errors import InputError, StoppedError, StoreError, UnknownNodeError

TINY: dict[str, Any] = {
    "encoder": {"hidden_size": 8, "embedding_size": 8},
    "decoder": {"width": 8},
    "training": {"epochs": 1},
}


def fitted(ids: list[Any]) -> LinkPredictor:
    """A ring with chords; the first node is linked to all others."""
    n = len(ids)
    pairs = {(0, b) for b in range(1, n)} | {(a, (a + s) % n) for a in range(n) for s in (1, 3)}
    graph = Graph.from_arrays(np.array(sorted(pairs)), ids=ids)
    return LinkPredictor(**TINY).fit(graph)


@pytest.fixture(scope="module")
def text_model() -> LinkPredictor:
    return fitted([f"n{i}" for i in range(20)])


@pytest.fixture(scope="module")
def number_model() -> LinkPredictor:
    return fitted(list(range(100, 120)))


@pytest.fixture(scope="module")
def mixed_model() -> LinkPredictor:
    return fitted([*range(100, 110), *(f"n{i}" for i in range(10))])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_BLOCK", 3)


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class TestRecommendAll:
    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    @pytest.mark.parametrize("which", ["text_model", "number_model", "mixed_model"])
    def test_equals_one_call(self, which: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """The first node has no candidate, so that the first part may lack rows and the ids' type."""
        model: LinkPredictor = request.getfixturevalue(which)
        path = tmp_path / f"links.{kind}"
        count = recommend_all(model, path, 2)
        whole = model.recommend(model.graph_.ids.take(range(20)), 2)
        assert count == len(whole) == 38
        rows = read(path)
        as_text = kind == "csv" or which == "mixed_model"
        names = [(str(r.source), str(r.target)) if as_text else (r.source, r.target) for r in whole]
        assert [(row["source"], row["target"]) for row in rows] == names
        assert [float(row["score"]) for row in rows] == pytest.approx([r.score for r in whole], rel=1e-6)
        assert [int(row["rank"]) for row in rows] == [r.rank for r in whole]
        assert [p.name for p in tmp_path.iterdir()] == [path.name]

    def test_a_part_without_rows(self, number_model: LinkPredictor, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(bulk, "_BLOCK", 1)
        recommend_all(number_model, tmp_path / "links.parquet", 2)
        assert pq.read_schema(tmp_path / "links.parquet").field("source").type == pa.int64()

    def test_goes_on_where_it_was_stopped(self, text_model: LinkPredictor, tmp_path: Path) -> None:
        path, straight, done = tmp_path / "links.csv", tmp_path / "straight.csv", []
        path.write_text("the old file")
        with pytest.raises(StoppedError, match="stopped after 9 of 20 nodes"):
            recommend_all(
                text_model, path, 2, on_progress=lambda d, n: done.append((d, n)), should_stop=lambda: len(done) == 3
            )
        assert done == [(3, 20), (6, 20), (9, 20)]
        assert path.read_text() == "the old file"
        first = tmp_path / "links.csv.parts" / "000000000000.parquet"
        written = first.stat().st_mtime_ns
        seen = []
        recommend_all(text_model, path, 2, on_progress=lambda d, n: seen.append(first.stat().st_mtime_ns))
        assert set(seen) == {written}, "finished parts are not made again"
        recommend_all(text_model, straight, 2)
        assert path.read_bytes() == straight.read_bytes()
        assert not (tmp_path / "links.csv.parts").exists()

    @pytest.mark.parametrize("other", ["k", "ids"])
    def test_parts_of_another_question_are_thrown_away(
        self, other: str, text_model: LinkPredictor, tmp_path: Path
    ) -> None:
        path, asked = tmp_path / "links.parquet", [0]

        def stop() -> bool:
            asked[0] += 1
            return asked[0] > 2

        with pytest.raises(StoppedError):
            recommend_all(text_model, path, 2, should_stop=stop)
        model = fitted([f"renamed{i}" for i in range(20)]) if other == "ids" else text_model
        assert np.array_equal(model.embeddings_, text_model.embeddings_), "the same model but for its ids"
        recommend_all(model, path, 1 if other == "k" else 2)
        whole = model.recommend(model.graph_.ids.take(range(20)), 1 if other == "k" else 2)
        assert [row["target"] for row in read(path)] == list(whole.targets)


class TestParts:
    """A name without an ending is a folder of Parquet parts."""

    def test_parts_hold_the_rows_of_one_call(self, text_model: LinkPredictor, tmp_path: Path) -> None:
        count = recommend_all(text_model, tmp_path / "links", 2, at_once=3)
        whole = text_model.recommend(text_model.graph_.ids.take(range(20)), 2)
        parts = sorted((tmp_path / "links").glob("*.parquet"))
        rows = [row for part in parts for row in read(part)]
        assert count == len(rows) == len(whole)
        assert [row["target"] for row in rows] == list(whole.targets)

    def test_goes_on_where_it_was_stopped(self, text_model: LinkPredictor, tmp_path: Path) -> None:
        folder, done = tmp_path / "links", []
        with pytest.raises(StoppedError, match="stopped after 6 of 20 nodes"):
            recommend_all(
                text_model, folder, 2, on_progress=lambda d, n: done.append(d), should_stop=lambda: len(done) == 2
            )
        written = {part.name: part.stat().st_mtime_ns for part in folder.glob("*.parquet")}
        recommend_all(text_model, folder, 2)
        assert len(written) == 2
        assert all((folder / name).stat().st_mtime_ns == time for name, time in written.items())

    def test_a_folder_of_something_else_is_left_alone(self, text_model: LinkPredictor, tmp_path: Path) -> None:
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "mine.txt").write_text("mine")
        with pytest.raises(StoreError, match="holds something else"):
            recommend_all(text_model, tmp_path / "links", 2)
        assert (tmp_path / "links" / "mine.txt").read_text() == "mine"
        with pytest.raises(StoreError, match="its folder does not exist"):
            recommend_all(text_model, tmp_path / "absent" / "links", 2)


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("links.txt", "needs to end in .parquet, .csv, .jsonl"),
            ("absent/links.csv", "does not exist"),
            ("folder.csv", "is a directory"),
        ],
    )
    def test_places_that_cannot_hold_rows(
        self, name: str, said: str, text_model: LinkPredictor, tmp_path: Path
    ) -> None:
        (tmp_path / "folder.csv").mkdir()
        for refuse in (
            lambda: check_rows_file(tmp_path / name),
            lambda: recommend_all(text_model, tmp_path / name, 1),
            lambda: write_rows(pa.table({"a": [1]}), tmp_path / name),
        ):
            with pytest.raises((InputError, StoreError), match=said):
                refuse()
        assert [p.name for p in tmp_path.iterdir()] == ["folder.csv"]

    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_rows_come_back(self, kind: str, tmp_path: Path) -> None:
        write_rows(pa.table({"id": ["a,b", 'q"q'], "score": [0.5, 1.5]}), tmp_path / f"rows.{kind}")
        rows = read(tmp_path / f"rows.{kind}")
        assert [row["id"] for row in rows] == ["a,b", 'q"q'] and [float(row["score"]) for row in rows] == [0.5, 1.5]


def ids_of_pairs(model: LinkPredictor, path: Path, source: Any = None, target: Any = None) -> list[list[Any]]:
    return [model.graph_.ids.take(pair) for pair in pairs_of(model.graph_, path, source, target)]


class TestQuestions:
    def test_text_from_a_csv_means_the_integer_id(self, number_model: LinkPredictor, tmp_path: Path) -> None:
        path = tmp_path / "pairs.csv"
        path.write_text("a,b\n100,101\n119,100\n", encoding="utf-8")
        assert ids_of_pairs(number_model, path) == [[100, 101], [119, 100]]

    def test_integers_of_a_parquet_file(self, number_model: LinkPredictor, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [100, 119], "b": [101, 100]}), tmp_path / "pairs.parquet")
        assert ids_of_pairs(number_model, tmp_path / "pairs.parquet") == [[100, 101], [119, 100]]

    @pytest.mark.parametrize(
        ("source", "target", "columns"),
        [
            (None, None, (1, 2)),
            ("x", None, (0, 2)),
            (None, "x", (1, 0)),
            ("to", None, (2, 1)),
            (None, "from", (2, 1)),
            ("2", "0", (2, 0)),
        ],
    )
    def test_columns(
        self, source: Any, target: Any, columns: tuple[int, int], text_model: LinkPredictor, tmp_path: Path
    ) -> None:
        path = tmp_path / "pairs.csv"
        path.write_text("x,from,to\nn1,n2,n3\n", encoding="utf-8")
        assert ids_of_pairs(text_model, path, source, target) == [[f"n{columns[0] + 1}", f"n{columns[1] + 1}"]]

    def test_unknown_and_missing_ids_are_named(self, text_model: LinkPredictor, tmp_path: Path) -> None:
        path = tmp_path / "ids.csv"
        path.write_text("id,x\nn1,1\nn99,2\n", encoding="utf-8")
        with pytest.raises(UnknownNodeError, match="node 'n99' is not in the graph"):
            candidates(text_model.graph_, path)
        path.write_text("id,x\nn1,1\n,2\n", encoding="utf-8")
        with pytest.raises(InputError, match="no id in row 2 of column 'id'"):
            candidates(text_model.graph_, path)
