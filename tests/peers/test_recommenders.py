"""Recommenders: LightGCN trained as published, and implicit alternating least squares."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from peer_contract import PeerContract, auc, bipartite, every_pair, small, split_of

from yinyan.errors import DivergedError, MissingExtraError, SettingsError, StoppedError
from yinyan.model.fitted import EpochRecord
from yinyan.model.messages import MessageGraph
from yinyan.peers import Outcome, Task, method
from yinyan.peers.full_ranking import ranked
from yinyan.peers.recommenders import _Ranking, propagated
from yinyan.sampling import KnownPairs
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training.hooks import Hooks

LINKS = torch.tensor([[0, 3], [0, 4], [1, 4], [2, 5], [2, 3]])  # three users, four items of which 6 has no link


def run(split: Split, name: str = "lightgcn-as-published", seed: int = 0, **training: Any) -> Outcome:
    return method(name)(Task(split, seed, small(training={"loss": "logrank", **training}), "cpu"))


class TestLightGCN(PeerContract):
    name = "lightgcn-as-published"

    @classmethod
    def run(cls, split: Split, *, seed: int = 0, epochs: int | None = None) -> Outcome:
        return run(split, seed=seed, epochs=epochs or 30, evaluate_every=5, weight_decay=0.001)

    def test_beats_chance(self, outcome: Outcome, split: Split) -> None:
        assert auc(outcome, split) > self.least_auc
        found = ranked(outcome, split, "valid").means["ndcg@20"]
        assert outcome.validation == pytest.approx(found, abs=1e-6)


@pytest.mark.skipif(find_spec("implicit") is None, reason="implicit is not installed")
class TestIALS(PeerContract):
    name = "ials"

    @classmethod
    def run(cls, split: Split, *, seed: int = 0, epochs: int | None = None) -> Outcome:
        return run(split, "ials", seed, epochs=epochs or 10, weight_decay=0.01)

    def test_beats_chance(self, outcome: Outcome, split: Split) -> None:
        assert auc(outcome, split) > self.least_auc
        assert outcome.validation is None


def test_propagation_is_its_equation() -> None:
    operator = MessageGraph.from_pairs(LINKS, 7, num_left=3).adjacency(self_loops=False)[0]
    matrix = torch.zeros(7, 7)
    for a, b in LINKS.tolist():
        matrix[a, b] = matrix[b, a] = 1
    scale = matrix.sum(1).clamp(min=1).rsqrt()
    a, f = scale[:, None] * matrix * scale, torch.randn(7, 4, requires_grad=True)
    ours, theirs = propagated(f, operator, 2), (f + a @ f + a @ a @ f) / 3
    torch.testing.assert_close(ours, theirs)
    for y in (ours, theirs):
        (y[:, :2] ** 2).sum().backward(retain_graph=True)
    first, both = torch.autograd.grad((ours[:, :2] ** 2).sum(), f)[0], f.grad
    torch.testing.assert_close(2 * first, both)


def ranking(**training: Any) -> _Ranking:
    messages = MessageGraph.from_pairs(LINKS, 7, num_left=3)
    settings = Settings().updated({"encoder": {"num_steps": 2}, "training": training})
    known = KnownPairs.from_pairs(LINKS, 7, 3)
    operator = messages.adjacency(self_loops=False)[0]
    return _Ranking(settings, operator, known, messages.structure, torch.Generator().manual_seed(0))


def test_the_softmax_is_its_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's own items do not count among the negatives."""
    made = ranking(loss="infonce", loss_negatives=6, weight_decay=0.0)
    pool = torch.tensor([3, 6, 6, 5])
    monkeypatch.setattr(_Ranking, "_pool", lambda self: pool)
    table = torch.randn(7, 4)
    y = propagated(table, made.operator, 2)
    expected = []
    for user, item in LINKS.tolist():
        own = {b for a, b in LINKS.tolist() if a == user}
        logits = [y[user] @ y[item]] + [y[user] @ y[other] for other in pool.tolist() if other not in own]
        expected.append(torch.logsumexp(torch.stack(logits), 0) - logits[0])
    torch.testing.assert_close(made.loss(table, LINKS), torch.stack(expected).mean())


def test_the_decay_is_of_what_a_step_touches() -> None:
    table = torch.randn(7, 4)
    losses = [ranking(loss="infonce", loss_negatives=6, weight_decay=decay).loss(table, LINKS) for decay in (0.0, 0.5)]
    pool = ranking(loss="infonce", loss_negatives=6, weight_decay=0.0)._pool()
    assert pool.min() >= 3
    touched = table[torch.cat([LINKS.reshape(-1), pool])].square().sum() / len(LINKS)
    torch.testing.assert_close(losses[1] - losses[0], 0.25 * touched)


@pytest.mark.parametrize("loss", ["logrank", "infonce"])
def test_both_losses_find_the_tastes(loss: str) -> None:
    split = split_of(bipartite())
    outcome = run(split, loss=loss, epochs=40, loss_negatives=4, weight_decay=0.001)
    assert auc(outcome, split) > 0.75
    assert ranked(outcome, split).means["recall@20"] > 0.6  # of some 36 candidates, half are of one's taste


def test_other_losses_are_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"LightGCN needs 'training\.loss' to be 'logrank' or 'infonce' \(got 'hinge'"
    ):
        run(split_of(bipartite()), loss="hinge")


def test_the_best_epoch_is_kept_and_patience_ends_the_training() -> None:
    split, seen = split_of(bipartite()), list[EpochRecord]()
    hooks = Hooks(on_epoch=seen.append)
    settings = small(training={"loss": "logrank", "epochs": 60, "evaluate_every": 1, "patience": 3})
    outcome = method("lightgcn-as-published")(Task(split, 0, settings, "cpu", hooks))
    scores = [record.score for record in seen if record.score is not None]
    assert outcome.validation == max(scores)
    assert len(scores) < 60 and scores.index(max(scores)) == len(scores) - 4
    assert ranked(outcome, split, "valid").means["ndcg@20"] == pytest.approx(max(scores))


def test_a_stop_and_a_runaway_are_errors() -> None:
    split = split_of(bipartite())
    task = Task(split, 0, small(training={"loss": "logrank"}), "cpu", Hooks(should_stop=lambda: True))
    with pytest.raises(StoppedError, match="training was stopped"):
        method("lightgcn-as-published")(task)
    with pytest.raises(DivergedError, match=r"lower training\.learning_rate"):
        run(split, learning_rate=1e30, epochs=5)


def test_popularity_ranks_as_preferential_attachment() -> None:
    split = split_of(bipartite())
    popular, attached = (method(name)(Task(split)) for name in ("popularity", "preferential"))
    pairs = every_pair(split)
    np.testing.assert_array_equal(popular.score(pairs), attached.score(pairs))
    assert ranked(popular, split).means["ndcg@20"] == ranked(attached, split).means["ndcg@20"]


def test_weights_of_observed_links_matter() -> None:
    pytest.importorskip("implicit", reason="implicit is not installed")
    split = split_of(bipartite())
    light, heavy = (
        method("ials")(Task(split, settings={"encoder": {"embedding_size": 4, "attraction": weight}}))
        for weight in (1.0, 40.0)
    )
    assert not np.allclose(light.score(every_pair(split)), heavy.score(every_pair(split)))


def test_without_implicit_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[recommenders\]'"):
        method("ials")(Task(split_of(bipartite())))
