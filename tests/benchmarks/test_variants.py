"""Other encoders and decoders of the benchmarks: what they end at, their gradients, and what they read."""

from __future__ import annotations

import pytest
import torch

from lib import variants
from yinyan.graph import Graph
from yinyan.model.encoder import Encoder
from yinyan.model.energy import gradient
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.settings import EncoderSettings, Settings

NODES = 7  # the last has no link
LINKS = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [3, 4], [4, 5]])


def made(kind: type[Encoder], **options: object) -> tuple[Encoder, MessageGraph]:
    settings = {"inputs": "embeddings", "embedding_size": 3, "hidden_size": 3, "output_norm": False, **options}
    torch.manual_seed(0)
    encoder = kind(EncoderSettings(**settings), NODES, 0).double()  # type: ignore[arg-type]
    return encoder, MessageGraph.from_pairs(LINKS, NODES, dtype=torch.float64)


class TestMinimum:
    def test_nothing_is_left_to_fall(self) -> None:
        encoder, messages = made(variants.Minimum, num_negatives=0)
        terms = messages.terms(encoder.settings, encoder.repulsion(), None)
        f = torch.randn(NODES, 3, dtype=torch.float64)
        y = encoder._descended(f, terms)
        assert gradient(y, f, terms).abs().max() < 1e-3

    def test_a_node_without_links_stays_where_it_is_and_learns(self) -> None:
        """Its row has no curvature: conjugate gradients ran off with what the loss asked of it."""
        encoder, messages = made(variants.Minimum, num_negatives=0)
        terms = messages.terms(encoder.settings, encoder.repulsion(), None)
        f = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)
        y = encoder._descended(f, terms)
        torch.testing.assert_close(y[-1], f[-1])
        (slope,) = torch.autograd.grad(y[-1].sum(), f)
        torch.testing.assert_close(slope[-1], torch.ones(3, dtype=torch.float64))

    def test_gradient_is_that_of_finite_differences(self) -> None:
        encoder, messages = made(variants.Minimum, num_negatives=0)
        terms = messages.terms(encoder.settings, encoder.repulsion(), None)
        f, weight = (torch.randn(NODES, 3, dtype=torch.float64) for _ in range(2))
        moved, step = torch.randn(NODES, 3, dtype=torch.float64), 1e-2  # linear in f: any step will do
        f.requires_grad_()
        (slope,) = torch.autograd.grad((weight * encoder._descended(f, terms)).sum(), f)
        with torch.no_grad():
            there, back = (
                (weight * encoder._descended(f + sign * step * moved, terms)).sum() / (2 * step) for sign in (1, -1)
            )
        assert float((slope * moved).sum()) == pytest.approx(float(there - back), rel=0.01)


def test_graded_steps_leave_a_quarter_of_the_dimensions_as_they_are() -> None:
    encoder, messages = made(variants.GradedSteps, hidden_size=8)
    terms = messages.terms(encoder.settings, encoder.repulsion(), None)
    f = torch.randn(NODES, 8, dtype=torch.float64)
    with torch.no_grad():
        y = encoder._descended(f, terms)
        plain, _ = made(Encoder, hidden_size=8, num_steps=4)
        torch.testing.assert_close(y[:, 6:], plain._descended(f[:, 6:], terms))
    torch.testing.assert_close(y[:, :2], f[:, :2])
    assert not torch.allclose(y[:, 2:4], f[:, 2:4])


class TestNonLinks:
    def test_by_degree_each_pair_is_as_likely_as_its_degrees_say(self) -> None:
        encoder, messages = made(variants.DegreeNegatives)
        (mean,) = encoder.terms(messages, None).negatives
        degrees = torch.tensor([2.0, 2, 2, 3, 2, 1, 0], dtype=torch.float64)
        expected = torch.outer(degrees, degrees) / degrees.sum()
        expected.fill_diagonal_(0)
        scale = torch.where(degrees > 0, 1 / degrees.sqrt(), 0)
        laplacian = torch.diag(expected.sum(1)) - expected
        found = mean.product(torch.eye(NODES, dtype=torch.float64))
        torch.testing.assert_close(found, scale[:, None] * laplacian * scale)

    def test_hard_ones_are_the_most_alike_of_those_drawn_and_no_links(self) -> None:
        encoder, messages = made(variants.HardNegatives)
        terms = encoder.terms(messages, torch.Generator().manual_seed(0))
        f = torch.randn(NODES, 3, dtype=torch.float64)
        kept = encoder.hardest(f)
        assert len(kept) == len(LINKS)
        assert not messages.known.contains(kept).any()
        rows = torch.nn.functional.normalize(f, dim=1)
        alike = (rows[encoder._drawn[:, 0]] * rows[encoder._drawn[:, 1]]).sum(1)
        assert (rows[kept[:, 0]] * rows[kept[:, 1]]).sum(1).min() >= alike.sort(descending=True).values[len(kept) - 1]
        (repelled,) = encoder.repelled(f, terms).negatives
        expected = torch.zeros(NODES, NODES, dtype=torch.float64)
        for i, j in kept.tolist():
            expected[i, j] += 1
            expected[j, i] += 1
        degrees = expected.sum(1)
        scale = torch.where(degrees > 0, 1 / degrees.sqrt(), 0)
        found = repelled.product(torch.eye(NODES, dtype=torch.float64))
        torch.testing.assert_close(found, scale[:, None] * (torch.diag(degrees) - expected) * scale)


def test_core_numbers() -> None:
    square_with_tail = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [1, 3], [3, 4], [4, 5], [6, 7]])
    assert variants.core_numbers(square_with_tail, 9).tolist() == [3, 3, 3, 3, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("lever", ["gates", "core numbers"])
def test_decoders_of_rows_and_of_pairs_agree_and_are_symmetric(lever: str) -> None:
    graph = Graph.from_arrays(LINKS.numpy())
    change = {"inputs": "embeddings", "embedding_size": 4, "hidden_size": 4, "sketch_size": 8}
    settings = Settings().updated({"encoder": change, "decoder": {"width": 4}})
    torch.manual_seed(0)
    model = variants.VARIANTS[lever](settings, graph)
    messages = MessageGraph.from_pairs(torch.from_numpy(graph.edges), graph.num_nodes)
    y = model.encoder(None, messages)
    pairs = torch.combinations(torch.arange(graph.num_nodes))
    logits = model.decoder.of_pairs(y, pairs)
    torch.testing.assert_close(logits, model.decoder(y[pairs[:, 1]], y[pairs[:, 0]]))
    assert logits.std() > 0


def test_mining_learns_from_the_hardest_negatives() -> None:
    graph = Graph.from_arrays(LINKS.numpy())
    settings = Settings().updated({"encoder": {"inputs": "embeddings"}})
    torch.manual_seed(0)
    model = variants.VARIANTS["mined negatives"](settings, graph)
    messages = MessageGraph.from_pairs(torch.from_numpy(graph.edges), graph.num_nodes)
    y = model.encoder(None, messages)
    drawn = torch.tensor([[[0, 2], [0, 4], [0, 5], [1, 3], [1, 4]]])
    best = model.logits(y, drawn, messages)[0].argsort(descending=True)[:3]
    mined, few = Pairs(y, LINKS[:1], drawn), Pairs(y, LINKS[:1], drawn[:, best])
    plain = Model(model.encoder, model.decoder)
    torch.testing.assert_close(model.loss(mined, messages, "paper"), plain.loss(few, messages, "paper"))
    assert model.loss(mined, messages, "paper") > plain.loss(mined, messages, "paper")
