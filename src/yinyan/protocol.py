"""Data × split × negatives × metric × seeds: figures that carry their protocol's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError, SettingsError
from yinyan.fitting import Hooks
from yinyan.graph import Graph
from yinyan.metrics import average_precision, hits_at_k, mrr, roc_auc
from yinyan.peers.heuristics import adamic_adar, common_neighbours, resource_allocation
from yinyan.peers.mlp import fit_mlp
from yinyan.predictor import LinkPredictor
from yinyan.results import text_table
from yinyan.splits import Split, random_split
from yinyan.training import decode

__all__ = ["PROTOCOLS", "Evaluation", "SeedResult", "evaluate", "evaluate_seed"]

PROTOCOLS = {
    "clean": "undirected 70/10/20 split, messages at test time are the training links, 1:1 test non-links",
    "clean+val": "as clean, but the validation links pass messages at test time",
}

Scores = NDArray[np.floating[Any]]


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
            table = self.figures(who)
            rows.append([who, *(_mean_and_spread(table[name]) for name in names)])
        seeds = f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"mean ± std of {len(self.seeds)} seeds"
        head = f"{self.dataset}, protocol '{self.protocol}', test links, {seeds}"
        return f"{head}\n" + text_table(["", *names], rows, right=range(1, len(names) + 1))


def evaluate(
    graph: Graph,
    *,
    dataset: str = "graph",
    protocol: str = "clean",
    seeds: Sequence[int] = (0,),
    mlp: bool = False,
    model: LinkPredictor | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
) -> Evaluation:
    """Split, fit and score once for each seed; CN, AA and RA stand beside every figure."""
    if not seeds:
        raise SettingsError("'seeds' needs at least one seed")
    results = [evaluate_seed(graph, protocol=protocol, seed=s, mlp=mlp, model=model, hooks=hooks) for s in seeds]
    return Evaluation(dataset, protocol, tuple(results))


def evaluate_seed(
    graph: Graph,
    *,
    protocol: str,
    seed: int,
    mlp: bool,
    model: LinkPredictor | None = None,
    hooks: Callable[[str], Hooks] = lambda what: Hooks(),
) -> SeedResult:
    """One split, one fit, one look at the test links."""
    if not isinstance(graph, Graph):
        raise InputError(f"evaluate needs a yinyan.Graph (got {type(graph).__name__}): see Graph.from_table")
    if protocol not in PROTOCOLS:
        raise SettingsError(f"'protocol' needs to be one of {', '.join(PROTOCOLS)} (got {protocol!r})")
    split = random_split(graph, seed=seed, validation_messages=protocol == "clean+val")
    params = (model or LinkPredictor()).get_params(deep=False)
    fitted = LinkPredictor(**{**params, "seed": seed}).fit(graph, split=split, hooks=hooks("yinyan"))
    scores = _test_scores(fitted, split)
    peers = heuristic_figures(split)
    if mlp:
        peers["mlp"] = figures_of(*_test_scores(fit_mlp(split, fitted, hooks=hooks("mlp")), split))
    return SeedResult(seed, figures_of(*scores), peers, fitted, split, scores)


def heuristic_figures(split: Split) -> dict[str, dict[str, float]]:
    """CN, AA and RA over the messages of test time."""
    messages = split.graph.with_edges(split.test_messages)
    links = split.graph.edges[split.test_targets]
    methods = {"cn": common_neighbours, "aa": adamic_adar, "ra": resource_allocation}
    return {
        name: figures_of(method(messages, links), method(messages, split.test_negatives))
        for name, method in methods.items()
    }


def figures_of(positive: Scores, negative: Scores) -> dict[str, float]:
    """The metrics of every report; K of Hits@K is a fifth of the non-links at most, or small graphs look perfect."""
    k = next((k for k in (100, 10) if len(negative) >= 5 * k), 1)
    return {
        f"hits@{k}": hits_at_k(positive, negative, k),
        "mrr": mrr(positive, negative),
        "auc": roc_auc(positive, negative),
        "ap": average_precision(positive, negative),
    }


def _test_scores(model: LinkPredictor, split: Split) -> tuple[Scores, Scores]:
    fitted = model.fitted_
    pairs = (split.graph.edges[split.test_targets], split.test_negatives)
    device = fitted.embeddings.device
    links, non_links = (
        decode(fitted.model.decoder, fitted.embeddings, torch.from_numpy(np.ascontiguousarray(p)).to(device))
        for p in pairs
    )
    return links, non_links


def _mean_and_spread(values: Sequence[float]) -> str:
    return f"{mean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")
