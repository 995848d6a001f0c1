"""Unseen nodes: they get vectors and partners, and nothing is retrained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from contracts import distances, planted_graph, tiny
from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.live.new_nodes import extend
from yinyan.live.planning import planned
from yinyan.live.renewal import LocalRenewal, WholeRenewal
from yinyan.live.structure import NewNode, Structure
from yinyan.predictor import LinkPredictor
from yinyan.splits import random_split

FROM_FEATURES = {"inputs": "features"}


def with_features(sparse: bool = False) -> Graph:
    """Two communities whose members have features of their own and of their community."""
    rng = np.random.default_rng(0)
    plain = planted_graph(size=25, inside=0.4)
    if sparse:
        features: Any = (rng.random((50, 40)) < 0.05).astype(np.float32)
        compressed = pytest.importorskip("scipy.sparse").csr_matrix(features)
        return Graph.from_arrays(plain.edges, num_nodes=50, features=compressed)
    features = rng.normal(size=(50, 6)) + np.repeat([[-1], [1]], 25, axis=0)
    return Graph.from_arrays(plain.edges, num_nodes=50, features=features.astype(np.float32))


def links_of(model: LinkPredictor, row: int) -> list[tuple[int, int]]:
    """The links of a node, to be given to new node 0."""
    return [(0, int(other)) for other in model.graph_.neighbours(row)]


def state_of(model: LinkPredictor) -> tuple[dict[str, torch.Tensor], NDArray[np.float32], NDArray[np.int64]]:
    weights = {name: value.clone() for name, value in model.fitted_.model.state_dict().items()}
    return weights, model.embeddings_.copy(), model.graph_.edges.copy()


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(encoder=FROM_FEATURES)).fit(with_features())


@pytest.fixture(scope="module")
def featureless() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 6})).fit(planted_graph(size=25, inside=0.4))


def test_a_copy_of_a_node_gets_nearly_its_vector(model: LinkPredictor) -> None:
    features = np.asarray(model.graph_.features)
    copies = np.concatenate([model.embed_new(None, features[[row]], links_of(model, row)) for row in range(0, 50, 7)])
    originals = model.embeddings_[::7]
    assert distances(originals, copies).max() < 0.35
    nearest = np.linalg.norm(copies[:, None] - model.embeddings_[None], axis=2).argmin(1)
    assert (nearest == np.arange(0, 50, 7)).mean() > 0.8


def test_sparse_features_likewise() -> None:
    model = LinkPredictor(**tiny(encoder=FROM_FEATURES)).fit(with_features(sparse=True))
    row = model.graph_.features.take([9]).to_dense()  # type: ignore[union-attr]
    copy = model.embed_new(None, row, links_of(model, 9))
    assert distances(model.embeddings_, np.broadcast_to(copy, (50, 16))).argmin() == 9


@pytest.mark.parametrize("known", ["dense", "sparse"])
def test_features_of_either_form_join_those_of_the_other(known: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    model = LinkPredictor(**tiny(encoder=FROM_FEATURES)).fit(with_features(sparse=known == "sparse"))
    limits = model.graph_.feature_range
    assert limits is not None
    row = (0.5 * limits[0] + 0.5 * limits[1])[None]
    dense, compressed = (model.extended(["x"], form, [("x", 3)]) for form in (row, sparse.csr_matrix(row)))
    np.testing.assert_array_equal(dense.embed("x"), compressed.embed("x"))
    features = dense.graph_.features
    assert type(features) is type(model.graph_.features)
    matrix = features if isinstance(features, np.ndarray) else features.to_dense()  # type: ignore[union-attr]
    np.testing.assert_array_equal(matrix[50], row[0])


def test_nothing_is_retrained(model: LinkPredictor, featureless: LinkPredictor) -> None:
    for known, features in ((model, np.zeros((2, 6))), (featureless, None)):
        weights, embeddings, edges = state_of(known)
        grown = known.extended(["x", "y"], features, [("x", 3), ("y", "x"), (4, "y")])
        known.embed_new(None, features, [(0, 3), (1, 4)])
        after, embeddings_after, edges_after = state_of(known)
        assert all(torch.equal(after[name], value) for name, value in weights.items())
        assert np.array_equal(embeddings_after, embeddings)
        assert np.array_equal(edges_after, edges)
        assert known.graph_.num_nodes == 50
        with pytest.raises(UnknownNodeError):
            known.score(("x", 3))
        for name, value in grown.fitted_.model.state_dict().items():
            if name != "encoder.base.table":
                assert torch.equal(value, weights[name]), name
            else:
                assert torch.equal(value[:50], weights[name])


def test_new_nodes_are_asked_about_by_name(model: LinkPredictor) -> None:
    grown = model.extended(["x"], np.ones((1, 6)), [("x", row) for row in range(25, 35)])
    assert grown.graph_.num_nodes == 51
    found = grown.recommend("x", k=100)
    assert set(found.targets) == set(range(50)) - set(range(25, 35))
    assert np.mean([target >= 25 for target in found.targets[:10]]) > 0.5
    assert "x" in grown.recommend(3, k=100).targets
    assert "x" not in grown.recommend(25, k=100).targets
    assert grown.explain("x", 25).is_link
    assert 0 < grown.predict_proba(("x", 40)) < 1
    assert grown.get_params() == model.get_params()


def test_embed_new_and_extended_agree(model: LinkPredictor) -> None:
    features = np.random.default_rng(3).normal(size=(3, 6)) / 3
    by_row = model.embed_new(None, features, [(0, 5), (2, 7), (2, 8)])
    by_name = model.embed_new(["a", "b", "c"], features, [("a", 5), ("c", 7), ("c", 8)])
    grown = model.extended(["a", "b", "c"], features, [("a", 5), ("c", 7), ("c", 8)])
    assert by_row.shape == (3, 16)
    np.testing.assert_array_equal(by_row, by_name)
    np.testing.assert_array_equal(by_row, grown.embed(["a", "b", "c"]))


def test_links_between_new_nodes_carry_messages(model: LinkPredictor) -> None:
    features = np.zeros((2, 6))
    apart = model.extended(["x", "y"], features, [("x", 3)]).embed("y")
    joined = model.extended(["x", "y"], features, [("x", 3), ("x", "y")])
    assert not np.allclose(joined.embed("y"), apart)
    assert joined.explain("x", "y").is_link


def test_a_new_node_without_a_link(model: LinkPredictor, featureless: LinkPredictor) -> None:
    assert np.isfinite(model.embed_new(None, np.ones((1, 6)), [])).all()
    assert np.isfinite(featureless.extended(["x"], None, []).embed("x")).all()


def test_no_new_node_changes_nothing(model: LinkPredictor) -> None:
    assert model.embed_new(None, np.empty((0, 6)), []).shape == (0, 16)
    np.testing.assert_allclose(model.extended([], np.empty((0, 6)), []).embeddings_, model.embeddings_, atol=1e-6)


def test_learned_embeddings(featureless: LinkPredictor) -> None:
    """Without features, a new node starts from the mean of its neighbours."""
    grown = featureless.extended(["x"], None, [("x", 3), (4, "x")])
    table = grown.fitted_.model.encoder.base.table
    assert table is not None
    torch.testing.assert_close(table[50], table[[3, 4]].mean(0))
    vector = featureless.embed_new(None, None, [(0, row) for row in range(25, 50, 3)])[0]
    closeness = featureless.embeddings_ @ vector
    assert closeness[25:].mean() > closeness[:25].mean()


def test_random_inputs() -> None:
    model = LinkPredictor(**tiny(encoder={"inputs": "random"})).fit(planted_graph())
    one, again = (model.embed_new(None, None, [(0, 3)]) for _ in range(2))
    assert np.array_equal(one, again)
    assert np.isfinite(one).all()


def test_a_directed_link_keeps_its_direction() -> None:
    model = LinkPredictor(**tiny()).fit(planted_graph(directed=True, inside=0.15))
    grown = model.extended(["x"], None, [("x", 3), (4, "x")])
    graph = grown.graph_
    x, three, four = (graph.ids.row(name) for name in ("x", 3, 4))
    assert graph.has_edges([(x, three), (three, x), (x, four), (four, x)]).tolist() == [True, False, False, True]


def test_weights_and_messages_of_known_links_stay() -> None:
    plain = planted_graph()
    weights = np.linspace(0.5, 2, plain.num_edges).astype(np.float32)
    graph = Graph.from_arrays(plain.edges, num_nodes=40, weights=weights)
    model = LinkPredictor(**tiny()).fit(graph)
    grown = model.extended(["x"], None, [("x", 3), ("x", 3)]).graph_
    assert grown.num_edges == graph.num_edges + 1
    assert grown.weights is not None
    known = (grown.edges < 40).all(axis=1)
    assert np.array_equal(grown.weights[known], weights)
    assert grown.weights[~known] == pytest.approx(weights.mean())


def test_links_that_pass_no_messages_still_pass_none() -> None:
    graph = planted_graph(size=30)
    split = random_split(graph, seed=0)
    grown = LinkPredictor(**tiny()).fit(graph, split=split).extended(["x"], None, [("x", 3)]).fitted_
    passing = grown.graph.with_edges(grown.message_edges)
    assert passing.num_edges == len(split.test_messages) + 1
    assert passing.has_edges(graph.edges[split.test_messages]).all()
    assert grown.graph.has_edges(split.valid_targets).all()
    assert not passing.has_edges(split.valid_targets).any()


@pytest.mark.parametrize("side", [0, 1])
def test_either_side_of_a_bipartite_graph(side: int) -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(0, 15, 150), rng.integers(15, 40, 150)], axis=1), axis=0)
    model = LinkPredictor(**tiny()).fit(Graph.from_arrays(pairs, num_nodes=40, sides=np.repeat([0, 1], [15, 25])))
    partners = [20, 21, 22] if side == 0 else [3, 4]
    grown = model.extended(["x"], None, [("x", other) for other in partners])
    graph = grown.graph_
    assert graph.sides is not None and graph.sides[graph.ids.row("x")] == side
    expected = set(range(15, 40)) if side == 0 else set(range(15))
    assert set(grown.recommend("x", k=100).targets) == expected - set(partners)
    assert graph.num_edges == len(pairs) + len(partners)
    old = {pair for edge in graph.edges if "x" not in (pair := tuple(graph.ids.take(edge)))}
    assert old == {tuple(pair) for pair in pairs.tolist()}, "known links join the nodes that they joined"
    table = grown.fitted_.model.encoder.base.table
    original = model.fitted_.model.encoder.base.table
    assert table is not None and original is not None
    assert torch.equal(table[torch.from_numpy(graph.ids.rows(list(range(40))))], original)
    np.testing.assert_array_equal(model.embed_new(None, None, [(0, other) for other in partners])[0], grown.embed("x"))


def test_sides_must_be_clear() -> None:
    pairs = [(a, b) for a in range(6) for b in range(6, 14) if (a + b) % 3]
    model = LinkPredictor(**tiny()).fit(Graph.from_arrays(pairs, num_nodes=14, sides=np.repeat([0, 1], [6, 8])))
    with pytest.raises(InputError, match="links to known nodes of one side only"):
        model.embed_new(None, None, [(0, 3), (0, 9)])
    with pytest.raises(InputError, match="a new node without a link has no side"):
        model.extended(["x"], None, [])


def test_table_features_pass_the_encoder() -> None:
    rng = np.random.default_rng(0)
    edges = planted_graph(size=15)
    nodes = {
        "id": list(range(30)),
        "age": rng.integers(18, 90, 30).tolist(),
        "town": [["Oulu", "Kemi", "Turku"][row % 3] for row in range(30)],
    }
    pairs = {"source": edges.edges[:, 0].tolist(), "target": edges.edges[:, 1].tolist()}
    graph = Graph.from_table(pairs, "source", "target", nodes=nodes, node_id="id", unmatched="keep")
    model = LinkPredictor(**tiny(encoder=FROM_FEATURES)).fit(graph)
    assert graph.feature_encoder is not None and graph.features is not None
    new = {"town": [nodes["town"][4]], "age": [nodes["age"][4]]}
    row = graph.ids.row(4)
    grown = model.extended(["x"], new, [("x", 5)])
    features = grown.graph_.features
    assert isinstance(features, np.ndarray) and isinstance(graph.features, np.ndarray)
    np.testing.assert_allclose(features[30], graph.features[row])
    from_matrix = model.extended(["x"], graph.features[[row]], [("x", 5)])
    np.testing.assert_allclose(grown.embed("x"), from_matrix.embed("x"), atol=1e-6)
    unheard = model.extended(["x"], {"age": [30], "town": ["Vaasa"]}, [("x", 5)])
    assert np.isfinite(unheard.embed("x")).all()
    with pytest.raises(InputError, match="lacks the feature column 'town'"):
        model.extended(["x"], {"age": [30]}, [("x", 5)])
    with pytest.raises(InputError, match=r"need the shape \(1, 4\) \(got \(2, 4\)\)"):
        model.extended(["x"], {"age": [30, 40], "town": ["Oulu", "Kemi"]}, [("x", 5)])


def test_an_extension_can_be_extended_and_saved(model: LinkPredictor, tmp_path: Any) -> None:
    once = model.extended(["x"], np.ones((1, 6)), [("x", 3)])
    twice = once.extended(["y"], np.ones((1, 6)), [("y", "x")])
    assert twice.graph_.num_nodes == 52
    twice.save(tmp_path / "grown")
    back = LinkPredictor.load(tmp_path / "grown", device="cpu")
    assert list(back.recommend("y", k=5)) == list(twice.recommend("y", k=5))


def test_samples_of_new_graphs_repeat() -> None:
    model = LinkPredictor(**tiny(encoder={"expected_negatives": False})).fit(planted_graph())
    assert np.array_equal(model.embed_new(None, None, [(0, 3)]), model.embed_new(None, None, [(0, 3)]))


def test_what_does_not_fit_is_refused(model: LinkPredictor, featureless: LinkPredictor) -> None:
    row = np.ones((1, 6))
    with pytest.raises(InputError, match=r"need the shape \(1, 6\) \(got \(1, 5\)\)"):
        model.embed_new(None, np.ones((1, 5)), [(0, 3)])
    with pytest.raises(InputError, match="this model has no features: pass features=None"):
        featureless.embed_new(None, row, [(0, 3)])
    with pytest.raises(InputError, match=r"link 0, \(3, 4\), joins two known nodes: fit again"):
        model.extended(["x"], row, [(3, 4)])
    with pytest.raises(InputError, match="link 0 joins the new node 'x' to itself"):
        model.extended(["x"], row, [("x", "x")])
    with pytest.raises(UnknownNodeError, match="node 999 is not in the graph"):
        model.embed_new(None, row, [(0, 999)])
    with pytest.raises(UnknownNodeError, match="node 'z' is not in the graph"):
        model.extended(["x"], row, [("x", "z")])
    with pytest.raises(InputError, match=r"link 0 starts at new node 1, but the 1 new nodes are called 0\.\.0"):
        model.embed_new(None, row, [(1, 3)])
    with pytest.raises(InputError, match=r"link 0 starts at new node 'x', but .*pass their names as 'ids'"):
        featureless.embed_new(None, None, [("x", 3)])
    with pytest.raises(InputError, match="node 3 is already in the graph"):
        model.extended([3], row, [(3, 4)])
    with pytest.raises(InputError, match="id 'x' occurs more than once"):
        model.extended(["x", "x"], np.ones((2, 6)), [("x", 4)])
    for link in ((0,), (0, 1, 2), 5, "ab"):
        with pytest.raises(InputError, match="link 0 needs two ends"):
            model.embed_new(None, row, [link])  # type: ignore[list-item]
    with pytest.raises(InputError):
        model.embed_new(None, np.array([[1, 2, 3, 4, 5, np.nan]]), [(0, 3)])


def test_a_new_node_gets_the_same_inputs_wherever_it_arrives() -> None:
    """Three codings of a new node drew a random table's rows from three streams."""
    for inputs in ("random", "embeddings"):
        fitted = LinkPredictor(**tiny(encoder={"inputs": inputs})).fit(planted_graph()).fitted_
        nodes = [NewNode(None, (3, 4)), NewNode(None, (5,)), NewNode(None, ())]
        before = Structure.of(fitted.graph)
        change = [{"id": f"x{j}", "neighbours": list(node.neighbours)} for j, node in enumerate(nodes)]
        after, effect = planned(before, {"kind": "add_nodes", "nodes": change})
        tables = []
        for renewal in (LocalRenewal(fitted), WholeRenewal(fitted)):
            renewal.apply(after, [effect])
            tables.append(renewal.inputs.table)
        links = [("x0", 3), ("x0", 4), ("x1", 5)]
        tables.append(extend(fitted, None, links, ["x0", "x1", "x2"]).fitted.encoder.base.table)
        for table in tables:
            assert table is not None and table.shape[0] == 43
            torch.testing.assert_close(table, tables[0])
        if inputs == "embeddings":
            assert tables[0] is not None
            torch.testing.assert_close(tables[0][40], tables[0][[3, 4]].mean(0))
            assert not tables[0][42].any()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_new_node_without_features_gets_the_mean_of_each_column(sparse: bool) -> None:
    """A model that reads features refused such a node."""
    graph = with_features(sparse)
    model = LinkPredictor(**tiny(encoder=FROM_FEATURES)).fit(graph)
    dense = graph.features.to_dense() if isinstance(graph.features, SparseFeatures) else graph.features
    mean = np.asarray(dense).mean(axis=0, keepdims=True)
    with pytest.warns(UserWarning, match=r"2 new nodes without features got the mean .*: 'x', 'y' \(pass their"):
        got = model.extended(["x", "y"], None, [("x", 3), ("y", 4)])
    wanted = model.extended(["x", "y"], np.repeat(mean, 2, axis=0), [("x", 3), ("y", 4)])
    np.testing.assert_allclose(got.embed(["x", "y"]), wanted.embed(["x", "y"]), atol=1e-5)
    with pytest.warns(UserWarning, match="1 new node without features"):
        assert model.embed_new(None, None, [(0, 3)]).shape == (1, got.embed("x").shape[0])
