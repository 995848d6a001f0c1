"""Low-rank completion: the edges that seem to be missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from yinyan.errors import SettingsError
from yinyan.metrics import roc_auc
from yinyan.model.messages import MessageGraph
from yinyan.peers import completion
from yinyan.peers.completion import completed_factors, smoothed_factors


def communities(count: int, each: int, share: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """(m, 2) links: a share of all pairs within each community; and (·, 2) the other pairs within."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(count * each, 1)
    within = np.stack([i, j], 1)[i // each == j // each]
    seen = rng.random(len(within)) < share
    return torch.from_numpy(within[seen]), torch.from_numpy(within[~seen])


def graph_of(pairs: torch.Tensor, num_nodes: int, num_left: int | None = None) -> MessageGraph:
    return MessageGraph.from_pairs(pairs, num_nodes, num_left=num_left, dtype=torch.float64)


def scores_of(messages: MessageGraph, size: int, missing: float = 0.3, shrinkage: float = 0.1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    rows, signs = completed_factors(messages, size, missing=missing, shrinkage=shrinkage, generator=generator)
    assert rows.shape == (messages.num_nodes, size)
    return (rows * signs) @ rows.T


def by_definition(
    pairs: torch.Tensor, n: int, size: int, missing: float, shrinkage: float, num_left: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same alternation with whole matrices and exact eigenvectors, and the beliefs that it ends with."""
    links = torch.zeros(n, n, dtype=torch.float64)
    links[pairs[:, 0], pairs[:, 1]] = links[pairs[:, 1], pairs[:, 0]] = 1
    beliefs = links.clone()
    for _ in range(12):
        degrees = beliefs.sum(1)
        root = degrees.sqrt()
        inverse = torch.where(root > 0, 1 / root, 0)
        values, vectors = torch.linalg.eigh(inverse[:, None] * beliefs * inverse)
        leading = values.abs().argsort(descending=True)[:size]
        values, vectors = values[leading], vectors[:, leading]
        shrunk = values.sign() * (values.abs() - shrinkage).clamp(min=0)
        s = root[:, None] * ((vectors * shrunk) @ vectors.T) * root
        likely = s.clamp(0, 1)
        missed = missing * likely / (1 - (1 - missing) * likely)
        beliefs = torch.where(links > 0, 1.0, missed)
        beliefs.fill_diagonal_(0).add_(torch.diag(likely.diagonal()))
        if num_left is not None:
            beliefs[:num_left, :num_left] = beliefs[num_left:, num_left:] = 0
    return s, beliefs


def blocks(num_left: int | None) -> torch.Tensor:
    """(m, 2) links of 50 nodes between those of a kind, so that there is something to complete."""
    rng = np.random.default_rng(1)
    n = 50
    left = rng.integers(0, 20, 400)
    right = rng.integers(20, n, 400)
    kinds = left % 3 == right % 3
    found = np.unique(np.stack([left, right], 1)[kinds], axis=0)
    if num_left is None:
        more = rng.integers(20, n, (200, 2))
        more = np.sort(more[(more[:, 0] % 3 == more[:, 1] % 3) & (more[:, 0] != more[:, 1])], 1)
        found = np.unique(np.concatenate([found, more]), axis=0)
    return torch.from_numpy(found)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("num_left", [None, 20])
def test_it_is_what_it_says(missing: float, num_left: int | None) -> None:
    pairs = blocks(num_left)
    expected, _ = by_definition(pairs, 50, 50, missing, 0.2, num_left)
    scores = scores_of(graph_of(pairs, 50, num_left), 50, missing, 0.2)
    torch.testing.assert_close(scores, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("ridge", [0.1, 2.0])
@pytest.mark.parametrize("num_left", [None, 20])
def test_smoothing_predicts_every_pair_from_all_others(ridge: float, num_left: int | None) -> None:
    pairs, missing = blocks(num_left), 0.4
    _, beliefs = by_definition(pairs, 50, 50, 0.3, 0.2, num_left)
    links = torch.zeros(50, 50, dtype=torch.bool)
    links[pairs[:, 0], pairs[:, 1]] = links[pairs[:, 1], pairs[:, 0]] = True
    apart = torch.zeros(50, 50, dtype=torch.bool)
    if num_left is not None:
        apart[:num_left, :num_left] = apart[num_left:, num_left:] = True
    beliefs.fill_diagonal_(0)
    scores = beliefs
    for rounds, believe in (
        (8, lambda s: missing * s.clamp(0, 1) / (1 - (1 - missing) * s.clamp(0, 1))),
        (3, lambda s: torch.sigmoid((s - 0.65) / 0.05)),
    ):
        places = beliefs / beliefs.sum(0).sqrt()
        distances = (places[:, None] - places).square().sum(2)
        kernel = torch.exp(-distances / distances.mean())
        inverse = torch.linalg.inv(torch.kron(kernel, kernel) + ridge * torch.eye(2500, dtype=torch.float64))
        for _ in range(rounds):
            given = beliefs.ravel()  # what is left out is predicted at y - (K + ρ)⁻¹ y / diag (K + ρ)⁻¹
            scores = (given - inverse @ given / inverse.diagonal()).reshape(50, 50)
            beliefs = torch.where(links, 1.0, believe(scores)).masked_fill(apart, 0).fill_diagonal_(0)
    expected = torch.where(links, scores.clamp(min=1), scores).masked_fill(apart, 0)
    rows, signs = smoothed_factors(
        graph_of(pairs, 50, num_left),
        50,
        missing=missing,
        shrinkage=0.2,
        ridge=ridge,
        generator=torch.Generator().manual_seed(0),
    )
    torch.testing.assert_close((rows * signs) @ rows.T, expected, atol=1e-5, rtol=1e-5)


def test_smoothing_finds_what_is_missing_too() -> None:
    links, missing = communities(4, 20, 0.7)
    rows, signs = smoothed_factors(
        graph_of(links, 80), 8, missing=0.3, shrinkage=0.1, ridge=0.3, generator=torch.Generator().manual_seed(0)
    )
    scores = (rows * signs) @ rows.T
    i, j = np.triu_indices(80, 1)
    across = scores[i, j][torch.from_numpy(i // 20 != j // 20)]
    inside = scores[missing[:, 0], missing[:, 1]]
    assert roc_auc(inside.numpy().astype(np.float32), across.numpy().astype(np.float32)) > 0.98


def test_what_is_missing_within_communities_is_found() -> None:
    links, missing = communities(4, 20, 0.7)
    scores = scores_of(graph_of(links, 80), 8)
    i, j = np.triu_indices(80, 1)
    across = scores[i, j][torch.from_numpy(i // 20 != j // 20)]
    inside = scores[missing[:, 0], missing[:, 1]]
    assert roc_auc(inside.numpy().astype(np.float32), across.numpy().astype(np.float32)) > 0.98
    believed_less = scores_of(graph_of(links, 80), 8, missing=0.0)[missing[:, 0], missing[:, 1]]
    assert inside.mean() > believed_less.mean() + 0.1


def test_nodes_without_links_have_rows_of_zeros_and_so_have_columns_beyond_the_nodes() -> None:
    messages = graph_of(torch.tensor([[0, 1], [1, 2], [0, 2]]), 5)
    rows, signs = completed_factors(
        messages, 9, missing=0.3, shrinkage=0.05, generator=torch.Generator().manual_seed(0)
    )
    assert rows.isfinite().all()
    assert (rows[3:] == 0).all()
    assert (rows[:, 5:] == 0).all()
    assert (signs[5:] == 0).all()
    assert rows[0].abs().sum() > 0


def test_a_graph_without_links_is_left_alone() -> None:
    messages, generator = graph_of(torch.empty(0, 2, dtype=torch.long), 4), torch.Generator().manual_seed(0)
    rows, _ = completed_factors(messages, 2, missing=0.3, shrinkage=0.02, generator=generator)
    smoothed, _ = smoothed_factors(messages, 2, missing=0.3, shrinkage=0.02, ridge=0.3, generator=generator)
    assert (rows == 0).all()
    assert (smoothed == 0).all()


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_LARGEST", 3)
    with pytest.raises(SettingsError, match=r"for 3 nodes at most \(this graph has 5; use the method 'yinyan'\)"):
        scores_of(graph_of(torch.tensor([[0, 1]]), 5), 2)
    monkeypatch.setattr(completion, "_LARGEST_SMOOTHED", 3)
    with pytest.raises(SettingsError, match=r"for 3 nodes at most \(this graph has 5; use the method 'yinyan'\)"):
        smoothed_factors(
            graph_of(torch.tensor([[0, 1]]), 5),
            2,
            missing=0.3,
            shrinkage=0.1,
            ridge=0.3,
            generator=torch.Generator().manual_seed(0),
        )


@pytest.mark.parametrize(
    ("factors", "usual", "other"),
    [
        (completed_factors, {"missing": 0.3, "shrinkage": 0.02}, {"missing": 0.5, "shrinkage": 0.1}),
        (smoothed_factors, {"missing": 0.5, "shrinkage": 0.02, "ridge": 0.1}, {"missing": 0.3, "ridge": 3.0}),
    ],
)
def test_every_option_matters(factors: Any, usual: dict[str, float], other: dict[str, float]) -> None:
    messages = graph_of(communities(4, 20, 0.7)[0], 80)

    def rows(**options: float) -> torch.Tensor:
        found: torch.Tensor = factors(messages, 8, generator=torch.Generator().manual_seed(0), **options)[0]
        return found

    assert torch.equal(rows(), rows(**usual))
    for name, value in other.items():
        assert not torch.allclose(rows(), rows(**{name: value})), name
