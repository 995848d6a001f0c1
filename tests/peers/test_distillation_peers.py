"""Distillation: each term of a student's loss against loops, contexts against walks, and what a student reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from peer_contract import PeerContract, communities, small, split_of
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.decoder import Decoder
from yinyan.model.fitted import build_model
from yinyan.model.losses import paper
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.peers import Task, distillation, method
from yinyan.peers.distillation import Student, Teacher, Teaching, context_divergence, ranking_loss
from yinyan.peers.walks import WalkGraph, nearby
from yinyan.settings import Settings


class TestLogits(PeerContract):
    name = "distilled-logits"
    needs_geometric = True


class TestRepresentations(PeerContract):
    name = "distilled-representations"
    needs_geometric = True


class TestLLP(PeerContract):
    name = "llp"
    needs_geometric = True


class TestLLPFromYinYan(PeerContract):
    name = "llp-from-yinyan"


PLAIN: dict[str, Any] = {"inputs": "features", "num_steps": 0, "num_negatives": 0, "dropout": 0.0}
SETTINGS = Settings().updated(small(encoder=PLAIN, decoder={"dropout": 0.0}))
GRAPH = communities()
LINKS = torch.from_numpy(GRAPH.edges)
MESSAGES = MessageGraph.from_pairs(LINKS, GRAPH.num_nodes)
FEATURES = torch.from_numpy(GRAPH.features)


def a_student(**weights: Any) -> tuple[Student, Pairs]:
    own, other = (build_model(SETTINGS, GRAPH, seed) for seed in (0, 1))
    teacher = Teacher(other.encoder(FEATURES, MESSAGES).detach(), other.decoder)
    walked = WalkGraph.from_links(GRAPH.edges, GRAPH.num_nodes)
    student = Student(own, teacher, Teaching(**weights), walked)
    negatives = torch.randint(GRAPH.num_nodes, (10, 3, 2), generator=torch.Generator().manual_seed(0))
    return student, Pairs(student.encoder(FEATURES, MESSAGES), LINKS[:10], negatives)


def loss_of(student: Student, pairs: Pairs, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return student.loss(pairs, MESSAGES, "paper", drops=generator)


def probability(decoder: Decoder, rows: Tensor, pair: list[int]) -> float:
    """Of one pair."""
    return float(decoder(rows[pair[0]], rows[pair[1]]).sigmoid().detach())


def test_a_teacher_of_no_weight_leaves_the_training_loss() -> None:
    student, pairs = a_student()
    links, negatives = (student.decoder.of_pairs(pairs.rows, some) for some in (pairs.links, pairs.non_links))
    torch.testing.assert_close(loss_of(student, pairs), paper(links, negatives))
    torch.testing.assert_close(loss_of(a_student(edges=0.25)[0], pairs), 0.25 * paper(links, negatives))
    assert {id(p) for p in student.parameters()}.isdisjoint(id(p) for p in student.teacher.decoder.parameters())


def test_logits_are_matched_pair_by_pair() -> None:
    student, pairs = a_student(edges=0.0, logits=2.0)
    gaps = []
    for pair in torch.cat([pairs.links, pairs.non_links.reshape(-1, 2)]).tolist():
        own = probability(student.decoder, pairs.rows, pair)
        gaps.append((own - probability(student.teacher.decoder, student.teacher.rows, pair)) ** 2)
    assert float(loss_of(student, pairs).detach()) == pytest.approx(2 * sum(gaps) / len(gaps), rel=1e-5)


def test_representations_are_matched_node_by_node() -> None:
    student, pairs = a_student(edges=0.0, representations=3.0)
    apart = []
    for own, wanted in zip(pairs.rows.detach(), student.teacher.rows, strict=True):
        apart.append(1 - float(own @ wanted / (own.norm() * wanted.norm())))
    assert float(loss_of(student, pairs).detach()) == pytest.approx(3 * sum(apart) / len(apart), rel=1e-5)


def test_contexts_are_compared_anchor_by_anchor() -> None:
    """Both terms of LLP by loops over the contexts that the same generator draws."""
    student, pairs = a_student(edges=0.0, distribution=2.0, ranking=5.0, margin=0.01)
    around = student.contexts(10 / len(LINKS), torch.Generator().manual_seed(3))
    divergence, ranking, anchors = 0.0, [], around.tolist()
    for context in anchors:
        own = [probability(student.decoder, pairs.rows, pair) for pair in context]
        wanted = [probability(student.teacher.decoder, student.teacher.rows, pair) for pair in context]
        p, q = ([math.exp(s) / sum(math.exp(t) for t in scores) for s in scores] for scores in (wanted, own))
        divergence += sum(p_i * math.log(p_i / q_i) for p_i, q_i in zip(p, q, strict=True))
        for i in range(len(own)):
            for j in range(i + 1, len(own)):
                order = (wanted[i] > wanted[j] + 0.01) - (wanted[i] < wanted[j] - 0.01)
                ranking.append(max(0.0, 0.01 - order * (own[i] - own[j])))
    expected = 2 * divergence / len(anchors) + 5 * sum(ranking) / len(ranking)
    assert float(loss_of(student, pairs).detach()) == pytest.approx(expected, rel=1e-4)


def test_nothing_is_lost_where_student_and_teacher_agree() -> None:
    scores = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    assert float(context_divergence(scores, scores)) == pytest.approx(0, abs=1e-6)
    assert float(context_divergence(scores, scores.flip(1))) > 0.01
    apart = torch.tensor([[0.0, 0.5, 1.0]])
    assert float(ranking_loss(apart, apart, 0.1)) == 0
    assert float(ranking_loss(apart.flip(1), apart, 0.1)) == pytest.approx((0.6 + 1.1 + 0.6) / 3)


@pytest.mark.parametrize(("walks", "hops", "random"), [(3, 2, 1), (1, 1, 3), (2, 3, 0)])
def test_contexts_are_walks_and_uniform_nodes(walks: int, hops: int, random: int) -> None:
    student, _ = a_student(distribution=1.0, walks=walks, hops=hops, random=random)
    around = student.contexts(0.5, torch.Generator().manual_seed(0)).numpy()
    assert around.shape == (GRAPH.num_nodes // 2, walks * hops * (1 + random), 2)
    anchors = around[:, 0, 0]
    assert len(np.unique(anchors)) == len(anchors) and (around[:, :, 0] == anchors[:, None]).all()
    edges = {(a, b) for a, b in GRAPH.edges.tolist()} | {(b, a) for a, b in GRAPH.edges.tolist()}
    for anchor, context in zip(anchors.tolist(), around[:, : walks * hops, 1].tolist(), strict=True):
        for start in range(0, walks * hops, hops):
            path = [anchor, *context[start : start + hops]]
            assert all(step in edges for step in zip(path, path[1:], strict=False))
    again = student.contexts(0.5, torch.Generator().manual_seed(0)).numpy()
    assert np.array_equal(again, around)
    with pytest.raises(ValueError, match="generator"):
        student.contexts(0.5, None)


def test_a_node_without_edges_is_its_own_context() -> None:
    graph = WalkGraph.from_links(np.array([[0, 1], [1, 2]]), 4)
    found = nearby(graph, np.array([3, 0, 3]), 3, np.random.default_rng(0))
    assert found[[0, 2]].tolist() == [[3, 3, 3]] * 2
    assert found[1, 0] == 1 and found[1, 1] in (0, 2) and found[1, 2] == 1
    lone = WalkGraph.from_links(np.empty((0, 2), dtype=np.int64), 2)
    assert nearby(lone, np.array([1, 0]), 2, np.random.default_rng(0)).tolist() == [[1, 1], [0, 0]]


def test_a_student_reads_features_only() -> None:
    """Two nodes with the same features score alike, wherever they are in the graph."""
    graph = communities()
    assert isinstance(graph.features, np.ndarray)
    graph.features[1] = graph.features[0]
    split = split_of(graph)
    outcome = method("llp-from-yinyan")(Task(split, settings=small(training={"epochs": 2}), device="cpu"))
    others = np.arange(2, 80)
    first, second = (outcome.score(np.stack([np.full(78, node), others], axis=1)) for node in (0, 1))
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert outcome.best is not None, "two stored rows suffice for a score"


def test_a_teacher_is_trained_and_sees_training_messages_only() -> None:
    split = split_of(communities())
    task = Task(split, settings=small(training={"epochs": 2}), device="cpu")
    teacher = distillation._teacher(task, method("yinyan"))
    fitted = method("yinyan")(task).fitted
    assert fitted is not None
    torch.testing.assert_close(teacher.rows, fitted.embeddings)  # the clean split: the same messages
    with pytest.raises(ValueError, match="our loop trains"):
        distillation._teacher(task, method("cn"))


def test_methods_differ_in_teacher_and_in_what_is_taught() -> None:
    pytest.importorskip("torch_geometric")
    split = split_of(communities())
    task = Task(split, settings=small(training={"epochs": 1}), device="cpu")
    plain = ("distilled-logits", "distilled-representations", "llp")
    scores = [method(f"{name}{end}")(task).score(split.test_targets) for name in plain for end in ("", "-from-yinyan")]
    for number, one in enumerate(scores):
        assert not any(np.allclose(one, other) for other in scores[:number])


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"'walks' needs to be at least 1 \(got 0\)"):
        Teaching(walks=0)
    with pytest.raises(SettingsError, match=r"'ranking' needs to be at least 0 \(got -1\)"):
        Teaching(ranking=-1)
    shared = small(training={"loss_sampler": "shared", "epochs": 1})
    with pytest.raises(SettingsError, match="pair by pair"):
        distillation.distilled(
            Task(split_of(communities()), settings=shared, device="cpu"), method("mlp"), Teaching(logits=1.0)
        )
