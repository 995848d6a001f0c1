"""Gradient-boosted trees over six heuristics of a pair."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import MissingExtraError
from yinyan.graph import Graph
from yinyan.metrics import metric
from yinyan.peers.contract import Outcome, Overrides, Pairs, Rows, Scores, Task, merged
from yinyan.peers.heuristic_blocks import HeuristicBlocks
from yinyan.peers.heuristics import (
    adamic_adar,
    common_neighbours,
    jaccard,
    preferential_attachment,
    resource_allocation,
)
from yinyan.peers.walk_sums import katz
from yinyan.randomness import named_seed
from yinyan.settings import Settings
from yinyan.splits import Split

__all__ = ["COLUMNS", "boosted"]

Columns = NDArray[np.float32]

COLUMNS = {
    "cn": common_neighbours,
    "aa": adamic_adar,
    "ra": resource_allocation,
    "jaccard": jaccard,
    "preferential": preferential_attachment,
    "katz": katz,
}

_OWN: Overrides = {"training": {"epochs": 100, "learning_rate": 0.1, "loss_negatives": 20}}  # scikit-learn's first two
_SHAPE = {"max_leaf_nodes": 8, "l2_regularization": 1.0}  # by validation links: see the recipe `head`
_FOLDS = 10  # a training edge's columns are computed without a tenth of the edges, itself among them
_EDGES = 5_000  # training edges that trees are grown from at most
_NEAR = 100  # best candidates by Katz, from which half of the negatives are drawn
_FLOOR = 1e-300  # of Katz, before its logarithm
_PAIRS = 500_000  # whose columns are held at a time


def boosted(task: Task) -> Outcome:
    """Histogram gradient boosting (scikit-learn) on common neighbours, Adamic-Adar, resource allocation, Jaccard,
    preferential attachment and the logarithm of Katz.

    Training edges are hidden in ten folds: the columns of an edge are computed without the edges of its fold. Each has
    `training.loss_negatives` negatives of its source, half from the hundred best by Katz and half from the others,
    weighted by the sizes of both so that they stand for all candidates. Of the task's settings it reads that number,
    `training.epochs` (trees) and `training.learning_rate`. At most 5,000 edges are drawn.
    """
    training = Settings().updated(merged(_OWN, task.settings)).training
    split, rng = task.split, np.random.default_rng(named_seed(task.seed, "boosting"))
    examples = _examples(split, training.loss_negatives, rng)
    grown = _grown(examples, training.epochs, training.learning_rate, task.seed)
    at_valid, at_test = (_Trees(grown, split.graph.with_edges(m)) for m in (split.valid_messages, split.test_messages))
    links, negatives = at_valid.score(split.valid_targets), at_valid.score(split.valid_negatives.reshape(-1, 2))
    return Outcome(at_test.score, float(metric("auc")(links, negatives)), block=at_test.block)


class _Trees:
    """Scores of grown trees over the columns of a message graph."""

    def __init__(self, grown: Any, message_graph: Graph) -> None:
        self.grown, self.graph, self.blocks = grown, message_graph, HeuristicBlocks(message_graph)

    def score(self, pairs: Pairs) -> Scores:
        """(p,) log odds of pairs."""
        return self._log_odds(_columns_of_pairs(self.graph, pairs))

    def block(self, sources: Rows, targets: Rows) -> Scores:
        """(b, t) log odds of some sources with some targets."""
        few = max(1, _PAIRS // max(1, targets.size))
        parts = [self._rows(sources[at : at + few], targets) for at in range(0, sources.size, few)]
        return np.concatenate(parts) if parts else np.empty((0, targets.size))

    def _rows(self, sources: Rows, targets: Rows) -> Scores:
        columns = _columns(self.blocks, sources, targets)
        return self._log_odds(columns.reshape(-1, len(COLUMNS))).reshape(columns.shape[:2])

    def _log_odds(self, columns: Scores) -> Scores:
        return np.asarray(self.grown.decision_function(_prepared(columns))) if len(columns) else np.empty(0)


class _Examples(NamedTuple):
    """Pairs to learn from."""

    columns: Columns  # (p, 6)
    labels: NDArray[np.bool_]  # (p,) whether it is an edge
    weights: NDArray[np.float64]  # (p,) edges and negatives weigh the same in all

    @classmethod
    def joined(cls, parts: list[_Examples]) -> _Examples:
        columns, labels, weights = (np.concatenate(found) for found in zip(*parts, strict=True))
        negatives = weights[~labels].sum()
        weights[~labels] *= labels.sum() / negatives if negatives else 1.0
        return cls(columns, labels, weights)


def _examples(split: Split, num_negatives: int, rng: np.random.Generator) -> _Examples:
    """Training edges, each seen without its fold, and negatives of their sources."""
    graph = split.graph
    edges = rng.permutation(graph.find_edges(split.train_targets))
    known = graph.with_edges(split.known_in_training).adjacency
    candidates = np.ones(graph.num_nodes, np.bool_) if graph.sides is None else graph.sides == 1
    parts = []
    for fold in np.array_split(edges, min(_FOLDS, edges.size)):
        blocks = HeuristicBlocks(graph.with_edges(np.setdiff1d(split.train_messages, fold)))
        pairs = _from_a_source(graph, graph.edges[fold[: _EDGES // _FOLDS]], rng)
        for start in range(0, len(pairs), max(1, _PAIRS // graph.num_nodes)):
            some = pairs[start : start + max(1, _PAIRS // graph.num_nodes)]
            columns = _columns(blocks, some[:, 0], np.arange(graph.num_nodes))
            for (source, target), row in zip(some.tolist(), columns, strict=True):
                free = candidates.copy()
                free[known.indices[known.indptr[source] : known.indptr[source + 1]]] = free[[source, target]] = False
                parts.append(_of_pair(row, target, np.flatnonzero(free), num_negatives, rng))
    return _Examples.joined(parts)


def _of_pair(row: Scores, target: int, free: Rows, num_negatives: int, rng: np.random.Generator) -> _Examples:
    """An edge and negatives of its source among the nodes that are `free`, each weighted by how many it stands for."""
    order = free[np.argsort(-row[free, -1], kind="stable")]
    chosen, weights = [np.array([target])], [np.ones(1)]
    for stratum in (order[:_NEAR], order[_NEAR:]):
        count = min(stratum.size, max(1, num_negatives // 2))
        chosen.append(rng.choice(stratum, count, replace=False) if count else stratum)
        weights.append(np.full(count, stratum.size / max(1, count)))
    nodes = np.concatenate(chosen)
    return _Examples(_prepared(row[nodes]), np.arange(nodes.size) == 0, np.concatenate(weights))


def _columns_of_pairs(graph: Graph, pairs: Pairs) -> Scores:
    """(p, 6) heuristics of pairs."""
    return np.stack([score(graph, pairs) for score in COLUMNS.values()], axis=-1)


def _columns(blocks: HeuristicBlocks, sources: Rows, targets: Rows) -> Scores:
    """(b, t, 6) heuristics of some sources with some targets."""
    return np.stack([blocks.scores(name, sources, targets) for name in COLUMNS], axis=-1)


def _prepared(columns: Scores) -> Columns:
    """What trees read: Katz by its logarithm, and single precision, so that rounding decides nothing."""
    logarithm = np.log(np.maximum(columns[:, -1:], _FLOOR))
    return np.concatenate([columns[:, :-1], logarithm], axis=1).astype(np.float32)


def _from_a_source(graph: Graph, pairs: Pairs, rng: np.random.Generator) -> Pairs:
    """Edges with the end first that is to find the other: by direction, by side, or either."""
    if graph.directed:
        return pairs
    swap = rng.random(len(pairs)) < 0.5 if graph.sides is None else graph.sides[pairs[:, 0]] == 1
    return np.where(swap[:, None], pairs[:, ::-1], pairs)


def _grown(examples: _Examples, trees: int, learning_rate: float, seed: int) -> Any:
    """scikit-learn's classifier of so many trees."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as error:
        raise MissingExtraError("this method needs scikit-learn: pip install 'yinyan[baselines]'") from error
    state = named_seed(seed, "trees") % 2**32
    made = HistGradientBoostingClassifier(
        max_iter=trees, learning_rate=learning_rate, early_stopping=False, random_state=state, **_SHAPE
    )
    return made.fit(examples.columns, examples.labels, sample_weight=examples.weights)
