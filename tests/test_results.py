"""Results: small tables that print well and convert, in the caller's ids."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pytest

from yinyan.errors import MissingExtraError
from yinyan.results import (
    Contribution,
    Explanation,
    Id,
    Recommendation,
    Recommendations,
    id_column,
    text_table,
)


def table(sources: list[Id], targets: list[Id]) -> Recommendations:
    count = len(sources)
    scores = np.linspace(1, 0, count, dtype=np.float32)
    return Recommendations(tuple(sources), tuple(targets), scores, np.arange(1, count + 1))


@pytest.fixture
def three() -> Recommendations:
    return table(["u1"] * 3, ["a", "b", "c"])


def test_reads_as_a_table(three: Recommendations) -> None:
    assert repr(three) == (
        "source  target  score  rank\n"
        "u1      a       1.000     1\n"
        "u1      b       0.500     2\n"
        "u1      c       0.000     3"
    )


def test_long_answers_are_cut() -> None:
    long = table(list(range(1225)), list(range(1225)))
    lines = repr(long).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "… and 1,205 more rows"
    assert len(repr(long[:20]).splitlines()) == 21


def test_rows_by_index(three: Recommendations) -> None:
    assert len(three) == 3
    assert three[1] == Recommendation("u1", "b", 0.5, 2)
    assert three[-1] == three[2]
    assert isinstance(three[0].score, float) and isinstance(three[0].rank, int)
    assert [row.target for row in three] == ["a", "b", "c"]
    assert three[1] in three
    assert [row.target for row in reversed(three)] == ["c", "b", "a"]
    for index in (3, -4):
        with pytest.raises(IndexError):
            three[index]


def test_slices_are_tables(three: Recommendations) -> None:
    part = three[1:]
    assert isinstance(part, Recommendations)
    assert list(part) == [three[1], three[2]]
    assert part.scores.dtype == np.float32
    assert list(three[::-1]) == list(reversed(three))
    assert len(three[5:]) == 0


def test_arrow_keeps_types(three: Recommendations) -> None:
    arrow = three.to_arrow()
    assert arrow.schema == pa.schema(
        [("source", pa.large_string()), ("target", pa.large_string()), ("score", pa.float32()), ("rank", pa.int64())]
    )
    assert arrow.to_pylist()[1] == {"source": "u1", "target": "b", "score": 0.5, "rank": 2}
    numbers = table([1, 1], [2, 2**40]).to_arrow()
    assert numbers.schema.field("target").type == pa.int64()
    assert numbers["target"].to_pylist() == [2, 2**40]


def test_mixed_and_huge_ids_become_text_in_arrow() -> None:
    assert table([7, "7"], ["007", 1]).to_arrow()["source"].to_pylist() == ["7", "7"]
    assert id_column([1, 2**80]).to_pylist() == ["1", str(2**80)]
    assert id_column([1, 2**80]).type == pa.large_string()


def test_pandas_keeps_ids_apart() -> None:
    pytest.importorskip("pandas")
    frame = table([7, "7"], ["007", 1]).to_pandas()
    assert list(frame.columns) == ["source", "target", "score", "rank"]
    assert frame["source"].tolist() == [7, "7"]
    assert frame["score"].dtype == np.float32
    assert frame["rank"].dtype == np.int64
    assert table([1], [2]).to_pandas()["target"].dtype == np.int64


def test_pandas_is_named_where_it_is_absent(three: Recommendations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="to_pandas needs pandas: pip install pandas"):
        three.to_pandas()


def test_nothing_found_is_an_empty_table() -> None:
    empty = table([], [])
    assert len(empty) == 0
    assert list(empty) == []
    assert repr(empty) == "no links to recommend"
    assert empty.to_arrow().num_rows == 0
    assert empty.to_arrow().column_names == ["source", "target", "score", "rank"]
    assert "<tbody></tbody>" in empty._repr_html_()
    pytest.importorskip("pandas")
    assert empty.to_pandas().shape == (0, 4)


def test_html_is_escaped() -> None:
    page = table(["<script>alert(1)</script>"], ['"&"'])._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&quot;&amp;&quot;" in page
    assert page.count("<tr>") == 2


def test_line_breaks_do_not_break_a_table() -> None:
    assert repr(table(["a\nb"], ["c\r\nd"])).splitlines()[1].startswith("a\\nb")
    assert len(text_table(["x"], [["1\n2"], ["3"]]).splitlines()) == 3


def test_columns_are_aligned() -> None:
    assert text_table(["name", "n"], [["a", "100"], ["long one", "7"]], right=(1,)).splitlines() == [
        "name        n",
        "a         100",
        "long one    7",
    ]


@pytest.fixture
def told() -> Explanation:
    parts = (Contribution("a", "c", "attracts", 0.5), Contribution("b", None, "repels", -0.125))
    return Explanation("a", "b", 1.375, 1.0, parts, 0.0, True, 0.75, 0.5)


def test_an_explanation_reads_as_a_story(told: Explanation) -> None:
    assert repr(told) == (
        "a – b: score 1.375, probability 0.750 at a base rate of 50 %\n"
        "this edge is in the graph; without any message to or from either end the score would be 1.000\n"
        "end            neighbour        change of the score\n"
        "a    attracts  c                             +0.500\n"
        "b    repels    all other nodes               -0.125"
    )


def test_long_explanations_are_cut() -> None:
    parts = tuple(Contribution("a", row, "attracts", 1.0) for row in range(30))
    told = Explanation("a", "b", 1.0, 0.0, parts, 0.0, False)
    assert repr(told).splitlines()[-1] == "… and 10 smaller ones"
    assert "probability" not in repr(told)


def test_explanations_are_plain_in_json(told: Explanation) -> None:
    form = json.loads(json.dumps(told.to_dict()))
    assert form["contributions"][1] == {
        "end": "b", "neighbour": None, "kind": "repels", "amount": -0.125, "label": None
    }  # fmt: skip

    assert form["probability"] == 0.75 and form["is_link"] is True


def test_wide_and_combining_characters_keep_columns_straight() -> None:
    table = text_table(["id", "n"], [["日本", "1"], ["e\u0301", "2"], ["ab", "3"]], right=(1,))
    assert table.splitlines() == ["id    n", "日本  1", "e\u0301     2", "ab    3"]
