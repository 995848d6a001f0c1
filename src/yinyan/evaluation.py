"""Data × split × negatives × metric × seeds: figures that carry their protocol's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing import audit
from yinyan.charts import bar_chart, checked_metric
from yinyan.datasets.dataset import Dataset
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import InputError, SettingsError
from yinyan.graph import Graph
from yinyan.graph.conversion import as_any_graph
from yinyan.graph.to_objects import data_frame
from yinyan.graph.typed_graph import RelationName, TypedGraph
from yinyan.hard_negatives import COUNT, with_hard_negatives
from yinyan.metrics import metric
from yinyan.peers.contract import Outcome, Scorer, Task
from yinyan.peers.full_ranking import FULL_MRR, held_out_links, is_ranking_metric, ranked, ranked_links
from yinyan.peers.registry import METHODS, method
from yinyan.peers.whole_ranking import WholeRanking
from yinyan.predictor import LinkPredictor
from yinyan.relation_evaluation import evaluate_relations
from yinyan.settings import GROUPS
from yinyan.splits import (
    Split,
    given_split,
    random_split,
    released_split,
    temporal_split,
    with_leaks_allowed,
    with_validation,
)
from yinyan.splits.dividing import divides_by_time
from yinyan.splits.typed_split import TypedSplit
from yinyan.text import html_table, text_table
from yinyan.training.hooks import Hooks

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BESIDE",
    "PROTOCOLS",
    "Evaluation",
    "Ranking",
    "SeedResult",
    "WholeRanking",
    "default_protocol",
    "evaluate",
    "evaluate_seed",
    "figures_of",
    "held_out_scores",
    "make_split",
    "mean_and_spread",
    "negatives_in_words",
    "overrides_of",
    "protocol_in_words",
    "protocol_with",
    "ranking_figures",
]

PROTOCOLS = {
    "clean": "undirected 70/10/20 split, messages at test time are the training edges, one test negative per test link",
    "clean+val": "as clean, but the validation edges pass messages at test time",
    "temporal": "split by time: latest fifth test, the tenth before it validation; one test negative per test link",
    "temporal+val": "as temporal, but the validation edges pass messages at test time",
    "official": "the split and the negatives that come with the data, messages at test time are the training edges",
    "official+val": "as official, but the validation edges pass messages at test time",
    "released": "LEAKS: the directed split of the paper's released code, kept to show where its figures come from",
}
_HARD = "-hard"
PROTOCOLS |= {
    f"{kind}{_HARD}{val}": f"as {kind}{val}, but each link has up to {COUNT} hard negatives of its own, as in HeaRT"
    for kind in ("clean", "temporal", "official")
    for val in ("", "+val")
}

_MOST_RELATIONS = 40  # that a table shows
_DEPTH = 10  # K of the metrics beside 'full-mrr'

BESIDE = ("cn", "aa", "ra")  # heuristics that are measured with every model

Scores = NDArray[np.floating[Any]]


def make_split(data: Graph | Dataset, protocol: str, seed: int) -> Split:
    """The split of a protocol, audited: one that leaks against its name is refused."""
    if protocol not in PROTOCOLS:
        raise SettingsError(f"'protocol' needs to be one of {', '.join(PROTOCOLS)} (got {protocol!r})")
    graph = data.graph if isinstance(data, Dataset) else data
    kind, _, variant = protocol.partition("+")
    kind, is_hard, valid_passes = kind.removesuffix(_HARD), _HARD in kind, variant == "val"
    if kind == "clean":
        split = random_split(graph, seed=seed, valid_as_messages=valid_passes)
    elif kind == "temporal":
        split = temporal_split(graph, seed=seed, valid_as_messages=valid_passes)
    elif kind == "released":
        split = released_split(graph, seed=seed, self_loops=data.self_loops if isinstance(data, Dataset) else None)
    else:
        parts = data.parts if isinstance(data, Dataset) else None
        if parts is None:
            raise InputError(
                "the protocol 'official' needs data that come with a split (ogbl-*, heart-*, fixed-*, citeulike, "
                "amazon-beauty, ml-1m)"
            )
        parts = with_validation(parts, seed=seed)
        split = given_split(graph, parts, protocol=kind, seed=seed, valid_as_messages=valid_passes)
        split = with_leaks_allowed(split, data.leaks) if isinstance(data, Dataset) and data.leaks else split
    split = with_hard_negatives(split) if is_hard else split
    audit(split)
    return split


def default_protocol(data: Graph | Dataset) -> str:
    """The protocol of a graph for which none is named: 'temporal' where edges have times that divide them."""
    return "temporal" if divides_by_time(data.graph if isinstance(data, Dataset) else data) else "clean"


def protocol_in_words(protocol: str, data: Graph | Dataset) -> str:
    """What a protocol does, and for a graph with times what it does about these."""
    words = f"protocol: {protocol} ({PROTOCOLS[protocol]})"
    timed = (data.graph if isinstance(data, Dataset) else data).times is not None
    if timed and protocol.startswith("clean"):
        return f"{words}; it ignores the times of the edges, so that later edges help to predict earlier ones"
    return words


def protocol_with(protocol: str, negatives: str | None) -> str:
    """The name of a protocol with other negatives: 'clean-hard' for 'clean' with hard ones."""
    if negatives not in (None, "hard"):
        raise SettingsError(
            f"'negatives' needs to be 'hard', or left out for those of the protocol (got {negatives!r})"
        )
    kind, plus, variant = protocol.partition("+")
    if negatives is None or kind.endswith(_HARD):
        return protocol
    if protocol in PROTOCOLS and f"{kind}{_HARD}" not in PROTOCOLS:
        raise SettingsError(
            f"the protocol {protocol!r} has no variant with hard negatives: use clean, temporal or official"
        )
    return f"{kind}{_HARD}{plus}{variant}"


def held_out_scores(score: Scorer, split: Split) -> tuple[Scores, Scores]:
    """Scores of test links (p,) and of negatives, (m,) or (p, k)."""
    negatives = split.test_negatives
    flat = score(negatives.reshape(-1, 2))
    return score(split.test_targets), flat.reshape(negatives.shape[:-1])


def ranking_figures(outcome: Outcome, split: Split, first: str, *, sources: int | None = None) -> dict[str, float]:
    """NDCG@K and Recall@K of all sources with test links, or of so many, for the K of the metric that comes `first`.

    With 'full-mrr' whole rankings are made, and K is 10.
    """
    whole = first == FULL_MRR
    k = _DEPTH if whole else int(first.partition("@")[2])
    means = ranked(outcome, split, ks=(k,), sources=sources, whole=whole).means
    means |= {FULL_MRR: means["mrr"]} if whole else {}
    return {name: means[name] for name in dict.fromkeys([first, f"ndcg@{k}", f"recall@{k}"])}


def negatives_in_words(split: Split, metric: str = "", sources: int | None = None) -> str:
    """What test links are ranked against, under a metric."""
    if is_ranking_metric(metric):
        return "full ranking" if sources is None else f"full ranking of at most {sources:,} sources"
    negatives = split.test_negatives
    if negatives.ndim == 3:
        return f"{negatives.shape[1]:,} own negatives per link"
    return f"{len(negatives):,} shared negatives"


@dataclass(frozen=True)
class Ranking:
    """Full ranking: the test links of some nodes, drawn by the seed, among the `k` best of all nodes."""

    k: int = 10
    sources: int = 200  # nodes asked

    def held_out(self, split: Split) -> NDArray[np.int64]:
        """(t, 2) test links of the nodes that are asked, source first; from both ends unless these differ in kind."""
        return held_out_links(split, sources=self.sources)

    def recall(self, outcome: Outcome, split: Split) -> float:
        """The share of those links that a method puts among the `k` best of their source; messages are excluded."""
        found = ranked_links(outcome, split.graph, self.held_out(split), split.test_messages, ks=(self.k,))
        return float((found.values[f"recall@{self.k}"] * found.num_held_out).sum() / found.num_held_out.sum())


def figures_of(positive: Scores, negative: Scores, first: str | None = None) -> dict[str, float]:
    """The metrics of every report; the `first` is the data's own, or Hits@K for a K that suits the negatives.

    K is a fifth of the negatives at most, or small graphs look perfect. For (p, k) negatives of each link's own, MRR
    comes first and K is 10 at most, as HeaRT reports them.
    """
    if negative.ndim == 2:
        k = 10 if negative.shape[1] >= 50 else 1
        names = dict.fromkeys([first or "mrr", "mrr", f"hits@{k}", "auc", "ap"])
    else:
        k = next((k for k in (100, 10) if negative.size >= 5 * k), 1)
        names = dict.fromkeys([first or f"hits@{k}", "mrr", "auc", "ap"])
    return {name: metric(name)(positive, negative) for name in names}


@dataclass(frozen=True, eq=False)
class SeedResult:
    """Figures of one seed, and the model they come from."""

    seed: int  # of split and training
    metrics: dict[str, float]  # of the model, by name
    peers: dict[str, dict[str, float]]  # of each peer
    found: dict[str, float] = field(default_factory=dict)  # recall by full ranking, where it was asked for
    model: LinkPredictor | None = field(default=None, repr=False)  # fitted to the training edges
    split: Split | TypedSplit | None = field(default=None, repr=False)  # the edges by role
    scores: tuple[Scores, Scores] | None = field(default=None, repr=False)  # of test links and negatives
    relations: dict[str, dict[str, float]] = field(default_factory=dict)  # the model's, of each predicted relation


@dataclass(frozen=True)
class Evaluation:
    """Figures of one protocol over its seeds; `print` shows them as a table.

    Examples
    --------
    >>> from yinyan import evaluate
    >>> evaluate(graph, model=model).seeds
    [0]
    """

    dataset: str  # name of the data
    protocol: str  # name of the protocol
    results: tuple[SeedResult, ...]  # one per seed

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order they ran."""
        return [r.seed for r in self.results]

    def figures(self, who: str = "yinyan") -> dict[str, list[float]]:
        """Each metric's values over the seeds.

        Parameters
        ----------
        who
            'yinyan' for the model, or the name of a peer.

        Returns
        -------
        dict
            A list of values, one per seed, by metric.

        Raises
        ------
        KeyError
            If there is no such peer.

        Examples
        --------
        >>> from yinyan import evaluate
        >>> list(evaluate(graph, model=model).figures("cn"))
        ['hits@1', 'mrr', 'auc', 'ap']
        """
        tables = [r.metrics if who == "yinyan" else r.peers[who] for r in self.results]
        return {name: [table[name] for table in tables] for name in tables[0]}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: means over the seeds, and the values of each seed where there are several.

        Returns
        -------
        dict
            dataset, protocol, seed or seeds, metrics, peers, and values of several seeds.

        Examples
        --------
        >>> from yinyan import evaluate
        >>> list(evaluate(graph, model=model).to_dict())
        ['dataset', 'protocol', 'seed', 'metrics', 'peers']
        """
        peers = list(self.results[0].peers)
        summary: dict[str, Any] = {"dataset": self.dataset, "protocol": self.protocol}
        summary |= {"seed": self.seeds[0]} if len(self.results) == 1 else {"seeds": self.seeds}
        summary["metrics"] = {name: mean(values) for name, values in self.figures().items()}
        summary["peers"] = {p: {name: mean(values) for name, values in self.figures(p).items()} for p in peers}
        if len(self.results) > 1:
            summary["values"] = self.figures()
        if relations := self._relation_means():
            summary["relations"] = relations
        return summary

    def _relation_means(self) -> dict[str, dict[str, float]]:
        """Means over the seeds, of relations that every seed has measured."""
        tables = [result.relations for result in self.results]
        shared = [name for name in tables[0] if all(name in table for table in tables)]
        return {
            name: {m: mean(t[name][m] for t in tables) for m in tables[0][name] if all(m in t[name] for t in tables)}
            for name in shared
        }

    def found(self) -> dict[str, float]:
        """Recall by full ranking, the mean over the seeds.

        Returns
        -------
        dict
            Recall of the model and of each peer by name; empty if no full ranking was asked for.

        Examples
        --------
        >>> from yinyan import evaluate
        >>> evaluate(graph, model=model).found()
        {}
        """
        return {who: mean(r.found[who] for r in self.results) for who in self.results[0].found}

    def to_pandas(self) -> pd.DataFrame:
        """The figures of every seed as a data frame.

        Returns
        -------
        pandas.DataFrame
            A row for each method and seed: columns method and seed, and one for each metric.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> from yinyan import evaluate
        >>> evaluate(graph, peers=["cn"], model=model).to_pandas()["method"].tolist()
        ['yinyan', 'cn']
        """
        rows = [
            {"method": who, "seed": result.seed, **(result.metrics if who == "yinyan" else result.peers[who])}
            for who in ("yinyan", *self.results[0].peers)
            for result in self.results
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return data_frame({name: [row.get(name) for row in rows] for name in names})

    def plot(self, metric: str | None = None, *, axes: Any = None) -> Any:
        """Draw a bar for each method: the mean over the seeds, its standard deviation, and a dot for each seed.

        Parameters
        ----------
        metric
            A metric of the table; the first unless given.
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
        >>> from yinyan import evaluate
        >>> found = evaluate(graph, peers=["cn"], model=model)
        >>> [text.get_text() for text in found.plot("auc").get_yticklabels()]
        ['yinyan', 'cn']
        """
        name = checked_metric(metric, list(self.results[0].metrics))
        values = {who: self.figures(who)[name] for who in ("yinyan", *self.results[0].peers)}
        return bar_chart(values, ours="yinyan", title=self._head(), label=name, axes=axes)

    def __str__(self) -> str:
        columns, rows = self._table()
        lines = [self._head(), text_table(columns, rows, right=range(1, len(columns)))]
        if (relations := self._by_relation()) is not None:
            lines += ["", text_table(*relations, right=range(1, len(relations[0])))]
        return "\n".join([*lines, *([PROTOCOLS["released"]] if self.protocol == "released" else [])])

    def _by_relation(self) -> tuple[list[str], list[list[str]]] | None:
        """A table of the relations, if there are several."""
        found = self.results[0].relations
        if len(found) < 2:
            return None
        names = list(next(iter(found.values())))
        rows = [
            [relation, *(mean_and_spread([r.relations[relation][name] for r in self.results]) for name in figures)]
            for relation, figures in list(found.items())[:_MOST_RELATIONS]
            if list(figures) == names and all(relation in r.relations for r in self.results)
        ]
        return ["relation", *names], rows

    def _repr_html_(self) -> str:
        tables = [self._table(), *([] if (relations := self._by_relation()) is None else [relations])]
        titles = [self._head(), ""]
        shown = [
            html_table(columns, rows, title=title, right=range(1, len(columns)))
            for (columns, rows), title in zip(tables, titles, strict=False)
        ]
        return "".join(shown)

    def _head(self) -> str:
        seeds = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"mean ± std of {len(self.seeds)} seeds"
        return f"{self.dataset}, protocol '{self.protocol}', test links, {seeds}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Names of the columns, and a row for ours and for each peer."""
        names = list(self.results[0].metrics)
        rows = []
        for who in ("yinyan", *self.results[0].peers):
            values = self.figures(who)
            rows.append([who, *(mean_and_spread(values[name]) for name in names)])
        return ["", *names], rows


