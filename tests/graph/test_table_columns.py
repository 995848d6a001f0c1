"""What each column of a table becomes: missing values, identifiers, tokens, the report, and the remark on two kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from command_line import TINY, refused, works
from contracts import tiny
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.column_types import NA_VALUES, typed_column
from yinyan.graph.features import FeatureEncoder, SparseFeatures
from yinyan.graph.token_columns import find_separator, lists_in_text

MARKS = ["\\N", "NA", "N/A", "NULL", "null", "NaN", "None", "-", ""]
SIZE = 40
NAMES = [f"n{i}" for i in range(SIZE)]
EDGES = {
    "source": [NAMES[i] for i in range(SIZE) for _ in range(3)],
    "target": [NAMES[(i * step + step) % SIZE] for i in range(SIZE) for step in (1, 3, 7)],
}


def dense(features: Any) -> np.ndarray:
    return features.to_dense() if isinstance(features, SparseFeatures) else np.asarray(features)


def graph_of(feature_columns: list[str] | None = None, **columns: Any) -> Graph:
    return Graph.from_table(EDGES, nodes={"id": NAMES, **columns}, feature_columns=feature_columns)


def use_of(graph: Graph, name: str) -> tuple[str, str, int]:
    use = next(use for use in graph.columns if use.column == name and use.role not in ("source", "target"))
    return use.role, use.kind, use.size


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


AIRPORTS = {"number": range(SIZE), "code": NAMES, "size": [1.5 * (i % 7) for i in range(SIZE)]}


class TestIdColumn:
    """The edges name nodes by another column of the node table than the first: it is found by its content."""

    def test_the_column_that_has_the_ids_of_the_edges_is_taken(self) -> None:
        graph = Graph.from_table(EDGES, nodes=AIRPORTS)
        assert [use.column for use in graph.columns if use.role == "node id"] == ["code"]
        assert "columns: node id = 'code' of the node table (guessed)" in graph.notes
        assert graph.features is not None and graph.features.shape[0] == SIZE

    def test_a_column_that_was_named_is_used(self) -> None:
        with pytest.raises(InputError, match="node ids are text in the edge table and integers in the node table"):
            Graph.from_table(EDGES, nodes=AIRPORTS, node_id="number")

    def test_a_column_with_few_of_the_ids_is_not_taken(self) -> None:
        nodes = {"name": [f"x{i}" for i in range(SIZE)], "rival": [NAMES[i % 5] for i in range(SIZE)]}
        with pytest.raises(InputError, match=r"mentions 40 nodes .* that the node table lacks"):
            Graph.from_table(EDGES, nodes=nodes)


class TestMissing:
    @pytest.mark.parametrize("mark", MARKS)
    def test_every_usual_mark_in_numbers_and_in_text(self, mark: str, tmp_path: Path) -> None:
        edges = write(tmp_path / "edges.csv", "source,target\na,b\nb,c\nc,d\n")
        nodes = write(tmp_path / "nodes.csv", f"id,age,kind\na,1.5,x\nb,{mark},y\nc,3.5, {mark} \nd,2,x\n")
        graph = Graph.from_table(edges, nodes=nodes)
        assert dense(graph.features)[:, 1].tolist() == [0, 1, 0, 0], "age of b is missing"
        assert dense(graph.features)[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
        assert use_of(graph, "age") == ("feature", "numeric", 2)

    def test_frames_have_them_too(self) -> None:
        graph = graph_of(kind=["x", "y", "NA", None] * 10)
        assert use_of(graph, "kind") == ("feature", "categorical", 3)

    @pytest.mark.parametrize(("given", "missing"), [(["x"], 1), ((), 0), ([""], 0), (["x", "NA"], 2)])
    def test_na_values_replace_the_list(self, given: Any, missing: int, tmp_path: Path) -> None:
        edges = write(tmp_path / "edges.csv", "source,target\na,b\nb,c\nc,d\n")
        nodes = write(tmp_path / "nodes.csv", "id,kind\na,x\nb,NA\nc,y\nd,y\n")
        graph = Graph.from_table(edges, nodes=nodes, na_values=given, feature_columns=["kind"])
        plan = graph.feature_encoder.plans[0]  # type: ignore[union-attr]
        assert len(plan.categories) == 3 - missing and plan.has_missing == (missing > 0)

    @pytest.mark.parametrize("wrong", ["NA", [1], [None]])
    def test_other_values_are_refused(self, wrong: Any) -> None:
        with pytest.raises(InputError, match=r"'na_values' \(--na\) needs texts"):
            Graph.from_table(EDGES, na_values=wrong)

    @pytest.mark.parametrize("column", ["source", "target"])
    @pytest.mark.parametrize("mark", ["NA", "\\N", "-"])
    def test_a_missing_id_of_an_edge_is_refused_by_its_row(self, mark: str, column: str, tmp_path: Path) -> None:
        ends = {"source": ["a", "b", "c"], "target": ["b", "c", "d"]}
        ends[column][1] = mark
        rows = "".join(f"{a},{b}\n" for a, b in zip(*ends.values(), strict=True))
        path = write(tmp_path / "edges.csv", f"source,target\n{rows}")
        said = rf"edges.csv, column '{column}': the id in row 2 \(the first is 1\) is .*means a missing value.*--na ''"
        with pytest.raises(InputError, match=said):
            Graph.from_table(path)
        with pytest.raises(InputError, match="means a missing value"):
            Graph.from_table(ends, id_type="text")
        assert mark in Graph.from_table(path, na_values=()).ids
        assert mark in Graph.from_table(path, na_values=["?"]).ids

    def test_a_missing_id_of_a_node_table_is_refused_by_its_row(self) -> None:
        nodes = {"id": ["a", None, "b", "NULL"], "x": [1.5, 2.0, 3.0, 4.0]}
        with pytest.raises(InputError, match=r"the node table, column 'id': the id in row 4 .* is 'NULL'"):
            Graph.from_table({"u": ["a"], "v": ["b"]}, nodes=nodes)

    def test_integer_ids_name_the_row_as_well(self, tmp_path: Path) -> None:
        path = write(tmp_path / "edges.csv", "source,target\n1,2\nNA,3\n")
        with pytest.raises(InputError, match=r"row 2 .* is 'NA', which means a missing value"):
            Graph.from_table(path, id_type="integer")

    def test_an_empty_id_is_still_dropped_and_counted(self, tmp_path: Path) -> None:
        graph = Graph.from_table(write(tmp_path / "edges.csv", "source,target\na,b\n,c\n"))
        assert "dropped 1 row of edges.csv without both ends" in graph.notes

    def test_missing_weights_name_the_row(self, tmp_path: Path) -> None:
        path = write(tmp_path / "edges.csv", "source,target,weight\na,b,1\nb,c,\\N\n")
        with pytest.raises(InputError, match="weight 'weight' is missing in row 2"):
            Graph.from_table(path)

    def test_on_the_command_line(self, tmp_path: Path) -> None:
        rows = "".join(f"{a},{b}\n" for a, b in zip(*EDGES.values(), strict=True)).replace("n7,", "NA,")
        path = write(tmp_path / "edges.csv", f"source,target\n{rows}".replace(",n7\n", ",NA\n"))
        assert "is 'NA', which means a missing value" in refused("fit", path, "--out", tmp_path / "m", *TINY)
        works("fit", path, "--out", tmp_path / "m", *TINY, "--na", "", "-q")
        assert works("recommend", tmp_path / "m", "NA", "-k", "1", "--json").json[0]["source"] == "NA"

    def test_a_category_that_an_earlier_version_stored_stays_one(self) -> None:
        """Earlier versions took 'NA' in a column of text for a category, and stored no list of missing values."""
        encoder = FeatureEncoder.fit(pa.table({"kind": ["NA", "x", "x", "NA"]}), na_values=())
        form = encoder.to_dict()
        del form["na_values"]
        for plan in form["columns"]:
            del plan["separator"]
        old = FeatureEncoder.from_dict(form)
        assert dense(old.transform(pa.table({"kind": ["NA", "x", "-"]}))).tolist() == [[1, 0], [0, 1], [0, 0]]

    def test_the_list_is_stored_with_the_encoder(self) -> None:
        table = pa.table({"x": pa.array([1.5, None, 3.0, 7.0])})
        encoder = FeatureEncoder.fit(table, na_values=["void"])
        again = FeatureEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
        assert dense(again.transform(pa.table({"x": ["void", "1.5"]})))[:, 1].tolist() == [1, 0]
        with pytest.raises(InputError, match="needs numbers"):
            again.transform(pa.table({"x": ["NA", "1.5"]}))

    def test_dates_may_stand_as_text_outside_csv(self) -> None:
        """Numbers that were written as text stay text there: '007' is a code."""
        days = pa.chunked_array([["2024-05-31", "NA", "2024-06-01"]])
        assert pa.types.is_timestamp(typed_column(days, dates_only=True).type)
        assert pa.types.is_string(typed_column(pa.chunked_array([["007", "8"]]), dates_only=True).type)


class TestIdentifiers:
    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("number", list(range(1000, 1000 + SIZE))),
            ("account", np.random.default_rng(0).permutation(10**7)[:SIZE].tolist()),
            ("runs", [*range(20), *range(10**6, 10**6 + 20)]),  # serial numbers in two runs
            ("code", [float(i) for i in range(SIZE)]),  # pandas' integers with missing values
            ("nearly", [*range(SIZE - 1), 0]),
            ("customer_id", (np.arange(SIZE) ** 4).tolist()),  # by its name
        ],
    )
    def test_are_dropped_unless_named(self, name: str, values: list[Any]) -> None:
        graph = graph_of(**{name: values, "x": [i % 3 for i in range(SIZE)]})
        assert use_of(graph, name) == ("dropped", "", 0)
        assert any("an identifier" in note and repr(name) in note for note in graph.notes)
        assert use_of(graph_of([name], **{name: values}), name) == ("feature", "numeric", 1)

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("price", [i + 0.25 for i in range(SIZE)]),
            ("latitude", np.random.default_rng(0).uniform(-90, 90, SIZE).tolist()),
            ("population", (np.random.default_rng(0).lognormal(9, 2, SIZE)).astype(int).tolist()),
            ("views", (np.arange(SIZE) ** 4).tolist()),
            ("age", [i % 30 for i in range(SIZE)]),
            ("timestamp", list(range(1_600_000_000, 1_600_000_000 + SIZE * 3600, 3600))),
        ],
    )
    def test_quantities_stay(self, name: str, values: list[Any]) -> None:
        assert use_of(graph_of(**{name: values}), name) == ("feature", "numeric", 1)

    @pytest.mark.parametrize(("name", "role"), [("size", "feature"), ("key", "dropped"), ("row_id", "dropped")])
    def test_in_a_small_table_the_name_decides(self, name: str, role: str) -> None:
        graph = Graph.from_table({"u": ["a", "b"], "v": ["b", "c"]}, nodes={"id": ["a", "b", "c"], name: [4, 5, 6]})
        assert use_of(graph, name)[0] == role

    def test_a_mark_of_zero_and_one_is_no_identifier(self) -> None:
        nodes = {"id": ["a", "b"], "is_valid": [0, 1], "row_id": [0, 1]}
        graph = Graph.from_table({"u": ["a"], "v": ["b"]}, nodes=nodes)
        assert {use_of(graph, name)[1] for name in ("is_valid", "row_id")} == {"boolean"}

    def test_on_the_command_line(self, tmp_path: Path) -> None:
        edges = write(
            tmp_path / "e.csv", "source,target\n" + "".join(f"{a},{b}\n" for a, b in zip(*EDGES.values(), strict=True))
        )
        nodes = write(tmp_path / "n.csv", "id,key,x\n" + "".join(f"n{i},{i},{i % 3}\n" for i in range(SIZE)))
        said = works("fit", edges, "--nodes", nodes, "--out", tmp_path / "m", *TINY).err
        assert "columns    node id = 'id' of n.csv (guessed); numeric = 'x'; dropped = 'key'\n" in said
        said = works("fit", edges, "--nodes", nodes, "--feature", "key", "--out", tmp_path / "m", *TINY).err
        assert "numeric = 'key'; dropped = 'x'\n" in said


GENRES = ["a|b", "b", "a|c", "c|b|a", "a | b", "b|c", "a", "c"] * 5


class TestTokens:
    @pytest.mark.parametrize(
        "column",
        [
            [text.replace(" ", "").split("|") for text in GENRES],
            GENRES,
            [text.replace("|", ";") for text in GENRES],
            [text.replace("|", ", ") for text in GENRES],
            [repr(text.replace(" ", "").split("|")) for text in GENRES],
            [json.dumps(text.replace(" ", "").split("|")) for text in GENRES],
            [str(tuple(text.replace(" ", "").split("|"))) for text in GENRES],
        ],
        ids=["lists", "bar", "semicolon", "comma", "python", "json", "tuple"],
    )
    def test_become_one_column_each(self, column: list[Any]) -> None:
        graph = graph_of(genres=column)
        assert use_of(graph, "genres") == ("feature", "multi-hot", 3)
        rows = dict(zip(graph.ids.take(range(SIZE)), dense(graph.features).tolist(), strict=True))
        for name, text in zip(NAMES, GENRES, strict=True):
            assert rows[name] == [float(token in text) for token in "abc"]

    def test_missing_and_empty_lists_differ(self) -> None:
        column = [["a"], None, [], ["a", "b", "a"]]
        encoder = FeatureEncoder.fit(pa.table({"x": column}))
        assert dense(encoder.transform(pa.table({"x": column}))).tolist() == [
            [1, 0, 0],
            [0, 0, 1],
            [0, 0, 0],
            [1, 1, 0],
        ]
        assert encoder.notes == ("column 'x': 1 missing value marked in a further column",)

    def test_whole_numbers_in_lists_of_different_lengths_are_tokens(self) -> None:
        encoder = FeatureEncoder.fit(pa.table({"x": [[1, 20], [20], [3, 1, 20]]}))
        assert encoder.plans[0].categories == ("1", "20", "3")
        assert FeatureEncoder.fit(pa.table({"x": [[1, 20], [20, 1], [3, 1]]})).plans[0].kind == "vector"
        damaged = [[i] * 12 for i in range(20)] + [[1] * 11]
        with pytest.raises(InputError, match="lists of different lengths, first at row 21"):
            FeatureEncoder.fit(pa.table({"x": damaged}))

    def test_lists_of_numbers_in_text_are_vectors(self) -> None:
        table = pa.table({"x": ["[0.5, 1]", "[1.5, 2]", "[0, 3e2]"]})
        encoder = FeatureEncoder.fit(table)
        assert dense(encoder.transform(table)).tolist() == [[0.5, 1], [1.5, 2], [0, 300]]
        assert dense(encoder.transform(pa.table({"x": ["[4, 5]"]}))).tolist() == [[4, 5]]
        with pytest.raises(InputError, match="lists of 2 numbers"):
            encoder.transform(pa.table({"x": ["[4, 5, 6]"]}))
        with pytest.raises(InputError, match="needs lists of numbers"):
            encoder.transform(pa.table({"x": ["four"]}))

    @pytest.mark.parametrize("kind", ["lists", "text"])
    def test_many_are_hashed_sparse_and_binary(self, kind: str) -> None:
        generator = np.random.default_rng(0)
        lists = [[f"t{t}" for t in generator.choice(1500, 6, replace=False)] for _ in range(2000)]
        column: list[Any] = lists if kind == "lists" else ["|".join(tokens) for tokens in lists]
        encoder = FeatureEncoder.fit(pa.table({"x": column}))
        features = encoder.transform(pa.table({"x": column}))
        assert isinstance(features, SparseFeatures) and features.shape == (2000, 2048)
        assert encoder.plans[0].kind == "hashed" and set(features.values.tolist()) == {1.0}
        assert 5.9 < len(features.values) / 2000 <= 6  # two tokens of a row seldom share a column
        assert encoder.notes == ("column 'x': 1,499 distinct values hashed into 2,048 columns",)
        one = encoder.transform(pa.table({"x": column[3:4]}))
        assert np.array_equal(dense(one), dense(features)[3:4])

    def test_the_hash_is_the_same_in_every_process(self) -> None:
        code = (
            "import pyarrow as pa; from yinyan.graph.column_plans import ColumnPlan;"
            "from yinyan.graph.token_columns import token_codes;"
            "print(token_codes(ColumnPlan('x', 'hashed', 4096), pa.chunked_array([[['a', 'ł']]]))[1].tolist())"
        )
        found = {subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)}
        assert found == {"[968, 2112]\n"}, "a stored model depends on it"

    def test_a_frequent_category_of_many_values_is_hashed(self) -> None:
        column = [f"city {i % 1100}" for i in range(5500)]
        assert FeatureEncoder.fit(pa.table({"x": column})).plans[0].kind == "hashed"
        assert FeatureEncoder.fit(pa.table({"x": column[:5000]})).plans == (), "fewer than 5 rows per value"

    def test_tokens_that_hardly_recur_are_dropped_unless_named(self) -> None:
        column = [[f"t{i}", f"t{i + 1}"] for i in range(0, 2400, 2)] + [["t0"]]
        encoder = FeatureEncoder.fit(pa.table({"x": column}))
        assert not encoder.plans and "2,400 distinct tokens that hardly recur" in encoder.notes[0]
        assert FeatureEncoder.fit(pa.table({"x": column}), ["x"]).plans[0].kind == "hashed"

    @pytest.mark.parametrize(
        "column",
        [
            [f"{i % 9},{i // 9 % 9}" for i in range(81)],  # decimal commas
            [f"Name {i}, {'CH' if i % 2 else 'FR'}" for i in range(81)],
            [f"A study of topic {i} by method {i * 7}" for i in range(81)],
            [f"key{i}" for i in range(81)],
        ],
    )
    def test_other_text_is_not_taken_for_tokens(self, column: list[str]) -> None:
        assert find_separator(pa.chunked_array([column]), spaces=True) is None
        assert FeatureEncoder.fit(pa.table({"x": column})).plans == ()

    def test_words_of_free_text_only_if_named(self) -> None:
        titles = [f"On the Theory of {w}, part {i}!" for i, w in enumerate(["graphs", "energy", "links", "ties"] * 10)]
        assert use_of(graph_of(title=titles), "title") == ("label", "", 0)
        graph = graph_of(["title"], title=titles)
        assert use_of(graph, "title")[:2] == ("feature", "multi-hot")
        plan = graph.feature_encoder.plans[0]  # type: ignore[union-attr]
        assert {"theory", "graphs", "39"} <= set(plan.categories), "lower case, without punctuation"

    def test_words_that_are_tokens_need_no_name(self) -> None:
        generator = np.random.default_rng(0)
        column = [" ".join(generator.choice(["red", "green", "blue", "big", "old"], 4)) for _ in range(SIZE)]
        assert use_of(graph_of(words=column), "words") == ("feature", "multi-hot", 5)

    def test_categories_with_spaces_stay_categories(self) -> None:
        column = ["computer science", "data science", "life science", "computer music"] * 10
        assert use_of(graph_of(field=column), "field") == ("feature", "categorical", 4)

    def test_the_same_tokens_everywhere_are_dropped(self) -> None:
        assert "the same value in every row" in FeatureEncoder.fit(pa.table({"x": [["a", "b"], ["b", "a"]]})).notes[0]

    @pytest.mark.parametrize(
        ("text", "items"),
        [
            ("['it\\'s', \"b, c\", d]", ["it's", "b, c", "d"]),
            ("[]", []),
            ("[None, 'x', '']", ["x"]),
            ("['a' 'b']", ["a", "b"]),
        ],
    )
    def test_lists_written_as_text(self, text: str, items: list[str]) -> None:
        lists = lists_in_text(pa.chunked_array([[text, "['z']"]]))
        assert lists is not None and lists.to_pylist() == [items, ["z"]]

    def test_new_nodes_of_a_saved_model(self, tmp_path: Path) -> None:
        """As lists or as text, with an unknown token, and a missing value: as a node of the same cells in training."""
        generator = np.random.default_rng(0)
        words = [[f"w{w}" for w in generator.choice(1200, 80, replace=False)] for _ in range(SIZE)]
        nodes = {"id": NAMES, "genres": [*GENRES[:-1], None], "words": words, "x": ["1", "2.5", "NA", "4"] * 10}
        path = tmp_path / "nodes.jsonl"
        path.write_text(
            "".join(json.dumps(dict(zip(nodes, row, strict=True))) + "\n" for row in zip(*nodes.values(), strict=True))
        )
        graph = Graph.from_table(EDGES, nodes=path)
        assert [use.kind for use in graph.columns if use.role == "feature"] == ["multi-hot", "hashed", "categorical"]
        LinkPredictor(**tiny()).fit(graph).save(tmp_path / "model")
        model = LinkPredictor.load(tmp_path / "model")
        assert model.graph_.columns == graph.columns
        encoder = model.graph_.feature_encoder
        assert encoder == graph.feature_encoder and encoder is not None
        row = graph.ids.row("n3")
        given = {"genres": ["c|b|a"], "words": [words[3]], "x": ["4"]}
        assert np.array_equal(dense(encoder.transform(pa.table(given)))[0], dense(graph.features)[row])
        links = [(0, "n4"), (0, "n10")]
        expected = model.embed_new(None, given, links)
        for other in ({**given, "genres": [["a", "b", "c", "unknown"]]}, {**given, "genres": ["a|b|c"]}):
            assert np.allclose(model.embed_new(None, other, links), expected, atol=1e-6)
        assert not np.allclose(model.embed_new(None, {**given, "genres": ["a"]}, links), expected, atol=1e-6)
        model.embed_new(None, {**given, "x": ["NA"]}, links)
        with pytest.raises(InputError, match="column 'genres' needs text or lists of text"):
            model.embed_new(None, {**given, "genres": [1.5]}, links)


class TestReport:
    def graph(self) -> Graph:
        edges = {**EDGES, "weight": [1.0] * len(EDGES["source"]), "page": [1] * len(EDGES["source"])}
        nodes = {
            "id": NAMES,
            "age": [1.5 * (i % 9) for i in range(SIZE)],
            "kind": ["x", "y"] * 20,
            "ok": [True, False] * 20,
            "day": [f"2024-01-{i % 28 + 1:02d}" for i in range(SIZE)],
            "tags": GENRES,
            "place": [[float(i), 0.5] for i in range(SIZE)],
            "name": [f"name{i}" for i in range(SIZE)],
        }
        return Graph.from_table(edges, "source", nodes=nodes, time=False)

    def test_every_column_has_a_row(self) -> None:
        found = [(use.column, use.role, use.kind, use.size, use.note[:20]) for use in self.graph().columns]
        assert found == [
            ("source", "source", "", 0, ""),
            ("target", "target", "", 0, "guessed"),
            ("weight", "weight", "", 0, "guessed"),
            ("page", "dropped", "", 0, "no usual name of an "),
            ("id", "node id", "", 0, "guessed"),
            ("age", "feature", "numeric", 1, ""),
            ("kind", "feature", "categorical", 2, ""),
            ("ok", "feature", "boolean", 1, ""),
            ("day", "feature", "date", 1, ""),
            ("tags", "feature", "multi-hot", 3, ""),
            ("place", "feature", "vector", 2, ""),
            ("name", "label", "", 0, "guessed"),
        ]
        graph = self.graph()
        assert sum(use.size for use in graph.columns) == dense(graph.features).shape[1]

    def test_prints_and_converts(self) -> None:
        report = self.graph().columns
        assert len(repr(report).splitlines()) == 13 and "multi-hot" in repr(report)
        assert "<td>multi-hot</td>" in report._repr_html_()
        assert report.to_pandas().shape == (12, 6)
        assert ColumnReport.from_dicts(json.loads(json.dumps(report.to_dicts()))) == report
        assert report[:2] == ColumnReport(report.uses[:2]) and report[0].column == "source"
        assert repr(ColumnReport()) == "no tables were read"
        assert ColumnReport().to_pandas().shape == (0, 6)

    def test_one_line_per_table(self) -> None:
        assert self.graph().columns.lines() == [
            "target = 'target', weight = 'weight' (guessed); source = 'source'; dropped = 'page'",
            "node id = 'id' of the node table, label = 'name' (guessed); numeric = 'age'; categorical = 'kind'; "
            "boolean = 'ok'; date = 'day'; multi-hot = 'tags'; vector = 'place'",
        ]

    def test_a_guess_that_fails_is_dropped_with_its_reason(self) -> None:
        report = Graph.from_table({"u": ["a"], "v": ["b"], "value": ["high"]}).columns
        assert report[2].role == "dropped" and report[2].note == "holds no numbers"

    @pytest.mark.parametrize("form", [[{"table": "x"}], [{"table": "x", "column": "y", "role": 3}], [{"odd": 1}], [5]])
    def test_another_stored_form_is_refused(self, form: Any) -> None:
        with pytest.raises(InputError, match="not the stored form of a column report"):
            ColumnReport.from_dicts(form)

    def test_graphs_without_tables_have_none(self) -> None:
        assert len(Graph.from_arrays([(0, 1)]).columns) == 0

    def test_is_printed_by_check(self, tmp_path: Path) -> None:
        LinkPredictor(**tiny()).fit(self.graph()).save(tmp_path / "model")
        lines = works("check", tmp_path / "model").out.splitlines()
        start = lines.index("columns of the tables that the model was fitted on:")
        assert lines[start + 2].split() == ["table", "column", "role", "kind", "size", "note"]
        assert len(lines) - start - 3 == 12
        assert works("check", tmp_path / "model", "--json").json["columns"] == self.graph().columns.to_dicts()


class TestTwoKinds:
    def edges(self, first: str, second: str, shared: int = 0) -> dict[str, list[str]]:
        sources = [f"u{i % 30}" for i in range(300)]
        targets = [f"i{i // 2 % 150}" for i in range(300)]
        return {first: sources, second: [f"u{i}" if i < shared else t for i, t in enumerate(targets)]}

    def remark(self, edges: dict[str, Any], **options: Any) -> list[str]:
        return [note for note in Graph.from_table(edges, **options).notes if "is the graph bipartite?" in note]

    @pytest.mark.parametrize("names", [("source", "target"), ("user", "item"), ("a", "b")])
    def test_disjoint_ids_are_remarked(self, names: tuple[str, str]) -> None:
        said = f"columns {names[0]!r} and {names[1]!r} share no id: is the graph bipartite? "
        assert self.remark(self.edges(*names)) == [f"{said}Then pass bipartite=True (--bipartite)"]
        assert self.remark(self.edges(*names), bipartite=True) == []

    def test_names_are_a_hint_where_ids_are_equal(self) -> None:
        numbers = {"user_id": [1, 2, 3, 1], "item_id": [2, 3, 1, 3]}
        (said,) = self.remark(numbers)
        assert 'prefixes=("user:", "item:") (--bipartite --prefixes user:,item:)' in said
        assert Graph.from_table(numbers, bipartite=True, prefixes=("user:", "item:")).num_edges == 4
        (said,) = self.remark({"movie": [1, 2, 3, 1], "user": [2, 3, 1, 3]}, source="movie", target="user")
        assert "--prefixes movie:,user:" in said
        assert self.remark({"source": [1, 2, 3, 1] * 9, "target": [2, 3, 1, 3] * 9}) == []

    @pytest.mark.parametrize(("shared", "count"), [(0, 1), (1, 0)])
    def test_almost_none(self, shared: int, count: int) -> None:
        few = {"a": [f"u{i}" for i in range(200)], "b": [f"i{i}" for i in range(200)]}
        few["b"][:shared] = few["a"][:shared]
        assert len(self.remark(few)) == 1, "1 id of 200"
        assert len(self.remark(self.edges("a", "b", shared))) == count, "1 id of 30"

    def test_few_edges_are_not_remarked(self) -> None:
        assert self.remark({"u": ["a"] * 19, "v": ["b"] * 19}) == []
        assert len(self.remark({"u": ["a"] * 20, "v": ["b"] * 20})) == 1

    def test_on_the_command_line(self, tmp_path: Path) -> None:
        rows = zip(*self.edges("user", "item").values(), strict=True)
        path = write(tmp_path / "edges.csv", "user,item\n" + "".join(f"{a},{b}\n" for a, b in rows))
        said = works("fit", path, "--out", tmp_path / "m", *TINY).err
        assert "is the graph bipartite? Then pass bipartite=True (--bipartite)" in said
        said = works("fit", path, "--out", tmp_path / "m", *TINY, "--bipartite").err
        assert "bipartite?" not in said


def test_the_usual_marks_are_those_of_the_documentation() -> None:
    assert set(MARKS) <= set(NA_VALUES)
