"""The methods of the harness by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.peers.contract import Method, Outcome, Pairs, Scores, Task

__all__ = ["METHODS", "PEERS", "Card", "method"]


class Card(NamedTuple):
    """A method's family and where it lives, as module:function within this package.

    Heuristics are functions of a message graph and pairs; other methods of a task.
    """

    family: str
    home: str
    words: str


METHODS = {
    "yinyan": Card("ours", "ours:yinyan", "energy descent with attraction and repulsion"),
    "yinyan-without-negatives": Card("ours", "ours:yinyan_without_negatives", "the same without repulsion (K = 0)"),
    "yinyan-as-suggested": Card(
        "ours", "ours:yinyan_as_suggested", "the same with default settings: structural sketches, node dropout"
    ),
    "yinyan-imputed": Card(
        "ours", "imputed:yinyan_from_imputed_edges", "the same from imputed edges (low-rank completion)"
    ),
    "cn": Card("heuristic", "heuristics:common_neighbours", "common neighbours"),
    "aa": Card("heuristic", "heuristics:adamic_adar", "Adamic-Adar"),
    "ra": Card("heuristic", "heuristics:resource_allocation", "resource allocation"),
    "jaccard": Card("heuristic", "heuristics:jaccard", "shared over all neighbours"),
    "preferential": Card(
        "heuristic",
        "heuristics:preferential_attachment",
        "preferential attachment: the product of degrees",
    ),
    "katz": Card("heuristic", "walk_sums:katz", "walks of all lengths, the longer the less"),
    "pagerank": Card("heuristic", "walk_sums:personalised_pagerank", "personalised PageRank, both ways"),
    "mlp": Card("no graph", "mlp:mlp", "no graph (MLP)"),
    "mf": Card("embedding", "factorisation:factorisation", "matrix factorisation: a vector for each node"),
    "node2vec": Card("embedding", "node2vec:node2vec", "skip-gram over biased random walks"),
    "transe": Card("knowledge graph", "knowledge:transe", "translation: h + r near t"),
    "complex": Card("knowledge graph", "knowledge:complex_", "complex bilinear"),
    "distmult": Card("knowledge graph", "knowledge:distmult", "diagonal bilinear"),
    "gcn": Card("gnn", "gnn:gcn", "graph convolution"),
    "sage": Card("gnn", "gnn:sage", "GraphSAGE, mean aggregation"),
    "gat": Card("gnn", "gnn:gat", "graph attention"),
    "gin": Card("gnn", "gnn:gin", "graph isomorphism network"),
    "jknet": Card("gnn", "gnn:jknet", "jumping knowledge over graph convolutions"),
    "gcnii": Card("gnn", "gnn:gcnii", "deep graph convolution with initial residual"),
    "lightgcn": Card("gnn", "gnn:lightgcn", "linear propagation of embeddings, dot product"),
    "lightgcn-as-published": Card(
        "recommender", "recommenders:lightgcn_as_published", "LightGCN with a ranking loss, chosen by full ranking"
    ),
    "ials": Card("recommender", "recommenders:ials", "implicit alternating least squares"),
    "popularity": Card("recommender", "recommenders:popularity", "number of edges of the target"),
    "gcn-negatives": Card("gnn", "gcn_negatives:gcn_negatives", "graph convolution over edges minus negatives"),
    "gae": Card("gnn", "gae:gae", "one linear propagation, Hadamard MLP (as in NCN's harness)"),
    "optimised-gae": Card("gnn", "gae:optimised_gae", "linear propagation, deep residual Hadamard MLP"),
    "ncn": Card("edge-wise", "ncn:ncn", "our encoder, sums over common neighbours in the decoder"),
    "ncnc": Card("edge-wise", "ncn:ncnc", "the same with completed common neighbours"),
    "buddy": Card("edge-wise", "elph:buddy", "one linear propagation, precomputed sketches of neighbourhoods"),
    "elph": Card("edge-wise", "elph:elph", "graph convolution, sketches of neighbourhoods made in the same pass"),
    "lpformer": Card("edge-wise", "lpformer:lpformer", "graph convolution, attention to nodes chosen by PageRank"),
}

PEERS = tuple(name for name, card in METHODS.items() if card.family != "ours")


def method(name: str) -> Method:
    """The method called `name`.

    Parameters
    ----------
    name
        One of `yinyan.peers.METHODS`.

    Returns
    -------
    callable
        A function of a `Task` that returns an `Outcome`.

    Raises
    ------
    SettingsError
        If there is no such method.

    Examples
    --------
    >>> from yinyan import peers, random_split
    >>> split = random_split(graph, seed=0)
    >>> outcome = peers.method("cn")(peers.Task(split))
    >>> outcome.score(split.test_targets).shape == (len(split.test_targets),)
    True
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.0)[0]
        raise SettingsError(f"there is no method {name!r} (nearest: {near!r}; all: {', '.join(METHODS)})")
    module, _, function = METHODS[name].home.partition(":")
    found = getattr(import_module(f"yinyan.peers.{module}"), function)
    return _heuristic(found) if METHODS[name].family == "heuristic" else found


def _heuristic(score: Callable[[Graph, Pairs], Scores]) -> Method:
    """No training: scores over the messages of test time."""

    def run(task: Task) -> Outcome:
        messages = task.split.graph.with_edges(task.split.test_messages)
        return Outcome(lambda pairs: score(messages, pairs))

    return run
