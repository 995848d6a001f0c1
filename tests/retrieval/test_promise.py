"""An index keeps its recall for every k, and says for which k it was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from contracts import IndexContract
from yinyan.errors import SettingsError
from yinyan.retrieval import building, efforts
from yinyan.retrieval.budgets import Budget, Sample, Trial, recalls_of, try_efforts, within
from yinyan.retrieval.building import build_index
from yinyan.retrieval.efforts import Effort, Efforts, ladder, smaller
from yinyan.retrieval.exact import ExactSearch, TopK
from yinyan.retrieval.index import Index
from yinyan.retrieval.index_store import INDEX_FILE, OutdatedIndexError, load_index
from yinyan.retrieval.metadata import read_metadata
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.snapshot import Snapshot


class Trained(IndexContract):
    """Rows in clusters and a decoder of four layers that has learned them: a search has to look far."""

    __test__ = False
    kind, count, size = "flashlight", 5000, 24
    options = {"depth": 4, "residual": True, "norm": True}  # noqa: RUF012


@pytest.fixture(scope="module")
def built() -> Index:
    graph, decoder, y = Trained.graph(), Trained.decoder(), Trained.rows()
    return build_index(graph, decoder, y, kind="flashlight", budget=Budget(recall=0.98), sample=64)


def recalls(index: Index, k: int, count: int = 250) -> Any:
    """Of nodes that had no part in the choice of the efforts."""
    drawn = np.random.default_rng(0).choice(Trained.count, 128, replace=False)  # as Sample.draw draws them
    others = np.setdiff1d(np.arange(Trained.count), drawn)
    asked = np.random.default_rng(7).choice(others, count, replace=False)
    truth = ExactSearch(Trained.decoder()).top_k(Snapshot.of(Trained.rows()), asked, k)
    return recalls_of(index.top_k(asked, k), truth)


@pytest.mark.parametrize("k", [10, 20, 35, 100])
def test_the_promise_holds_for_every_k(built: Index, k: int) -> None:
    """Built for a recall of 0.98 at k = 100 it had 0.79 at 20: candidates shrank with k, and nobody measured."""
    found = recalls(built, k)
    assert found.mean() >= 0.98
    assert (found < 0.9).mean() <= 0.06


def test_an_effort_is_confirmed_on_nodes_that_did_not_choose_it(built: Index) -> None:
    """Built for 0.98, an index of 200,000 nodes had 0.96 on the nodes that its report was measured on."""
    state, budget = built._state, Budget(recall=0.98)
    rows, search = state.snapshot, state.search
    assert isinstance(search, Probing)
    hard = Sample.draw(ExactSearch(state.decoder), rows, 60, 10, None, seed=3)
    least = try_efforts(search, rows, hard, 10, budget, lambda text: None)[0].effort
    found = recalls_of(search.with_efforts(Efforts({10: least})).top_k(rows, hard.sources, 10), hard.truth)
    easy = replace(hard, sources=hard.sources[found == 1], truth=[hard.truth[i] for i in np.flatnonzero(found == 1)])
    alone = try_efforts(search, rows, easy, 10, budget, lambda text: None)
    assert alone[0].effort == least and alone[0].reaches(0.98), "all easy nodes are found with the least effort"
    both = try_efforts(search, rows, easy, 10, budget, lambda text: None, check=hard)
    assert len(both) > 1 and both[0].recall < 0.98
    taken = within(both, budget)
    assert taken is not None
    again = recalls_of(search.with_efforts(Efforts({10: taken.effort})).top_k(rows, hard.sources, 10), hard.truth)
    assert again.mean() >= 0.98


def test_recall_is_stated_for_each_k(built: Index) -> None:
    facts = built.metadata
    assert [at.k for at in facts.per_k] == [1, 10, 20, 50, 100]
    for at in facts.per_k:
        assert f"recall@{at.k} {at.recall:.4f}" in str(facts)
        assert 0 <= at.low_share <= 1 and at.milliseconds > 0
    assert "recall below 0.9: 0% at k = 1" in str(facts)
    mine = facts.per_k[-1]
    assert (facts.k, facts.recall, facts.effort, facts.milliseconds) == (
        100,
        mine.recall,
        mine.effort,
        mine.milliseconds,
    )
    said = json.loads(json.dumps(facts.to_dict(), allow_nan=False))
    assert [at["recall"] for at in said["per_k"]] == [at.recall for at in facts.per_k]
    assert read_metadata(said) == facts


def test_the_k_of_the_build_is_one_of_them() -> None:
    index = build_index(
        Trained.graph(), Trained.decoder(), Trained.rows(), kind="flashlight", budget=Budget(recall=0.5, k=7), sample=8
    )
    assert [at.k for at in index.metadata.per_k] == [1, 7, 10, 20, 50, 100] and index.metadata.k == 7


def test_measuring_again_measures_each_k(built: Index) -> None:
    before = built.metadata.per_k
    assert built.measure(sample=16, seed=5) == built.metadata.recall
    assert [at.k for at in built.metadata.per_k] == [at.k for at in before] and built.metadata.sample == 16
    assert [at.effort for at in built.metadata.per_k] == [at.effort for at in before]
    built.measure(sample=64)


def test_advice_names_the_k_that_misses_the_promise(built: Index) -> None:
    kept = built.metadata
    per_k = tuple(replace(at, recall=0.8) if at.k == 20 else at for at in kept.per_k)
    built.metadata = replace(kept, per_k=per_k)
    assert "recall@20 is 0.8000, below the 0.98 asked for" in str(built.advice)
    built.metadata = kept


class TestEfforts:
    known = Efforts({10: Effort(64, 500, 1), 50: Effort(32, 300, 3), 100: Effort(128, 600, 3)})

    def test_measured_ones_are_used_as_they_are(self) -> None:
        assert self.known.at(10) == Effort(64, 500, 1) and self.known.at(100) == Effort(128, 600, 3)

    def test_between_two_the_larger_is_used_in_every_respect(self) -> None:
        assert self.known.at(20) == Effort(64, 500, 3)
        assert self.known.at(51) == Effort(128, 600, 3)

    def test_below_all_the_least_and_above_all_in_proportion(self) -> None:
        assert self.known.at(1) == Effort(64, 500, 1)
        assert self.known.at(250) == Effort(128, 1500, 3)
        assert self.known.at(1000).candidates == 6000

    def test_twice_as_many_candidates_as_rows(self) -> None:
        assert Efforts({1: Effort(8, 20)}).at(1).candidates == 20
        assert Efforts({10: Effort(8, 20)}).at(30).candidates == 60

    @pytest.mark.parametrize("k", [1, 20, 100, 500])
    def test_a_ladder_rises_to_all_cells(self, k: int) -> None:
        steps = ladder(512, k, linear=False)
        assert steps[0].probes == 8 and steps[-1].probes == 512
        assert all(step.candidates >= 2 * k for step in steps)
        assert all(
            a.candidates <= b.candidates and a.probes <= b.probes for a, b in zip(steps, steps[1:], strict=False)
        )

    def test_smaller_efforts_do_less_in_one_respect(self) -> None:
        assert smaller(Effort(64, 400, 6), 100) == [Effort(32, 400, 6), Effort(64, 200, 6), Effort(64, 400, 3)]
        assert smaller(Effort(64, 400, 6), 200) == [Effort(32, 400, 6), Effort(64, 400, 3)], "twice the rows stay"
        assert smaller(Effort(1, 20, 1), 10) == []


def test_smaller_efforts_are_tried_once_one_reaches_the_recall(built: Index) -> None:
    """The first step of the ladder that reached the recall was taken, whatever of it was needed."""
    state, budget = built._state, Budget(recall=0.3)
    assert isinstance(state.search, Probing)
    sample = Sample.draw(ExactSearch(state.decoder), state.snapshot, 20, 10, None, seed=3)
    trials = try_efforts(state.search, state.snapshot, sample, 10, budget, lambda text: None)
    first = next(place for place, trial in enumerate(trials) if trial.reaches(0.3))
    assert trials[first + 1].effort == smaller(trials[first].effort, 10)[0]
    assert len({trial.effort for trial in trials}) == len(trials), "none is tried twice"
    taken = within(trials, budget)
    assert taken is not None and taken.milliseconds <= trials[first].milliseconds
    assert {trial.effort for trial in trials} >= set(smaller(taken.effort, 10)), "nothing less is left to try"


class TestTheMargin:
    """A few nodes that are harder than all others asked for any effort: they widened the margin of all."""

    def test_hard_nodes_lower_the_mean_and_do_not_widen_the_margin(self) -> None:
        easy, hard = [1.0, 0.98] * 32, [1.0, 0.98] * 31 + [0.9, 0.5]
        assert error_in(hard) < 1.5 * error_in(easy) + 0.002
        assert error_in([0.91, 1.0] * 32) > 2 * error_in(easy)

    def test_a_recall_is_reached_if_the_mean_exceeds_it_by_the_margin(self) -> None:
        trial = Trial(10, Effort(8, 20), recall=0.985, milliseconds=1.0, error=0.002)
        assert trial.reaches(0.98) and not trial.reaches(0.982) and trial.reaches(None)


def error_in(recalls: list[float]) -> float:
    """The error that a trial states for these recalls."""
    rows, count = Snapshot.of(Trained.rows()), len(recalls)
    truth = [TopK(np.arange(100), np.zeros(100, np.float32)) for _ in recalls]
    found = [TopK(np.arange(round(100 * share)), np.zeros(round(100 * share), np.float32)) for share in recalls]
    search: Any = SimpleNamespace(top_k=lambda *given, **named: found, efforts=Efforts({100: Effort(8, 200)}))
    return Sample(np.arange(count), truth, None, 1.0).try_out(search, rows, 100).error


def test_a_k_that_is_not_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall was promised where it was measured, and nowhere else."""
    monkeypatch.setattr(building, "EXACT_BELOW", 100)
    monkeypatch.setattr(building, "_EXACT_WORTH", 0)
    monkeypatch.setattr(building, "_EXACT_USELESS", 1e9)
    monkeypatch.setattr(efforts, "_MOST_CANDIDATES", 60)
    given = Trained.graph(), Trained.decoder(), Trained.rows()
    with pytest.raises(SettingsError, match=r"no effort reaches a recall of 0.98 at k = 100: .* or use kind 'exact'"):
        build_index(*given, kind="flashlight", sample=8)
    index = build_index(*given, kind="auto", sample=8)
    assert index.metadata.promised_recall is None and index.metadata.asked_recall == 0.98
    for at in index.metadata.per_k[1:]:
        assert f"no effort reaches a recall of 0.98 at k = {at.k}" in str(index.metadata.note)


def test_a_file_of_an_earlier_version_is_refused_in_words(built: Index, tmp_path: Path) -> None:
    """It promised a recall for every k, and had measured it for one."""
    built.save(tmp_path)
    file = tmp_path / INDEX_FILE
    facts = {**built.metadata.to_dict(), "format": 2}
    for name in ("per_k", "asked_recall"):
        del facts[name]
    save_file(load_file(file), file, metadata={"index": json.dumps(facts)})
    with pytest.raises(OutdatedIndexError, match=r"has format version 2, .* build it again"):
        load_index(tmp_path, Trained.graph(), Trained.decoder(), Trained.rows())


def test_truth_of_fewer_rows_is_a_prefix() -> None:
    """One exact search gives the answers of every k: equal scores are in the order of rows whatever k is."""
    exact, rows = ExactSearch(Trained.decoder()), Snapshot.of(Trained.rows())
    asked = np.arange(0, 5000, 700)
    for many, few in zip(exact.top_k(rows, asked, 100), exact.top_k(rows, asked, 10), strict=True):
        assert isinstance(many, TopK) and many.rows[:10].tolist() == few.rows.tolist()
