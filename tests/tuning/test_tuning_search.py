"""The search: the defaults first, pruned trials, noise in the choice, resumption, and no test edges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph
from typed_graphs import shop
from yinyan import Graph, LinkPredictor, random_split
from yinyan.errors import DivergedError, InputError, SettingsError, StoppedError, StoreError
from yinyan.model.fitted import EpochRecord
from yinyan.settings import Settings, settings_from_text
from yinyan.training.chosen import chosen
from yinyan.training.hooks import Hooks
from yinyan.tuning import search
from yinyan.tuning.outcome import Candidate, Tuning
from yinyan.tuning.search import tune

GRAPH = planted_graph(2, 30)
SMALL: dict[str, Any] = {
    "encoder": {"hidden_size": 8, "embedding_size": 8, "sketch_size": 0},
    "decoder": {"width": 8},
    "training": {"epochs": 4, "valid_negatives": 200},
}

BASE = chosen(GRAPH, SMALL, seed=0).settings


def searched(graph: Graph = GRAPH, **options: Any) -> Tuning:
    usual = {"minutes": 5.0, "given": SMALL, "seed": 0, "seeds": 2, "device": torch.device("cpu"), "trials": 4}
    return tune(graph, **{**usual, **options})


class Fake:
    """Fits whose scores are decided by the test: each epoch reports `score` of the settings and the seed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, score: Any) -> None:
        self.score, self.calls = score, list[tuple[dict[str, Any], int]]()
        monkeypatch.setattr(search, "fit_model", self.fit)

    def fit(self, split: Any, settings: Settings, *, seed: int, hooks: Hooks, **_: Any) -> Any:
        if hooks.should_stop():
            raise StoppedError("stopped")
        self.calls.append((settings.to_dict(), seed))
        figure = self.score(settings, seed, len(self.calls))
        for epoch in range(1, settings.training.epochs + 1):
            hooks.on_epoch(EpochRecord(epoch, 0.0, 0.0, score=figure))
        return type("Made", (), {"best_score": figure})()


class TestOrder:
    def test_the_defaults_come_first_and_the_seeds_are_stated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = Fake(monkeypatch, lambda settings, seed, call: float(call))
        found = searched(trials=5)
        assert fake.calls[0] == (BASE.to_dict(), 0)
        assert [seed for _, seed in fake.calls] == [0] * 5 + [1] * 3 + [2] * 3
        assert found.trials[0].values == found.space.defaults() and found.default_score == 1.0
        assert (found.search_seed, found.seeds) == (0, (1, 2))
        assert "seeds 1, 2" in str(found) and "5 on seed 0" in str(found)

    def test_trials_that_fall_behind_are_pruned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Fake(monkeypatch, lambda settings, seed, call: 10.0 - call)
        found = searched(trials=6)
        assert [trial.state for trial in found.trials] == ["complete"] + ["pruned"] * 5
        assert all(trial.epochs < 4 for trial in found.trials[1:])
        assert found.candidates == () and found.chosen is None
        assert "none of 5 trials was better" in found.verdict

    def test_settings_that_diverge_fail_and_the_search_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def score(settings: Settings, seed: int, call: int) -> float:
            if call == 2:
                raise DivergedError("too long a step")
            return float(call)

        Fake(monkeypatch, score)
        found = searched()
        assert [trial.state for trial in found.trials] == ["complete", "failed", "complete", "complete"]
        assert found.trials[1].reason == "too long a step"

    def test_defaults_that_diverge_are_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def score(settings: Settings, seed: int, call: int) -> float:
            raise DivergedError("too long a step")

        Fake(monkeypatch, score)
        with pytest.raises(DivergedError, match="too long"):
            searched()


class TestChoice:
    def test_a_gain_beyond_its_spread_replaces_the_defaults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Fake(monkeypatch, lambda settings, seed, call: 1.0 + 0.01 * seed + 0.5 * (settings != BASE))
        found = searched()
        assert found.chosen is not None and found.chosen.gain == pytest.approx(0.5)
        assert found.chosen.spread == pytest.approx(0.0, abs=1e-6)
        changed = {path for path, value in found.chosen.values.items()}
        assert changed and all(found.overrides[p.split(".")[0]][p.split(".")[1]] is not None for p in changed)
        assert found.overrides["encoder"]["hidden_size"] == 8, "what was given stays"

    def test_a_gain_within_its_spread_keeps_the_defaults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gains = {0: 0.5, 1: 0.9, 2: -0.5}
        Fake(monkeypatch, lambda settings, seed, call: 1.0 + gains[seed] * (settings != BASE))
        found = searched()
        assert found.candidates and found.candidates[0].gain == pytest.approx(0.2)
        assert found.chosen is None and found.overrides == SMALL
        assert "does not exceed its spread" in found.verdict

    def test_pure_noise_rarely_replaces_them(self) -> None:
        rng = np.random.default_rng(0)
        drawn = [Candidate({}, tuple(rng.normal(size=3)), tuple(rng.normal(size=3))) for _ in range(2000)]
        assert np.mean([each.is_better for each in drawn]) < 0.15  # Student's t of 1.73, two degrees: 0.11


