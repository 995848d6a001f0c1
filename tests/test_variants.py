"""Other ways down the energy, of the benchmarks: what they end at, and their gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from yinyan.encoder import Encoder
from yinyan.energy import gradient
from yinyan.messages import MessageGraph
from yinyan.settings import EncoderSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import variants

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
