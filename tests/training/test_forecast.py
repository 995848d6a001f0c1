"""The announced time: near what a run takes, and without a trace in its results."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from contracts import planted_graph
from yinyan.graph import Graph
from yinyan.predictor import LinkPredictor
from yinyan.settings import TrainingSettings
from yinyan.training import fit
from yinyan.training import forecast as forecasting
from yinyan.training.hooks import Hooks


def test_weights_and_random_streams_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = planted_graph()
    usual = LinkPredictor(seed=0, epochs=2, hidden_size=8).fit(graph)
    monkeypatch.setattr(fit, "forecast", lambda *given: 1.0)
    plain = LinkPredictor(seed=0, epochs=2, hidden_size=8).fit(graph)
    assert np.array_equal(usual.embeddings_, plain.embeddings_)


def test_the_line_is_near_what_the_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = np.random.default_rng(0).integers(0, 1_500, (9_000, 2))
    graph = Graph.from_arrays(pairs[pairs[:, 0] != pairs[:, 1]])
    lines: list[str] = []
    began = 0.0

    def tell(line: str) -> None:
        nonlocal began
        lines.append(line)
        began = time.process_time()

    monkeypatch.setattr(forecasting.time, "perf_counter", time.process_time)  # what others compute does not count
    LinkPredictor(seed=0, epochs=6, patience=0).fit(graph, hooks=Hooks(tell=tell))
    taken = time.process_time() - began
    (announced,) = [line for line in lines if line.startswith("time: about ")]
    assert announced == lines[-1], "nothing is printed between it and the first epoch"
    number, unit = announced.removeprefix("time: about ").split()[:2]
    seconds = float(number) * {"s": 1, "min": 60}[unit]
    assert 0.2 * taken < seconds < 5 * taken  # benchmarks/speed/fitting.py measures it


@pytest.mark.parametrize(
    ("selection", "patience", "epochs", "share"),
    [
        ("ranking", 6, 20, math.sqrt(0.5)),  # 20 validations: it may end after 7, and seldom does before 10
        ("ranking", 6, 8, math.sqrt(7 / 8)),
        ("ranking", 6, 6, 1.0),  # no time to wait
        ("ranking", 0, 20, 1.0),
        ("balanced", 6, 20, 1.0),
    ],
)
def test_a_run_that_may_end_early_is_expected_to(selection: str, patience: int, epochs: int, share: float) -> None:
    settings = TrainingSettings(selection=selection, patience=patience, epochs=epochs, evaluate_every=1)
    assert forecasting._expected_share(settings, epochs) == pytest.approx(share)
