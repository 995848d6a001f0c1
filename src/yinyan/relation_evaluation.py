"""Test figures of models with relations: per relation, and by filtered ranking of heads and tails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing import audit
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.errors import InputError, SettingsError
from yinyan.graph.typed_graph import RelationName, TypedGraph
from yinyan.metrics.filtered_ranking import FilteredRanking
from yinyan.model.typed_fitted import TypedFitted
from yinyan.peers.contract import Task
from yinyan.peers.registry import METHODS, method
from yinyan.predictor import LinkPredictor
from yinyan.randomness import named_seed
from yinyan.retrieval.relation_ranking import numbered, relation_ranking
from yinyan.splits import Split
from yinyan.splits.typed_split import TypedSplit, given_typed_split, predicted_relations, typed_split
from yinyan.training.hooks import Hooks

__all__ = ["RelationFigures", "evaluate_relations", "relation_ranking", "split_relations"]

RANKED = 1_000  # test links that are ranked among all nodes of the right types; of a knowledge graph all

Rows = NDArray[np.int64]
Figures = Callable[[Any, Any], dict[str, float]]


class RelationFigures(NamedTuple):
    """What one seed measured."""

    metrics: dict[str, float]  # means over the relations, weighted by their test links; and filtered ranking
    relations: dict[str, dict[str, float]]  # of each relation with test links
    peers: dict[str, dict[str, float]]
    model: LinkPredictor
    split: TypedSplit


def split_relations(
    data: TypedGraph | KnowledgeGraph, predict: RelationName | Sequence[RelationName] | None, protocol: str, seed: int
) -> TypedSplit:
    """The split of a protocol."""
    if isinstance(data, KnowledgeGraph):
        if protocol != "official":
            raise SettingsError(f"a knowledge graph has a split of its own: protocol='official' (got {protocol!r})")
        names = predicted_relations(data.graph, predict)
        parts = data.parts()
        return given_typed_split(data.graph, {name: parts[name] for name in names}, seed=seed)
    if protocol not in ("clean", "clean+val"):
        raise SettingsError(f"graphs with relations have the protocols 'clean' and 'clean+val' (got {protocol!r})")
    return typed_split(data, predict, seed=seed, valid_as_messages=protocol == "clean+val")


def evaluate_relations(
    data: TypedGraph | KnowledgeGraph,
    *,
    predict: RelationName | Sequence[RelationName] | None,
    protocol: str,
    seed: int,
    peers: Sequence[str],
    model: LinkPredictor | None,
    hooks: Callable[[str], Hooks],
    figures: Figures,
) -> RelationFigures:
    """One split, one fit, one look at the test links. Peers are heuristics on the edges of each relation alone."""
    trained = [name for name in peers if METHODS[name].family != "heuristic"] if set(peers) <= METHODS.keys() else []
    if trained:
        raise InputError(
            f"method {trained[0]!r} is for graphs with one kind of edge: compare with heuristics (cn, aa, ra)"
        )
    runs = {name: method(name) for name in peers}
    split = split_relations(data, predict, protocol, seed)
    _audit_relations(data, split, hooks("yinyan").tell)
    params = (model or LinkPredictor()).get_params(deep=False)
    fitted = LinkPredictor(**{**params, "seed": seed}).fit(split.graph, split=split, hooks=hooks("yinyan"))
    tested = {name: part for name, part in split.parts.items() if len(part.test_targets)}
    if not tested:
        raise InputError("no predicted relation has test edges: a relation needs 10 edges to be divided")
    whole = cast("TypedFitted", fitted.fitted_)
    relations = {}
    for name, part in tested.items():
        if len(part.test_negatives):
            relations[name] = _figures(fitted._asked(name)[1].score_rows, part, figures)
    beside = {}
    for name, run in runs.items():
        own = {
            relation: _figures(run(Task(part, seed, {}, params["device"], Hooks())).score, part, figures)
            for relation, part in tested.items()
            if len(part.test_negatives)
        }
        beside[name] = _weighted(own, tested)
    ranked = _ranked(data, whole, split, seed)
    metrics = {} if isinstance(data, KnowledgeGraph) else _weighted(relations, tested)
    metrics |= _named(ranked.means)
    if isinstance(data, KnowledgeGraph):
        relations = {whole.predicted[number]: _named(means) for number, means in ranked.by_relation().items()}
    return RelationFigures(metrics, relations, beside, fitted, split)


def _audit_relations(data: TypedGraph | KnowledgeGraph, split: TypedSplit, tell: Callable[[str], None]) -> None:
    """Refuse test links that an inverse or duplicate relation gives away; data that come with parts are reported."""
    found = audit(data if isinstance(data, KnowledgeGraph) else split, raises=isinstance(data, TypedGraph))
    for finding in found.findings:
        if "relation" in finding.kind:
            tell(f"audit: {finding.kind}: {finding.words}")


def _ranked(data: TypedGraph | KnowledgeGraph, fitted: TypedFitted, split: TypedSplit, seed: int) -> FilteredRanking:
    """Test triples among all nodes: all of a knowledge graph, some of another graph."""
    if isinstance(data, KnowledgeGraph):
        test, known = (numbered(part, data.graph, fitted.predicted) for part in (data.test, data.known))
        return relation_ranking(fitted, test, known)
    parts = list(split.parts.items())
    known = np.concatenate([_triples(split, name, part.graph.edges, n) for n, (name, part) in enumerate(parts)])
    test = np.concatenate([_triples(split, name, part.test_targets, n) for n, (name, part) in enumerate(parts)])
    if len(test) > RANKED:
        draw = np.random.default_rng(named_seed(seed, "filtered ranking"))
        test = test[np.sort(draw.choice(len(test), RANKED, replace=False))]
    return relation_ranking(fitted, test, known)


def _named(means: Mapping[str, float]) -> dict[str, float]:
    """Figures of filtered ranking as a report has them."""
    return {f"filtered {name}": value for name, value in means.items() if name != "mr"}


def _triples(split: TypedSplit, name: str, pairs: Rows, number: int) -> Rows:
    rows = split.graph.rows_of_view(split.graph.relations[name])
    return np.column_stack([rows[pairs], np.full(len(pairs), number)])


def _figures(score: Callable[[Rows], Any], part: Split, figures: Figures) -> dict[str, float]:
    return figures(score(part.test_targets), score(part.test_negatives))


def _weighted(found: Mapping[str, dict[str, float]], tested: Mapping[str, Split]) -> dict[str, float]:
    """Means over the relations, each as often as it has test links; of metrics that all of them have."""
    weights = np.array([len(tested[name].test_targets) for name in found], dtype=float)
    names = [m for m in next(iter(found.values()), {}) if all(m in figures for figures in found.values())]
    return {m: float(np.average([figures[m] for figures in found.values()], weights=weights)) for m in names}
