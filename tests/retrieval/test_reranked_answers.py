"""A reranked model gives one score for a pair, whoever is asked: Python, an index, a file, a service."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts import tiny
from yinyan import Graph, LinkPredictor
from yinyan.model.reranking import Reranking
from yinyan.service.answers import Wish, explain, recommend, score
from yinyan.service.context import Room
from yinyan.service.options import Options
from yinyan.training.defaults import suggest

GROUPS, SIZE = 10, 8


def mates(seed: int = 0) -> Graph:
    """Groups of two kinds of nodes, linked to the other kind only: nodes of one kind are alike and never linked.

    Rows 0 to 79 are of one kind, the others of the other kind; sides are not given.
    """
    rng, count = np.random.default_rng(seed), GROUPS * SIZE
    group = np.arange(count) // SIZE
    edges = np.argwhere(rng.random((count, count)) < np.where(group[:, None] == group, 0.6, 0.01))
    return Graph.from_arrays(edges + np.array([0, count]), num_nodes=2 * count, ids=[f"n{i}" for i in range(2 * count)])


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    found = LinkPredictor(**tiny(training={"valid_share": 0.2, "epochs": 10})).fit(mates())
    assert found.fitted_.reranking is not None
    return found


def listed(model: LinkPredictor, k: int = 5) -> list[tuple[str, str, float]]:
    found = model.recommend([f"n{i}" for i in range(0, 160, 9)], k=k)
    return list(zip(found.sources, found.targets, found.scores.tolist(), strict=True))


def test_listed_scores_are_the_scores_of_the_pairs(model: LinkPredictor) -> None:
    rows = listed(model)
    np.testing.assert_allclose(model.score([row[:2] for row in rows]), [row[2] for row in rows], atol=1e-4)
    back = model.score([(target, source) for source, target, _ in rows])
    np.testing.assert_allclose(back, [row[2] for row in rows], atol=1e-4)
    ordered = np.array([row[2] for row in rows]).reshape(-1, 5)
    assert (np.diff(ordered, axis=1) <= 1e-6).all()


def test_lists_are_the_best_of_all_pairs(model: LinkPredictor) -> None:
    """159 candidates: a shortlist of 200 holds them all."""
    graph = model.graph_
    for source in ("n3", "n90"):
        row = int(graph.rows_of([source])[0])
        others = [i for i in graph.ids.take(np.arange(160)) if i != source]
        new = [i for i in others if not graph.has_edges([(row, int(graph.rows_of([i])[0]))])[0]]
        scores = model.score([(source, other) for other in new])
        best = [new[place] for place in np.argsort(-scores)[:40]]
        assert list(model.recommend(source, k=40).targets) == best


def test_an_index_a_file_and_the_best_links_agree(model: LinkPredictor, tmp_path: Path) -> None:
    rows = listed(model)
    index = model.index("exact", k=5)
    found = index.recommend([f"n{i}" for i in range(0, 160, 9)], k=5)
    assert [row[:2] for row in rows] == list(zip(found.sources, found.targets, strict=True))
    np.testing.assert_allclose(found.scores, [row[2] for row in rows], atol=1e-4)
    model.save(tmp_path / "model")
    again = LinkPredictor.load(tmp_path / "model")
    assert again.fitted_.reranking == model.fitted_.reranking
    assert [row[:2] for row in listed(again)] == [row[:2] for row in rows]
    best = model.best_links(20)
    pairs = list(zip(best.sources, best.targets, strict=True))
    np.testing.assert_allclose(best.scores, model.score(pairs), atol=1e-4)
    assert best.scores[0] >= max(row[2] for row in rows) - 1e-4
    by_index = model.best_links(20, index=index)
    assert list(zip(by_index.sources, by_index.targets, strict=True)) == pairs


def test_explanations_add_up(model: LinkPredictor) -> None:
    source, target, wanted = listed(model)[0]
    why = model.explain(source, target)
    assert why.score == pytest.approx(wanted, abs=1e-4)
    assert why.shared != 0
    parts = why.score_alone + sum(c.amount for c in why.contributions) + why.residue + why.shared
    assert parts == pytest.approx(why.score, abs=1e-4)
    assert "exact counts of shared neighbours add" in repr(why)


def test_an_index_follows_another_graph(model: LinkPredictor) -> None:
    """Rows and edges that come later are counted too."""
    graph = model.graph_
    index = model.index("exact", k=5)
    before = dict(zip(*_first(index), strict=True))
    mate = graph.edges[graph.edges[:, 0] == 0][0, 1]
    twin = next(i for i in range(1, SIZE) if not graph.has_edges([(i, mate)])[0])
    index.update([0], model.embed(["n0"])[:1], graph=graph.with_edges(np.flatnonzero(graph.edges[:, 0] != twin)))
    after = dict(zip(*_first(index), strict=True))
    assert before != after


def _first(index: object) -> tuple[tuple[object, ...], list[float]]:
    found = index.recommend("n0", k=10)  # type: ignore[attr-defined]
    return found.targets, found.scores.tolist()


def test_it_can_be_switched_off(model: LinkPredictor) -> None:
    plain = LinkPredictor(**tiny(training={"valid_share": 0.2, "epochs": 10}, decoder={"rerank": False})).fit(mates())
    assert plain.fitted_.reranking is None
    assert plain.explain("n0", "n1").shared == 0
    assert [row[:2] for row in listed(plain)] != [row[:2] for row in listed(model)]


def test_a_service_gives_the_same_answers_and_follows_changes(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    room = Room(Options(str(tmp_path / "model")))
    try:
        found = recommend(room.now, Wish(["n3"], 5))["results"][0]["recommendations"]
        listed_here = model.recommend("n3", k=5)
        assert [row["target"] for row in found] == list(listed_here.targets)
        np.testing.assert_allclose([row["score"] for row in found], listed_here.scores, atol=1e-4)
        told = explain(room.now, [("n3", found[0]["target"])])["explanations"][0]
        assert told["score"] == pytest.approx(found[0]["score"], abs=1e-4)
        pair = ("n3", found[0]["target"])
        room.keeper.submit({"kind": "add_links", "pairs": [["n3", "n4"]]}).result(20)
        changed = Graph.from_arrays(
            np.concatenate([model.graph_.edges, [[3, 4]]]), num_nodes=160, ids=[f"n{i}" for i in range(160)]
        )
        wanted = _amount(model.fitted_.reranking, changed, pair)
        now = explain(room.now, [pair])["explanations"][0]
        assert now["shared"] == pytest.approx(wanted, abs=1e-4)
        assert now["shared"] != pytest.approx(told["shared"], abs=1e-4)
        assert score(room.now, [pair])["scores"][0]["score"] == pytest.approx(now["score"], abs=1e-3)
    finally:
        room.close()


def _amount(reranking: Reranking | None, graph: Graph, pair: tuple[str, str]) -> float:
    from yinyan.model.reranking import Reranker
    from yinyan.model.shared_neighbours import CompressedLists

    assert reranking is not None
    reranker = Reranker(reranking, CompressedLists.from_pairs(graph.edges, graph.num_nodes))
    return float(reranker.of_pairs(graph.rows_of(list(pair))[None])[0])


@pytest.mark.parametrize("rerank", [True, False])
def test_alike_and_therefore_not_linked(rerank: bool) -> None:
    """An inner product is largest between nodes that are alike. Shared neighbours show that those are never linked."""
    graph = mates()
    settings = suggest(graph, 500_000).settings.updated({"training": {"batch_size": 40}, "decoder": {"rerank": rerank}})
    assert settings.decoder.kind == "dot"
    model = LinkPredictor(seed=0, **settings.to_dict()).fit(graph)
    found = model.recommend([f"n{i}" for i in range(160)], k=1)
    sides = np.array([[int(str(node)[1:]) >= 80 for node in ends] for ends in (found.sources, found.targets)])
    share = (sides[0] != sides[1]).mean()
    assert share > 0.95 if rerank else share < 0.5


def test_alike_and_therefore_not_linked_with_default_settings() -> None:
    """The Hadamard MLP needs no reranking for it."""
    model = LinkPredictor(seed=0, decoder={"rerank": False}).fit(mates())
    found = model.recommend([f"n{i}" for i in range(160)], k=1)
    sides = np.array([[int(str(node)[1:]) >= 80 for node in ends] for ends in (found.sources, found.targets)])
    assert (sides[0] != sides[1]).mean() > 0.95
