"""Graphs: built as a set of pairs would be, and refused with a cure where they cannot be."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.graph.ids import Ids
from yinyan.graph.tables import write_parquet

relaxed = settings(deadline=None, max_examples=60)
names = st.sampled_from(["a", "b", "c", "7", "007", "x,y", "ü", ""])
weighted_rows = st.lists(st.tuples(names, names, st.integers(0, 4), st.integers(-5, 5)), min_size=1, max_size=25)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def pairs(graph: Graph) -> set[tuple[Any, Any]]:
    return set(zip(graph.ids.take(graph.edges[:, 0]), graph.ids.take(graph.edges[:, 1]), strict=True))


def reference(
    rows: list[tuple[Any, Any, int, int]], order: list[Any], directed: bool
) -> dict[tuple[int, int], tuple[int, int]]:
    """Brute force: each edge with its added weight and earliest time."""
    merged: dict[tuple[int, int], tuple[int, int]] = {}
    for source, target, weight, time in rows:
        ends = (order.index(source), order.index(target))
        key = ends if directed else (min(ends), max(ends))
        if ends[0] != ends[1] and weight > 0:
            before = merged.get(key, (0, time))
            merged[key] = (before[0] + weight, min(before[1], time))
    return dict(sorted(merged.items()))


@relaxed
@given(weighted_rows, st.booleans())
def test_tables_agree_with_brute_force(rows: list[tuple[str, str, int, int]], directed: bool) -> None:
    source, target, weight, time = (list(column) for column in zip(*rows, strict=True))
    table = {"source": source, "target": target, "weight": weight, "time": time}
    graph = Graph.from_table(table, directed=directed)
    order = list(dict.fromkeys(source + target))
    expected = reference(rows, order, directed)
    assert graph.ids.take(range(graph.num_nodes)) == order
    assert [tuple(pair) for pair in graph.edges.tolist()] == list(expected)
    assert graph.weights is not None
    assert graph.times is not None
    assert list(zip(graph.weights.tolist(), graph.times.tolist(), strict=True)) == list(expected.values())
    loops = sum(a == b for a, b in zip(source, target, strict=True))
    zeros = sum(a != b and w == 0 for a, b, w, _ in rows)
    assert _count(graph, "self loop") == loops
    assert _count(graph, "of weight zero") == zeros
    assert _count(graph, "repeated edge") == len(rows) - loops - zeros - len(expected)


def _count(graph: Graph, what: str) -> int:
    found = [note for note in graph.notes if what in note]
    return int(found[0].split()[1].replace(",", "")) if found else 0


@relaxed
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.booleans())
def test_adjacency_degrees_and_lookups(rows: list[tuple[int, int]], directed: bool) -> None:
    graph = Graph.from_arrays(rows, num_nodes=7, directed=directed)
    edges = {(a, b) if directed else (min(a, b), max(a, b)) for a, b in rows if a != b}
    assert {tuple(pair) for pair in graph.edges.tolist()} == edges
    every = [(a, b) for a in range(7) for b in range(7)]
    assert graph.has_edges(every).tolist() == [
        pair in edges or (not directed and pair[::-1] in edges) for pair in every
    ]
    indptr, indices, edge_of_slot = graph.adjacency
    for node in range(7):
        ends = sorted([b for a, b in edges if a == node] + [a for a, b in edges if b == node])
        slots = slice(indptr[node], indptr[node + 1])
        assert sorted(indices[slots].tolist()) == ends
        assert directed or indices[slots].tolist() == ends
        assert graph.degrees[node] == len(ends)
        assert graph.neighbours(node).tolist() == sorted(set(ends))
        for other, edge in zip(indices[slots], edge_of_slot[slots], strict=True):
            assert set(graph.edges[edge].tolist()) == {node, int(other)}


@relaxed
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=20))
def test_every_source_builds_the_same_graph(rows: list[tuple[int, int]]) -> None:
    networkx, sparse = pytest.importorskip("networkx"), pytest.importorskip("scipy.sparse")
    expected = Graph.from_arrays(rows, num_nodes=6).edges.tolist()
    from_nx = networkx.Graph()
    from_nx.add_nodes_from(range(6))
    from_nx.add_edges_from(rows)
    assert Graph.from_networkx(from_nx).edges.tolist() == expected
    both = np.array([pair for a, b in rows for pair in ((a, b), (b, a))])
    matrix = sparse.coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(6, 6))
    assert Graph.from_scipy(matrix).edges.tolist() == expected
    data = SimpleNamespace(edge_index=both.T, num_nodes=6)
    from_pyg = Graph.from_pyg(data)
    assert from_pyg.edges.tolist() == expected
    assert not from_pyg.directed


def test_csv_ids_are_text_and_guesses_are_said(tmp_path: Path) -> None:
    path = write(tmp_path, "edges.csv", 'citing,cited,year\n007,7,2001\n7,"a,""b""\n🐙",2002\n')
    graph = Graph.from_table(path)
    assert pairs(graph) == {("007", "7"), ("7", 'a,"b"\n🐙')}
    assert graph.times is not None
    assert sorted(graph.times.tolist()) == [2001, 2002]
    assert graph.notes[0] == ("columns: source = 'citing', target = 'cited', time = 'year' (guessed)")
    told = Graph.from_table(path, "cited", 0, time=False)
    assert told.times is None
    assert told.notes == ()
    assert Graph.from_table(path, target="cited").notes[0].startswith("columns: source = 'citing', time")
    with pytest.raises(UnknownNodeError, match=r"'7' \(text\) is: ids read from CSV are text"):
        graph.ids.row(7)


def test_the_other_end_is_guessed_around_a_given_one() -> None:
    table = {"x": ["a"], "source": ["b"], "target": ["c"]}
    assert pairs(Graph.from_table(table, source="x")) == {("a", "c")}
    assert pairs(Graph.from_table(table, target="source", directed=True)) == {("c", "b")}
    assert pairs(Graph.from_table(table, source="target", directed=True)) == {("c", "b")}


def test_frames_keep_their_types() -> None:
    mixed = Graph.from_table({"user": [1, 2], "item": ["1", "x"]})
    assert pairs(mixed) == {(1, "1"), (2, "x")}
    as_text = Graph.from_table({"user": [1, 2], "item": ["1", "x"]}, id_type="text")
    assert pairs(as_text) == {("2", "x")}  # 1 and '1' are then one node, and its edge a loop
    numbers = Graph.from_table({"u": ["007", "8"], "v": ["7", " 9"]}, id_type="integer")
    assert pairs(numbers) == {(8, 9)}
    with pytest.raises(InputError, match="'x' is no integer of 64 bits"):
        Graph.from_table({"user": ["1", "2"], "item": ["1", "x"]}, id_type="integer")


def test_pandas_and_polars_frames() -> None:
    for module in ("pandas", "polars"):
        frame = pytest.importorskip(module).DataFrame({"src": ["a", "b", None], "dst": ["b", "c", "d"]})
        graph = Graph.from_table(frame)
        assert pairs(graph) == {("a", "b"), ("b", "c")}
        assert "dropped 1 row of the edge table without both ends" in graph.notes
        assert "d" not in graph.ids
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"column 'u': node ids must be integers or text.*Int64"):
        Graph.from_table(pandas.DataFrame({"u": [1, None], "v": [1, 2]}))
    nodes = pandas.DataFrame({"x": [1.0, 2.0, 3.0]}, index=pandas.Index(["c", "b", "a"], name="id"))
    graph = Graph.from_table({"u": ["a", "b"], "v": ["b", "c"]}, nodes=nodes)
    assert np.asarray(graph.features)[:, 0].argsort().tolist() == [2, 1, 0]


def test_dates_become_seconds() -> None:
    for value in (date(1970, 1, 2), datetime(1970, 1, 2, 0, 0, 0, 999_999)):
        graph = Graph.from_table({"u": ["a"], "v": ["b"], "time": [value]})
        assert graph.times is not None
        assert graph.times.dtype == np.int64
        assert graph.times.tolist() == [86_400]
    for times in (
        np.array(["1970-01-02"], dtype="datetime64[D]"),
        [datetime(1970, 1, 2)],
        [date(1970, 1, 2)],
    ):
        graph = Graph.from_arrays([(0, 1)], times=times)
        assert graph.times is not None
        assert graph.times.tolist() == [86_400]


def test_a_guessed_column_without_numbers_is_left_alone() -> None:
    graph = Graph.from_table({"u": ["a"], "v": ["b"], "value": ["high"]})
    assert graph.weights is None
    assert "the edge table: column 'value' holds no numbers and is not used as weight" in graph.notes
    with pytest.raises(InputError, match="weight 'value' needs numbers"):
        Graph.from_table({"u": ["a"], "v": ["b"], "value": ["high"]}, weight="value")


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (float("nan"), r"weight 'w' is missing in row 3 \(the first is 1\)"),
        (None, r"weight 'w' is missing in row 3 .*weight=False"),
        (float("inf"), "weight 'w' is infinite in row 3"),
        (-2.0, r"weight 'w' is negative \(-2\) in row 3"),
    ],
)
def test_bad_weights_are_named_by_their_row(weight: float | None, message: str) -> None:
    table = {"u": ["a", None, "b"], "v": ["b", "c", "c"], "w": [1.0, 1.0, weight]}
    with pytest.raises(InputError, match=message):
        Graph.from_table(table)
    assert Graph.from_table(table, weight=False).weights is None
    if weight is not None:
        with pytest.raises(InputError, match=r"weight is .* in row 2"):
            Graph.from_arrays([(0, 1), (1, 2)], weights=[1.0, weight])


def test_extreme_weights() -> None:
    tiny = Graph.from_arrays([(0, 1)], weights=[1e-300])
    assert tiny.weights is not None
    assert tiny.weights[0] > 0
    with pytest.raises(InputError, match="too large"):
        Graph.from_arrays([(0, 1), (1, 0)], weights=[3e38, 3e38])


def test_bad_times_are_named_by_their_row() -> None:
    with pytest.raises(InputError, match="time 't' is missing in row 2"):
        Graph.from_table({"u": ["a", "b"], "v": ["b", "c"], "t": [1, None]}, time="t")
    with pytest.raises(InputError, match="time is missing in row 1"):
        Graph.from_arrays([(0, 1)], times=[float("nan")])
    with pytest.raises(InputError, match="time is missing in row 1"):
        Graph.from_arrays([(0, 1)], times=np.array(["NaT"], dtype="datetime64[s]"))
    with pytest.raises(InputError, match="needs numbers or dates"):
        Graph.from_table({"u": ["a"], "v": ["b"], "t": ["soon"]}, time="t")


def test_a_hundred_thousand_parallel_edges() -> None:
    ends = {"u": ["a", "b"] * 50_000, "v": ["b", "a"] * 50_000, "weight": [1.0] * 100_000}
    graph = Graph.from_table(ends)
    assert graph.num_edges == 1
    assert graph.weights is not None
    assert graph.weights.tolist() == [100_000]
    assert _count(graph, "repeated edge") == 99_999
    assert Graph.from_table(ends, directed=True).num_edges == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,target\n,b\na,\n", "no row with both a 'source' and a 'target'"),
        ("source\na\nb\n", "two columns of node ids"),
        ("1,2\n2,3\n", "no header line"),
        ("source,target\n", "no rows"),
    ],
)
def test_bad_edge_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_table(write(tmp_path, "edges.csv", text))


def test_files_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "edges.tsv", "1\t2\n2\t3\n")
    graph = Graph.from_table(path, header=False)
    assert pairs(graph) == {("1", "2"), ("2", "3")}


def test_spaces_around_ids_are_kept_and_said(tmp_path: Path) -> None:
    graph = Graph.from_table(write(tmp_path, "edges.csv", "source,target\na, b\nb,c\n"))
    assert pairs(graph) == {("a", " b"), ("b", "c")}
    assert "spaces before or after ids are kept (1 id)" in graph.notes


def test_node_table_features_follow_the_ids(tmp_path: Path) -> None:
    path = write(tmp_path, "edges.csv", "source,target\nc,a\nb,c\n")
    nodes = write(tmp_path, "nodes.csv", "id,age,kind\na,10,x\nb,20,y\nc,30,x\n")
    graph = Graph.from_table(path, nodes=nodes)
    assert graph.ids.take(range(3)) == ["c", "b", "a"]
    assert np.allclose(np.asarray(graph.features)[:, 0], [1.5**0.5, 0, -(1.5**0.5)])
    assert np.asarray(graph.features)[:, 1:].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert "columns: node id = 'id' of nodes.csv (guessed)" in graph.notes
    assert graph.feature_encoder is not None
    assert graph.feature_encoder.num_columns == 3
    chosen = Graph.from_table(path, nodes=nodes, node_id="id", feature_columns=["kind"])
    assert np.asarray(chosen.features).shape == (3, 2)
    only_ids = Graph.from_table(path, nodes=nodes, feature_columns=[])
    assert only_ids.features is None


def test_unmatched_nodes_are_refused_or_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "edges.csv", "source,target\na,b\nb,c\n")
    fewer = {"id": ["a", "b"], "age": [1, 2]}
    with pytest.raises(InputError, match=r"edges.csv mentions 1 node \('c'\) that the node table lacks.*keep-unm"):
        Graph.from_table(path, nodes=fewer)
    more = {"id": ["a", "b", "c", "d"], "age": [1, 2, 3, 4]}
    with pytest.raises(InputError, match=r'describes 1 node \(\'d\'\) that edges.csv never.*unmatched="keep"'):
        Graph.from_table(path, nodes=more)
    kept = Graph.from_table(path, nodes={"id": ["d", "b", "a"], "age": [5, 2, 1]}, unmatched="keep")
    assert kept.ids.take(range(4)) == ["a", "b", "c", "d"]
    assert kept.degrees.tolist() == [1, 2, 1, 0]
    assert np.asarray(kept.features)[:, 1].tolist() == [0, 0, 1, 0]  # c has no features
    assert any("lacks 1 node ('c')" in note for note in kept.notes)
    assert any("never mentions 1 node ('d')" in note for note in kept.notes)
    assert "1 node without an edge" in kept.describe()


def test_id_types_that_differ_between_tables(tmp_path: Path) -> None:
    path = write(tmp_path, "edges.csv", "source,target\n1,2\n2,3\n")
    nodes = tmp_path / "nodes.parquet"
    write_parquet(pa.table({"id": [1, 2, 3], "age": [5, 6, 7]}), nodes)
    with pytest.raises(InputError, match=r'text in edges.csv and integers in nodes.parquet.*id_type="text"'):
        Graph.from_table(path, nodes=nodes)
    assert Graph.from_table(path, nodes=nodes, id_type="text").ids.kind == "text"
    assert Graph.from_table(path, nodes=nodes, id_type="integer").ids.kind == "integer"


def test_bad_node_tables() -> None:
    edges = {"u": ["a", "b"], "v": ["b", "c"]}
    with pytest.raises(InputError, match="the node table, column 'id': id 'a' occurs more than once"):
        Graph.from_table(edges, nodes={"id": ["a", "a"], "x": [1, 2]})
    with pytest.raises(InputError, match="column 'x' is infinite or too large at node 'b'"):
        Graph.from_table(edges, nodes={"id": ["c", "b", "a"], "x": [1.0, float("inf"), 2.0]})
    with pytest.raises(InputError, match=r"no feature column 'agee'.*nearest: 'age'"):
        Graph.from_table(edges, nodes={"id": ["a"], "age": [1]}, feature_columns=["agee"])
    with pytest.raises(InputError, match="cannot be a feature"):
        Graph.from_table(edges, nodes={"id": ["a"], "age": [1]}, feature_columns=["id"])
    with pytest.raises(InputError, match="pass nodes="):
        Graph.from_table(edges, node_id="id")
    constant = Graph.from_table(edges, nodes={"id": ["a", "b", "c", None], "x": [1, 1, 1, 2]})
    assert constant.features is None
    assert "dropped 1 row of the node table without an id" in constant.notes
    assert "the node table: no column is left for features" in constant.notes


def test_bipartite_sides() -> None:
    graph = Graph.from_table({"user": [1, 2, 1], "item": ["x", "y", "y"]}, bipartite=True)
    assert graph.is_bipartite
    assert graph.num_left == 2
    assert graph.sides is not None
    assert graph.sides.tolist() == [0, 0, 1, 1]
    assert (graph.edges[:, 0] < 2).all()
    assert pairs(graph) == {(1, "x"), (2, "y"), (1, "y")}


def test_ids_on_both_sides_need_prefixes() -> None:
    table = {"user": [1, 2, 3], "item": [1, 5, 2]}
    with pytest.raises(InputError, match=r'2 ids on both sides .*\(1, 2\).*prefixes=\("user:", "item:"\)'):
        Graph.from_table(table, bipartite=True)
    graph = Graph.from_table(table, bipartite=True, prefixes=("user:", "item:"))
    assert pairs(graph) == {("user:1", "item:1"), ("user:2", "item:5"), ("user:3", "item:2")}
    named = ["item:1", "item:2", "item:5", "user:1", "user:2", "user:3"]
    nodes = {"id": named, "x": range(1, 7)}
    with_nodes = Graph.from_table(table, bipartite=True, prefixes=("user:", "item:"), nodes=nodes)
    assert np.asarray(with_nodes.features)[:, 0].argsort().tolist() == [3, 5, 4, 0, 1, 2]
    more = {"id": [*named, "user:9"], "x": range(1, 8)}
    with pytest.raises(InputError, match="side of the bipartite graph is unknown"):
        Graph.from_table(table, bipartite=True, prefixes=("user:", "item:"), nodes=more, unmatched="keep")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"directed": True, "bipartite": True}, "either directed or bipartite"),
        ({"prefixes": ("a", "b")}, "pass bipartite=True"),
        ({"prefixes": ("a", "a"), "bipartite": True}, "two different texts"),
        ({"unmatched": "drop"}, r"'unmatched' \(--keep-unmatched\) needs to be 'error' or 'keep'"),
        ({"id_type": "float"}, r"'id_type' \(--id-type\) needs to be 'keep', 'text' or 'integer'"),
        ({"source": "u", "target": "u"}, "the same column 'u'"),
        ({"source": "nope"}, "no source column 'nope'"),
        ({"weight": True}, "a name or a position"),
        ({"weight": "nope"}, "no weight column 'nope'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_table({"u": ["a"], "v": ["b"]}, **options)


def test_arrays_of_either_shape() -> None:
    expected = [[0, 1], [0, 2], [1, 2]]
    assert Graph.from_arrays([(1, 0), (0, 2), (2, 1)]).edges.tolist() == expected
    assert Graph.from_arrays(np.array([[1, 0, 2], [0, 2, 1]])).edges.tolist() == expected
    assert Graph.from_arrays(np.array([[0, 1], [0, 2]]), directed=True).edges.tolist() == [[0, 1], [0, 2]]
    assert Graph.from_arrays(np.zeros((0, 2), dtype=int), num_nodes=4).num_nodes == 4
    assert Graph.from_arrays([(0, 1)], features=np.ones((5, 2))).num_nodes == 5
    named = Graph.from_arrays([(0, 1)], ids=["x", "y", "z"], features=[[1.0], [2.0], [3.0]])
    assert pairs(named) == {("x", "y")}
    torch = pytest.importorskip("torch")
    assert Graph.from_arrays(torch.tensor([[1, 0, 2], [0, 2, 1]])).edges.tolist() == expected


def test_pairs_of_text_ids() -> None:
    assert pairs(Graph.from_arrays([("a", "b"), ("b", 7)])) == {("a", "b"), ("b", 7)}
    assert pairs(Graph.from_arrays(np.array([["a", "b"], ["c", "d"], ["a", "d"]]))) == {
        ("a", "b"),
        ("c", "d"),
        ("a", "d"),
    }
    assert pairs(Graph.from_arrays([("b", "a")], ids=["a", "b", "c"], features=np.eye(3))) == {("a", "b")}
    with pytest.raises(InputError, match="pass ids="):
        Graph.from_arrays([("a", "b")], features=np.eye(2))
    with pytest.raises(UnknownNodeError, match="node 'q'"):
        Graph.from_arrays([("a", "q")], ids=["a", "b"])
    with pytest.raises(InputError, match="two ends"):
        Graph.from_arrays([("a", "b", "c")])
    with pytest.raises(InputError, match="lacks an end"):
        Graph.from_arrays([("a", None)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": [(0, 5)], "num_nodes": 3}, "row 5, but the 3 nodes are rows 0 to 2"),
        ({"edges": [(0, -1)]}, "row -1"),
        ({"edges": [(0.5, 1)]}, "integer row numbers"),
        ({"edges": [(0, 1, 2)]}, "shape"),
        ({"edges": [(0, 1)], "ids": ["a", "b"], "num_nodes": 3}, "leave num_nodes out"),
        ({"edges": [(0, 1)], "weights": [1.0, 2.0]}, "one entry per edge"),
        ({"edges": [(0, 1)], "features": np.eye(3), "num_nodes": 2}, "2 rows"),
        ({"edges": [(0, 1)], "features": [[np.nan], [1.0]]}, "hold nan in row 0"),
        ({"edges": [(0, 1)], "sides": [0, 0]}, "edge 0 to 1 joins two nodes of side 0"),
        ({"edges": [(0, 1)], "sides": [0, 2]}, "0 or 1"),
        ({"edges": [(0, 1)], "sides": [0, 1], "directed": True}, "either directed or bipartite"),
    ],
)
def test_bad_arrays_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_arrays(**arguments)


def test_sides_are_put_in_order() -> None:
    graph = Graph.from_arrays([(0, 1), (2, 3), (0, 3)], sides=[1, 0, 1, 0], features=np.arange(1, 5)[:, None])
    assert graph.ids.take(range(4)) == [1, 3, 0, 2]
    assert pairs(graph) == {(1, 0), (3, 2), (3, 0)}
    assert np.asarray(graph.features)[:, 0].tolist() == [2, 4, 1, 3]
    assert graph.num_left == 2


def test_networkx_graphs() -> None:
    networkx = pytest.importorskip("networkx")
    original = networkx.MultiDiGraph()
    original.add_node("alone", x=[0.0, 1.0])
    original.add_node(7, x=[1.0, 0.0])
    original.add_node("7", x=[1.0, 1.0])
    original.add_edge(7, "7", weight=2, when=5)
    original.add_edge(7, "7", weight=3, when=4)
    original.add_edge("7", 7, when=9)
    graph = Graph.from_networkx(original, time="when", features="x")
    assert graph.directed
    assert graph.ids.take(range(3)) == ["alone", 7, "7"]
    assert graph.edges.tolist() == [[1, 2], [2, 1]]
    assert graph.weights is not None
    assert graph.times is not None
    assert graph.weights.tolist() == [5, 1]
    assert graph.times.tolist() == [4, 9]
    assert np.asarray(graph.features).tolist() == [[0, 1], [1, 0], [1, 1]]
    assert "weight 1 for 1 edge without the attribute 'weight'" in graph.notes
    assert Graph.from_networkx(networkx.path_graph(4)).weights is None
    assert Graph.from_networkx(networkx.path_graph(3), features=np.eye(3)).num_nodes == 3


def test_bad_networkx_graphs() -> None:
    networkx = pytest.importorskip("networkx")
    with pytest.raises(InputError, match=r"got \(0, 0\), a tuple.*convert_node_labels_to_integers"):
        Graph.from_networkx(networkx.grid_2d_graph(2, 2))
    with pytest.raises(InputError, match=r"expected a networkx graph \(got int\): see Graph.from_arrays"):
        Graph.from_networkx(3)
    original = networkx.path_graph(3)
    with pytest.raises(InputError, match="node 0 lacks the attribute 'x'"):
        Graph.from_networkx(original, features="x")
    with pytest.raises(InputError, match="lacks the attribute 'when'"):
        Graph.from_networkx(original, time="when")
    networkx.set_node_attributes(original, {0: [1.0], 1: [1.0, 2.0], 2: [1.0]}, "x")
    with pytest.raises(InputError, match="attribute 'x' has shape"):
        Graph.from_networkx(original, features="x")


def test_scipy_matrices() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    square = np.array([[1, 2, 0], [2, 0, 0.5], [0, 0.5, 0]])
    graph = Graph.from_scipy(sparse.csr_array(square), ids=["a", "b", "c"])
    assert not graph.directed
    assert graph.weights is not None
    assert pairs(graph) == {("a", "b"), ("b", "c")}
    assert graph.weights.tolist() == [2, 0.5]  # not added up with their mirror images
    assert "dropped 1 self loop" in graph.notes
    assert Graph.from_scipy(sparse.csr_array(square), directed=True).num_edges == 4
    upper = Graph.from_scipy(sparse.csr_array(np.triu(square, 1)), directed=False)
    assert upper.edges.tolist() == graph.edges.tolist()
    assert Graph.from_scipy(sparse.csr_array(np.triu(square, 1))).directed
    ones = Graph.from_scipy(sparse.csr_array(np.ones((3, 3))))
    assert ones.weights is None
    with pytest.raises(InputError, match="not symmetric: pass directed=True"):
        Graph.from_scipy(sparse.csr_array([[0, 1, 0], [2, 0, 1], [0, 0, 0]]), directed=False)
    with pytest.raises(InputError, match="square"):
        Graph.from_scipy(sparse.csr_array(np.ones((2, 3))))
    with pytest.raises(InputError, match="negative"):
        Graph.from_scipy(sparse.csr_array([[0, -1], [-1, 0]]))
    with pytest.raises(InputError, match="2 rows, but there are 1 ids"):
        Graph.from_scipy(sparse.csr_array(np.ones((2, 2))), ids=["a"])
    with pytest.raises(InputError, match="scipy sparse matrix"):
        Graph.from_scipy(square)


def test_pyg_data() -> None:
    torch = pytest.importorskip("torch")
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    words = torch.eye(30)[:3].to_sparse()
    data = SimpleNamespace(edge_index=index, x=words, edge_attr=torch.tensor([[2.0], [2.0], [1.0], [1.0]]))
    graph = Graph.from_pyg(data)
    assert not graph.directed
    assert graph.num_nodes == 3
    assert graph.weights is not None
    assert graph.weights.tolist() == [2, 1]
    assert isinstance(graph.features, SparseFeatures)
    one_way = Graph.from_pyg(SimpleNamespace(edge_index=index[:, :3], x=None, edge_weight=None, num_nodes=9))
    assert one_way.directed
    assert one_way.num_nodes == 9
    wide = Graph.from_pyg(SimpleNamespace(edge_index=index, edge_attr=torch.ones(4, 3)))
    assert wide.weights is None
    assert any("edge_attr of shape (4, 3) is not used" in note for note in wide.notes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"edge_index_dict": {}}, "heterogeneous"),
        ({"node_types": []}, "heterogeneous"),
        ({}, "no edge_index"),
        ({"edge_index": np.zeros((3, 5), dtype=int)}, "shape"),
        ({"edge_index": np.array([[0], [9]]), "num_nodes": 3}, "row 9"),
        ({"edge_index": np.array([[0], [1]]), "edge_weight": np.ones(2)}, "one entry per edge"),
    ],
)
def test_bad_pyg_data(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Graph.from_pyg(SimpleNamespace(**attributes))


def test_a_subset_of_the_edges_keeps_the_nodes() -> None:
    graph = Graph.from_arrays([(0, 1), (1, 2), (2, 3)], weights=[1, 2, 3], times=[7, 8, 9])
    for kept in (np.array([True, False, True]), [2, 0], np.array([0, 2])):
        part = graph.with_edges(kept)
        assert part.edges.tolist() == [[0, 1], [2, 3]]
        assert part.weights is not None
        assert part.times is not None
        assert part.weights.tolist() == [1, 3]
        assert part.times.tolist() == [7, 9]
        assert part.num_nodes == 4
        assert part.degrees.tolist() == [1, 1, 1, 1]
    assert graph.with_edges([]).num_edges == 0
    for bad in (np.array([True]), [3], [-1]):
        with pytest.raises(InputError):
            graph.with_edges(bad)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": np.array([[0, 1]], dtype=np.int32)}, "int64 array"),
        ({"edges": np.array([[1, 0]])}, "sorted and distinct"),
        ({"edges": np.array([[0, 1], [0, 1]])}, "sorted and distinct"),
        ({"edges": np.array([[1, 2], [0, 1]])}, "sorted and distinct"),
        ({"edges": np.array([[0, 3]])}, "rows between 0 and 2"),
        ({"weights": np.ones(2, dtype=np.float32)}, "'weights' needs one entry per edge"),
        ({"weights": np.ones(1)}, "'weights' needs to be float32"),
        ({"weights": np.zeros(1, dtype=np.float32)}, "finite and positive"),
        ({"times": np.ones(1, dtype=np.int32)}, "'times' needs to be int64 or float64"),
        ({"features": np.ones((2, 2), dtype=np.float32)}, "'features' needs one row per node"),
        ({"features": np.ones((3, 2))}, "'features' needs to be float32"),
        ({"features": np.array([[1], [np.nan], [1]], dtype=np.float32)}, "hold nan in row 1"),
        ({"sides": np.array([0, 1, 0], dtype=np.int8)}, "side 0 before"),
        ({"sides": np.array([0, 0, 1], dtype=np.int8)}, "join side 0 and side 1"),
        ({"sides": np.array([0, 1, 1], dtype=np.int8), "directed": True}, "either directed or bipartite"),
        ({"sides": np.array([0, 1, 1])}, "'sides' needs to be int8"),
    ],
)
def test_the_constructor_checks(changes: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {"ids": Ids.integers(3), "edges": np.array([[0, 1]])} | changes
    with pytest.raises(InputError, match=message):
        Graph(**parts)


def test_rows_out_of_range_are_refused() -> None:
    graph = Graph.from_arrays([(0, 1)])
    with pytest.raises(InputError, match="row 2 is out of range"):
        graph.neighbours(2)
    with pytest.raises(InputError, match="between 0 and 1"):
        graph.has_edges([(0, 2)])
    assert graph.has_edges(np.zeros((0, 2))).tolist() == []


def test_description() -> None:
    graph = Graph.from_table(
        {"user": ["a", "a", "b"], "item": ["x", "x", "y"], "weight": [1, 2, 3], "time": [1, 2, 3]},
        bipartite=True,
    )
    assert graph.describe().splitlines() == [
        "4 nodes (text ids), 2 edges, bipartite (2 and 2 nodes), edge weights, edge times, no node features",
        "- columns: source = 'user', target = 'item', weight = 'weight', time = 'time' (guessed)",
        "- merged 1 repeated edge (a pair counts once whichever way it is written, weights added, "
        "the earliest time kept)",
    ]
    assert repr(graph) == "Graph(bipartite, nodes=4, edges=2, features=None)"
    words = Graph.from_arrays([(0, 1)], features=np.eye(20), directed=True)
    assert "20 node features (5 % nonzero)" in words.describe()
    assert repr(words) == "Graph(directed, nodes=20, edges=1, features=20)"


@given(
    edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda p: p[0] != p[1]), max_size=15),
    directed=st.booleans(),
)
def test_edges_are_found_where_they_are(edges: set[tuple[int, int]], directed: bool) -> None:
    graph = Graph.from_arrays(np.array(sorted(edges)).reshape(-1, 2), num_nodes=8, directed=directed)
    places = {tuple(pair): place for place, pair in enumerate(graph.edges.tolist())}
    if not directed:
        places |= {(b, a): place for (a, b), place in places.items()}
    every = [(a, b) for a in range(8) for b in range(8)]
    found = graph.find_edges(every)
    assert found.dtype == np.int64
    assert found.tolist() == [places.get(pair, -1) for pair in every]
    assert graph.has_edges(every).tolist() == [pair in places for pair in every]


def test_edges_are_looked_for_among_the_nodes_only() -> None:
    graph = Graph.from_arrays([(0, 1)], num_nodes=2)
    assert graph.find_edges(np.zeros((0, 2))).tolist() == []
    for wrong in ([(0, 2)], [(-1, 0)]):
        with pytest.raises(InputError, match="rows between 0 and 1"):
            graph.find_edges(wrong)


def test_columns_by_position_are_not_guessed() -> None:
    """Position 0 is no more False than any other."""
    table = {"x": ["a"], "weight": [2.0], "y": ["b"], "date": [3]}
    graph = Graph.from_table(table, source=0, target=2, weight=1, time=False)
    assert graph.ids.take([0, 1]) == ["a", "b"] and graph.weights is not None and graph.times is None
    assert not any("guessed" in note for note in graph.notes)