class TestBudget:
    def test_one_too_short_for_a_comparison_is_an_error_with_the_cure(self) -> None:
        with pytest.raises(SettingsError, match=r"too short: a fit .* 6 fits .*\(set the minutes to 1 or more"):
            searched(minutes=1e-4, trials=None)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"minutes": 0.0}, "'minutes' needs to be a number above 0"),
            ({"minutes": float("nan")}, "'minutes' needs"),
            ({"seeds": 1}, "'seeds' needs to be an integer of at least 2"),
            ({"trials": 1}, "'trials' needs to be an integer of at least 2"),
        ],
    )
    def test_impossible_ones_are_refused(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            searched(**options)


class TestResuming:
    def test_a_stopped_search_goes_on_as_if_it_had_not_been(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def score(settings: Settings, seed: int, call: int) -> float:
            return settings.encoder.node_dropout + settings.training.learning_rate

        Fake(monkeypatch, score)
        whole = searched(trials=8)
        fake, stops = Fake(monkeypatch, score), iter([False] * 3 + [True] + [False] * 6 + [True] + [False] * 20)
        folder = tmp_path / "trials"
        for done in ("3 trials", "8 trials"):
            with pytest.raises(StoppedError, match=rf"stopped after {done}\. Run the same .*{folder.name}"):
                searched(trials=8, folder=folder, should_stop=lambda: next(stops))
        found = searched(trials=8, folder=folder, should_stop=lambda: next(stops))
        assert [t.values for t in found.trials] == [t.values for t in whole.trials]
        assert [t.state for t in found.trials] == [t.state for t in whole.trials]
        assert found.candidates == whole.candidates and found.overrides == whole.overrides
        assert len(fake.calls) == 8 + 2 * (1 + len(found.candidates)), "nothing is fitted twice"

    def test_trials_of_another_search_are_refused(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        Fake(monkeypatch, lambda settings, seed, call: float(call))
        searched(folder=tmp_path)
        with pytest.raises(StoreError, match=r"of another search.*name another folder"):
            searched(folder=tmp_path, seed=5)
        with pytest.raises(StoreError, match="of another search"):
            searched(planted_graph(2, 31), folder=tmp_path)


class TestHonesty:
    def test_test_edges_are_never_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        split = random_split(GRAPH, seed=0)
        seen: list[Graph] = []
        before = search.fit_model

        def fit(split: Any, *given: Any, **options: Any) -> Any:
            seen.append(split.graph)
            return before(split, *given, **options)

        monkeypatch.setattr(search, "fit_model", fit)
        model = LinkPredictor.tuned(GRAPH, 5, split=split, trials=2, seeds=2, **SMALL)
        assert seen and not any(graph.has_edges(split.test_targets).any() for graph in seen)
        assert model.fitted_.protocol == split.protocol

    def test_each_seed_has_validation_edges_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        held: dict[int, bytes] = {}

        def fit(split: Any, settings: Settings, *, seed: int, **_: Any) -> Any:
            assert split.test_targets.size == 0
            held[seed] = split.valid_targets.tobytes()
            return type("Made", (), {"best_score": float(len(held))})()

        monkeypatch.setattr(search, "fit_model", fit)
        monkeypatch.setattr(search, "_finalists", lambda done: list(done[1:3]))
        searched()
        assert sorted(held) == [0, 1, 2] and len(set(held.values())) == 3


class TestPredictor:
    @pytest.fixture(scope="class")
    @classmethod
    def tuned(cls) -> LinkPredictor:
        return LinkPredictor.tuned(GRAPH, 5, trials=9, seeds=2, **SMALL)

    def test_is_fitted_with_what_was_found(self, tuned: LinkPredictor) -> None:
        assert tuned.recommend(0, k=3).scores.size == 3
        found = tuned.tuning_
        for group, values in found.overrides.items():
            for name, value in values.items():
                assert getattr(getattr(tuned.settings_, group), name) == value
        assert settings_from_text(found.to_toml(), "tuned.toml") == found.overrides

    def test_tells_what_mattered(self, tuned: LinkPredictor) -> None:
        found = tuned.tuning_
        complete = sum(trial.state == "complete" for trial in found.trials)
        assert bool(found.importances) == (complete >= 8)
        assert len(found.to_dict()["trials"]) == 9
        assert re.search(r"^graph +without features: \d settings searched$", str(found), re.MULTILINE)

    def test_importances_are_shares(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rising = iter(range(100))  # so that none is pruned
        Fake(monkeypatch, lambda settings, seed, call: 100 * next(rising) + 50 * settings.encoder.node_dropout)
        found = searched(trials=12)
        assert sum(found.importances.values()) == pytest.approx(1.0)
        assert set(found.importances) == {each.path for each in found.space.dimensions}
        assert "share of the variance" in str(found)

    def test_graphs_with_relations_are_refused(self) -> None:
        with pytest.raises(InputError, match="tune a relation alone"):
            LinkPredictor.tuned(shop())
