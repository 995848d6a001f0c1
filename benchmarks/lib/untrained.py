"""Models of the harness's methods with their first weights: for times, which do not depend on weights."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from yinyan.graph import Graph
from yinyan.model.fitted import build_model
from yinyan.model.scoring import Model
from yinyan.peers import Task, contract, method
from yinyan.settings import Settings
from yinyan.splits import Split


class Untrained(NamedTuple):
    """What a method would train."""

    model: Model
    settings: Settings


class _Built(Exception):  # noqa: N818
    """Ends a method's function where its training would begin."""

    def __init__(self, found: Untrained) -> None:
        super().__init__("built")
        self.found = found


def untrained(name: str, split: Split, settings: contract.Overrides | None = None) -> Untrained:
    """The model and the settings of a method on a split: its own function runs up to the training."""

    def instead(split: Split, settings: Settings, *, seed: int, build: Any = None, **_: Any) -> None:
        raise _Built(Untrained(build_model(settings, split.graph, seed, build), settings))

    try:
        with mock.patch.object(contract, "fit_model", instead):
            method(name)(Task(split, settings=settings or {}, device="cpu"))
    except _Built as built:
        return built.found
    raise ValueError(f"the method {name!r} trains no model by the common loop")


def split_of_size(num_nodes: int, num_targets: int, features: int) -> Split:
    """A split that settings are chosen by as for so many nodes and training edges, in no more memory than features
    take: all training edges are the same."""
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    given = np.broadcast_to(np.zeros(1, np.float32), (num_nodes, features)) if features else None
    graph = Graph.from_arrays(edges, num_nodes=num_nodes, features=given)
    targets, every = np.broadcast_to(edges[:1], (num_targets, 2)), np.arange(len(edges))
    parts = {"train_targets": targets, "valid_targets": edges[1:2], "test_targets": edges[2:]}
    messages = dict.fromkeys(("train_messages", "valid_messages", "test_messages", "known_in_training"), every[:1])
    negatives = dict.fromkeys(("valid_negatives", "test_negatives"), np.array([[0, 2]]))
    return Split(graph=graph, protocol="clean", seed=0, **parts, **messages, **negatives)
