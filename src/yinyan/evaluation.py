"""Data × split × negatives × metric × seeds: figures that carry their protocol's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing import audit
from yinyan.datasets.dataset import Dataset
from yinyan.errors import InputError, SettingsError
from yinyan.fitting import Hooks
from yinyan.graph import Graph
from yinyan.metrics import metric
from yinyan.peers.contract import Scorer, Task
from yinyan.peers.registry import METHODS, method
from yinyan.predictor import LinkPredictor
from yinyan.results import text_table
from yinyan.settings import GROUPS
from yinyan.splits import Split, given_split, random_split, released_split, temporal_split, with_leaks_allowed

__all__ = [
    "BESIDE",
    "PROTOCOLS",
    "Evaluation",
    "Protocol",
    "SeedResult",
    "evaluate",
    "evaluate_seed",
    "figures_of",
    "held_out_scores",
    "make_split",
    "mean_and_spread",
    "negatives_in_words",
]

PROTOCOLS = {
    "clean": "undirected 70/10/20 split, messages at test time are the training links, 1:1 test non-links",
    "clean+val": "as clean, but the validation links pass messages at test time",
    "temporal": "the latest fifth of the links is the test, the tenth before it the validation, 1:1 test non-links",
    "temporal+val": "as temporal, but the validation links pass messages at test time",
    "official": "the split and the non-links that come with the data, messages at test time are the training links",
    "official+val": "as official, but the validation links pass messages at test time",
    "released": "LEAKS: the directed split of the paper's released code, kept to show where its figures come from",
}

BESIDE = ("cn", "aa", "ra")  # heuristics that stand beside every figure

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Protocol:
    """What a figure is a figure of."""

    data: str
    split: str
    negatives: str
    metric: str
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.data} / {self.split} / {self.negatives} / {self.metric} / {_seeds_in_words(self.seeds)}"


def make_split(data: Graph | Dataset, protocol: str, seed: int) -> Split:
    """The split of a protocol, audited: one that leaks against its name is refused."""
    if protocol not in PROTOCOLS:
        raise SettingsError(f"'protocol' needs to be one of {', '.join(PROTOCOLS)} (got {protocol!r})")
    graph = data.graph if isinstance(data, Dataset) else data
    kind, _, variant = protocol.partition("+")
    with_validation = variant == "val"
    if kind == "clean":
        split = random_split(graph, seed=seed, validation_messages=with_validation)
    elif kind == "temporal":
        split = temporal_split(graph, seed=seed, validation_messages=with_validation)
    elif kind == "released":
        split = released_split(graph, seed=seed, self_loops=data.self_loops if isinstance(data, Dataset) else None)
    else:
        parts = data.parts if isinstance(data, Dataset) else None
        if parts is None:
            raise InputError("the protocol 'official' needs data that come with a split (ogbl-*, heart-*, fixed-*)")
        split = given_split(graph, parts, protocol=kind, seed=seed, validation_messages=with_validation)
        split = with_leaks_allowed(split, data.leaks) if isinstance(data, Dataset) and data.leaks else split
    audit(split)
    return split


def held_out_scores(score: Scorer, split: Split) -> tuple[Scores, Scores]:
    """Scores of test links (p,) and of non-links, (m,) or (p, k)."""
    negatives = split.test_negatives
    flat = score(negatives.reshape(-1, 2))
    return score(split.test_targets), flat.reshape(negatives.shape[:-1])


def negatives_in_words(split: Split) -> str:
    """What test links are ranked against."""
    negatives = split.test_negatives
    if negatives.ndim == 3:
        return f"{negatives.shape[1]:,} non-links of each link's own"
    return f"{len(negatives):,} shared non-links"


def figures_of(positive: Scores, negative: Scores, first: str | None = None) -> dict[str, float]:
    """The metrics of every report; the `first` is the data's own, or Hits@K for a K that suits the non-links.

    K is a fifth of the non-links at most, or small graphs look perfect.
    """
    k = next((k for k in (100, 10) if negative.size >= 5 * k), 1)
    names = dict.fromkeys([first or f"hits@{k}", "mrr", "auc", "ap"])
    return {name: metric(name)(positive, negative) for name in names}


@dataclass(frozen=True, eq=False)
class SeedResult:
    """One seed's figures, ours and the peers', and the model they come from."""

    seed: int
    metrics: dict[str, float]
    peers: dict[str, dict[str, float]]
    model: LinkPredictor | None = field(default=None, repr=False)
    split: Split | None = field(default=None, repr=False)
    scores: tuple[Scores, Scores] | None = field(default=None, repr=False)  # of test links and non-links


@dataclass(frozen=True)
class Evaluation:
    """Figures of one protocol over its seeds."""

    dataset: str
    protocol: str
    results: tuple[SeedResult, ...]

    @property
    def seeds(self) -> list[int]:
        """The seeds, in the order they ran."""
        return [r.seed for r in self.results]

    def figures(self, who: str = "yinyan") -> dict[str, list[float]]:
        """Each metric's values over the seeds, of the model or of one peer."""
        tables = [r.metrics if who == "yinyan" else r.peers[who] for r in self.results]
        return {name: [table[name] for table in tables] for name in tables[0]}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: means over the seeds, and each seed's own where there are several."""
        peers = list(self.results[0].peers)
        summary: dict[str, Any] = {"dataset": self.dataset, "protocol": self.protocol}
        summary |= {"seed": self.seeds[0]} if len(self.results) == 1 else {"seeds": self.seeds}
        summary["metrics"] = {name: mean(values) for name, values in self.figures().items()}
        summary["peers"] = {p: {name: mean(values) for name, values in self.figures(p).items()} for p in peers}
        if len(self.results) > 1:
            summary["values"] = self.figures()
        return summary

    def __str__(self) -> str:
        names = list(self.results[0].metrics)
        rows = []
        for who in ("yinyan", *self.results[0].peers):
            values = self.figures(who)
            rows.append([who, *(mean_and_spread(values[name]) for name in names)])
        seeds = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"mean ± std of {len(self.seeds)} seeds"
        head = f"{self.dataset}, protocol '{self.protocol}', test links, {seeds}"
        table = text_table(["", *names], rows, right=range(1, len(names) + 1))
        return f"{head}\n{table}" + (f"\n{PROTOCOLS['released']}" if self.protocol == "released" else "")


