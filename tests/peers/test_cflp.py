"""Counterfactual link prediction: cores, the search and each term of the loss against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from layered_contract import HIDDEN, LINKS
from peer_contract import PeerContract, communities, small, split_of
from test_gnn import dense
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.losses import paper
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.model.scoring import Pairs
from yinyan.peers import Task, method
from yinyan.peers.cflp import (
    Counterfactual,
    CounterfactualModel,
    GroupedGCN,
    NearestPairs,
    TreatmentDecoder,
    cflp,
    core_numbers,
    diffused_inputs,
)
from yinyan.randomness import uniform_nodes
from yinyan.settings import Settings


class TestCFLP(PeerContract):
    name = "cflp"
    needs_geometric = True


def brute_core(links: list[tuple[int, int]], num_nodes: int) -> list[int]:
    """For each k, remove nodes of fewer than k links until none is left to remove."""
    core = [0] * num_nodes
    for k in range(1, num_nodes):
        left = set(range(num_nodes))
        while True:
            degree = {v: sum(v in link and set(link) <= left for link in links) for v in left}
            out = {v for v in left if degree[v] < k}
            if not out:
                break
            left -= out
        for v in left:
            core[v] = k
    return core


@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] < p[1]), max_size=24))
def test_cores_by_definition(pairs: set[tuple[int, int]]) -> None:
    links = sorted(pairs)
    found = core_numbers(np.array(links, dtype=np.int64).reshape(-1, 2), 9)
    assert found.tolist() == brute_core(links, 9)


def brute_search(rows: Tensor, groups: list[int], a: int, b: int) -> float:
    """The least distance over all pairs of the other treatment."""
    least = math.inf
    for c in range(len(rows)):
        for d in range(len(rows)):
            if c in (a, d) or d == b or (groups[a] == groups[b]) == (groups[c] == groups[d]):
                continue
            least = min(least, float((rows[a] - rows[c]).norm() + (rows[b] - rows[d]).norm()))
    return least


@pytest.mark.parametrize("nearest", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("num_groups", [1, 2, 3, 5])
def test_the_search_equals_brute_force(num_groups: int, nearest: float) -> None:
    generator = torch.Generator().manual_seed(num_groups)
    rows = torch.randn(12, 3, generator=generator)
    groups = torch.randint(num_groups, (12,), generator=generator)
    groups[:num_groups] = torch.arange(num_groups)  # a group of a single node may remain
    search = NearestPairs(rows, groups, nearest)
    assert search.limit == pytest.approx(2 * np.quantile(torch.cdist(rows, rows).numpy(), nearest), rel=1e-5)
    pairs = torch.tensor([(a, b) for a in range(12) for b in range(12) if a != b])
    found = search(pairs)
    for (a, b), (c, d), exists in zip(pairs.tolist(), found.pairs.tolist(), found.exists.tolist(), strict=True):
        least = brute_search(rows, groups.tolist(), a, b)
        assert exists == (least < search.limit)
        if exists:
            assert c not in (a, d) and d != b
            assert (groups[a] == groups[b]) != (groups[c] == groups[d])
            assert float((rows[a] - rows[c]).norm() + (rows[b] - rows[d]).norm()) == pytest.approx(least, rel=1e-4)
        else:
            assert (c, d) == (a, b)


def encoder_of(**changes: object) -> GroupedGCN:
    torch.manual_seed(0)
    chosen = {"inputs": "embeddings", "num_steps": 3, "num_negatives": 0, "dropout": 0.0, "output_norm": False}
    settings = Settings().updated(small(encoder={**chosen, **changes})).encoder
    return GroupedGCN(settings, 9, 0, torch.arange(9) % 3)


def test_the_encoder_equals_its_equation() -> None:
    pytest.importorskip("torch_geometric")
    for base_norm in (False, True):
        encoder = encoder_of(base_norm=base_norm)
        y = encoder(None, MessageGraph.from_pairs(LINKS, 9), hidden=HIDDEN)
        assert y[:, -1].tolist() == [0, 1, 2] * 3
        x, a, layers = encoder.base(None, None), dense(self_loops=True), []
        for layer in encoder.layers:
            x = a @ x @ layer.lin.weight.T + layer.bias
            x = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() if base_norm else x
            x = F.elu(x)
            layers.append(x)
        shares = encoder.mix.exp() / encoder.mix.exp().sum()
        torch.testing.assert_close(y[:, :-1], sum(s * x for s, x in zip(shares, layers, strict=True)))


def model_of(**weights: float) -> tuple[CounterfactualModel, Tensor, MessageGraph, Pairs]:
    pytest.importorskip("torch_geometric")
    encoder, settings = encoder_of(), Settings().updated(small(decoder={"dropout": 0.0}))
    search = NearestPairs(torch.randn(9, 4), encoder.groups, 0.2)
    model = CounterfactualModel(encoder, TreatmentDecoder(16, settings.decoder), search, Counterfactual(**weights))  # type: ignore[arg-type]
    y = torch.cat([torch.randn(9, 16), encoder.groups[:, None].float()], dim=1)
    negatives = torch.tensor([[[0, 5], [1, 6]], [[2, 7], [3, 8]], [[0, 8], [1, 4]], [[2, 6], [7, 8]]])
    return model, y, MessageGraph.from_pairs(LINKS, 9), Pairs(y, LINKS[[0, 4, 5, 8]], negatives)


def mlp(model: CounterfactualModel, y: Tensor, pair: tuple[int, int], treated: bool) -> Tensor:
    """MLP([y_i ⊙ y_j, T]) of one pair."""
    x = torch.cat([y[pair[0], :-1] * y[pair[1], :-1], torch.tensor([float(treated)])])
    for linear in model.treatment_decoder.mlp.hidden:
        x = torch.relu(linear(x))
    return model.treatment_decoder.mlp.output(x)[0]  # type: ignore[no-any-return]


def test_a_score_reads_two_rows_and_whether_their_groups_agree() -> None:
    model, y, messages, _ = model_of()
    for pair in ((0, 3), (0, 4), (8, 2)):
        expected = mlp(model, y, pair, pair[0] % 3 == pair[1] % 3)
        torch.testing.assert_close(model.logits(y, torch.tensor([pair]), messages)[0], expected)


def test_the_loss_is_the_sum_of_its_terms_by_loops() -> None:
    model, y, messages, pairs = model_of(outcome=2.0, discrepancy=0.0)
    edges = {frozenset(link) for link in LINKS.tolist()}
    every = [*pairs.links.tolist(), *pairs.non_links.reshape(-1, 2).tolist()]
    found = model.search(torch.tensor(every))
    assert 0 < int(found.exists.sum()) < len(every), "some pairs have a counterfactual, some have none"
    labels, terms = [], []
    for place, pair in enumerate(every):
        treated, label = pair[0] % 3 == pair[1] % 3, place < len(pairs.links)
        if found.exists[place]:
            treated, label = not treated, frozenset(found.pairs[place].tolist()) in edges
        labels.append(label)
        terms.append(mlp(model, y, tuple(pair), treated))
    weight = (len(labels) - sum(labels)) / sum(labels)
    each = [weight * F.softplus(-t) if label else F.softplus(t) for t, label in zip(terms, labels, strict=True)]
    factual = paper(
        torch.stack([mlp(model, y, (a, b), a % 3 == b % 3) for a, b in pairs.links.tolist()]),
        torch.stack([mlp(model, y, (a, b), a % 3 == b % 3) for a, b in pairs.non_links.reshape(-1, 2).tolist()]),
    )
    torch.testing.assert_close(model.loss(pairs, messages, "paper"), factual + 2 * sum(each) / len(each))
    alone, *_ = model_of(outcome=0.0, discrepancy=0.0)
    torch.testing.assert_close(alone.loss(pairs, messages, "paper"), factual)


def test_the_discrepancy_by_loops() -> None:
    model, y, messages, pairs = model_of(outcome=0.0, discrepancy=3.0, sampled=50)
    plain = model_of(outcome=0.0, discrepancy=0.0)[0].loss(pairs, messages, "paper")
    first, again = (model.discrepancy(y, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, again)
    torch.testing.assert_close(
        model.loss(pairs, messages, "paper", drops=torch.Generator().manual_seed(4)), plain + 3 * first
    )
    drawn = uniform_nodes(9, 100, torch.Generator().manual_seed(4), torch.device("cpu")).view(-1, 2)
    found = model.search(drawn)
    means = []
    for some in (drawn.tolist(), found.pairs[found.exists].tolist()):
        rows = [torch.cat([y[a, :-1], y[b, :-1]]) for a, b in some]
        means.append(sum(rows) / len(rows))
    expected = (((means[0] - means[1]) ** 2).mean() + 1e-6).sqrt()
    torch.testing.assert_close(first, expected)
    with pytest.raises(ValueError, match="generator"):
        model.discrepancy(y, None)


def test_distances_are_those_of_propagated_inputs() -> None:
    messages, a = MessageGraph.from_pairs(LINKS[~HIDDEN], 9), dense(self_loops=True)
    few = torch.randn(9, 5)
    torch.testing.assert_close(diffused_inputs(few, messages), a @ a @ few)
    wide = torch.randn(9, 3000)
    sparse = SparseMatrix.from_csr(torch.arange(10) * 3000, torch.arange(3000).repeat(9), wide.flatten(), 3000)
    for features, matrix in ((wide, wide), (sparse, wide), (None, torch.eye(9))):
        found, exact = diffused_inputs(features, messages), a @ a @ matrix
        assert found.shape == (9, 256)
        ratio = torch.pdist(found) / torch.pdist(exact).clamp(min=1e-9)
        assert ((ratio > 0.75) & (ratio < 1.25))[torch.pdist(exact) > 1e-3].all()


def test_each_setting_matters() -> None:
    pytest.importorskip("torch_geometric")
    split = split_of(communities())
    task = Task(split, settings=small(training={"epochs": 1}), device="cpu")
    plain = cflp(task).score(split.test_targets)
    for changed in ({"outcome": 5.0}, {"discrepancy": 5.0}, {"nearest": 0.9}, {"sampled": 10}):
        assert not np.allclose(cflp(task, how=Counterfactual(**changed)).score(split.test_targets), plain)  # type: ignore[arg-type]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"'nearest' needs to be from 0 to 1 \(got 1.5\)"):
        Counterfactual(nearest=1.5)
    with pytest.raises(SettingsError, match=r"'outcome' needs to be at least 0 \(got -1\)"):
        Counterfactual(outcome=-1)
    shared = small(training={"loss_sampler": "shared", "epochs": 1})
    with pytest.raises(SettingsError, match="pair by pair"):
        method("cflp")(Task(split_of(communities()), settings=shared, device="cpu"))
