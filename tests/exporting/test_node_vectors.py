"""Vectors of nodes with ids and labels: in files, in vector stores, by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import refused, works
from contracts import planted_graph, tiny
from postgres_tools import Server
from yinyan import Graph, LinkPredictor
from yinyan.connect import urls
from yinyan.errors import InputError, MissingExtraError, StoreError
from yinyan.exporting import node_vectors, vector_stores
from yinyan.exporting.node_vectors import NodeVectors

NODES = 40
DOT: dict[str, Any] = {"decoder": {"kind": "dot", "rerank": False}, "encoder": {"sketch_size": 0}}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeVectors.batches, "__defaults__", (7,))
    monkeypatch.setattr(vector_stores, "_BLOCK", 9)


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    """Text ids with labels, a directed graph, a score that is an inner product."""
    edges = [(f"n{a}", f"n{b}") for a, b in planted_graph(directed=True).edges]
    ids = [f"n{i}" for i in range(NODES)]
    labels = {"title": [f"Node {i}" if i else None for i in range(NODES)]}
    graph = Graph.from_arrays(edges, ids=ids, directed=True, attributes=labels, label="title")
    return LinkPredictor(**tiny(**DOT, training={"epochs": 1})).fit(graph)


@pytest.fixture(scope="module")
def saved(model: LinkPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "model"
    model.save(folder)
    return folder


class TestFiles:
    @pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
    def test_tables(self, suffix: str, model: LinkPredictor, tmp_path: Path) -> None:
        path = tmp_path / f"vectors{suffix}"
        model.vectors().save(path)
        table = pq.read_table(path) if suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        assert table.column_names == ["id", "label", "vector"]
        assert table["id"].to_pylist() == [f"n{i}" for i in range(NODES)]
        assert table["label"].to_pylist() == [None, *(f"Node {i}" for i in range(1, NODES))]
        size = model.settings_.encoder.hidden_size
        np.testing.assert_array_equal(np.stack(table["vector"].to_pylist()), model.embeddings_[:, :size])
        assert json.loads(table.schema.metadata[b"yinyan"]) == {"vectors": "embedding", "width": size}
        assert list(tmp_path.iterdir()) == [path]

    def test_arrays_with_ids_beside(self, model: LinkPredictor, tmp_path: Path) -> None:
        model.vectors("row").save(tmp_path / "v.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), model.embeddings_)
        assert pq.read_table(tmp_path / "v.ids.parquet")["id"].to_pylist() == [f"n{i}" for i in range(NODES)]
        model.vectors("inner-product").save(tmp_path / "p.npy")
        queries, vectors = (np.load(tmp_path / name) for name in ("p.query.npy", "p.npy"))
        offset = json.loads(pq.read_schema(tmp_path / "p.ids.parquet").metadata[b"yinyan"])["offset"]
        expected = model.score([("n3", f"n{i}") for i in range(10, 20)])
        np.testing.assert_allclose(vectors[10:20] @ queries[3] + offset, expected, rtol=1e-5, atol=1e-5)

    def test_whatever_reads_arrow(self, model: LinkPredictor) -> None:
        frame = pl.DataFrame(model.vectors())
        assert frame.shape == (NODES, 3)
        assert frame["id"][3] == "n3"

    def test_integer_ids_and_sides(self) -> None:
        edges = [(a, b) for a in range(8) for b in range(8, 20) if (a + b) % 3]
        graph = Graph.from_arrays(np.array(edges), sides=[0] * 8 + [1] * 12, ids=range(100, 120))
        made = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph).vectors().to_arrow()
        assert made.schema.field("id").type == pa.int64()
        assert made["id"].to_pylist() == list(range(100, 120))
        assert made["side"].to_pylist() == [0] * 8 + [1] * 12

    def test_an_interrupted_export_leaves_no_file(
        self, model: LinkPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = model.vectors()
        block = made._block
        monkeypatch.setattr(made, "_block", lambda rows: block(rows) if rows[0] < 20 else 1 / 0)
        for name in ("v.parquet", "v.npy"):
            with pytest.raises(ZeroDivisionError):
                made.save(tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("name", "error"), [("v.csv", InputError), ("no/v.npy", StoreError)])
    def test_other_places_are_refused(self, name: str, error: Any, model: LinkPredictor, tmp_path: Path) -> None:
        with pytest.raises(error, match=r"needs to end in|does not exist"):
            model.vectors().save(tmp_path / name)
        with pytest.raises(InputError, match=r"'kind' \(--vectors\) needs to be"):
            model.vectors("nonsense")  # type: ignore[arg-type]


class TestStores:
    def test_qdrant(self, model: LinkPredictor, saved: Path, tmp_path: Path) -> None:
        qdrant = pytest.importorskip("qdrant_client")
        client = qdrant.QdrantClient(":memory:")
        assert model.vectors("inner-product").to_qdrant(client, "nodes") == NODES
        lookup = qdrant.models.LookupLocation(collection="nodes", vector="query")
        found = client.query_points("nodes", query=3, using="vector", lookup_from=lookup, limit=NODES).points
        offset = model.vectors("inner-product").offset
        expected = model.score([("n3", point.payload["id"]) for point in found])
        np.testing.assert_allclose([point.score + offset for point in found], expected, rtol=1e-4, atol=1e-4)
        assert found[0].score >= found[-1].score and len(found) == NODES - 1
        with pytest.raises(InputError, match="has a collection 'nodes' already"):
            model.vectors().to_qdrant(client, "nodes")
        ran = works("export", saved, "--embeddings", f"qdrant:{tmp_path}/q", "--table", "papers", "--json")
        assert ran.json["rows"] == NODES
        kept = qdrant.QdrantClient(path=str(tmp_path / "q"))
        nearest = kept.query_points("papers", query=7, limit=5).points
        similar = model.similar("n7", 5)
        assert [point.payload["id"] for point in nearest] == list(similar.targets)
        np.testing.assert_allclose([point.score for point in nearest], similar.scores, atol=1e-4)
        kept.close()

    def test_qdrant_keeps_no_half_of_a_collection(self, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
        qdrant = pytest.importorskip("qdrant_client")
        client, made = qdrant.QdrantClient(":memory:"), model.vectors()
        block = made._block
        monkeypatch.setattr(made, "_block", lambda rows: block(rows) if rows[0] < 20 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            made.to_qdrant(client, "nodes")
        assert not client.collection_exists("nodes")

    def test_lancedb(self, model: LinkPredictor, saved: Path, tmp_path: Path) -> None:
        lancedb = pytest.importorskip("lancedb")
        place = tmp_path / "lance"
        assert model.vectors("inner-product").to_lancedb(place, "nodes") == NODES
        table = lancedb.connect(str(place)).open_table("nodes")
        query = model.vectors("inner-product").to_arrow()["query"][3].as_py()
        found = table.search(query, vector_column_name="vector").distance_type("dot").limit(NODES).to_list()
        assert [row["id"] for row in found] == best_of(model, "n3", [row["id"] for row in found])
        assert refused("export", saved, "--embeddings", f"lancedb:{place}", "--table", "nodes").count("already") == 1
        works("export", saved, "--embeddings", f"lancedb:{place}", "--table", "nodes", "--if-exists", "replace")
        replaced = lancedb.connect(str(place)).open_table("nodes")
        assert replaced.schema.names == ["id", "label", "vector"] and replaced.count_rows() == NODES

    def test_pgvector(self, model: LinkPredictor, saved: Path, vector_database: Server, schema: str) -> None:
        psycopg = pytest.importorskip("psycopg")
        vector_database.execute(f"CREATE SCHEMA {schema}; CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
        url = vector_database.url(f"?options=-csearch_path%3D{schema}%2Cpublic")
        made = model.vectors("inner-product")
        assert made.to_pgvector(url, "nodes") == NODES
        with psycopg.connect(url, autocommit=True) as db:
            query = "SELECT id FROM nodes ORDER BY vector <#> (SELECT query FROM nodes WHERE id = 'n3')"
            found = [name for (name,) in db.execute(query).fetchall()]
            assert found == best_of(model, "n3", found) and len(found) == NODES
            facts = db.execute("SELECT obj_description('nodes'::regclass)").fetchone()
            assert json.loads(facts[0])["offset"] == made.offset
            assert "already" in refused("export", saved, "--embeddings", url, "--table", "nodes")
            works("export", saved, "--embeddings", url, "--table", "nodes", "--if-exists", "replace")
            assert db.execute("SELECT count(*), min(vector_dims(vector)) FROM nodes").fetchone() == (NODES, 16)

    def test_a_database_without_pgvector(self, model: LinkPredictor, database: Server) -> None:
        pytest.importorskip("pgvector")
        if database.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'", schema="public"):
            pytest.skip("this server has pgvector")
        with pytest.raises(InputError, match="CREATE EXTENSION vector") as failed:
            model.vectors().to_pgvector(database.url(), "nodes")
        assert "s3cret" not in str(failed.value)

    def test_packages_that_are_missing_are_named(self, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> Any:
            raise ImportError(name)

        monkeypatch.setattr(urls.importlib, "import_module", missing)
        made = model.vectors()
        for extra, write in (("qdrant", made.to_qdrant), ("lancedb", made.to_lancedb), ("pgvector", made.to_pgvector)):
            with pytest.raises(MissingExtraError, match=rf"pip install 'yinyan\[{extra}\]'"):
                write("place", "nodes")


def best_of(model: LinkPredictor, source: str, targets: list[str]) -> list[str]:
    """The targets in the order of the model's scores."""
    scores = model.score([(source, target) for target in targets])
    return [targets[place] for place in np.argsort(-scores, kind="stable")]


