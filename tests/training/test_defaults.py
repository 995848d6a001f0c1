"""Defaults: what is chosen for a graph, and the reason that is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from contracts import planted_graph
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.graph.ids import Ids
from yinyan.settings import Settings
from yinyan.training.defaults import ground, suggest


def with_features(columns: int | None, *, sparse: bool = False) -> Graph:
    graph = planted_graph()
    if columns is None:
        return graph
    if sparse:
        rows = np.arange(41)
        return replace(graph, features=SparseFeatures(rows, rows[:-1] % columns, np.ones(40, np.float32), columns))
    return replace(graph, features=np.ones((40, columns), dtype=np.float32))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "no features": lambda: with_features(None),
    "few features": lambda: with_features(5),
    "many features": lambda: with_features(300),
    "sparse features": lambda: with_features(1433, sparse=True),
}


@pytest.mark.parametrize(
    ("kind", "inputs", "reason"),
    [
        ("no features", "embeddings", "no node features: an embedding is learned for each node"),
        ("few features", "both", "5 node features: too few to represent the nodes, so embeddings are learned as well"),
        ("many features", "features", "300 node features: enough to represent the nodes"),
        ("sparse features", "features", "1,433 node features: enough to represent the nodes"),
    ],
)
def test_features_decide_what_the_encoder_reads(kind: str, inputs: str, reason: str) -> None:
    found = suggest(GRAPHS[kind](), 1000)
    assert found.settings.encoder.inputs == inputs
    assert found.reasons[0].startswith(reason)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("links", [1, 9, 100, 5_000, 10_000_000])
def test_settings_are_valid_and_hide_a_part_of_the_links(kind: str, links: int) -> None:
    found = suggest(GRAPHS[kind](), links)
    assert isinstance(found.settings, Settings)
    assert Settings().updated(found.settings.to_dict()) == found.settings, "every value passes the checks"
    batch = found.settings.training.batch_size
    assert 1 <= batch <= 16_384
    assert batch < links or links == 1
    assert batch <= max(1, -(-links // 3)), "a step that hides most links sees another graph"
    assert links % batch == 0 or links % batch > batch // 2 or batch == 16_384 or links < 9, "no step for a few links"


def test_the_size_of_a_step_has_its_reason() -> None:
    small, large = suggest(with_features(None), 2_400), suggest(with_features(None), 10_000_000)
    assert small.settings.training.batch_size < large.settings.training.batch_size
    words = f"2,400 training edges: {small.settings.training.batch_size:,} are hidden and predicted per step"
    assert any(reason.startswith(words) for reason in small.reasons)


@pytest.mark.parametrize(("links", "epochs"), [(300, 150), (10_000, 150), (100_000, 74), (50_000_000, 20)])
def test_a_run_has_about_as_many_steps_whatever_the_size(links: int, epochs: int) -> None:
    assert suggest(with_features(5), links).settings.training.epochs == epochs


@pytest.mark.parametrize(
    ("links", "batch", "epochs"),
    [(2, 1, 150), (100, 25, 150), (300, 25, 75), (10_000, 834, 75), (1_000_000, 16_384, 20)],
)
def test_without_features_steps_are_small(links: int, batch: int, epochs: int) -> None:
    training = suggest(with_features(None), links).settings.training
    assert (training.batch_size, training.epochs) == (batch, epochs)


def test_a_dense_graph_without_features_learns_links_against_many_non_links() -> None:
    graph = with_features(None)
    sparse, dense = suggest(graph, 99), suggest(graph, 100)  # of 40 nodes: five neighbours each
    assert sparse.settings.training.loss == ground(graph, 99).settings.training.loss
    assert (dense.settings.training.loss, dense.settings.training.loss_negatives) == ("infonce", 8)
    assert [reason.startswith("5 neighbours per node") for reason in dense.reasons].count(True) == 1
    assert not any("neighbours per node" in reason for reason in sparse.reasons)


def test_large_graphs_get_fewer_dimensions() -> None:
    edges = planted_graph().edges
    small, large = (Graph(ids=Ids.integers(count), edges=edges) for count in (100_000, 100_001))
    few, many = suggest(large, 1000), suggest(small, 1000)
    assert few.settings.encoder.hidden_size == few.settings.decoder.width == 128
    assert many.settings.encoder.hidden_size > 128
    assert any("100,001 nodes: 128 dimensions" in reason for reason in few.reasons)
    assert not any("dimensions" in reason for reason in many.reasons)
    assert (few.settings.encoder.sketch_size, many.settings.encoder.sketch_size) == (32, 64)


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_choice_has_its_reason(kind: str) -> None:
    reasons = suggest(GRAPHS[kind](), 1000).reasons
    assert len(reasons) == (5 if kind == "no features" else 3)
    assert any(reason.startswith("64-dimensional structural sketches: ") for reason in reasons)
    assert all(reason.strip() and "\n" not in reason for reason in reasons)


def test_a_small_graph_without_features_uses_its_neighbourhood() -> None:
    edges = planted_graph().edges
    small, large = (suggest(Graph(ids=Ids.integers(n), edges=edges), 1000) for n in (100_000, 100_001))
    assert small.settings.encoder.num_steps > large.settings.encoder.num_steps
    assert small.settings.encoder.anchoring < large.settings.encoder.anchoring
    assert small.settings.encoder.node_dropout > large.settings.encoder.node_dropout == 0
    assert any("the neighbourhood represents a node" in reason for reason in small.reasons)
    assert not any("the neighbourhood represents a node" in reason for reason in large.reasons)
    featured = suggest(with_features(300), 1000).settings.encoder
    assert (featured.anchoring, featured.node_dropout) == (Settings().encoder.anchoring, 0)


def test_a_directed_graph_without_features_uses_its_nodes() -> None:
    """Long steps and dropped embeddings were chosen on undirected graphs, and wash out which way links run."""
    graph = planted_graph()
    directed = suggest(replace(graph, directed=True), 1000).settings
    assert directed.encoder.node_dropout == 0
    assert directed.encoder.num_steps < suggest(graph, 1000).settings.encoder.num_steps


def test_large_graphs_are_ordered() -> None:
    edges = planted_graph().edges
    usual, ordered = (suggest(Graph(ids=Ids.integers(n), edges=edges), 1000) for n in (50_000, 50_001))
    assert (usual.settings.training.node_order, ordered.settings.training.node_order) == ("given", "local")
    assert any("near each other in memory" in reason for reason in ordered.reasons)


class TestManyLinks:
    """What Pubmed taught: thousands of links more bear less dropout, and losses that look at the surest errors."""

    @pytest.mark.parametrize("kind", ["many features", "sparse features"])
    def test_with_features_settings_change_from_ten_thousand_on(self, kind: str) -> None:
        few, many = suggest(GRAPHS[kind](), 9_999).settings, suggest(GRAPHS[kind](), 10_000).settings
        assert few == ground(GRAPHS[kind](), 9_999).settings
        assert many.encoder.feature_dropout < few.encoder.feature_dropout
        assert (few.training.loss, many.training.loss) == ("paper", "hardest")
        assert (few.decoder.depth, many.decoder.depth) == (2, 3)
        assert many.encoder.sketch_size == few.encoder.sketch_size

    def test_other_graphs_keep_theirs(self) -> None:
        assert suggest(GRAPHS["few features"](), 50_000) == ground(GRAPHS["few features"](), 50_000)

    @pytest.mark.parametrize(("links", "batch", "epochs"), [(31_026, 2_069, 100), (1_000_000, 16_384, 25)])
    def test_the_step_has_its_reason_once(self, links: int, batch: int, epochs: int) -> None:
        found = suggest(with_features(300), links)
        assert (found.settings.training.batch_size, found.settings.training.epochs) == (batch, epochs)
        assert [f"{batch:,} are hidden" in reason for reason in found.reasons if "training edges" in reason] == [
            False,
            True,
        ]

    def test_peers_keep_the_common_ground(self) -> None:
        graph = with_features(300)
        assert ground(graph, 31_026).settings.training.loss == "paper"
        assert ground(graph, 31_026).settings.encoder == ground(graph, 3_000).settings.encoder
        assert ground(with_features(None), 31_026).settings.training.loss == "paper"
