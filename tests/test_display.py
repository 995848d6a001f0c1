"""What objects show in a notebook: tables of escaped text."""

from __future__ import annotations

import pytest

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor, evaluate
from yinyan.text import html_facts, html_table


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    plain = planted_graph()
    names = [f"<b>{i}</b>" for i in range(plain.num_nodes)]
    return LinkPredictor(**tiny()).fit(Graph.from_arrays(plain.edges, ids=names))


def test_a_graph_shows_its_size_and_kind(model: LinkPredictor) -> None:
    shown = model.graph_._repr_html_()
    assert "Undirected graph" in shown and f"{model.graph_.num_edges:,}" in shown
    sides = Graph.from_arrays([(0, 3), (1, 4), (2, 3)], num_nodes=5, sides=[0, 0, 0, 1, 1])._repr_html_()
    assert "Bipartite graph" in sides and "3 and 2 nodes" in sides


def test_a_model_shows_what_it_was_fitted_on(model: LinkPredictor) -> None:
    assert "not fitted" in LinkPredictor()._repr_html_()
    shown = model._repr_html_()
    assert "40 nodes" in shown and "validation auc" in shown


def test_recommendations_are_a_table_with_escaped_ids(model: LinkPredictor) -> None:
    found = model.recommend(model.graph_.ids.take(range(10)), k=3)
    shown = found._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>" not in shown
    assert shown.count("<tr>") == 21 and "… and 10 more rows" in shown
    assert "<tbody></tbody>" in found[:0]._repr_html_()


def test_an_explanation_shows_score_and_neighbours(model: LinkPredictor) -> None:
    a, b = model.graph_.ids.take([0, 7])
    shown = model.explain(a, b)._repr_html_()
    assert "change of the score" in shown and "without any message" in shown and "<b>" not in shown


def test_an_evaluation_is_the_table_that_it_prints() -> None:
    found = evaluate(planted_graph(), model=LinkPredictor(**tiny()), peers=["cn"], dataset="a < b")
    shown = found._repr_html_()
    assert "a &lt; b, protocol" in shown and "<td>cn</td>" in shown and "auc" in shown


def test_cells_are_escaped_and_rows_left_out_are_counted() -> None:
    assert html_table(["<"], [["&"]]) == (
        "<table><thead><tr><th>&lt;</th></tr></thead><tbody><tr><td>&amp;</td></tr></tbody></table>"
    )
    assert "… and 1,000 more rows" in html_table(["a"], [["b"]], more=1000)
    assert html_facts("t", {"a": "<"}).endswith("<tr><th>a</th><td>&lt;</td></tr></tbody></table>")
