"""What objects show in a notebook: tables of escaped text."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest

from contracts import planted_graph, tiny
from typed_graphs import QUICK, shop
from yinyan import Graph, LinkPredictor, evaluate
from yinyan.errors import InputError
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
    assert "a &lt; b, protocol" in shown and ">cn</td>" in shown and "auc" in shown


def test_a_drawing_is_a_page_in_a_frame_that_reaches_nothing(model: LinkPredictor, tmp_path: Path) -> None:
    node = model.graph_.ids[3]
    drawing = model.explore(node, k=4)
    edges = len(model.graph_.neighbours(3))
    assert repr(drawing).startswith(f"{node}: {edges} edges, 4 predicted links; ")
    page = drawing.to_html()
    data = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    assert [one["target"] for one in data["predictions"]] == list(model.recommend(node, k=4).targets)
    assert {end for ends in data["links"] for end in ends} <= {one["id"] for one in data["nodes"]}
    assert len(data["probabilities"]) == edges == drawing.num_edges
    shown = drawing._repr_html_()
    assert shown.startswith('<iframe title="Neighbourhood of &lt;b&gt;3') and 'sandbox="allow-scripts"' in shown
    assert html.unescape(shown.partition('srcdoc="')[2].partition('"')[0]) == page
    drawing.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page


def test_a_drawing_shows_as_many_nodes_as_it_is_given_room_for(model: LinkPredictor) -> None:
    nodes = model.explore(model.graph_.ids[0], k=1, limit=5).content["nodes"]
    assert len(nodes) == 5 and nodes[0]["hop"] == 0
    for limit in (1, True, 2.5):
        with pytest.raises(InputError, match="'limit' needs an integer of at least 2"):
            model.explore(model.graph_.ids[0], limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="explore draws one node"):
        model.explore(list(model.graph_.ids.take([0, 1])))


def test_edges_of_a_drawing_keep_their_direction() -> None:
    pairs = [(i, (i + step) % 24) for i in range(24) for step in (1, 3)]
    model = LinkPredictor(**tiny()).fit(Graph.from_arrays(pairs, directed=True))
    content = model.explore(5, k=2).content
    known = set(pairs)
    assert all(tuple(link) in known for link in content["links"])
    assert dict(content["probabilities"]).keys() == {2, 4, 6, 8}
    scores = model.predict_proba([(4, 5), (5, 8)])
    assert [dict(content["probabilities"])[i] for i in (4, 8)] == pytest.approx(scores.tolist())


def test_a_drawing_of_a_relation_names_types() -> None:
    graph = shop()
    model = LinkPredictor(**QUICK).fit(graph, predict="buys")
    value = graph.nodes["person"].ids[0]
    content = model.explore(("person", value), k=2, relation="buys").content
    assert content["nodes"][0]["id"] == ["person", value] and content["types"] == ["person", "product"]
    assert {one["target"][0] for one in content["predictions"]} == {"product"}


def test_a_chart_has_a_bar_for_each_method_and_a_dot_for_each_seed() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = evaluate(planted_graph(), model=LinkPredictor(**tiny()), peers=["cn"], seeds=(0, 1))
    axes = found.plot()
    first = next(iter(found.results[0].metrics))
    assert axes.get_xlabel() == first
    assert [bar.get_width() for bar in axes.patches] == [np.mean(found.figures(who)[first]) for who in ("yinyan", "cn")]
    dots = [line.get_xdata().tolist() for line in axes.lines if line.get_marker() == "o"]
    assert dots == [found.figures(who)[first] for who in ("yinyan", "cn")]
    assert found.plot("auc", axes=axes) is axes
    with pytest.raises(InputError, match="no metric is called 'hits' "):
        found.plot("hits")
    pyplot.close("all")


def test_cells_are_escaped_and_rows_left_out_are_counted() -> None:
    assert html_table(["<"], [["&"]]) == (
        "<table><thead><tr><th>&lt;</th></tr></thead><tbody><tr><td>&amp;</td></tr></tbody></table>"
    )
    assert "… and 1,000 more rows" in html_table(["a"], [["b"]], more=1000)
    assert html_facts("t", {"a": "<"}).endswith("<tr><th>a</th><td>&lt;</td></tr></tbody></table>")
