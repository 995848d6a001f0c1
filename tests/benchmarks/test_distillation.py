"""Students of the benchmarks: labels between the links and what teachers say."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import distillation
from contracts import TINY, planted_graph
from yinyan.model.fitted import build_model
from yinyan.model.losses import paper
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.settings import Settings
from yinyan.splits import random_split

GRAPH = planted_graph()
SETTINGS = Settings().updated(TINY)
LINKS = torch.from_numpy(GRAPH.edges)
MESSAGES = MessageGraph.from_pairs(LINKS, GRAPH.num_nodes)


def test_labels_are_between_the_links_and_the_mean_teacher() -> None:
    teachers = [build_model(SETTINGS, GRAPH, seed) for seed in (1, 2)]
    hidden = torch.arange(len(LINKS)) < 10
    own = build_model(SETTINGS, GRAPH, 0)
    rows = own.encoder(None, MESSAGES, hidden=hidden)
    pairs = Pairs(rows, LINKS[:10], torch.randint(GRAPH.num_nodes, (10, 3, 2)))
    said = [
        torch.stack([t.decoder.of_pairs(t.encoder(None, MESSAGES, hidden=hidden), some) for t in teachers]).mean(0)
        for some in (pairs.links, pairs.non_links)
    ]
    by_weight = {}
    for weight in (0.0, 0.4, 1.0):
        student = distillation.Student(own, teachers, weight, GRAPH)
        by_weight[weight] = student.loss(pairs, MESSAGES, "paper", hidden=hidden)
        assert len(list(student.parameters())) == len(list(own.parameters()))
    links, non_links = (own.decoder.of_pairs(rows, some) for some in (pairs.links, pairs.non_links))
    torch.testing.assert_close(by_weight[0.0], paper(links, non_links))
    taught = sum(
        F.binary_cross_entropy_with_logits(logits, wanted.sigmoid())
        for logits, wanted in zip((links, non_links), said, strict=True)
    )
    torch.testing.assert_close(by_weight[1.0], taught)
    torch.testing.assert_close(by_weight[0.4], 0.6 * by_weight[0.0] + 0.4 * by_weight[1.0])


def test_a_student_is_trained_by_its_own_loss() -> None:
    split = random_split(GRAPH, seed=0, valid_negatives=100)
    plain = distillation.fitted(split, SETTINGS, 0)
    itself = distillation.fitted(split, SETTINGS, 0, [plain.model], 0.0)
    taught = distillation.fitted(split, SETTINGS, 0, [plain.model], 1.0)
    assert itself.best_score == plain.best_score
    assert [r.loss for r in taught.history] != [r.loss for r in plain.history]
