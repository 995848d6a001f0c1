"""Every method of the registry: the score of a pair does not depend on what else is in the batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from peer_contract import communities, every_pair, small, split_of

from yinyan.auditing import audit_scorer
from yinyan.errors import MissingExtraError
from yinyan.peers import METHODS, Task, method
from yinyan.splits import Split

LEAKING = [name for name, card in METHODS.items() if card.without_leak]


def test_methods_that_are_known_to_leak() -> None:
    assert LEAKING == ["ocn-as-published", "ocnp-as-published"]


class TestEveryMethod:
    """A new line of the registry is tried as well, without a test of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def split(cls) -> Split:
        graph = communities()
        return split_of(replace(graph, times=np.arange(graph.num_edges)))  # some heuristics need them

    @pytest.mark.parametrize("name", LEAKING)
    def test_published_normalisation_over_the_batch_is_found(self, name: str, split: Split) -> None:
        outcome = method(name)(Task(split, settings=small(training={"epochs": 2}), device="cpu"))
        pairs = every_pair(split)
        found = audit_scorer(outcome.score, pairs, np.arange(len(pairs)) < len(split.test_targets), raises=False)
        assert {finding.kind for finding in found.leaks} == {"batch-dependent"}
        assert "reveals the label" in METHODS[name].words
        assert METHODS[name].without_leak in METHODS and METHODS[name].without_leak not in LEAKING

    @pytest.mark.parametrize("name", [name for name in METHODS if name not in LEAKING])
    def test_passes_the_audit_of_scorers(self, name: str, split: Split) -> None:
        loss = {"loss": "logrank"} if METHODS[name].family == "recommender" else {}
        settings = {} if METHODS[name].family in ("heuristic", "temporal") else small(training={"epochs": 2, **loss})
        try:
            outcome = method(name)(Task(split, settings=settings, device="cpu"))
        except MissingExtraError as error:
            pytest.skip(str(error))
        pairs = every_pair(split)
        found = audit_scorer(outcome.score, pairs, np.arange(len(pairs)) < len(split.test_targets))
        assert found.findings == ()
