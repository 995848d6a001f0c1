"""Losses: known values, extremes, and what a better model is worth."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from torch import Tensor

from yinyan.model.losses import LOSSES, Loss
from yinyan.settings import TrainingSettings

EACH = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def value(name: str, links: list[float], non_links: list[list[float]]) -> float:
    return float(LOSSES[name](torch.tensor(links).double(), torch.tensor(non_links).double()))


@pytest.mark.parametrize(
    ("name", "at_zero", "at_two_and_minus_one"),
    [
        ("paper", 2 * math.log(2), math.log1p(math.exp(-2)) + math.log1p(math.exp(-1))),
        ("auc", 1.0, 4.0),
        ("hinge", 1.0, 0.0),
        ("logrank", math.log(2), math.log1p(math.exp(-3))),
        ("infonce", math.log(2), math.log1p(math.exp(-3))),
        ("hardest", 2 * math.log(2), math.log1p(math.exp(-2)) + math.log1p(math.exp(-1))),
    ],
)
def test_literals(name: str, at_zero: float, at_two_and_minus_one: float) -> None:
    assert value(name, [0.0], [[0.0]]) == pytest.approx(at_zero)
    assert value(name, [2.0], [[-1.0]]) == pytest.approx(at_two_and_minus_one)


def test_several_negatives_are_averaged_or_summed_as_stated() -> None:
    links, non_links = [1.0, 0.0], [[0.0, 2.0], [-1.0, 0.0]]
    log1pexp = [math.log1p(math.exp(x)) for x in (-1, 0, 0, 2, -1, 0)]
    assert value("paper", links, non_links) == pytest.approx(sum(log1pexp[:2]) / 2 + sum(log1pexp[2:]) / 4)
    assert value("auc", links, non_links) == pytest.approx((0 + 4 + 0 + 1) / 4)
    assert value("hinge", [3.0, 0.0], [[0.0, 2.0], [-1.0, 0.0]]) == pytest.approx(1 / 4)
    assert value("logrank", [0.0], [[0.0, 0.0]]) == pytest.approx(math.log(2))
    assert value("infonce", [0.0], [[0.0, 0.0]]) == pytest.approx(math.log(3))


def test_the_hardest_non_links_of_a_step_count_most() -> None:
    heavy = math.e / (math.e + 3)  # exp(½ · 2) among three of exp(0)
    expected = math.log(2) + heavy * math.log1p(math.exp(2)) + (1 - heavy) * math.log(2)
    assert value("hardest", [0.0, 0.0], [[0.0, 2.0], [0.0, 0.0]]) == pytest.approx(expected)
    assert value("hardest", [0.0], [[0.0] * 5]) == pytest.approx(value("paper", [0.0], [[0.0]]))


def test_paper_is_the_log_of_its_probabilities() -> None:
    links, non_links = torch.randn(5).double(), torch.randn(5, 3).double()
    plain = -links.sigmoid().log().mean() - (1 - non_links.sigmoid()).log().mean()
    torch.testing.assert_close(LOSSES["paper"](links, non_links), plain)


@EACH
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("count", [1, 4])
def test_finite_at_extremes(loss: Loss, sign: float, count: int) -> None:
    links = torch.full((3,), sign * 1e4, requires_grad=True)
    non_links = torch.full((3, count), -sign * 1e4, requires_grad=True)
    result = loss(links, non_links)
    result.backward()
    assert result.isfinite()
    assert links.grad is not None
    assert non_links.grad is not None
    assert links.grad.isfinite().all()
    assert non_links.grad.isfinite().all()


@EACH
def test_better_separation_costs_less(loss: Loss) -> None:
    links, non_links = torch.tensor([0.1, -0.2, 0.0]), torch.tensor([[0.2], [0.1], [-0.1]])
    costs = [float(loss(links + shift, non_links - shift)) for shift in (0.0, 0.1, 0.2, 0.3)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@EACH
def test_pulls_links_up_and_non_links_down(loss: Loss) -> None:
    links, non_links = (torch.full(shape, 0.5, requires_grad=True) for shape in ((4,), (4, 2)))
    loss(links, non_links).backward()
    assert links.grad is not None
    assert non_links.grad is not None
    assert (links.grad < 0).all()
    assert (non_links.grad > 0).all()


@EACH
def test_does_not_depend_on_the_size_of_the_batch(loss: Loss) -> None:
    links, non_links = torch.randn(4), torch.randn(4, 3)
    twice = loss(torch.cat([links, links]), torch.cat([non_links, non_links]))
    torch.testing.assert_close(twice, loss(links, non_links))


@EACH
def test_one_signature(loss: Loss) -> None:
    assert list(inspect.signature(loss).parameters) == ["positives", "negatives"]
    result: Tensor = loss(torch.zeros(2), torch.zeros(2, 1))
    assert result.shape == ()


def test_every_loss_can_be_chosen() -> None:
    assert [TrainingSettings(loss=name).loss for name in LOSSES] == list(LOSSES)  # type: ignore[arg-type]