def evaluate(
    data: Graph | Dataset,
    *,
    dataset: str | None = None,
    protocol: str = "clean",
    seeds: Sequence[int] = (0,),
    peers: Sequence[str] = BESIDE,
    model: LinkPredictor | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
) -> Evaluation:
    """Split, fit and score once for each seed; CN, AA and RA stand beside every figure unless other `peers` do."""
    if not seeds:
        raise SettingsError("'seeds' needs at least one seed")
    results = [evaluate_seed(data, protocol=protocol, seed=s, peers=peers, model=model, hooks=hooks) for s in seeds]
    name = dataset or (data.name if isinstance(data, Dataset) else "graph")
    return Evaluation(name, protocol, tuple(results))


def evaluate_seed(
    data: Graph | Dataset,
    *,
    protocol: str,
    seed: int,
    peers: Sequence[str] = BESIDE,
    model: LinkPredictor | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
) -> SeedResult:
    """One split, one fit, one look at the test links."""
    if not isinstance(data, Graph | Dataset):
        raise InputError(f"evaluate needs a yinyan.Graph (got {type(data).__name__}): see Graph.from_table")
    methods = {name: method(name) for name in peers}  # an unknown one is refused before anything is trained
    split = make_split(data, protocol, seed)
    first = data.metric if isinstance(data, Dataset) else None
    params = (model or LinkPredictor()).get_params(deep=False)
    fitted = LinkPredictor(**{**params, "seed": seed}).fit(split.graph, split=split, hooks=hooks("yinyan"))
    scores = held_out_scores(fitted.score_rows, split)
    beside = {}
    for name, run in methods.items():
        quiet = METHODS[name].family == "heuristic"
        task = Task(split, seed, _overrides(params), params["device"], Hooks() if quiet else hooks(name))
        beside[name] = figures_of(*held_out_scores(run(task).score, split), first)
    return SeedResult(seed, figures_of(*scores, first), beside, fitted, split, scores)


def mean_and_spread(values: Sequence[float], digits: int = 4) -> str:
    """'0.8703 ± 0.0158', or the value alone."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def _overrides(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings that a predictor was given, as peers take them."""
    given = {group: params[group] or {} for group in GROUPS}
    return {group: dict(v) if isinstance(v, Mapping) else dict(vars(v)) for group, v in given.items()}


def _seeds_in_words(seeds: tuple[int, ...]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if seeds == tuple(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]}-{seeds[-1]}"
    return "seeds " + ", ".join(map(str, seeds))
