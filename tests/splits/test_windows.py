"""Windows of time, and the split of each."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan import Graph, InputError, audit
from yinyan.splits.rolling import Window, new_nodes, rolling_split, rolling_windows

DAY = 86_400
APRIL = int(np.datetime64("2004-04-15", "s").astype(np.int64))


def dated(days: int = 100, edges: int = 500, seed: int = 0) -> Graph:
    """Nodes come one after the other."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, days * DAY, edges))
    newest = 10 + (times // DAY) // 2
    pairs = (rng.random((edges, 2)) * newest[:, None]).astype(np.int64)
    kept = pairs[:, 0] != pairs[:, 1]
    return Graph.from_arrays(pairs[kept], times=APRIL + times[kept])


def words(windows: tuple[Window, ...]) -> list[str]:
    return [str(window) for window in windows]


class TestWindows:
    def test_months_begin_on_the_first(self) -> None:
        assert words(rolling_windows(dated(), "month")) == ["2004-05-01", "2004-06-01", "2004-07-01"]
        assert rolling_windows(dated(), "month")[0].end == rolling_windows(dated(), "month")[1].start

    def test_weeks_begin_on_monday(self) -> None:
        starts = words(rolling_windows(dated(), "week", count=None))
        assert starts[0] == "2004-04-19" and len(starts) == 14
        assert {np.datetime64(start).astype("datetime64[D]").astype(int) % 7 for start in starts} == {4}

    def test_days_and_years(self) -> None:
        assert len(rolling_windows(dated(), "day", count=None)) == 99
        assert words(rolling_windows(dated(days=500), "year")) == ["2005-01-01"]

    def test_numbers_are_in_the_unit_of_the_times(self) -> None:
        years = Graph.from_arrays([(a, a + 1) for a in range(20)], times=range(2000, 2020))
        windows = rolling_windows(years, 5)
        assert [(w.start, w.end) for w in windows] == [(2005, 2010), (2010, 2015), (2015, 2020)]

    def test_count_start_and_until(self) -> None:
        graph = dated()
        assert words(rolling_windows(graph, "month", count=1)) == ["2004-07-01"]
        assert words(rolling_windows(graph, "month", start="2004-05-02")) == ["2004-06-01", "2004-07-01"]
        assert words(rolling_windows(graph, "month", until="2004-07-01")) == ["2004-05-01", "2004-06-01"]

    @pytest.mark.parametrize(
        ("period", "options", "match"),
        [
            ("decade", {}, "'window' needs to be day, week, month, year or a positive number"),
            (0, {}, "'window' needs to be"),
            (1e-3, {}, "too short"),
            ("month", {"count": 0}, "'windows' needs to be a positive integer"),
            ("month", {"start": "2005-01-01"}, "no window of one month begins after 2005-01-01"),
            ("month", {"start": "soon"}, "'start' needs to be a number, or a date"),
        ],
    )
    def test_what_is_refused(self, period: object, options: dict[str, object], match: str) -> None:
        with pytest.raises(InputError, match=match):
            rolling_windows(dated(), period, **options)  # type: ignore[arg-type]

    def test_graphs_that_have_none(self) -> None:
        with pytest.raises(InputError, match="a rolling evaluation needs the times of the edges"):
            rolling_windows(Graph.from_arrays([(0, 1)]), "month")
        with pytest.raises(InputError, match="needs times that are dates"):
            rolling_windows(Graph.from_arrays([(0, 1)], times=[2004]), "month")
        with pytest.raises(InputError, match="needs edges"):
            rolling_windows(Graph.from_arrays(np.empty((0, 2), int), times=[], num_nodes=3), 1)


class TestSplit:
    window = Window(APRIL + 60 * DAY, APRIL + 80 * DAY)

    def test_the_past_predicts_the_window(self) -> None:
        graph = dated()
        split = rolling_split(graph, self.window, seed=0, valid_negatives=200)
        assert split is not None and split.protocol == "rolling" and split.graph.times is not None
        times = split.graph.times
        at = {
            part: times[split.graph.find_edges(getattr(split, f"{part}_targets"))]
            for part in ("train", "valid", "test")
        }
        assert at["train"].max() < at["valid"].min() <= at["valid"].max() < self.window.start
        assert self.window.start <= at["test"].min() and at["test"].max() < self.window.end
        assert times[split.test_messages].max() < self.window.start
        assert len(split.test_messages) == len(at["train"]) + len(at["valid"])
        assert audit(split).leaks == () and "messages, against" in str(audit(split))

    def test_nodes_that_come_later_are_left_out(self) -> None:
        graph = dated()
        assert graph.times is not None
        before = set(graph.edges[graph.times < self.window.start].reshape(-1).tolist())
        split = rolling_split(graph, self.window, seed=0)
        assert split is not None
        assert set(split.graph.ids.take(range(split.graph.num_nodes))) == before
        inside = (graph.times >= self.window.start) & (graph.times < self.window.end)
        fresh = set(graph.edges[inside].reshape(-1).tolist()) - before
        assert new_nodes(graph, self.window) == len(fresh) > 0
        assert len(split.test_targets) == sum(a in before and b in before for a, b in graph.edges[inside].tolist())

    def test_nothing_later_is_used(self) -> None:
        """Whatever comes within the window and after it: what training sees is the same."""
        graph = dated()
        assert graph.times is not None
        cut = graph.with_edges(
            (graph.times < self.window.end) & ~((graph.times >= self.window.start) & (graph.edges[:, 0] % 2 == 0))
        )
        one, other = (rolling_split(g, self.window, seed=0) for g in (graph, cut))
        assert one is not None and other is not None
        for name in ("train_targets", "valid_targets", "valid_negatives"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert one.graph.ids == other.graph.ids
        assert not np.array_equal(one.test_targets, other.test_targets)

    def test_a_window_without_links(self) -> None:
        graph = dated()
        assert rolling_split(graph, Window(APRIL + 500 * DAY, APRIL + 501 * DAY), seed=0) is None
