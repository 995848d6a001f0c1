"""A loss that rises is remarked on, once."""

from __future__ import annotations

import warnings

import pytest

from contracts import planted_graph, tiny
from yinyan import Hooks, LinkPredictor
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


def test_a_fit_whose_learning_rate_is_too_large_says_so() -> None:
    said: list[str] = []
    wild = {"epochs": 12, "learning_rate": 5.0, "schedule": "constant", "patience": 0, "clip_norm": 0.0, "warmup": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may be no better than chance
        LinkPredictor(**tiny(training=wild)).fit(planted_graph(), hooks=Hooks(tell=said.append))
    assert sum("the loss has risen for 5 epochs" in text for text in said) == 1
