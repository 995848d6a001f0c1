"""Rolling evaluation: every window has a model of its own, which knows nothing later."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from command_line import run
from contracts import tiny
from yinyan import Graph, InputError, LinkPredictor, RollingEvaluation, SettingsError, evaluate_rolling
from yinyan.predictor import LinkPredictor as Predictor
from yinyan.rolling import BESIDE_ROLLING

YEARS = range(2000, 2010)
MODEL = LinkPredictor(**tiny(training={"epochs": 1, "batch_size": 40}))


def dated(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 40, (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_arrays(pairs, times=np.sort(rng.integers(2000, 2010, len(pairs))))


@pytest.fixture(scope="module")
def found() -> RollingEvaluation:
    return evaluate_rolling(dated(), window=2, windows=3, model=MODEL, dataset="small")


def test_each_window_has_its_figures(found: RollingEvaluation) -> None:
    graph = dated()
    assert [window.start for window in found.windows] == [2004, 2006, 2008]
    assert graph.times is not None
    for window in found.windows:
        assert window.num_known == (graph.times < window.start).sum()
        assert window.num_edges == ((graph.times >= window.start) & (graph.times < window.end)).sum()
        assert 0 < window.num_links <= window.num_edges
        for figures in window.figures.values():
            assert list(figures) == ["mrr", "recall@10", "hits@10"]
            assert all(0 <= value <= 1 for value in figures.values())
    assert found.methods == ("yinyan", *BESIDE_ROLLING)


def test_means_spreads_and_differences(found: RollingEvaluation) -> None:
    ours, other = found.values(), found.values("aa")
    gaps = [a - b for a, b in zip(ours, other, strict=True)]
    assert found.difference("aa") == (pytest.approx(mean(gaps)), pytest.approx(stdev(gaps) / 3**0.5))
    best = found.best_peer("recall@10")
    assert best in BESIDE_ROLLING
    assert mean(found.values(best, "recall@10")) == max(mean(found.values(who, "recall@10")) for who in BESIDE_ROLLING)
    text = str(found)
    assert "small, protocol 'rolling', windows of length 2, seed 0; new links between nodes" in text
    assert f"{mean(ours):.4f} ± {stdev(ours):.4f}" in text and f"yinyan minus {found.best_peer()}" in text
    assert len(found.to_pandas()) == 3 * 7 and "<table" in found._repr_html_()
    assert found.to_dict()["means"]["aa"]["mrr"] == pytest.approx(mean(other))


def test_later_edges_change_nothing(found: RollingEvaluation) -> None:
    """The figures of a window are those of a graph that ends with it."""
    ended = dated().as_of(2007)
    again = evaluate_rolling(ended, window=2, windows=2, model=MODEL)
    assert [window.figures for window in again.windows] == [window.figures for window in found.windows[:2]]


def test_each_model_is_fitted_to_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = []
    fit = Predictor.fit

    def watched(self: Predictor, graph: Graph, **options: Any) -> Predictor:
        done = fit(self, graph, **options)
        assert done.graph_.times is not None
        latest.append(int(done.graph_.times.max()))
        return done

    monkeypatch.setattr(Predictor, "fit", watched)
    evaluate_rolling(dated(), window=2, windows=2, peers=(), model=MODEL)
    assert latest == [2005, 2007]


def test_the_seed_decides() -> None:
    def figures(seed: int) -> list[float]:
        return evaluate_rolling(dated(), window=5, peers=(), model=MODEL, seed=seed).values()

    assert figures(0) == figures(0) != figures(1)


def test_what_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no method 'nonsense'"):
        evaluate_rolling(dated(), window=2, peers=["nonsense"])
    with pytest.raises(InputError, match="needs the times of the edges"):
        evaluate_rolling(Graph.from_arrays([(0, 1)]), window=2)


class TestCommandLine:
    @pytest.fixture(scope="class")
    @classmethod
    def table(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        graph = dated()
        path = tmp_path_factory.mktemp("rolling") / "edges.csv"
        assert graph.times is not None
        rows = [f"{a},{b},{y}-01-01" for (a, b), y in zip(graph.edges.tolist(), graph.times.tolist(), strict=True)]
        path.write_text("a,b,when\n" + "\n".join(rows) + "\n")
        return path

    SMALL = ("--set", "training.epochs=1", "--set", "training.batch_size=40", "--set", "encoder.hidden_size=8")

    def test_windows_of_a_year(self, table: Path) -> None:
        asked = ("evaluate", table, "--time", "when", "--rolling", "year", "--windows", "2", "--peers", "aa,recency")
        ran = run(*asked, *self.SMALL)
        assert ran.code == 0 and "windows of one year" in ran.out and "2009-01-01" in ran.out
        again = run(*asked, *self.SMALL, "--json").json
        assert len(again["windows"]) == 2 and list(again["means"]) == ["yinyan", "aa", "recency"]

    def test_other_protocols_are_refused(self, table: Path) -> None:
        ran = run("evaluate", table, "--rolling", "year", "--protocol", "clean", "--seeds", "2")
        assert ran.code != 0 and "--rolling and --protocol and --seeds exclude each other" in ran.err

    def test_temporal_is_the_default_where_edges_have_times(self, table: Path) -> None:
        ran = run("evaluate", table, "--time", "when", "--peers", "aa", *self.SMALL)
        assert "protocol 'temporal'" in ran.out and "protocol: temporal (split by time" in ran.err
        clean = run("evaluate", table, "--time", "when", "--protocol", "clean", "--peers", "aa", *self.SMALL)
        assert "it ignores the times of the edges" in clean.err and "protocol 'clean'" in clean.out
        plain = run("evaluate", table, "--no-time", "--peers", "aa", *self.SMALL)
        assert "protocol 'clean'" in plain.out

    def test_as_of(self, table: Path, tmp_path: Path) -> None:
        ran = run("fit", table, "--time", "when", "--as-of", "2005-06-01", "--out", tmp_path / "m", *self.SMALL)
        assert ran.code == 0 and "as of 2005-06-01" in ran.err
        graph = LinkPredictor.load(tmp_path / "m").graph_
        assert graph.times is not None and graph.times.max() < np.datetime64("2005-06-01", "s").astype(int)
        assert graph.num_edges == dated().as_of(2005).num_edges
