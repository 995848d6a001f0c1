"""Drift: the same process is no drift, another one is, and every bound has a case on both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from contracts import planted_graph, tiny
from typed_graphs import shop
from yinyan import Graph, LinkPredictor, random_split
from yinyan.errors import InputError
from yinyan.monitoring.arrivals import arrivals_of_rows
from yinyan.monitoring.drift import FEWEST, Drift, drift_of
from yinyan.monitoring.reference import Compared, Reference, Share, stability_index

WHOLE = planted_graph(4, 60, inside=0.25, across=0.004)
SPLIT = random_split(WHOLE, seed=0)
SMALL: dict[str, Any] = {"hidden_size": 32, "embedding_size": 32, "sketch_size": 16, "epochs": 12, "device": "cpu"}


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**SMALL).fit(SPLIT.graph_without_test())


@pytest.fixture(scope="module")
def reference(model: LinkPredictor) -> Reference:
    return Reference(model.fitted_)


def pairs(rows: Any) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in rows]


def across(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """New links between communities, where the graph has hardly any."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(np.unique(rng.integers(0, 60, (4 * count, 2)), axis=0)) + np.array([0, 120])
    return pairs(drawn[~WHOLE.has_edges(drawn)][:count])


class TestCounts:
    def test_known_new_and_with_new_nodes(self, model: LinkPredictor) -> None:
        known = pairs(model.graph_.edges[:4])
        missing = across(2)
        given = [*known, *known[:1], known[1][::-1], (3, 3), *missing, ("new", 0), ("newer", "new")]
        drift = model.drift(given)
        assert (drift.edges, drift.known, drift.links) == (8, 4, 2)
        assert (drift.edges_with_new_nodes, drift.new_nodes) == (2, 2)
        assert drift.new_node_share == 0.25
        assert drift.growth == pytest.approx(4 / model.graph_.num_edges)

    def test_direction_counts_where_the_graph_has_one(self) -> None:
        graph = Graph.from_arrays(np.array([(0, 1), (1, 2)]), directed=True)
        found = arrivals_of_rows(graph, np.array([(1, 0), (0, 1)]))
        assert (found.num_known, found.links.tolist()) == (1, [[1, 0]])

    def test_links_within_a_side_of_a_bipartite_graph_cannot_be_predicted(self) -> None:
        graph = Graph.from_arrays(np.array([(0, 2), (1, 3)]), sides=[0, 0, 1, 1])
        found = arrivals_of_rows(graph, np.array([(0, 1), (0, 3)]))
        assert (found.num_edges, found.links.tolist()) == (2, [[0, 3]])

    def test_files_frames_and_pairs_agree(self, model: LinkPredictor, tmp_path: Path) -> None:
        given = [*across(60), ("new", 5)]
        table = pa.table({"source": [str(a) for a, _ in given], "target": [str(b) for _, b in given]})
        path = tmp_path / "new.csv"
        path.write_text("source,target,when\n" + "".join(f"{a},{b},3\n" for a, b in given))
        assert model.drift(path) == model.drift(table) == model.drift(given)

    def test_labels_name_nodes(self) -> None:
        graph = planted_graph(2, 20).with_attributes(pa.table({"id": range(40), "name": [f"n{i}" for i in range(40)]}))
        labelled = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph)
        assert labelled.drift([("n0", "n39")]).links == labelled.drift([(0, 39)]).links == 1

    def test_what_is_no_edge_is_refused(self, model: LinkPredictor) -> None:
        with pytest.raises(InputError, match="no edges to compare"):
            model.drift([])
        with pytest.raises(InputError, match=r"1 edge without an id"):
            model.drift([(0, None)])
        with pytest.raises(InputError, match=r"edge 1 needs two ids"):
            model.drift([(0, 1), (0, 1, 2)])
        relations = LinkPredictor(**tiny(training={"epochs": 1})).fit(shop(), predict="buys")
        with pytest.raises(InputError, match="has relations"):
            relations.drift([(0, 1)])


