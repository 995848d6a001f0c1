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
from yinyan.settings import DecoderSettings, Settings
from yinyan.training.defaults import Suggestion, ground, suggest


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
    shared = found.settings.training.loss_sampler == "shared"
    assert 1 <= batch <= 16_384 or shared, "pairs of a step fit into memory, or are decoded block by block"
    assert batch < links or links == 1
    assert batch <= max(1, -(-links // 3)), "a step that hides most links sees another graph"
    assert links % batch == 0 or links % batch > batch // 2 or batch == 16_384 or links < 9, "no step for a few links"


def test_the_size_of_a_step_has_its_reason() -> None:
    small, large = suggest(with_features(None), 2_400), suggest(with_features(None), 10_000_000)
    assert small.settings.training.batch_size < large.settings.training.batch_size
    words = f"2,400 training edges: {small.settings.training.batch_size:,} are hidden and predicted per step"
    assert any(reason.startswith(words) for reason in small.reasons)


@pytest.mark.parametrize(("links", "epochs"), [(300, 67), (10_000, 67), (100_000, 33), (50_000_000, 10)])
def test_a_run_has_about_as_many_steps_whatever_the_size(links: int, epochs: int) -> None:
    assert suggest(with_features(5), links).settings.training.epochs == epochs


@pytest.mark.parametrize(
    ("links", "batch", "epochs"),
    [(2, 1, 60), (100, 25, 60), (300, 25, 20), (10_000, 834, 38), (1_000_000, 83_334, 5), (10_000_000, 833_334, 4)],
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


def test_dimensions_shrink_smoothly_with_the_nodes() -> None:
    edges, features = planted_graph().edges, np.ones((1, 300), np.float32)
    sizes = [20_000, 40_000, 99_999, 100_001, 200_000, 3_000_000]

    def suggested(count: int) -> Suggestion:
        wide = np.broadcast_to(features, (count, 300))  # one row for all: nothing is allocated
        return suggest(Graph(ids=Ids.integers(count), edges=edges, features=wide), 1000)

    found = [suggested(count) for count in sizes]
    hidden = [each.settings.encoder.hidden_size for each in found]
    assert hidden == [256, 192, 160, 160, 128, 128]
    assert [each.settings.encoder.sketch_size for each in found] == [64, 48, 40, 40, 32, 32]
    assert any("100,001 nodes: 160 dimensions" in reason for reason in found[3].reasons)
    assert not any("dimensions, to save" in reason for reason in found[0].reasons)


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_choice_has_its_reason(kind: str) -> None:
    reasons, size = suggest(GRAPHS[kind](), 1000).reasons, 128 if kind == "no features" else 64
    assert len(reasons) == (5 if kind == "no features" else 3)
    assert any(reason.startswith(f"{size}-dimensional structural sketches: ") for reason in reasons)
    assert all(reason.strip() and "\n" not in reason for reason in reasons)


def test_a_graph_without_features_uses_its_neighbourhood() -> None:
    found = suggest(with_features(None), 1000)
    assert found.settings.encoder.node_dropout == 0.8
    assert any("the neighbourhood represents a node" in reason for reason in found.reasons)
    featured = suggest(with_features(300), 1000).settings.encoder
    assert (featured.anchoring, featured.node_dropout) == (Settings().encoder.anchoring, 0)


class TestInnerProducts:
    """Large graphs without features: one inner product per pair."""

    @pytest.mark.parametrize(("sides", "links"), [(False, 500_000), (True, 100_000)])
    def test_from_a_number_of_links_on(self, sides: bool, links: int) -> None:
        graph = planted_graph()
        if sides:
            pairs = np.stack([np.arange(20), np.arange(20, 40)], axis=1)
            graph = Graph.from_arrays(pairs, sides=np.repeat([0, 1], 20).astype(np.int8))
        few, many = suggest(graph, links - 1).settings, suggest(graph, links).settings
        assert (few.decoder.kind, many.decoder.kind) == ("hadamard", "dot")
        assert (few.encoder.degree_column, many.encoder.degree_column) == (False, True)
        assert few.encoder.embedding_start == many.encoder.embedding_start == "spectral"
        assert few.encoder.hidden_size == many.encoder.hidden_size

    def test_another_decoder_that_is_asked_for_gets_its_own_settings(self) -> None:
        graph = planted_graph()
        asked = suggest(graph, 10**6, {"decoder": {"kind": "hadamard"}}).settings
        assert not asked.encoder.degree_column
        assert asked.training.loss_sampler == "global"
        assert suggest(graph, 10**6, {"decoder": DecoderSettings()}).settings == asked
        assert suggest(graph, 10**6, {"decoder": {"width": 3}}).settings.encoder.degree_column

    def test_nodes_of_few_neighbours_lose_their_vectors_more_often(self) -> None:
        edges = planted_graph().edges
        graphs = [Graph(ids=Ids.integers(count), edges=edges) for count in (2_000, 20_000, 200_000)]
        dropped = [suggest(graph, 500_000).settings.encoder.node_dropout for graph in graphs]
        assert dropped == sorted(dropped)
        assert (dropped[0], dropped[-1]) == (0.5, 0.9)


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
        assert few.encoder == ground(GRAPHS[kind](), 9_999).settings.encoder
        assert many.encoder.feature_dropout < few.encoder.feature_dropout
        assert (few.training.loss, many.training.loss) == ("paper", "hardest")
        assert (few.decoder.depth, many.decoder.depth) == (2, 3)
        assert many.encoder.sketch_size == few.encoder.sketch_size

    def test_other_graphs_keep_theirs(self) -> None:
        few = GRAPHS["few features"]()
        assert suggest(few, 50_000).settings.encoder == ground(few, 50_000).settings.encoder

    @pytest.mark.parametrize(("links", "batch", "epochs"), [(31_026, 2_069, 34), (1_000_000, 16_384, 10)])
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


def test_of_a_large_graph_a_smaller_share_is_held_out() -> None:
    graph = with_features(None)
    shares = [suggest(graph, links).settings.training.valid_share for links in (1_000_000, 2_000_000, 20_000_000)]
    assert shares == [0.1, 0.1, 0.01]


def test_large_tables_have_one_moment_per_row() -> None:
    graph = with_features(None)
    found = [suggest(graph, links).settings.training for links in (10_000, 1_000_000)]
    assert [(training.moments, training.averaging > 0) for training in found] == [("entries", True), ("rows", False)]


def test_sketches_shrink_smoothly_with_the_nodes() -> None:
    edges = planted_graph().edges
    sizes = [1_000, 10_000, 14_000, 20_000, 40_000, 200_000]
    found = [ground(Graph(ids=Ids.integers(count), edges=edges), 1000).settings.encoder.sketch_size for count in sizes]
    assert found == [128, 128, 88, 64, 48, 32]