def evaluate(
    data: Any,
    *,
    dataset: str | None = None,
    protocol: str | None = None,
    negatives: str | None = None,
    predict: RelationName | Sequence[RelationName] | None = None,
    seeds: Sequence[int] = (0,),
    peers: Sequence[str] = BESIDE,
    model: LinkPredictor | None = None,
    full_ranking: bool = False,
    sources: int | None = None,
    engine: str = "local",
    shards: int | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
) -> Evaluation:
    """Split, fit and score once for each seed, next to other methods.

    Parameters
    ----------
    data
        A graph, or what `LinkPredictor.fit` converts to one, or a data set of `yinyan.datasets`. A graph with
        relations or a `KnowledgeGraph` gives figures per relation, and by filtered ranking of heads and tails.
    dataset
        The name of the data in the result.
    protocol
        'clean', 'temporal', 'official', each also with '+val', or 'released', which leaks on purpose. Unless given,
        'temporal' if edges have times that divide them, and else 'clean', which ignores times; of a graph with
        relations 'clean', of a `KnowledgeGraph` 'official'.
    negatives
        'hard' for up to 500 hard negatives per link, made as in HeaRT for validation and test. The protocol is then
        'clean-hard', 'temporal-hard' or 'official-hard'. Those of the protocol unless given.
    predict
        Of a graph with relations those that are predicted and measured; all unless given.
    seeds
        Seeds of split and training.
    peers
        Names of methods to compare with; common neighbours, Adamic-Adar and resource allocation unless given.
    model
        A predictor whose parameters are used; default settings unless given.
    full_ranking
        Whether test links are ranked among all nodes as well: 'full-mrr', 'ndcg@10' and 'recall@10' come first.
    sources
        Number of sources with test links that are ranked, drawn by the seed; all unless given.
    engine
        Where the ranks of the model are counted: 'local' (this process), or 'ray', by actors of a Ray cluster that hold
        a part of the embeddings each. The figures are the same. Peers are ranked in this process.
    shards
        Number of Ray actors; the processors of the cluster unless given.
    hooks
        A function of a method's name that returns the `Hooks` of its training.

    Returns
    -------
    Evaluation
        The figures of the model and of each peer.

    Raises
    ------
    SettingsError
        If there is no seed, or the protocol, the negatives, the engine or a peer are unknown, or options of full
        ranking are given without it.
    MissingExtraError
        If the engine 'ray' is asked for and Ray is not installed (extra `cluster`).
    InputError
        If `data` is no graph, is too small to split, or lacks what the protocol needs.
    LeakError
        If the split leaks.
    TrainingError
        If training would take more memory than is free, or diverges.

    Examples
    --------
    >>> from yinyan import evaluate
    >>> result = evaluate(graph, peers=["cn"], model=model)
    >>> list(result.to_dict()["peers"])
    ['cn']
    """
    if not seeds:
        raise SettingsError("'seeds' needs at least one seed")
    if protocol is not None and not isinstance(data, TypedGraph | KnowledgeGraph):
        protocol = protocol_with(protocol, negatives)  # a wrong one is refused before tables are read
    if not isinstance(data, Dataset | Graph | TypedGraph | KnowledgeGraph):
        data = as_any_graph(data, hooks("yinyan").tell)
    if isinstance(data, TypedGraph | KnowledgeGraph):
        if negatives is not None or full_ranking:
            raise SettingsError("hard negatives and 'full_ranking' are for graphs without relations (leave them out)")
        chosen = protocol or ("clean" if isinstance(data, TypedGraph) else "official")
        name = dataset or (data.name if isinstance(data, KnowledgeGraph) else "graph")
        found = (_relations_of_seed(data, predict, chosen, s, peers, model, hooks) for s in seeds)
        return Evaluation(name, chosen, tuple(found))
    if predict is not None:
        raise InputError("'predict' names relations, and these data have one kind of edge: leave it out")
    protocol = protocol or protocol_with(default_protocol(data), negatives)
    if protocol in PROTOCOLS and (data.graph if isinstance(data, Dataset) else data).times is not None:
        hooks("yinyan").tell(protocol_in_words(protocol, data))
    whole = WholeRanking(full_ranking, sources, engine, shards)
    results = [
        evaluate_seed(data, protocol=protocol, seed=s, peers=peers, model=model, hooks=hooks, whole=whole)
        for s in seeds
    ]
    name = dataset or (data.name if isinstance(data, Dataset) else "graph")
    return Evaluation(name, protocol, tuple(results))


