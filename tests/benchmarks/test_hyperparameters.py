"""Ablations name settings that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import hyperparameters
from contracts import planted_graph
from yinyan.training.defaults import suggest

SUGGESTED = suggest(planted_graph(), 100).settings


@pytest.mark.parametrize("name", hyperparameters.ABLATIONS)
def test_every_ablation_is_a_change_of_settings_that_exist(name: str) -> None:
    for base in ({}, *hyperparameters.BASES.values()):
        SUGGESTED.updated(hyperparameters.changed(base, hyperparameters.ABLATIONS[name], SUGGESTED))


def test_shares_of_the_base_become_numbers() -> None:
    base = {"training": {"batch_size": 100}}
    found = hyperparameters.changed(base, {"training": {"batch_size": 0.25, "epochs": 2.0}}, SUGGESTED)
    assert found["training"] == {"batch_size": 25, "epochs": 2 * SUGGESTED.training.epochs}


def test_committed_runs_are_of_ablations_that_exist() -> None:
    folder = Path(__file__).parents[2] / "docs" / "accuracy"
    kept = [row for path in folder.glob("*.jsonl") for row in hyperparameters.kept_runs(path)]
    assert kept and {row["ablation"] for row in kept} <= set(hyperparameters.ABLATIONS)