class TestCommand:
    def test_writes_files(self, saved: Path, tmp_path: Path) -> None:
        ran = works("export", saved, "--embeddings", tmp_path / "v.parquet", "--vectors", "inner-product")
        assert "score = query · vector + offset" in ran.out
        assert pq.read_table(tmp_path / "v.parquet").column_names == ["id", "label", "vector", "query"]

    @pytest.mark.parametrize(
        ("arguments", "cure"),
        [
            ((), "needs --embeddings, --onnx or both"),
            (("--embeddings", "v.csv"), "needs to end in"),
            (("--embeddings", "v.npy", "--table", "a"), "are for stores"),
            (("--embeddings", "lancedb:x"), "add --table nodes"),
            (("--embeddings", "qdrant:x", "--table", "a", "--if-exists", "replace"), "move an alias"),
            (("--embeddings", "lancedb:x", "--table", "a", "--if-exists", "append"), "needs to be error or replace"),
            (("--onnx", "decoder.pb"), "needs to end in .onnx"),
        ],
    )
    def test_what_it_refuses(
        self, arguments: tuple[str, ...], cure: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert cure in refused("export", saved, *arguments)


def test_a_model_of_relations(tmp_path: Path) -> None:
    """Nodes of both types, with the type of each."""
    edges = {
        ("person", "buys", "product"): {
            "person": [f"p{i % 12}" for i in range(60)],
            "product": [i * 7 % 15 for i in range(60)],
        }
    }
    graph = Graph.from_tables(edges)
    made = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph).vectors().to_arrow()
    assert made.column_names == ["id", "type", "vector"]
    assert sorted(set(made["type"].to_pylist())) == ["person", "product"]
    assert made.num_rows == 27 and node_vectors.KINDS[0] == "embedding"
