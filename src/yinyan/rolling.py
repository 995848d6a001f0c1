"""Rolling evaluation: train until t, predict the next window, and so on, next to heuristics with time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from yinyan.auditing import audit
from yinyan.charts import checked_metric, curve_chart
from yinyan.datasets.dataset import Dataset
from yinyan.errors import InputError
from yinyan.evaluation import mean_and_spread, overrides_of
from yinyan.graph import Graph
from yinyan.graph.conversion import as_graph
from yinyan.graph.moments import Moment, moment_in_words, required_times
from yinyan.graph.to_objects import data_frame
from yinyan.peers.contract import Outcome, Task
from yinyan.peers.full_ranking import ranked
from yinyan.peers.registry import METHODS, method
from yinyan.peers.whole_ranking import WholeRanking
from yinyan.predictor import LinkPredictor
from yinyan.splits.rolling import Period, Window, new_nodes, rolling_split, rolling_windows
from yinyan.splits.split import Split
from yinyan.text import html_table, text_table
from yinyan.training.hooks import Hooks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BESIDE_ROLLING", "RollingEvaluation", "WindowResult", "evaluate_rolling"]

BESIDE_ROLLING = ("aa", "aa-decayed", "preferential-decayed", "popularity-window", "recency", "last-neighbour")

_K = 10
_METRICS = ("mrr", f"recall@{_K}", f"hits@{_K}")
_OURS = "yinyan"


@dataclass(frozen=True)
class WindowResult:
    """What was measured in one window.

    Examples
    --------
    >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
    >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
    >>> found = evaluate_rolling(dated, window=20, windows=1, peers=["aa"], model=LinkPredictor(epochs=1))
    >>> found.windows[0].num_edges <= 20
    True
    """

    start: float  # when the window begins
    end: float  # when the next begins
    num_known: int  # edges before the window
    num_edges: int  # edges within
    num_links: int  # of these, links between nodes that were there before: what is predicted
    num_new_nodes: int  # nodes whose first edge is within
    figures: dict[str, dict[str, float]]  # of each method, by metric


@dataclass(frozen=True)
class RollingEvaluation:
    """Figures of each window and method; `print` shows them as tables.

    Examples
    --------
    >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
    >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
    >>> found = evaluate_rolling(dated, window=20, windows=2, peers=["aa"], model=LinkPredictor(epochs=1))
    >>> found.methods
    ('yinyan', 'aa')
    """

    dataset: str  # name of the data
    period: Period  # length of a window
    seed: int  # of validation negatives and training
    windows: tuple[WindowResult, ...]  # oldest first

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the order of the tables."""
        return tuple(self.windows[0].figures)

    def values(self, who: str = _OURS, metric: str = "mrr") -> list[float]:
        """A metric of a method in each window.

        Parameters
        ----------
        who
            'yinyan', or the name of a peer.
        metric
            'mrr', 'recall@10' or 'hits@10'.

        Returns
        -------
        list of float
            A value for each window.

        Raises
        ------
        KeyError
            If there is no such method or metric.

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> found = evaluate_rolling(dated, window=20, windows=2, peers=["aa"], model=LinkPredictor(epochs=1))
        >>> len(found.values("aa"))
        2
        """
        return [window.figures[who][metric] for window in self.windows]

    def difference(self, other: str, metric: str = "mrr", *, who: str = _OURS) -> tuple[float, float]:
        """How much better a method is than another in the same windows.

        Parameters
        ----------
        other
            The other method.
        metric
            'mrr', 'recall@10' or 'hits@10'.
        who
            The method that is to be better.

        Returns
        -------
        tuple of float
            The mean difference, and its standard error over the windows (NaN for one window).

        Raises
        ------
        KeyError
            If there is no such method or metric.

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> found = evaluate_rolling(dated, window=20, windows=2, peers=["aa"], model=LinkPredictor(epochs=1))
        >>> found.difference("aa", who="aa")
        (0.0, 0.0)
        """
        pairs = zip(self.values(who, metric), self.values(other, metric), strict=True)
        found = [a - b for a, b in pairs]
        return mean(found), stdev(found) / len(found) ** 0.5 if len(found) > 1 else float("nan")

    def best_peer(self, metric: str = "mrr") -> str | None:
        """The peer with the best mean of a metric.

        Parameters
        ----------
        metric
            'mrr', 'recall@10' or 'hits@10'.

        Returns
        -------
        str or None
            Its name; None if there is no peer.

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> evaluate_rolling(dated, window=20, windows=1, peers=["aa"], model=LinkPredictor(epochs=1)).best_peer()
        'aa'
        """
        peers = [who for who in self.methods if who != _OURS]
        return max(peers, key=lambda who: mean(self.values(who, metric)), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        Returns
        -------
        dict
            dataset, protocol, window, seed, windows, and the mean of each metric by method.

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> found = evaluate_rolling(dated, window=20, windows=1, peers=["aa"], model=LinkPredictor(epochs=1))
        >>> list(found.to_dict())
        ['dataset', 'protocol', 'window', 'seed', 'windows', 'means']
        """
        means = {who: {metric: mean(self.values(who, metric)) for metric in _METRICS} for who in self.methods}
        windows = [dict(vars(window)) for window in self.windows]
        return {
            **{"dataset": self.dataset, "protocol": "rolling", "window": self.period, "seed": self.seed},
            **{"windows": windows, "means": means},
        }

    def to_pandas(self) -> pd.DataFrame:
        """The figures as a data frame.

        Returns
        -------
        pandas.DataFrame
            A row for each window and method: columns start, end, method, and one for each metric.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> found = evaluate_rolling(dated, window=20, windows=1, peers=["aa"], model=LinkPredictor(epochs=1))
        >>> found.to_pandas()["method"].tolist()
        ['yinyan', 'aa']
        """
        rows = [
            {"start": window.start, "end": window.end, "method": who, **figures}
            for window in self.windows
            for who, figures in window.figures.items()
        ]
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})

    def plot(self, metric: str = "mrr", *, axes: Any = None) -> Any:
        """Draw a line for each method over the windows.

        Parameters
        ----------
        metric
            'mrr', 'recall@10' or 'hits@10'.
        axes
            Axes of matplotlib to draw on; those of a new figure unless given.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        InputError
            If there is no such metric.
        MissingExtraError
            If matplotlib is not installed (extra `plots`).

        Examples
        --------
        >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
        >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
        >>> found = evaluate_rolling(dated, window=20, windows=2, peers=["aa"], model=LinkPredictor(epochs=1))
        >>> len(found.plot().get_xticks())
        2
        """
        name = checked_metric(metric, _METRICS)
        values = {who: self.values(who, name) for who in self.methods}
        places = [moment_in_words(window.start) for window in self.windows]
        return curve_chart(values, places, ours=_OURS, title=self._head(), label=name, axes=axes)

    def __str__(self) -> str:
        counts, summary = self._by_window(), self._by_method()
        lines = [
            f"{self._head()}; new links between nodes that were there before, full ranking",
            text_table(*counts, right=range(1, len(counts[0]))),
            "",
            f"mean ± standard deviation over {len(self.windows)} windows",
            text_table(*summary, right=range(1, len(summary[0]))),
        ]
        other = self.best_peer()
        if other is not None and _OURS in self.methods and len(self.windows) > 1:
            gain, error = self.difference(other)
            lines.append(f"{_OURS} minus {other}, MRR by window: {gain:+.4f} ± {error:.4f} (standard error)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        counts, summary = self._by_window(), self._by_method()
        above = html_table(*counts, title=self._head(), right=range(1, len(counts[0])))
        return above + html_table(*summary, right=range(1, len(summary[0])))

    def _head(self) -> str:
        period = f"of one {self.period}" if isinstance(self.period, str) else f"of length {self.period:g}"
        return f"{self.dataset}, protocol 'rolling', windows {period}, seed {self.seed}"

    def _by_window(self) -> tuple[list[str], list[list[str]]]:
        """Sizes of each window, and the MRR of each method in it."""
        columns = ["window from", "known edges", "edges", "predicted", "new nodes", *(f"MRR {m}" for m in self.methods)]
        rows = [
            [
                moment_in_words(window.start),
                *(f"{n:,}" for n in (window.num_known, window.num_edges, window.num_links, window.num_new_nodes)),
                *(f"{window.figures[who]['mrr']:.4f}" for who in self.methods),
            ]
            for window in self.windows
        ]
        return columns, rows

    def _by_method(self) -> tuple[list[str], list[list[str]]]:
        rows = [[who, *(mean_and_spread(self.values(who, metric)) for metric in _METRICS)] for who in self.methods]
        return ["", "MRR", *_METRICS[1:]], rows


def evaluate_rolling(
    data: Any,
    *,
    window: Period = "month",
    windows: int | None = 5,
    start: Moment | None = None,
    until: Moment | None = None,
    dataset: str | None = None,
    peers: Sequence[str] = BESIDE_ROLLING,
    model: LinkPredictor | None = None,
    seed: int = 0,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
    on_window: Callable[[int, int], None] = lambda done, total: None,
) -> RollingEvaluation:
    """Train until a window of time begins, predict the links within, and go on with the next window.

    In each window a new model learns from the edges before it alone; the latest tenth of them is its validation. What
    is predicted are new links between nodes that were there before, by full ranking: every such node ranks all others
    but its partners so far. Links that are there already are neither predicted nor candidates, and an edge counts at
    its first time. Peers choose their parameters on the same validation edges.

    Parameters
    ----------
    data
        A graph with times, what `LinkPredictor.fit` converts to one, or a data set of `yinyan.datasets`.
    window
        'day', 'week' (from Monday), 'month', 'year', or a number in the unit of the edges' times.
    windows
        How many windows, the last ones; None for all.
    start, until
        Only windows that begin at `start` or later, and end by `until`: numbers or dates.
    dataset
        The name of the data in the result.
    peers
        Names of methods to compare with; heuristics with time and Adamic-Adar unless given.
    model
        A predictor whose parameters are used; default settings unless given.
    seed
        Seed of negatives and training.
    hooks
        A function of a window's name and of a method that returns the `Hooks` of its training.
    on_window
        Called with the number of windows done and of all.

    Returns
    -------
    RollingEvaluation
        The figures of each window and method.

    Raises
    ------
    SettingsError
        If a peer is unknown.
    InputError
        If edges have no times, or no window has links to predict.
    TrainingError
        If training would take more memory than is free, or diverges.

    Examples
    --------
    >>> from yinyan import Graph, LinkPredictor, evaluate_rolling
    >>> dated = Graph.from_arrays(graph.edges, times=range(graph.num_edges))
    >>> found = evaluate_rolling(dated, window=20, windows=2, peers=["aa"], model=LinkPredictor(epochs=1))
    >>> len(found.windows)
    2
    """
    chosen = {name: method(name) for name in peers}  # an unknown one is refused before anything is trained
    graph = data.graph if isinstance(data, Dataset) else data
    if not isinstance(graph, Graph):
        graph = as_graph(graph, hooks(_OURS).tell)
    planned = rolling_windows(graph, window, count=windows, start=start, until=until)
    params = (model or LinkPredictor()).get_params(deep=False)
    results = []
    for done, at in enumerate(planned, start=1):
        split = rolling_split(graph, at, seed=seed)
        if split is not None:
            audit(split)
            ours = LinkPredictor(**{**params, "seed": seed}).fit(split.graph, split=split, hooks=hooks(f"{at}"))
            with WholeRanking().outcome(ours, split) as outcome:
                outcomes = {_OURS: outcome}
                for name, run in chosen.items():
                    quiet = METHODS[name].family in ("heuristic", "temporal")
                    spoken = Hooks() if quiet else hooks(f"{at} {name}")
                    outcomes[name] = run(Task(split, seed, overrides_of(params), params["device"], spoken))
                results.append(_measured(graph, at, split, outcomes))
        on_window(done, len(planned))
    if not results:
        raise InputError(
            f"no window of {len(planned)} has links between nodes that were there before (choose a longer window)"
        )
    name = dataset or (data.name if isinstance(data, Dataset) else "graph")
    return RollingEvaluation(name, window, seed, tuple(results))


def _measured(graph: Graph, window: Window, split: Split, outcomes: dict[str, Outcome]) -> WindowResult:
    times = required_times(graph, "a rolling evaluation")
    figures = {}
    for name, outcome in outcomes.items():
        means = ranked(outcome, split, ks=(_K,), whole=True).means
        figures[name] = {metric: means[metric] for metric in _METRICS}
    return WindowResult(
        start=window.start,
        end=window.end,
        num_known=int((times < window.start).sum()),
        num_edges=int(((times >= window.start) & (times < window.end)).sum()),
        num_links=len(split.test_targets),
        num_new_nodes=new_nodes(graph, window),
        figures=figures,
    )
