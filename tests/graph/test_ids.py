"""Ids: opaque, typed, and the same after a round trip."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.ids import Ids

text_ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integer_ids = st.integers(-(2**70), 2**70)
any_ids = st.one_of(st.lists(st.integers(-50, 50)), st.lists(text_ids), st.lists(st.one_of(text_ids, integer_ids)))


def typed(values: list[Any]) -> list[tuple[type, Any]]:
    return [(type(value), value) for value in values]


@settings(deadline=None, max_examples=60)
@given(any_ids)
def test_encode_take_and_find_are_inverse(values: list[Any]) -> None:
    ids, (rows,) = Ids.encode(values)
    assert typed(ids.take(rows)) == typed(values)
    assert typed(ids.take(range(len(ids)))) == list(dict.fromkeys(typed(values)))
    assert np.array_equal(ids.find(values), rows)


@settings(deadline=None, max_examples=60)
@given(any_ids, any_ids)
def test_find_gives_minus_one_for_unknown_ids_however_many(values: list[Any], others: list[Any]) -> None:
    ids, _ = Ids.encode(values)
    known = typed(ids.take(range(len(ids))))
    expected = [known.index(key) if key in known else -1 for key in typed(others)]
    assert ids.find(others).tolist() == expected
    assert ids.find(others * 70).tolist() == expected * 70  # past the limit of the binary search


@settings(deadline=None, max_examples=60)
@given(any_ids)
def test_parquet_round_trip(values: list[Any]) -> None:
    ids, _ = Ids.encode(values)
    file = io.BytesIO()
    pq.write_table(ids.to_arrow(), file)
    again = Ids.from_arrow(pq.read_table(file))
    assert again == ids
    assert typed(again.take(range(len(again)))) == typed(ids.take(range(len(ids))))


@settings(deadline=None, max_examples=60)
@given(any_ids, any_ids)
def test_concat_appends_or_refuses(first: list[Any], second: list[Any]) -> None:
    left, right = Ids.encode(first)[0], Ids.encode(second)[0]
    before, after = typed(left.take(range(len(left)))), typed(right.take(range(len(right))))
    if set(before) & set(after):
        with pytest.raises(InputError, match="already in the graph"):
            left.concat(right)
    else:
        both = left.concat(right)
        assert typed(both.take(range(len(both)))) == before + after


def test_three_nodes_that_look_alike() -> None:
    ids = Ids.from_values(["007", 7, "7"])
    assert ids.kind == "mixed"
    assert [ids.row("007"), ids.row(7), ids.row("7")] == [0, 1, 2]
    assert [ids[0], ids[1], ids[-1]] == ["007", 7, "7"]
    assert 7 in ids
    assert 8 not in ids
    assert True not in ids


def test_a_text_and_an_integer_column_are_mixed() -> None:
    ids, (source, target) = Ids.encode(pa.array(["a", "7", None]), pa.chunked_array([[7], [8, 7]]))
    assert ids.kind == "mixed"
    assert source.tolist() == [0, 1, -1]
    assert target.tolist() == [2, 3, 2]
    assert ids.take([0, 1, 2, 3]) == ["a", "7", 7, 8]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (np.array([3, 1], dtype=np.int16), "integer", [3, 1]),
        (np.array([3, 2**64 - 1], dtype=np.uint64), "mixed", [3, 2**64 - 1]),
        (np.array(["b", "a"]), "text", ["b", "a"]),
        ([np.int32(3), np.str_("x")], "mixed", [3, "x"]),
        (pa.array(["b", "a"]).dictionary_encode(), "text", ["b", "a"]),
        (pa.array(["b", "a"], pa.string_view()), "text", ["b", "a"]),
        (pa.chunked_array([[5], [6]], pa.uint8()), "integer", [5, 6]),
        ((x for x in ("p", "q")), "text", ["p", "q"]),
    ],
)
def test_columns_of_many_kinds(values: Any, kind: str, expected: list[Any]) -> None:
    ids = Ids.from_values(values)
    assert ids.kind == kind
    assert ids.is_text == (kind == "text")
    assert typed(ids.take(range(len(ids)))) == typed(expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([True], "got True, a bool"),
        ([1.0], "got 1.0, a float"),
        ([(0, 1)], r"got \(0, 1\), a tuple.*relabel"),
        ([None, "a"], "id number 1 is missing"),
        (["a", "b", "a"], "id 'a' occurs more than once"),
        ([7, "7", 7], "id 7 occurs more than once"),
        (["ok", "bad\ud800"], "lone surrogate"),
        ([7, "bad\udfff"], "lone surrogate"),
        (np.array([1.5]), "floating-point.*Int64"),
        (np.array([True]), "type bool"),
        (pa.array([b"x"]), "type binary"),
        ("abc", "a list or column"),
        (5, "a list or column"),
    ],
)
def test_bad_ids_are_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ids.from_values(values)


def test_unknown_nodes_are_named_with_their_neighbours() -> None:
    ids = Ids.from_values([f"u{number}" for number in (1, 170, 25)] + ["zebra"])
    with pytest.raises(UnknownNodeError, match=r"node 'u17' is not in the graph \(4 nodes; nearest: 'u170', 'u1'"):
        ids.row("u17")
    with pytest.raises(UnknownNodeError, match="node 'Q' is not in the graph \\(4 nodes\\)"):
        ids.rows(["u1", "Q"])
    with pytest.raises(UnknownNodeError, match="missing"):
        ids.rows(["u1", None])


def test_rows_of_any_iterable() -> None:
    ids = Ids.from_values(["a", "b"])
    for wanted in ({"b"}, (x for x in ["b"]), np.array(["b"]), pa.chunked_array([["b"]]), ["b"]):
        assert ids.rows(wanted).tolist() == [1]
    with pytest.raises(UnknownNodeError, match="node 'c'"):
        ids.rows({"c"})


def test_the_other_type_of_the_same_spelling_is_named() -> None:
    with pytest.raises(UnknownNodeError, match=r"node 7 .*but '7' \(text\) is: ids read from CSV are text"):
        Ids.from_values(["7"]).row(7)
    with pytest.raises(UnknownNodeError, match=r"node '7' .*but 7 \(an integer\) is"):
        Ids.integers(9).row("7")


def test_parse_prefers_text() -> None:
    mixed = Ids.from_values(["7", 7, 8])
    assert typed([mixed.parse("7"), mixed.parse("8")]) == typed(["7", 8])
    assert Ids.from_values([-3]).parse("-3") == -3
    for text in ("007", "8.0", "", "-", "²"):
        with pytest.raises(UnknownNodeError):
            Ids.integers(9).parse(text)


def test_extended_keeps_rows_and_changes_type_if_it_must() -> None:
    ids = Ids.integers(3)
    assert ids.extended([7, 9]).take([0, 3, 4]) == [0, 7, 9]
    assert ids.extended(["2"]).take([2, 3]) == [2, "2"]
    assert ids.extended([]) == ids
    assert len(ids) == 3
    with pytest.raises(InputError, match="node 2 is already"):
        ids.extended([5, 2])


def test_select_and_out_of_range_rows() -> None:
    ids = Ids.from_values(["a", "b", "c"])
    assert ids.select([2, 0]) == Ids.from_values(["c", "a"])
    with pytest.raises(InputError, match="more than once"):
        ids.select([1, 1])
    for rows in ([3], [-1]):
        with pytest.raises(InputError, match="out of range"):
            ids.take(rows)
    with pytest.raises(IndexError):
        ids[3]


def test_equality_and_repr() -> None:
    assert Ids.integers(2) == Ids.from_values([0, 1])
    assert Ids.integers(2) != Ids.from_values(["0", "1"])
    assert Ids.integers(2) != [0, 1]
    assert repr(Ids.from_values(["a", "b", "c", "d"])) == "Ids(4 text: 'a', 'b', 'c', ...)"


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"name": ["a"]}),
        pa.table({"id": ["a", "a"]}),
        pa.table({"id": ["a", "x"], "is_text": [True, False]}),
        pa.table({"id": ["1", "1"], "is_text": [False, False]}),
        pa.table({"id": ["1", None], "is_text": [False, True]}),
        pa.table({"id": ["1"], "is_text": ["yes"]}),
    ],
)
def test_damaged_stored_ids_are_refused(table: pa.Table) -> None:
    with pytest.raises(InputError):
        Ids.from_arrow(table)


def test_a_large_graph_answers_quickly() -> None:
    ids = Ids.from_values(pa.array([f"node-{number:07d}" for number in range(300_000)]))
    ids.row("node-0000001")  # makes the sort order
    before = time.perf_counter()
    assert ids.row("node-0123456") == 123_456
    assert ids.nearest("node-012345", k=2) == ["node-0123450", "node-0123451"]
    assert "node-0123456" in ids.nearest("node-01234567")
    assert len(ids.nearest("nodde-0123456")) == 3
    assert time.perf_counter() - before < 2
    numbers = Ids.integers(300_000)
    assert 123_456 in numbers.nearest(1_234_567)


@pytest.mark.parametrize("more", [[], [7], [f"node-{i:06}" for i in range(5000)]])
def test_an_id_in_other_case_is_suggested(more: list[Any]) -> None:
    """'ghe' was unknown, and nothing was said of 'GHE'."""
    ids = Ids.from_values(["GHE", "m5@enron.com", *more])
    with pytest.raises(UnknownNodeError, match=r"node 'ghe' is not in the graph \(.* nodes; nearest: 'GHE'\)"):
        ids.row("ghe")
    assert ids.nearest("M5@ENRON.com")[0] == "m5@enron.com"
    assert ids.nearest("GHE") == []