def _relations_of_seed(
    data: TypedGraph | KnowledgeGraph,
    predict: RelationName | Sequence[RelationName] | None,
    protocol: str,
    seed: int,
    peers: Sequence[str],
    model: LinkPredictor | None,
    hooks: Callable[[str], Hooks],
) -> SeedResult:
    found = evaluate_relations(
        data, predict=predict, protocol=protocol, seed=seed, peers=() if isinstance(data, KnowledgeGraph) else peers,
        model=model, hooks=hooks, figures=figures_of,
    )  # fmt: skip
    peer_figures = {name: {m: own.get(m, float("nan")) for m in found.metrics} for name, own in found.peers.items()}
    return SeedResult(
        seed, found.metrics, peer_figures, model=found.model, split=found.split, relations=found.relations
    )


def evaluate_seed(
    data: Graph | Dataset,
    *,
    protocol: str,
    seed: int,
    peers: Sequence[str] = BESIDE,
    model: LinkPredictor | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
    ranking: Ranking | None = None,
    whole: WholeRanking | None = None,
) -> SeedResult:
    """One split, one fit, one look at the test links; with a `ranking`, also among all nodes.

    `whole` says whether and where all of them are ranked among all nodes.
    """
    if not isinstance(data, Graph | Dataset):
        raise InputError(f"evaluate needs a yinyan.Graph (got {type(data).__name__}): see Graph.from_table")
    methods = {name: method(name) for name in peers}  # an unknown one is refused before anything is trained
    first = data.metric if isinstance(data, Dataset) and _HARD not in protocol else None
    whole = whole or WholeRanking(wanted=False)
    whole.check(first)
    split = make_split(data, protocol, seed)
    params = (model or LinkPredictor()).get_params(deep=False)
    fitted = LinkPredictor(**{**params, "seed": seed}).fit(split.graph, split=split, hooks=hooks("yinyan"))
    scores = held_out_scores(fitted.score_rows, split)
    named, beside = (whole.first(first), whole.sources), {}
    found: dict[str, float] = {}
    with whole.outcome(fitted, split) as ours:
        figures = _figures(ours, scores, split, *named)
        found |= {} if ranking is None else {"yinyan": ranking.recall(ours, split)}
    for name, run in methods.items():
        quiet = METHODS[name].family in ("heuristic", "temporal")
        task = Task(split, seed, overrides_of(params), params["device"], Hooks() if quiet else hooks(name))
        outcome = run(task)
        beside[name] = _figures(outcome, held_out_scores(outcome.score, split), split, *named)
        if ranking is not None:
            found[name] = ranking.recall(outcome, split)
    return SeedResult(seed, figures, beside, found, fitted, split, scores)


def _figures(
    outcome: Outcome, scores: tuple[Scores, Scores], split: Split, first: str | None, sources: int | None
) -> dict[str, float]:
    """The metrics of every report; those of full ranking come first where the data are judged by one."""
    if first is None or not is_ranking_metric(first):
        return figures_of(*scores, first)
    return ranking_figures(outcome, split, first, sources=sources) | figures_of(*scores)


def mean_and_spread(values: Sequence[float], digits: int = 4) -> str:
    """'0.8703 ± 0.0158', or the value alone."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def overrides_of(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings that a predictor was given, as peers take them."""
    given = {group: params[group] or {} for group in GROUPS}
    return {group: dict(v) if isinstance(v, Mapping) else dict(vars(v)) for group, v in given.items()}
