"""Scores as inner products: equal to the model's scores, or refused by their reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError
from yinyan.exporting.node_vectors import matrix_of

PLAIN: dict[str, Any] = {"sketch_size": 0}
# settings of the decoder and of the encoder whose score is one inner product
ALLOWED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dot": ({"kind": "dot"}, PLAIN),
    "dot with degrees": ({"kind": "dot"}, {**PLAIN, "degree_column": True}),
    "distance": ({"kind": "distance"}, PLAIN),
    "hadamard": ({"kind": "hadamard", "depth": 1}, PLAIN),
    "multi-dot": ({"kind": "multi-dot", "heads": 1}, PLAIN),
}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "sketches": ({"kind": "dot"}, {"sketch_size": 16}, r"encoder\.sketch_size"),
    "hidden layer": ({"kind": "hadamard", "depth": 2}, PLAIN, r"decoder\.depth"),
    "heads": ({"kind": "multi-dot", "heads": 4}, PLAIN, r"decoder\.heads"),
}


def fitted(decoder: dict[str, Any], encoder: dict[str, Any], graph: Graph) -> LinkPredictor:
    groups = tiny(decoder={**decoder, "rerank": False}, encoder=encoder, training={"epochs": 1})
    return LinkPredictor(**groups).fit(graph)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("name", ALLOWED)
def test_products_are_scores(name: str, directed: bool) -> None:
    model = fitted(*ALLOWED[name], planted_graph(directed=directed))
    made = model.vectors("inner-product")
    table = made.to_arrow()
    vectors = matrix_of(table["vector"].combine_chunks())
    assert vectors.shape == (40, made.width)
    assert made.has_queries == (directed or not name.startswith("dot"))
    queries = matrix_of(table["query"].combine_chunks()) if made.has_queries else vectors
    pairs = [(a, b) for a in range(12) for b in range(12, 40)]
    expected = model.score(pairs)
    found = np.einsum("ij,ij->i", *(m[[p[e] for p in pairs]].astype(float) for e, m in enumerate((queries, vectors))))
    np.testing.assert_allclose(found + made.offset, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_other_scores_are_refused_by_their_reason(name: str) -> None:
    decoder, encoder, why = REFUSED[name]
    model = fitted(decoder, encoder, planted_graph())
    with pytest.raises(InputError, match=rf"no inner product: .*{why}.*export the decoder as ONNX"):
        model.vectors("inner-product")
    assert len(model.vectors()) == 40, "its embeddings are exported all the same"


def test_reranked_scores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted({"kind": "dot"}, PLAIN, planted_graph())
    monkeypatch.setattr(model._questions.state, "reranker", object())
    with pytest.raises(InputError, match=r"counts of shared neighbours are added to it \(decoder\.rerank\)"):
        model.vectors("inner-product")
