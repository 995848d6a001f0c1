"""Attributes of nodes: which columns are kept, which is the label, and which node a label stands for."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from yinyan import Graph
from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph import attributes
from yinyan.graph.attributes import Attributes, comparable_column, kept_attributes, stored_column
from yinyan.graph.labels import LabelFinder, guess_label, rows_of_texts

RING = {"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]}
PEOPLE = {
    "id": ["a", "b", "c", "d"],
    "name": ["Ada", "Bob", "Cyd", "Dan"],
    "year": [1990, None, 2005, 2010],
    "country": ["DE", "DE", "FR", "FR"],
    "vector": [[0.0, 1.0]] * 3 + [[1.0, 0.0]],
}


def columns(**given: list[Any]) -> dict[str, pa.ChunkedArray]:
    return {name: pa.chunked_array([values]) for name, values in given.items()}


# -- the label -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"code": ["x1", "x2", "x3"], "name": ["Ada", "Bob", "Cyd"]}, "name"),  # a usual name comes first
        ({"city": ["Rome", "Rome", "Bonn"], "motto": ["la", "le", "lu"]}, "motto"),  # else by content
        ({"Full Name": ["Ada", "Bob", "Cyd"]}, "Full Name"),
        ({"name": ["Ada", "Ada", "Bob", "Cyd"]}, "name"),  # people share names
        ({"label": ["cat", "dog", "cat", "dog", "cat", "dog"]}, None),  # classes are no labels
        ({"year": [1, 2, 3]}, None),  # numbers are none
        ({"abstract": ["long " * 40 + str(i) for i in range(3)], "who": ["a", "b", "c"]}, "who"),
        ({"link": ["http://a", "http://b", "http://c"]}, None),
        ({"note": ["x", None, None, None]}, None),  # most rows have none
        ({}, None),
    ],
)
def test_the_label_is_unique_text(given: dict[str, list[Any]], wanted: str | None) -> None:
    assert guess_label(columns(**given)) == wanted


def test_the_guess_is_noted_and_the_label_is_no_feature() -> None:
    graph = Graph.from_table(RING, nodes=PEOPLE)
    assert "columns: node id = 'id', label = 'name' of the node table (guessed)" in graph.notes
    assert not any("skipped" in note for note in graph.notes)
    assert graph.label_column == "name" and graph.labels_of([3, 0]) == ["Dan", "Ada"]
    assert "labels 'name'" in graph.describe().splitlines()[0]


@pytest.mark.parametrize(("label", "wanted"), [("country", ["DE", "FR"]), (2, ["1990", "2005"]), (False, None)])
def test_the_label_as_chosen(label: Any, wanted: list[str] | None) -> None:
    graph = Graph.from_table(RING, nodes=PEOPLE, label=label)
    assert graph.labels_of([0, 2]) == wanted
    assert "year" in (graph.attributes or pytest.fail("no attributes")).names


def test_a_label_needs_a_node_table_and_a_column() -> None:
    with pytest.raises(InputError, match=r"pass nodes= \(--nodes\) as well"):
        Graph.from_table(RING, label="name")
    with pytest.raises(InputError, match=r"there is no label column 'nam'.*nearest: 'name'"):
        Graph.from_table(RING, nodes=PEOPLE, label="nam")


# -- what is kept --------------------------------------------------------------------------------------------


def test_columns_of_plain_values_are_kept() -> None:
    graph = Graph.from_table(RING, nodes=PEOPLE)
    assert graph.attributes is not None and graph.attributes.names == ["name", "year", "country"]
    assert graph.attributes.shown(1) == {"name": "Bob", "country": "DE"}
    assert graph.attributes.shown(9) == {}


@pytest.mark.parametrize(("chosen", "kept"), [(["year"], ["name", "year"]), (False, ["name"]), (None, None)])
def test_attributes_as_chosen(chosen: Any, kept: list[str] | None) -> None:
    graph = Graph.from_table(RING, nodes=PEOPLE, attributes=chosen)
    assert graph.attributes is not None
    assert graph.attributes.names == (kept or ["name", "year", "country"])
    assert graph.label_column == "name"
    none = Graph.from_table(RING, nodes=PEOPLE, attributes=False, label=False)
    assert none.attributes is None and none.features is not None


def test_attributes_that_cannot_be_kept() -> None:
    with pytest.raises(InputError, match="'vector' holds none"):
        Graph.from_table(RING, nodes=PEOPLE, attributes=["vector"])
    with pytest.raises(InputError, match="holds the node ids"):
        Graph.from_table(RING, nodes=PEOPLE, attributes=["id"])
    with pytest.raises(InputError, match="there is no attribute column 'yeer'"):
        Graph.from_table(RING, nodes=PEOPLE, attributes=["yeer"])


def test_wide_tables_are_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = columns(**{f"c{i}": [i, i + 1] for i in range(70)}, name=["x", "y"])
    kept, notes = kept_attributes(wide, "name")
    assert kept is not None and len(kept.names) == attributes.MOST_COLUMNS and "name" in kept.names
    assert len(notes) == 1 and notes[0].startswith("attributes: 7 columns are not kept")
    monkeypatch.setattr(attributes, "MOST_BYTES", 40)
    few, _ = kept_attributes(wide, "name")
    assert few is not None and "name" in few.names and len(few.names) < 4
    named, notes = kept_attributes(wide, None, wide)
    assert named is not None and len(named.names) == 71 and not notes


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", "c"], pa.large_string()),
        (["a", "a", "a"], pa.dictionary(pa.int32(), pa.large_string())),
        ([1, None], pa.int64()),
        (np.array([2**63, 1], dtype=np.uint64), pa.float64()),
        ([1.5], pa.float64()),
        ([True], pa.bool_()),
        ([datetime.date(2020, 1, 2)], pa.timestamp("us")),
        ([[1]], None),
        ([datetime.timedelta(1)], None),
    ],
)
def test_types_that_are_kept(values: Any, kind: pa.DataType | None) -> None:
    column = stored_column(pa.chunked_array([pa.array(values)]))
    assert (None if column is None else column.type) == kind
    if column is not None:
        comparable = comparable_column(column)
        assert comparable.missing.tolist() == [value is None for value in values]


def test_csv_keeps_leading_zeros_and_types(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,zip,year,title\na,01234,1990,007\nb,99999,2000,x\nc,00001,2010,y\n")
    graph = Graph.from_table(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    assert graph.attributes is not None
    assert graph.attributes.shown(0) == {"zip": "01234", "year": 1990, "title": "007"}
    assert graph.label_column == "title"


def test_attributes_follow_rows() -> None:
    """Nodes of side 1 come last, whatever their order was."""
    graph = Graph.from_arrays(
        [("i", "u"), ("j", "u")], ids=["i", "u", "j"], sides=[1, 0, 1], attributes={"name": ["I", "U", "J"]}
    )
    assert graph.ids.take(range(3)) == ["u", "i", "j"]
    assert graph.labels_of(range(3)) == ["U", "I", "J"]
    with pytest.raises(InputError, match=r"'attributes' needs one row per node: 2 \(got 3\)"):
        Graph.from_arrays([(0, 1)], attributes={"name": ["I", "U", "J"]})
    with pytest.raises(InputError, match="pass a table of these as well"):
        Graph.from_arrays([(0, 1)], label="name")
    assert Graph.from_arrays([(0, 1)], attributes={"name": ["I", "U"]}, label=False).label_column is None


def test_networkx_attributes_come_and_go() -> None:
    nx = pytest.importorskip("networkx")
    given = nx.Graph()
    given.add_node(1, name="Ada", odd=[1], mixed="x")
    given.add_node(2, name="Bob", mixed=3)
    given.add_edge(1, 2, weight=2.0)
    graph = Graph.from_networkx(given)
    assert graph.attributes is not None and graph.attributes.names == ["name"] and graph.label_column == "name"
    assert Graph.from_networkx(given, label=False).label_column is None
    with pytest.raises(InputError, match="no node has the attribute 'title'"):
        Graph.from_networkx(given, label="title")
    back = graph.to_networkx()
    assert back.nodes[1] == {"name": "Ada"} and back.edges[1, 2] == {"weight": 2.0}
    directed = Graph.from_arrays([(0, 1)], directed=True, times=[5]).to_networkx()
    assert directed.is_directed() and directed.edges[0, 1] == {"time": 5}
    sides = Graph.from_arrays([(0, 1)], sides=[0, 1]).to_networkx()
    assert dict(sides.nodes(data="bipartite")) == {0: 0, 1: 1}


def test_edges_as_a_data_frame() -> None:
    pytest.importorskip("pandas")
    frame = Graph.from_table({**RING, "weight": [1, 2, 3, 4]}).to_pandas()
    assert frame.columns.tolist() == ["source", "target", "weight"]
    assert frame.iloc[0].tolist() == ["a", "b", 1.0]


# -- a table beside the graph --------------------------------------------------------------------------------


def test_labels_from_a_table() -> None:
    graph = Graph.from_table(RING)
    named = graph.with_attributes({"key": ["zz", "b", "a"], "text": ["Z", "B", "A"], "n": [1, 2, 3]})
    assert named.labels_of(range(4)) == ["A", "B", None, None]  # the id column was found by its content
    assert named.with_attributes(None).attributes is None and graph.attributes is None
    chosen = graph.with_attributes({"id": ["a", "b"], "x": ["p", "q"], "y": ["r", "s"]}, label="y")
    assert chosen.labels_of([0]) == ["r"]
    assert graph.with_attributes({"id": ["x", "y"], "k": ["a", "b"]}, node_id="k", label="id").labels_of([0]) == ["x"]
    with pytest.raises(InputError, match=r"no id in column 'id'.* is a node"):
        graph.with_attributes({"id": ["x", "y"], "name": ["p", "q"]})
    with pytest.raises(InputError, match="has one column"):
        graph.with_attributes({"id": ["a", "b"]})


def test_ids_of_a_table_of_text_and_of_numbers() -> None:
    numbers = Graph.from_arrays([(0, 1), (1, 2)])
    assert numbers.with_attributes({"id": ["0", "1", "x"], "name": ["A", "B", "C"]}).labels_of([0, 2]) == ["A", None]
    texts = Graph.from_arrays([("0", "1")])
    assert texts.with_attributes({"id": [0, 1], "name": ["A", "B"]}).labels_of([1]) == ["B"]


# -- by label ------------------------------------------------------------------------------------------------


@pytest.fixture
def named() -> Graph:
    labels = ["Ada", "bob", "Bob", "Same", "Same", None, "7", "n0"]
    ids = [f"n{i}" for i in range(8)]
    return Graph.from_arrays([(0, 1)], ids=ids, attributes={"name": labels}, label="name")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("n3", 3),
        ("Ada", 0),
        ("aDA", 0),
        ("bob", 1),
        ("Bob", 2),
        ("7", 6),
        ("n0", 0),  # an id wins over a label
        ("N7", None),
        ("BOB", None),
        ("Same", None),
    ],
)
def test_an_id_then_the_exact_label_then_its_spelling(named: Graph, name: str, row: int | None) -> None:
    if row is None:
        with pytest.raises((InputError, UnknownNodeError)):
            named.rows_of([name])
    else:
        assert named.rows_of([name, "n1"]).tolist() == [row, 1]
        assert named.parse(name) == f"n{row}"


def test_an_ambiguous_label_lists_its_nodes(named: Graph) -> None:
    with pytest.raises(InputError, match=r"the label 'Same' is that of 2 nodes: give an id \('n3', 'n4'\)"):
        named.rows_of(["Same"])
    with pytest.raises(InputError, match=r"the label 'BOB' is that of 2 nodes: give an id \('n1', 'n2'\)"):
        named.parse("BOB")
    many = Graph.from_arrays([(0, 1)], num_nodes=9, attributes={"name": ["x"] * 9, "y": [1] * 9}, label="name")
    with pytest.raises(InputError, match=r"\(0, 1, 2, 3, 4 and 4 more\)"):
        many.rows_of(["x"])


def test_an_unknown_name_gets_the_nearest_ids_and_labels(named: Graph) -> None:
    with pytest.raises(UnknownNodeError, match=r"node 'Adda' is not in the graph .*nearest labels: 'Ada' \(id 'n0'\)"):
        named.rows_of(["Adda"])
    with pytest.raises(UnknownNodeError, match=r"nearest: 'n[0-7]'"):
        named.rows_of(["n33"])
    assert rows_of_texts(named, ["Adda", "n1", "ada"], refuse=False).tolist() == [-1, 1, 0]


def test_text_may_mean_an_integer_id_before_a_label() -> None:
    graph = Graph.from_arrays([(0, 1)], attributes={"name": ["1", "x"]}, label="name")
    assert graph.parse("1") == 1 and graph.parse("x") == 1
    assert graph.rows_of(["1"]).tolist() == [0]  # in Python '1' is no id here, and so it is the label


def test_the_nearest_labels_of_many() -> None:
    finder = LabelFinder(pa.array([f"Paper number {i}" for i in range(5_000)], pa.large_string()))
    assert ("Paper number 4321", 4321) in finder.nearest("paper number 4321", 1)
    assert finder.find(["PAPER NUMBER 12"]) == {"PAPER NUMBER 12": [12]}
    newer = finder.extended([(5_000, "New one")])
    assert newer.find(["new ONE", "New one"]) == {"new ONE": [5_000], "New one": [5_000]}
    assert newer.nearest("New on", 1) == [("New one", 5_000)]
    assert not LabelFinder(None) and finder


def test_attributes_check_themselves() -> None:
    with pytest.raises(InputError, match="there is no label column 'x'"):
        Attributes(pa.table({"a": pa.array([1], pa.int64())}), "x")
    with pytest.raises(InputError, match="attribute 'a' needs text"):
        Attributes(pa.table({"a": pa.array([[1]])}))
    taken = Attributes(pa.table({"a": pa.array([1, 2], pa.int64())})).take(np.array([1, -1]))
    assert taken.table["a"].to_pylist() == [2, None]