class TestAnswer:
    def test_edges_of_the_same_process_need_no_refit(self, model: LinkPredictor) -> None:
        drift = model.drift(pairs(SPLIT.test_targets[:200]))
        assert drift.links == 200
        assert drift.refit is False, drift
        assert drift.auc is not None and drift.hits is not None
        assert abs(drift.auc.fell) < 3 and drift.degree_shift is not None and drift.degree_shift < 0.25

    def test_edges_of_another_process_do(self, model: LinkPredictor) -> None:
        drift = model.drift(across(100))
        assert drift.refit is True
        assert any("AUC of new links" in reason for reason in drift.reasons)
        assert drift.auc is not None and drift.auc.now.value < 0.5
        assert drift.median_places is not None and drift.median_places[1] < drift.median_places[0]

    def test_few_links_give_no_answer_about_scores(self, model: LinkPredictor) -> None:
        drift = model.drift(across(FEWEST - 1))
        assert drift.refit is None and drift.auc is None and "need 50" in drift.answer
        drift = model.drift([(f"n{i}", i) for i in range(20)])
        assert drift.refit is True and "have new nodes" in drift.answer

    def test_a_hub_shifts_the_degrees(self, reference: Reference) -> None:
        quiet = int(np.argmin(reference.fitted.graph.degrees))
        rows = np.array([(quiet, b) for b in range(WHOLE.num_nodes) if b != quiet])
        drift = drift_of(reference, arrivals_of_rows(reference.fitted.graph, rows), with_lists=False)
        assert drift.degree_shift is not None and drift.degree_shift > 0.25 and drift.hits is None
        assert any("degrees" in reason for reason in drift.reasons)

    def test_growth_is_a_reason(self, model: LinkPredictor, reference: Reference) -> None:
        arrived = arrivals_of_rows(reference.fitted.graph, SPLIT.test_targets)
        many = replace(arrived, num_edges=model.graph_.num_edges)
        assert "new edges per edge of training" in drift_of(reference, many, with_lists=False).answer

    def test_a_figure_that_falls_within_its_error_is_no_reason(self) -> None:
        share = Share(0.9, 0.05)
        assert Compared(share, Share(0.85, 0.05)).fell < 3 < Compared(share, Share(0.6, 0.05)).fell


class TestFollowed:
    def test_counts_hits_once(self, model: LinkPredictor) -> None:
        new = across(60)
        made = [*new[:5], new[0][::-1], (0, 1), ("nobody", 1)]
        drift = model.drift(new, recommended=made)
        assert drift.followed is not None
        assert (drift.followed.recommended, drift.followed.hits) == (6, 5)
        assert drift.followed.found == pytest.approx(5 / drift.links)
        assert drift.to_dict()["followed"]["precision"] == pytest.approx(5 / 6)

    def test_takes_what_recommend_gives(self, model: LinkPredictor) -> None:
        nodes = [int(a) for a, _ in SPLIT.test_targets[:30]]
        found = model.recommend(nodes, k=5)
        drift = model.drift(pairs(SPLIT.test_targets), recommended=found)
        assert drift.followed is not None and 0 < drift.followed.hits <= drift.followed.recommended <= 150
        assert "recommendations that became edges" in str(drift)


def test_the_index_of_equal_counts_is_zero_and_of_moved_ones_large() -> None:
    before = np.array([100, 200, 100])
    assert stability_index(before, before) == 0.0
    assert stability_index(before, np.array([0, 20, 180])) > 0.25
    rng = np.random.default_rng(0)
    chance = [stability_index(rng.multinomial(1000, [0.1] * 10), rng.multinomial(60, [0.1] * 10)) for _ in range(200)]
    assert np.mean(np.array(chance) > 0.25) < 0.05, "a small sample of the same process is no shift"


def test_json_has_every_figure(model: LinkPredictor) -> None:
    import json

    drift = model.drift(across(80))
    assert isinstance(drift, Drift)
    found = json.loads(json.dumps(drift.to_dict(), allow_nan=False))
    assert set(Drift.__dataclass_fields__) < set(found)
    assert found["auc"]["now"]["value"] == drift.auc.now.value  # type: ignore[union-attr]
