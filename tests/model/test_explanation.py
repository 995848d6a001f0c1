"""Explanations: the parts add up to the score, and each is what its message is worth."""

from __future__ import annotations

import collections
import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts import planted_graph, tiny
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.model import explanation
from yinyan.model.tensors import message_graph
from yinyan.predictor import LinkPredictor
from yinyan.randomness import Streams
from yinyan.results import Contribution, Explanation
from yinyan.splits import random_split

CPU = torch.device("cpu")
DOT = {"kind": "dot"}


def fit(graph: Graph | None = None, **groups: Any) -> LinkPredictor:
    return LinkPredictor(**tiny(**{"decoder": DOT, **groups})).fit(graph or planted_graph())


def smallness(told: Explanation) -> float:
    """The residue as a share of all that moved."""
    return abs(told.residue) / sum(abs(c.amount) for c in told.contributions)


KINDS: dict[str, dict[str, Any]] = {
    "dot": {},
    "distance": {"decoder": {"kind": "distance"}},
    "no output norm": {"encoder": {"output_norm": False}},
    "sampled": {"encoder": {"expected_negatives": False}},
    "sampled apart": {"encoder": {"expected_negatives": False, "num_negatives": 3}},
    "margin": {"encoder": {"margin": 0.01}},
    "no repulsion": {"encoder": {"num_negatives": 0}},
    "self loops": {"encoder": {"self_loops": True, "sign_hops": 1}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_add_up(kind: str) -> None:
    model = fit(**KINDS[kind])
    for pair in ((0, 1), (3, 35), (22, 4)):
        told = model.explain(*pair)
        assert told.score == pytest.approx(model.score(pair), abs=1e-5)
        total = told.score_alone + sum(c.amount for c in told.contributions) + told.residue
        assert total == pytest.approx(told.score, abs=1e-6)
        assert smallness(told) < 1e-3
        assert [abs(c.amount) for c in told.contributions] == sorted(
            (abs(c.amount) for c in told.contributions), reverse=True
        )


def test_kinks_of_the_default_decoder_leave_a_small_residue() -> None:
    model = fit(decoder={"kind": "hadamard"})
    assert np.mean([smallness(model.explain(0, other)) for other in range(20, 30)]) < 0.05


def test_sketches_are_part_of_it() -> None:
    """They bend where a node's last link goes, so that a small residue is left."""
    model = fit(encoder={"sketch_size": 32})
    for pair in ((0, 1), (3, 35), (22, 4)):
        told = model.explain(*pair)
        assert told.score == pytest.approx(model.score(pair), abs=1e-5)
        assert smallness(told) < 0.05


LINEAR: dict[str, dict[str, Any]] = {
    **{kind: groups for kind, groups in KINDS.items() if kind != "margin"},
    "hadamard": {"decoder": {"kind": "hadamard", "width": 8}},
    "multi-dot": {"decoder": {"kind": "multi-dot"}},
    "sketches": {"encoder": {"sketch_size": 32}},
    "six long steps": {"encoder": {"num_steps": 6, "step_size": 0.8, "anchoring": 0.1, "sketch_size": 8}},
    "no steps": {"encoder": {"num_steps": 0}},
    "safe steps, bfloat16": {"encoder": {"step_size": "safe", "storage": "bfloat16"}},
}


def compared(model: LinkPredictor, a: int, b: int) -> None:
    """The shares and both scores, beside all layers at every point, within the bound that Explainer states."""
    explainer, decoder = model._questions.explainer(), model.fitted_.model.decoder
    shares, *scores = explainer.explain(decoder, a, b)
    wanted, *wanted_scores = explainer.explain(decoder, a, b, whole=True)
    bound = 1e-4 * max(abs(x) for x in (*wanted_scores, *(share.amount for share in wanted)))
    assert scores == pytest.approx(wanted_scores, abs=bound)
    assert len(shares) == len(wanted)
    got, expected = collections.Counter[Any](), collections.Counter[Any]()
    for found, total in ((shares, got), (wanted, expected)):
        for share in found:  # several sampled graphs may hold the same pair
            total[share.end, share.neighbour, share.attracts] += share.amount  # type: ignore[assignment]
    assert dict(got) == pytest.approx(dict(expected), abs=bound)


@pytest.mark.parametrize("kind", LINEAR)
def test_few_columns_give_the_shares_of_all_layers(kind: str) -> None:
    """A linked pair, a pair with common neighbours, and one far apart."""
    model = fit(**LINEAR[kind])
    graph = model.graph_
    for a, b in (graph.edges[3].tolist(), (0, 1), (3, 35)):
        compared(model, a, b)


def test_few_columns_of_weighted_bipartite_and_lone_nodes() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(0, 10, 90), rng.integers(10, 29, 90)], axis=1), axis=0)
    weights = rng.uniform(0.2, 3.0, len(pairs)).astype(np.float32)
    graph = Graph.from_arrays(pairs, num_nodes=30, sides=np.repeat([0, 1], [10, 20]), weights=weights)
    model = fit(graph, encoder={"sketch_size": 8})
    for a, b in (pairs[0].tolist(), (3, 15), (2, 29)):
        compared(model, a, b)


