"""Tables of edges and nodes for the tests of prepared folders, and what makes two graphs the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures

SMALL = 5e-4  # GiB: chunks of 4,096 rows, many tasks


def edge_table(rows: int = 10_000, nodes: int = 900, *, seed: int = 0, sides: bool = False) -> pa.Table:
    """Edges within communities of 30 nodes, with repeated ones, reversed ones and self loops."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, nodes, rows)
    near = source - source % 30 + rng.integers(0, 30, rows)
    target = np.where(rng.random(rows) < 0.8, near, rng.integers(0, nodes, rows))
    right = "item" if sides else "n"
    return pa.table(
        {
            "source": [f"n{i}" for i in source],
            "target": [f"{right}{i}" for i in target],
            "weight": rng.integers(0, 40, rows) / 8,
            "time": rng.integers(0, 10_000, rows),
        }
    )


def write_files(table: pa.Table, folder: Path, count: int, ending: str = "parquet") -> Path:
    folder.mkdir(parents=True)
    step = -(-table.num_rows // count)
    for number in range(count):
        part, path = table.slice(number * step, step), folder / f"part-{number}.{ending}"
        if ending == "csv":
            pa.csv.write_csv(part, path)
        else:
            pq.write_table(part, path, row_group_size=500)
    return folder


def node_table(graph: Graph) -> pa.Table:
    rng = np.random.default_rng(7)
    count = graph.num_nodes
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(3 * count).astype(np.float32)), 3)
    kind = rng.integers(0, 4, count)
    age = [None if i % 9 == 0 else float(value) for i, value in enumerate(rng.normal(40, 10, count))]
    return pa.table(
        {"id": graph.ids.take(range(count)), "kind": [f"k{i}" for i in kind], "age": pa.array(age), "x": vectors}
    )


def assert_same_graph(found: Graph, wanted: Graph) -> None:
    """The same ids, edges, weights, times, sides and features, whatever the order of the rows."""
    assert (found.num_nodes, found.num_edges, found.directed) == (wanted.num_nodes, wanted.num_edges, wanted.directed)
    place = found.ids.rows(wanted.ids.take(range(wanted.num_nodes)))
    rows = found.find_edges(place[wanted.edges])
    assert sorted(rows.tolist()) == list(range(wanted.num_edges))
    for name in ("weights", "times"):
        ours, theirs = getattr(found, name), getattr(wanted, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours[rows], theirs)
    assert (found.sides is None) == (wanted.sides is None)
    assert found.sides is None or np.array_equal(found.sides[place], wanted.sides)
    assert (found.features is None) == (wanted.features is None)
    if found.features is not None and wanted.features is not None:
        ours, theirs = (f.to_dense() if isinstance(f, SparseFeatures) else f for f in (found.features, wanted.features))
        np.testing.assert_allclose(ours[place], theirs, atol=1e-5)


def write_graph(graph: Graph, folder: Path) -> dict[str, Path]:
    """The tables of a graph, under the names that `prepare` gives them."""
    folder.mkdir(parents=True)
    columns = {"source": graph.edges[:, 0], "target": graph.edges[:, 1]}
    columns |= {} if graph.weights is None else {"weight": graph.weights}
    pq.write_table(pa.table(columns), folder / "edges.parquet")
    if graph.features is None:
        return {"edges": folder / "edges.parquet"}
    matrix = graph.features.to_dense() if isinstance(graph.features, SparseFeatures) else graph.features
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    pq.write_table(pa.table({"id": np.arange(graph.num_nodes), "x": vectors}), folder / "nodes.parquet")
    return {"edges": folder / "edges.parquet", "nodes": folder / "nodes.parquet"}
