"""Graphs with relations from tables, triples, NetworkX and PyG: types, ids, columns, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import yinyan
from typed_graphs import shop
from yinyan import Graph, TypedGraph
from yinyan.errors import InputError, UnknownNodeError


def edges_of(graph: TypedGraph, name: str) -> set[tuple[Any, Any]]:
    relation = graph.relation(name)
    first, second = (graph.nodes[kind].ids for kind in (relation.source, relation.target))
    return set(zip(first.take(relation.edges[:, 0]), second.take(relation.edges[:, 1]), strict=True))


PEOPLE = {"person_id": ["u1", "u2", "u3"], "age": [30.0, 40.0, 50.0]}
BUYS = {"person": ["u1", "u2"], "product": ["p1", "p2"], "price": [1.0, 2.0]}


class TestTables:
    def test_the_example_of_the_guide(self, tmp_path: Path) -> None:
        pq.write_table(pa.table(BUYS), tmp_path / "orders.parquet")
        pd.DataFrame({"id": ["p1", "p2"], "name": ["tea", "milk"]}).to_csv(tmp_path / "products.csv", index=False)
        follows = pd.DataFrame({"a": ["u1", "u3"], "b": ["u3", "u2"]})
        graph = Graph.from_tables(
            edges={"buys": tmp_path / "orders.parquet", ("person", "follows", "person"): follows},
            nodes={"person": PEOPLE, "product": tmp_path / "products.csv"},
            directed=["follows"],
        )
        assert repr(graph) == "TypedGraph(person: 3, product: 2; person buys product: 2, person follows person: 2)"
        assert edges_of(graph, "buys") == {("u1", "p1"), ("u2", "p2")}
        assert edges_of(graph, "follows") == {("u1", "u3"), ("u3", "u2")}
        assert graph.relation("follows").directed
        assert not graph.relation("buys").directed
        assert graph.nodes["person"].features is not None
        assert graph.nodes["product"].attributes is not None

    def test_types_by_the_ids_of_a_column(self) -> None:
        table = {"left": ["u1", "u2"], "right": ["p1", "p2"]}
        graph = Graph.from_tables(
            {"buys": table}, {"person": PEOPLE, "product": {"id": ["p1", "p2"]}}, unmatched="keep"
        )
        assert (graph.relation("buys").source, graph.relation("buys").target) == ("person", "product")

    def test_types_that_cannot_be_told(self) -> None:
        same = {"id": ["1", "2"]}
        with pytest.raises(InputError, match=r"column .left. is unknown.*name both types"):
            Graph.from_tables({"buys": {"left": ["1"], "right": ["2"]}}, {"person": same, "product": same})

    def test_two_types_with_the_same_ids(self) -> None:
        graph = shop()
        assert len(graph.nodes["person"].ids) == 24
        assert len(graph.nodes["product"].ids) == 18
        assert graph.row_of("person", "3") != graph.row_of("product", "3")
        assert graph.nodes_at([graph.row_of("product", "3")]) == [("product", "3")]
        view = graph.of_relation("buys")
        assert "person:3" in view.ids
        assert "product:3" in view.ids
        assert view.is_bipartite

    def test_an_edge_between_equal_ids_of_two_types_is_no_self_loop(self) -> None:
        graph = Graph.from_tables({("a", "r", "b"): {"x": ["1", "2"], "y": ["1", "1"]}})
        assert edges_of(graph, "r") == {("1", "1"), ("2", "1")}

    def test_one_table_with_a_column_of_relations(self, tmp_path: Path) -> None:
        file = tmp_path / "edges.csv"
        file.write_text("head,kind,tail,weight\na,knows,b,2\nb,likes,c,1\nb,knows,a,3\nc,likes,c,1\n")
        graph = Graph.from_tables(file, relation="kind", source="head", target="tail")
        assert list(graph.relations) == ["knows", "likes"]
        assert edges_of(graph, "knows") == {("a", "b")}
        assert graph.relation("knows").weights.tolist() == [5.0]  # type: ignore[union-attr]
        assert any("dropped 1 self loop" in note for note in graph.notes)
        directed = Graph.from_tables(file, relation="kind", source="head", target="tail", directed=True)
        assert edges_of(directed, "knows") == {("a", "b"), ("b", "a")}

    def test_names_that_two_relations_share_carry_their_types(self) -> None:
        table = {"a": ["u1"], "b": ["p1"]}
        graph = Graph.from_tables({("person", "likes", "product"): table, ("person", "likes", "shop"): table})
        assert list(graph.relations) == ["person.likes.product", "person.likes.shop"]
        assert graph.relation(("person", "likes", "shop")).name == "person.likes.shop"
        with pytest.raises(InputError, match="there is no relation 'likes'"):
            graph.relation("likes")

    def test_nodes_without_an_edge(self) -> None:
        people = {"id": ["u1", "u2", "u9"]}
        table = {("person", "knows", "person"): {"a": ["u1"], "b": ["u2"]}}
        with pytest.raises(InputError, match='unmatched="keep"'):
            Graph.from_tables(table, {"person": people})
        assert len(Graph.from_tables(table, {"person": people}, unmatched="keep").nodes["person"].ids) == 3

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"edges": {}}, "a table for each relation"),
            ({"edges": {"source": ["a"], "target": ["b"]}}, "."),
            ({"edges": {("a", "b"): BUYS}}, "source type, name, target type"),
            ({"edges": BUYS, "relation": "nothing"}, "relation"),
            ({"edges": {"r": BUYS}, "directed": ["s"]}, "'directed' names 's'"),
            ({"edges": {"h": ["a", None], "k": ["r", None], "t": ["b", "c"]}, "relation": "k"}, "row 2"),
        ],
    )
    def test_what_is_refused(self, given: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            Graph.from_tables(**given)

    def test_integers_in_one_table_and_text_in_another(self) -> None:
        edges = {"r": {"a": [1, 2], "b": [2, 3]}, "s": {"a": ["1"], "b": ["3"]}}
        with pytest.raises(InputError, match="integers in relation 'r' and text in relation 's'"):
            Graph.from_tables(edges)
        assert len(Graph.from_tables(edges, id_type="text").nodes["node"].ids) == 3


class TestTriples:
    def test_from_a_list_and_from_a_file(self, tmp_path: Path) -> None:
        triples = [("tea", "is a", "drink"), ("milk", "is a", "drink"), ("tea", "with", "milk")]
        file = tmp_path / "train.txt"
        file.write_text("".join("\t".join(triple) + "\n" for triple in triples))
        for given in (triples, file, np.array(triples)):
            graph = Graph.from_triples(given)
            assert list(graph.relations) == ["is a", "with"]
            assert edges_of(graph, "is a") == {("tea", "drink"), ("milk", "drink")}
            assert all(relation.directed for relation in graph.relations.values())

    def test_what_is_refused(self) -> None:
        for given in ([("a", "b")], []):
            with pytest.raises(InputError, match=r"triples are \(head, relation, tail\)"):
                Graph.from_triples(given)


class TestObjects:
    def test_networkx_with_kinds(self) -> None:
        made = networkx.MultiGraph()
        made.add_node("ann", kind="person", age=3)
        made.add_node("bob", kind="person")
        made.add_node(7, kind="product")
        made.add_edge("ann", 7, kind="buys")
        made.add_edge(7, "bob", kind="buys", weight=2.0)
        made.add_edge("ann", "bob", kind="knows")
        graph = TypedGraph.from_networkx(made)
        assert edges_of(graph, "buys") == {("ann", 7), ("bob", 7)}
        assert sorted(graph.relation("buys").weights.tolist()) == [1.0, 2.0]  # type: ignore[union-attr]
        assert edges_of(graph, "knows") == {("ann", "bob")}
        assert graph.nodes["person"].attributes is not None
        made.add_edge("bob", 7)
        with pytest.raises(InputError, match="lacks the attribute 'kind'"):
            TypedGraph.from_networkx(made)

    def test_hetero_data(self) -> None:
        torch = pytest.importorskip("torch")
        geometric = pytest.importorskip("torch_geometric.data")
        data = geometric.HeteroData()
        data["person"].x = torch.ones(3, 4)
        data["product"].num_nodes = 2
        data["person", "buys", "product"].edge_index = torch.tensor([[0, 2], [1, 0]])
        data["person", "knows", "person"].edge_index = torch.tensor([[0, 1], [1, 0]])
        data["person", "follows", "person"].edge_index = torch.tensor([[0, 1], [1, 2]])
        graph = TypedGraph.from_pyg(data)
        assert edges_of(graph, "buys") == {(0, 1), (2, 0)}
        assert not graph.relation("knows").directed
        assert graph.relation("follows").directed
        assert graph.nodes["person"].features is not None
        with pytest.raises(InputError, match=r"TypedGraph\.from_pyg"):
            Graph.from_pyg(data)


class TestViews:
    def test_attributes_of_two_types_stand_in_one_table(self) -> None:
        graph = Graph.from_tables(
            {("a", "r", "b"): {"x": [f"a{i}" for i in range(30)], "y": [f"b{i}" for i in range(30)]}},
            {
                "a": {"id": [f"a{i}" for i in range(30)], "name": [f"Ada {i}" for i in range(30)], "size": [1] * 30},
                "b": {"id": [f"b{i}" for i in range(30)], "title": [f"Tea {i}" for i in range(30)], "size": ["s"] * 30},
            },
        )
        view = graph.of_relation("r")
        assert view.attributes is not None
        assert view.attributes.table["size"].to_pylist() == ["1"] * 30 + ["s"] * 30
        assert view.labels_of([0, 1, 30, 59]) == ["Ada 0", "Ada 1", "Tea 0", "Tea 29"]

    def test_with_edges(self) -> None:
        graph = shop()
        fewer = graph.with_edges({"buys": [0, 5]})
        assert len(fewer.relation("buys").edges) == 2
        assert len(fewer.relation("views").edges) == len(graph.relation("views").edges)

    def test_unknown_names(self) -> None:
        graph = shop()
        with pytest.raises(InputError, match="nearest: 'buys'"):
            graph.relation("buy")
        with pytest.raises(InputError, match="no node type 'shop'"):
            graph.row_of("shop", "3")
        with pytest.raises(UnknownNodeError, match="looked for among nodes of type 'product'"):
            graph.row_of("product", "20")
        with pytest.raises(AttributeError):
            _ = graph.nothing
        assert not hasattr(graph, "edges")

    def test_it_is_refused_by_its_cure(self) -> None:
        with pytest.raises(InputError, match=r"graph\.of_relation\('buys'\)"):
            yinyan.random_split(shop(), seed=0)  # type: ignore[arg-type]