def test_an_explanation_does_not_run_all_layers_over_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took 6.5 CPU-seconds at 22,470 nodes: all layers, at twelve points, forwards and backwards."""
    plain, bounded = fit(encoder={"sketch_size": 8}), fit(encoder={"margin": 0.01})
    calls: list[int] = []
    layer = explanation.gated_layer
    monkeypatch.setattr(explanation, "gated_layer", lambda *given: calls.append(1) or layer(*given))
    plain.explain(0, 1)
    assert not calls
    bounded.explain(0, 1)
    assert calls


def test_what_explanations_share_is_computed_once() -> None:
    model = fit()
    model.explain(0, 1)
    kept = model._questions.explainer()
    model.explain(2, 30)
    assert model._questions.explainer() is kept


def test_a_neighbour_is_worth_what_its_absence_costs() -> None:
    """One linear step towards the neighbours, and a partner that nothing reaches: shares are exact differences."""
    plain = planted_graph(size=15)
    graph = Graph.from_arrays(plain.edges, num_nodes=31)  # node 30 has no link
    model = fit(graph, encoder={"num_steps": 1, "num_negatives": 0, "output_norm": False, "dropout": 0.0})
    fitted = model.fitted_
    messages = message_graph(fitted.graph, fitted.message_edges, CPU)
    terms = messages.terms(fitted.settings.encoder, fitted.model.encoder.repulsion(), None)
    with torch.no_grad():
        f = fitted.model.encoder.base(None, terms)
        scale = float(fitted.model.decoder.log_scale.exp())
    degrees = graph.degrees
    told = model.explain(2, 30)
    assert {c.neighbour for c in told.contributions} == set(graph.neighbours(2).tolist())
    for part in told.contributions:
        assert part.neighbour is not None and part.end == 2 and part.kind == "attracts"
        arrives = 0.5 * f[part.neighbour] / np.sqrt(degrees[2] * degrees[part.neighbour])  # α λ Ã_2i f_i
        assert part.amount == pytest.approx(scale * float(arrives @ f[30]), abs=1e-6)
    assert abs(told.residue) < 1e-6


def test_shares_are_integrated_gradients_of_dense_descent() -> None:
    """The same with plain matrices: a gate scales both entries of its pair, normalisation stays."""
    model = fit(encoder={"expected_negatives": False, "learn_repulsion": "no", "num_negatives": 2, "num_steps": 3})
    fitted, (a, b) = model.fitted_, (4, 25)
    settings, encoder = fitted.settings.encoder, fitted.model.encoder
    messages = message_graph(fitted.graph, fitted.message_edges, CPU)
    terms = messages.terms(settings, encoder.repulsion(), Streams.fresh(fitted.seed, "inference/0", CPU))
    told = model.explain(a, b)
    gates = [(c.end, c.neighbour, c.kind) for c in told.contributions]
    ends, others = torch.tensor([[g[0], g[1]] for g in gates]).T
    attracts = torch.tensor([g[2] == "attracts" for g in gates])
    eye = torch.eye(fitted.graph.num_nodes)
    with torch.no_grad():
        f = encoder.base(None, terms)
    pull, push = terms.links.adjacency.product(eye), terms.negatives[0].adjacency.product(eye)

    def gated(matrix: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
        factor = torch.ones_like(matrix)
        for rows, columns in ((ends, others), (others, ends)):
            factor = factor.index_put((rows[chosen], columns[chosen]), values[chosen])
        return factor * matrix

    def score(values: Tensor) -> Tensor:
        attraction, repulsion = gated(pull, values, attracts), gated(push, values, ~attracts)
        y = f
        for _ in range(3):
            slope = settings.anchoring * terms.anchor * (y - f) + terms.links.diagonal * y - attraction @ y
            y = y - 0.5 * (slope - settings.repulsion * (terms.negatives[0].diagonal * y - repulsion @ y))
        ends_y = encoder.finish(y[[a, b]])
        return fitted.model.decoder(ends_y[0], ends_y[1])

    amounts = torch.zeros(len(gates))
    count = 200
    for i in range(count):  # the midpoint rule
        values = torch.full((len(gates),), (i + 0.5) / count, requires_grad=True)
        amounts += torch.autograd.grad(score(values), values)[0] / count
    assert told.score_alone == pytest.approx(float(score(torch.zeros(len(gates))).detach()), abs=1e-5)
    np.testing.assert_allclose([c.amount for c in told.contributions], amounts, atol=2e-5)


def test_sampled_repulsion_is_told_node_by_node() -> None:
    model = fit(encoder={"expected_negatives": False})
    repels = [c for c in model.explain(3, 30).contributions if c.kind == "repels"]
    assert repels
    for part in repels:
        assert part.end in (3, 30)
        assert part.neighbour is not None and part.neighbour != part.end
        assert not model.graph_.has_edges([(part.end, part.neighbour)])[0]


def test_expected_repulsion_is_told_in_one_piece() -> None:
    told = fit().explain(3, 30)
    repels = [c for c in told.contributions if c.kind == "repels"]
    assert {(c.end, c.neighbour) for c in repels} == {(3, None), (30, None)}
    assert "all other nodes" in repr(told)


def test_every_message_link_of_either_end_is_listed_once() -> None:
    model = fit()
    graph = model.graph_
    a, b = graph.edges[0].tolist()
    for pair in ((3, 30), (a, b)):
        listed = [frozenset((c.end, c.neighbour)) for c in model.explain(*pair).contributions if c.kind == "attracts"]
        expected = {frozenset((end, int(other))) for end in pair for other in graph.neighbours(end)}
        assert set(listed) == expected
        assert len(listed) == len(expected)


def test_hidden_links_are_not_listed() -> None:
    """Validation links are known, and pass no messages under the clean protocol."""
    graph = planted_graph(size=30)
    split = random_split(graph, seed=0)
    model = LinkPredictor(**tiny(decoder=DOT)).fit(graph, split=split)
    passing = {frozenset(edge) for edge in graph.edges[split.test_messages].tolist()}
    for a, b in split.valid_targets.tolist():
        told = model.explain(a, b)
        assert told.is_link
        assert all(frozenset((c.end, c.neighbour)) in passing for c in told.contributions if c.kind == "attracts")


def test_says_whether_the_pair_is_linked() -> None:
    model = fit()
    a, b = model.graph_.edges[0].tolist()
    told = model.explain(b, a)
    assert told.is_link
    assert "this edge is in the graph" in repr(told)
    stranger = next(row for row in range(1, 40) if not model.graph_.has_edges([(0, row)])[0])
    assert not model.explain(0, stranger).is_link
    assert "this edge is in the graph" not in repr(model.explain(0, stranger))


def test_direction_matters_to_what_is_a_link() -> None:
    model = fit(planted_graph(directed=True, inside=0.15))
    graph = model.graph_
    a, b = next((a, b) for a, b in graph.edges.tolist() if not graph.has_edges([(b, a)])[0])
    assert model.explain(a, b).is_link
    assert not model.explain(b, a).is_link
    assert model.explain(a, b).score != pytest.approx(model.explain(b, a).score)


def test_a_node_with_itself_is_refused() -> None:
    with pytest.raises(InputError, match="explain needs two different nodes \\(got 3 twice\\)"):
        fit().explain(3, 3)


def test_nodes_without_links() -> None:
    graph = Graph.from_arrays(planted_graph().edges, num_nodes=42)
    told = fit(graph, encoder={"num_negatives": 0}).explain(40, 41)
    assert told.contributions == ()
    assert told.score == told.score_alone
    assert "(no neighbours)" in repr(told)
    one = fit(graph).explain(40, 3)
    assert {c.end for c in one.contributions if c.kind == "attracts"} == {3}
    assert smallness(one) < 1e-3


def test_bipartite_pairs() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(0, 10, 90), rng.integers(10, 30, 90)], axis=1), axis=0)
    model = fit(Graph.from_arrays(pairs, num_nodes=30, sides=np.repeat([0, 1], [10, 20])))
    told = model.explain(3, 15)
    assert smallness(told) < 1e-3
    assert all(c.neighbour >= 10 for c in told.contributions if c.kind == "attracts" and c.end == 3)


def test_probability_and_base_rate() -> None:
    model = fit()
    told = model.explain(0, 1)
    assert told.base_rate == model.base_rate_ < 0.1
    assert told.probability == pytest.approx(model.predict_proba((0, 1)), abs=1e-6)


@pytest.mark.parametrize("number", [int, np.int64])
def test_json_keeps_it_all(number: type) -> None:
    told = fit().explain(number(0), number(1))
    back = json.loads(json.dumps(told.to_dict()))
    assert back["source"] == 0 and back["target"] == 1
    assert tuple(Contribution(**part) for part in back.pop("contributions")) == told.contributions
    for name, value in back.items():
        assert getattr(told, name) == value
