"""igraph, arrays of graph libraries, Arrow streams and NetworkX: in, and predictions back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from torch_geometric.data import Data

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError
from yinyan.graph.conversion import as_graph
from yinyan.graph.tables import read_table

COLUMNS = {"source": ["a", "a", "b"], "target": ["b", "c", "c"], "weight": [1.0, 2.0, 3.0]}


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())


class TestIgraph:
    igraph: Any = pytest.importorskip("igraph")

    @pytest.mark.parametrize("directed", [False, True])
    def test_there_and_back(self, directed: bool) -> None:
        made = self.igraph.Graph(4, [(0, 1), (2, 1), (3, 0)], directed=directed)
        made.vs["name"], made.vs["title"] = ["d", "c", "b", "a"], ["On d", "On c", None, "On a"]
        made.vs["vector"] = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
        made.es["weight"], made.es["year"] = [1.0, 2.0, 3.0], [2001, 2002, 2003]
        graph = Graph.from_igraph(made, time="year", features="vector", label="title")
        assert graph.ids.take([0, 3]) == ["d", "a"] and graph.directed == directed
        assert graph.labels_of([0, 2]) == ["On d", None]
        assert graph.features is not None and graph.features.shape == (4, 2)
        back = graph.to_igraph()
        names = back.vs["name"]
        ends = [(names[e.source], names[e.target]) for e in back.es]
        found = {(end if directed else frozenset(end)): e["weight"] for end, e in zip(ends, back.es, strict=True)}
        expected = {("d", "c"): 1.0, ("b", "c"): 2.0, ("a", "d"): 3.0}
        assert found == {(end if directed else frozenset(end)): w for end, w in expected.items()}
        assert back.vs["title"][0] == "On d" and sorted(back.es["time"]) == [2001, 2002, 2003]
        assert back.is_directed() == directed

    def test_without_names_and_by_fit(self) -> None:
        graph = as_graph(self.igraph.Graph.Ring(5))
        assert graph.ids.take([4]) == [4] and "Graph.from_igraph" in graph.notes[0]

    def test_what_it_refuses(self) -> None:
        ring = self.igraph.Graph.Ring(5)
        with pytest.raises(InputError, match="edges have no attribute 'when'"):
            Graph.from_igraph(ring, time="when")
        with pytest.raises(InputError, match="vertices have no attribute 'x'"):
            Graph.from_igraph(ring, features="x")
        with pytest.raises(InputError, match="expected an igraph graph"):
            Graph.from_igraph(nx.path_graph(3))


class TestArrays:
    def test_undirected_edges_stand_in_both_directions(self) -> None:
        graph = Graph.from_arrays(
            [(0, 1), (1, 2)], features=np.eye(3), weights=[0.5, 2.0], times=[5, 6], ids=["a", "b", "c"]
        )
        arrays = graph.to_arrays()
        assert arrays["edge_index"].tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
        assert arrays["edge_weight"].tolist() == [0.5, 2.0, 0.5, 2.0] and arrays["time"].tolist() == [5, 6, 5, 6]
        assert arrays["id"] == ["a", "b", "c"] and arrays["num_nodes"] == 3
        np.testing.assert_array_equal(arrays["x"], np.eye(3))
        back = Graph.from_arrays(arrays["edge_index"].T, features=arrays["x"], ids=arrays["id"])
        np.testing.assert_array_equal(back.edges, graph.edges)

    def test_directed_edges_stand_once_and_sparse_features_are_filled(self) -> None:
        sparse = pytest.importorskip("scipy.sparse")
        features = sparse.csr_array(np.diag([1.0, 2.0, 3.0, 4.0] * 10))
        graph = planted_graph(directed=True, features=features)
        arrays = graph.to_arrays()
        np.testing.assert_array_equal(arrays["edge_index"].T, graph.edges)
        np.testing.assert_array_equal(arrays["x"], features.toarray())
        assert "edge_weight" not in arrays

    def test_pyg(self) -> None:
        graph = planted_graph(features=np.eye(40))
        data = graph.to_pyg()
        assert isinstance(data, Data) and data.is_undirected() and data.num_nodes == 40
        np.testing.assert_array_equal(Graph.from_pyg(data).edges, graph.edges)


class TestArrow:
    @pytest.mark.parametrize(
        "make",
        [
            pa.table,
            lambda columns: pa.RecordBatchReader.from_batches(pa.table(columns).schema, pa.table(columns).to_batches()),
            pl.DataFrame,
            pd.DataFrame,
        ],
        ids=["table", "reader", "polars", "pandas"],
    )
    def test_whatever_has_a_stream(self, make: Any) -> None:
        assert as_graph(make(COLUMNS)).num_edges == 3

    def test_a_relation_of_duckdb(self) -> None:
        duckdb = pytest.importorskip("duckdb")
        edges = pa.table(COLUMNS)
        relation = duckdb.connect().from_arrow(edges)
        assert Graph.from_table(relation).num_edges == 3

    def test_a_frame_with_a_column_called_cursor(self) -> None:
        assert Graph.from_table(pd.DataFrame({**COLUMNS, "cursor": [1, 2, 3]})).num_edges == 3

    @pytest.mark.parametrize("name", ["edges.arrow", "edges.feather", "edges.arrows"])
    def test_files(self, name: str, tmp_path: Path) -> None:
        table, path = pa.table(COLUMNS), tmp_path / name
        writer = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        with writer(path, table.schema) as file:
            file.write_table(table)
        assert read_table(path).equals(table)
        assert Graph.from_table(path).num_edges == 3
        path.write_bytes(path.read_bytes()[:80])
        with pytest.raises(InputError, match="damaged Arrow file"):
            Graph.from_table(path)

    def test_answers_are_streams(self, model: LinkPredictor) -> None:
        found = model.best_links(4)
        assert pl.DataFrame(found)["score"].to_list() == found.scores.tolist()
        assert pa.table(found).equals(found.to_arrow())


class TestNetworkX:
    def test_links_are_added_to_a_graph(self, model: LinkPredictor) -> None:
        found = model.best_links(4)
        graph = model.graph_.to_networkx()
        before = graph.number_of_edges()
        assert found.to_networkx(graph) is graph and graph.number_of_edges() == before + 4
        new = [(a, b, data) for a, b, data in graph.edges(data=True) if data.get("predicted")]
        assert {frozenset(edge[:2]) for edge in new} == {frozenset(link[:2]) for link in found}
        assert all(set(data) == {"predicted", "score", "rank", "probability"} for *_, data in new)

    def test_known_edges_stay_as_they_are(self, model: LinkPredictor) -> None:
        found = model.best_links(4)
        graph = nx.Graph()
        graph.add_edge(found[0].source, found[0].target, colour="red")
        found.to_networkx(graph)
        assert graph.edges[found[0].source, found[0].target] == {"colour": "red"}

    def test_a_new_graph_has_directions(self, model: LinkPredictor) -> None:
        found = model.recommend([0, 1], k=3)
        assert sorted(found.to_networkx().edges) == sorted((link.source, link.target) for link in found)
