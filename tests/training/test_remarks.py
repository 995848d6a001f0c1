"""A loss that rises is remarked on, once."""

from __future__ import annotations

import itertools
import warnings

import pytest

from contracts import planted_graph, tiny
from yinyan import Hooks, LinkPredictor
from yinyan.training import loop
from yinyan.training.remarks import LossWatch


def remarks(losses: list[float], before: tuple[float, ...] = ()) -> list[str]:
    said: list[str] = []
    watch = LossWatch(0.01, said.append, before)
    for loss in losses:
        watch(loss)
    return said


def test_a_loss_that_rises_for_five_epochs_is_remarked_on_once() -> None:
    said = remarks([1.0, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 0.9])
    assert said == [
        "training: the loss has risen for 5 epochs, from 0.500 to 0.800: the learning rate 0.01 may be too large "
        "(lower training.learning_rate, for example to 0.003)"
    ]


@pytest.mark.parametrize(
    "losses",
    [
        [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
        [0.5, 0.6, 0.6, 0.6, 0.6, 0.5],  # it came back
        [0.5, 0.6, 0.6, 0.6, 0.6],  # four epochs
        [0.5, *[0.54] * 20],  # the noise of other negatives
        [],
    ],
)
def test_other_losses_are_not(losses: list[float]) -> None:
    assert remarks(losses) == []


def test_a_resumed_run_goes_on_counting() -> None:
    assert len(remarks([0.7, 0.7], before=(0.5, 0.6, 0.6, 0.6))) == 1


def test_a_fit_whose_loss_rises_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rising = itertools.count(1)
    monkeypatch.setattr(loop, "one_step", lambda *given: (float(next(rising)), 1))
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is learned, so that it is no better than chance
        longer = tiny(training={"epochs": 12, "patience": 0})
        LinkPredictor(**longer).fit(planted_graph(), hooks=Hooks(tell=said.append))
    assert sum("the loss has risen for 5 epochs" in text for text in said) == 1
