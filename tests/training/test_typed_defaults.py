"""Default settings of graphs with relations: many relations of nodes without features get vectors."""

from __future__ import annotations

import pytest

from typed_graphs import shop
from yinyan import Graph, LinkPredictor, TypedGraph
from yinyan.settings import Settings
from yinyan.training.typed_defaults import suggest_typed


def steps(relations: int, nodes: int = 30) -> TypedGraph:
    """A relation for each number of steps along a ring."""
    rows = [(f"n{i}", f"{r} on", f"n{(i + r) % nodes}") for r in range(1, relations + 1) for i in range(nodes)]
    return Graph.from_triples(rows, directed=True)


def suggested(graph: TypedGraph, num_targets: int | None = None, **given: object) -> Settings:
    return suggest_typed(graph, tuple(graph.relations), num_targets or graph.num_edges, given).settings


def test_many_relations_get_vectors_and_few_do_not() -> None:
    chosen = suggested(steps(10))
    assert chosen.decoder.kind == "complex" and chosen.encoder.num_steps == chosen.encoder.num_layers == 0
    assert chosen.training.loss_sampler == "all" and chosen.training.selection == "mrr"
    assert chosen.encoder.hidden_size == chosen.encoder.embedding_size
    assert suggested(steps(9)).decoder.kind == suggested(shop()).decoder.kind == "hadamard"


def test_the_caller_chooses_the_decoder() -> None:
    assert suggested(steps(10), decoder={"kind": "hadamard"}).encoder.num_steps > 0
    assert suggested(steps(3), decoder={"kind": "complex"}).training.optimizer == "adagrad"


def test_large_graphs_get_a_sample_and_narrower_embeddings() -> None:
    nodes = 4_001
    graph = Graph.from_triples([(i, "near", (i + 1) % nodes) for i in range(nodes)], directed=True)
    small = suggested(graph, 8_000, decoder={"kind": "complex"})
    large = suggested(graph, 800_000, decoder={"kind": "complex"})
    assert small.training.loss_sampler == "shared" and small.training.loss_negatives < nodes
    assert large.encoder.hidden_size < small.encoder.hidden_size and large.training.n3 < small.training.n3
    assert small.training.batch_size < large.training.batch_size


@pytest.mark.usefixtures("recwarn")
def test_a_fit_of_many_relations_ranks_by_them() -> None:
    model = LinkPredictor(seed=0, epochs=12, hidden_size=32, embedding_size=32).fit(steps(10, 60))
    assert "complex vectors of relations" in model.fitted_.reasons[0]
    assert model.fitted_.best_score > 0.3, "chance is below .1"
    assert len(model.recommend("n3", relation="7 on", k=3)) == 3
