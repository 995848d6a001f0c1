"""Methods for knowledge graphs: all learn a ring, a constant score is at chance, and a figure is that of its ranks."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import SettingsError
from yinyan.peers.knowledge_graphs import FILTERED, TRIPLE_METHODS, TripleOutcome, TripleTask, triple_method
from yinyan.reproduce.measuring import measure
from yinyan.reproduce.recipe import read_recipe
from yinyan.reproduce.stand_ins import knowledge_stand_in

DATA = knowledge_stand_in("wn18rr")
SMALL = {
    "encoder": {"hidden_size": 16, "embedding_size": 16},
    "training": {"epochs": 30, "batch_size": 100, "learning_rate": 0.3, "evaluate_every": 10},
}


def outcome(name: str, **changed: dict[str, object]) -> TripleOutcome:
    groups = {group: {**SMALL.get(group, {}), **changed.get(group, {})} for group in (*SMALL, *changed)}
    return triple_method(name)(TripleTask(DATA, 0, groups, "cpu"))


# steps along a ring are rotations; as translations they would have to add up to nothing
@pytest.mark.parametrize(("name", "least"), [("transe", 0.1), ("complex", 0.3), ("rotate", 0.3)])
def test_learns_steps_along_a_ring(name: str, least: float) -> None:
    found = outcome(name)
    means = found.rank(DATA.test, DATA.known).means
    assert means["mrr"] > least, "chance is below .02"
    assert found.validation == max(record.mrr for record in found.history if record.mrr is not None)


def test_distmult_cannot_tell_the_directions_of_a_ring_by_one_vector_but_by_two() -> None:
    assert outcome("distmult").rank(DATA.test, DATA.known).means["mrr"] > 0.05


@pytest.mark.parametrize("changed", [{"decoder": {"dropout": 0.3}}, {"training": {"n3": 0.05}}])
def test_penalties_and_dropout_change_what_is_learned(changed: dict[str, dict[str, object]]) -> None:
    short = {"training": {**changed.get("training", {}), "epochs": 3, "evaluate_every": 3}}
    plain = outcome("complex", training=short["training"] | {"n3": 0.0})
    other = outcome("complex", **{**changed, **short})
    assert plain.history[-1].loss != other.history[-1].loss


def test_a_sample_of_all_entities_learns_too() -> None:
    sampled = outcome("complex", training={"loss_sampler": "shared", "loss_negatives": 30})
    assert sampled.rank(DATA.test, DATA.known).means["mrr"] > 0.3


def test_a_constant_score_is_at_chance() -> None:
    found = outcome("constant").rank(DATA.test, DATA.known)
    assert found.means == found.chance
    assert 0.01 < found.means["mrr"] < 0.02 and found.means["hits@10"] == 0.0


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(SettingsError, match="no method 'trans' for knowledge graphs"):
        triple_method("trans")


@pytest.mark.parametrize("name", ["yinyan", "constant"])
def test_a_cell_of_the_recipe_runs(name: str) -> None:
    cell = next(cell for cell in read_recipe("knowledge").cells(1) if cell.method == name)
    result = measure(cell, device="cpu", threads=0, smoke=True)
    assert result.figure == pytest.approx(100 * result.figures["filtered-mrr"])
    assert set(FILTERED) <= result.figures.keys() and result.protocol.startswith("stand-in for fb15k-237 / official")
    assert np.isfinite(result.seconds)


def test_every_method_of_the_recipe_is_known() -> None:
    assert {cell.method for cell in read_recipe("knowledge").cells(1)} <= set(TRIPLE_METHODS)
