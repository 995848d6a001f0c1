"""Small graphs in the likeness of the data sets, on which a recipe can be tried in seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yinyan.datasets.dataset import Dataset
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.peers.full_ranking import is_ranking_metric
from yinyan.splits import Parts, random_split

__all__ = ["knowledge_stand_in", "stand_in"]

_GROUPS, _SIZE = 4, 30  # communities, and nodes in each

# what each data set has: features ('sparse', 'dense' or none), and its usual metric
_KINDS = {
    "cora": ("sparse", "hits@100"),
    "citeseer": ("sparse", "hits@100"),
    "pubmed": ("dense", "hits@100"),
    "ogbl-ddi": ("", "hits@20"),
    "ogbl-collab": ("dense", "hits@50"),
    "ogbl-ppa": ("dense", "hits@100"),
    "ogbl-citation2": ("dense", "mrr"),
    "heart-citeseer": ("sparse", "mrr"),
    "usair": ("", "hits@100"),
    "ns": ("", "hits@100"),
    "power": ("", "hits@100"),
    "router": ("", "hits@100"),
    "email-enron": ("", "hits@100"),
    "fb15k-237": ("", "hits@100"),
    "wn18rr": ("", "hits@100"),
    "collegemsg": ("", "hits@100"),
    "lastfm-friends": ("", "hits@100"),
    "lastfm-listens": ("", "hits@100"),
    "citeulike": ("", "ndcg@20"),
    "amazon-beauty": ("", "ndcg@20"),
    "ml-1m": ("", "ndcg@20"),
}


def stand_in(name: str) -> Dataset:
    """A graph of communities with the kind of features, directions, weights and times that the data set has."""
    features, metric = _KINDS.get(name, ("", "hits@100"))
    generator = np.random.default_rng(0)
    group = np.repeat(np.arange(_GROUPS), _SIZE)
    count = len(group)
    chance = np.where(group[:, None] == group[None, :], 0.3, 0.01)
    pairs = np.argwhere(np.triu(generator.random((count, count)) < chance, 1))
    ranked = is_ranking_metric(metric)
    sides = np.arange(count) % 2 if name == "lastfm-listens" or ranked else None
    if sides is not None:
        pairs = pairs[sides[pairs[:, 0]] != sides[pairs[:, 1]]]
    graph = Graph.from_arrays(
        pairs,
        num_nodes=count,
        features=_features(features, group, generator),
        weights=generator.integers(1, 5, len(pairs)).astype(np.float32) if name == "ogbl-collab" else None,
        times=_times(name, len(pairs), generator),
        directed=name in ("ogbl-citation2", "fb15k-237", "wn18rr"),
        sides=sides,
    )
    fixed = name.startswith(("ogbl-", "heart-")) or ranked
    return Dataset(name, graph, _parts(graph, own=metric == "mrr", generator=generator) if fixed else None, metric)


def knowledge_stand_in(name: str) -> KnowledgeGraph:
    """Entities in a ring, with relations of one, two and three steps along it."""
    generator = np.random.default_rng(0)
    count = _GROUPS * _SIZE
    everyone = np.arange(count)
    steps = {"next": 1, "next but one": 2, "third": 3}
    triples = np.concatenate(
        [np.stack([everyone, (everyone + step) % count, np.full(count, n)], 1) for n, step in enumerate(steps.values())]
    )
    triples = triples[generator.permutation(len(triples))]
    relations = {
        relation: Relation(
            relation, "entity", "entity", np.unique(triples[triples[:, 2] == n, :2], axis=0), directed=True
        )
        for n, relation in enumerate(steps)
    }
    graph = TypedGraph({"entity": NodeType(Ids.integers(count))}, relations)
    train, valid, test = np.split(triples, [8 * len(triples) // 10, 9 * len(triples) // 10])
    return KnowledgeGraph(f"stand-in for {name}", graph, train, valid, test)


def _times(name: str, count: int, generator: np.random.Generator) -> NDArray[np.int64] | None:
    """Years, or seconds of half a year from the middle of April 2004 on."""
    if name == "ogbl-collab":
        return generator.integers(1990, 2020, count)
    return 1_081_987_200 + generator.integers(0, 15_552_000, count) if name == "collegemsg" else None


def _features(kind: str, group: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float32] | None:
    if not kind:
        return None
    words = np.eye(_GROUPS)[group].repeat(10, axis=1)
    if kind == "sparse":
        return (words * (generator.random(words.shape) < 0.3)).astype(np.float32)
    return (words + generator.normal(size=words.shape)).astype(np.float32)


def _parts(graph: Graph, *, own: bool, generator: np.random.Generator) -> Parts:
    split = random_split(graph, seed=0, valid_negatives=200)
    valid, test = split.valid_negatives, split.test_negatives
    if own:
        valid, test = (_own(graph, links, generator) for links in (split.valid_targets, split.test_targets))
    positives = (split.train_targets, split.valid_targets, split.test_targets)
    return Parts(*positives, valid_negatives=valid, test_negatives=test)


def _own(graph: Graph, links: NDArray[np.int64], generator: np.random.Generator, count: int = 25) -> NDArray[np.int64]:
    """For each link `count` pairs of its source with nodes that it is not linked to."""
    rows = []
    for source in links[:, 0].tolist():
        strangers = np.setdiff1d(np.arange(graph.num_nodes), [source, *graph.neighbours(source)])
        others = generator.choice(strangers, count, replace=False)
        rows.append(np.stack([np.full(count, source), others], axis=1))
    return np.array(rows, dtype=np.int64).reshape(-1, count, 2)
