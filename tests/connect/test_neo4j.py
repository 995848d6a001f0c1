"""Neo4j through its real driver, against a stand-in that speaks Bolt and knows no Cypher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from contracts import planted_graph, tiny
from neo4j_server import Answer, BoltServer
from yinyan import DatabaseTable, Graph, LinkPredictor
from yinyan.errors import InputError

neo4j = pytest.importorskip("neo4j")

EDGES = "MATCH (a:Paper)-[:CITES]->(b:Paper) RETURN a.id AS source, b.id AS target"
NODES = "MATCH (p:Paper) RETURN p.id AS id, p.year AS year"
ROWS = [(f"p{i}", f"p{(i * 3 + 1) % 30}") for i in range(30)]


class Store:
    """Answers, and how many relationships there are."""

    def __init__(self) -> None:
        self.relationships, self.unknown = 0, 0
        self.server = BoltServer(self.answer)

    def answer(self, query: str, parameters: dict[str, Any]) -> Answer:
        if query == EDGES:
            return Answer(("source", "target"), [row for row in ROWS if row[0] != row[1]])
        if query == NODES:
            return Answer(("id", "year"), [(f"p{i}", 1990 + i if i else None) for i in range(30)])
        if "count(r)" in query:
            return Answer(("count",), [(self.relationships,)])
        if query.startswith("UNWIND"):
            return Answer(created=len(parameters["rows"]) - self.unknown)
        if "DELETE" in query:
            return Answer()
        return Answer(failure=f"Invalid input: {query}")


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.server.close()


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())


def test_a_graph_from_two_queries(store: Store) -> None:
    url = store.server.url.replace("//", "//neo4j:s3cret@")
    with neo4j.GraphDatabase.driver(store.server.url) as driver:
        for database in (driver, url):
            graph = Graph.from_table(database, query=EDGES, nodes_query=NODES)
            assert (graph.num_nodes, graph.num_edges) == (30, len({frozenset(r) for r in ROWS if r[0] != r[1]}))
            assert graph.features is not None and graph.features.shape == (30, 2), "a year, and whether it is known"


def test_errors_name_the_database_and_no_password(store: Store) -> None:
    url = store.server.url.replace("//", "//neo4j:s3cret@")
    for query, why in (("MATCH nothing", "the query failed: .*Invalid input"), ("CITES", "has no table.*write Cypher")):
        with pytest.raises(InputError, match=rf"{store.server.url}.*{why}") as failed:
            DatabaseTable(url, query).read()
        assert "s3cret" not in str(failed.value)
    with pytest.raises(InputError, match=r"query= \(--query\)"):
        Graph.from_table(url)
    with pytest.raises(InputError, match="cannot be opened"):
        DatabaseTable("bolt://127.0.0.1:1", EDGES).read()


def test_links_become_relationships_in_one_transaction(store: Store, model: LinkPredictor) -> None:
    found = model.best_links(5)
    assert found.to_neo4j(store.server.url, "SUGGESTED", key="number", label=("Per`son", "")) == 5
    assert store.server.messages == ["BEGIN", "RUN", "PULL", "RUN", "PULL", "COMMIT"]
    query, parameters = store.server.queries[-1]
    assert "MATCH (a:`Per``son` {`number`: row.source}) MATCH (b {`number`: row.target})" in query
    assert "CREATE (a)-[r:`SUGGESTED`]->(b) SET r = row.properties" in query
    assert [(row["source"], row["target"]) for row in parameters["rows"]] == [(a, b) for a, b, *_ in found]
    assert set(parameters["rows"][0]["properties"]) == {"score", "rank", "probability"}


def test_an_id_without_its_node_undoes_everything(store: Store, model: LinkPredictor) -> None:
    store.unknown = 1
    with pytest.raises(InputError, match=r"5 links would have made 4 relationships, and nothing was written.*'id'"):
        model.best_links(5).to_neo4j(store.server.url, "SUGGESTED")
    assert store.server.messages[-1] == "ROLLBACK" and "COMMIT" not in store.server.messages


def test_never_overwrites_unless_asked(store: Store, model: LinkPredictor) -> None:
    store.relationships = 7
    found = model.best_links(2)
    with pytest.raises(InputError, match="has 7 relationships of type 'SUGGESTED' already"):
        found.to_neo4j(store.server.url, "SUGGESTED")
    assert "COMMIT" not in store.server.messages
    found.to_neo4j(store.server.url, "SUGGESTED", if_exists="append")
    assert not any("DELETE" in query for query, _ in store.server.queries)
    found.to_neo4j(store.server.url, "SUGGESTED", if_exists="replace")
    assert sum("DELETE" in query for query, _ in store.server.queries) == 1
    with pytest.raises(InputError, match="if_exists needs to be error, append or replace"):
        found.to_neo4j(store.server.url, "SUGGESTED", if_exists="never")  # type: ignore[arg-type]


def test_tables_are_for_sql(store: Store, model: LinkPredictor) -> None:
    with pytest.raises(InputError, match="with to_neo4j"):
        model.best_links(2).to_sql(store.server.url, "links")
