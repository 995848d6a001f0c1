"""The methods of the harness by name."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.peers.contract import Method, Outcome, Pairs, Scores, Task
from yinyan.peers.heuristic_blocks import HeuristicBlocks

__all__ = ["METHODS", "PEERS", "Card", "method"]


class Card(NamedTuple):
    """A method's family and where it lives, as module:function within this package.

    Heuristics are functions of a message graph and pairs; other methods of a task. Those of the family 'temporal' need
    the times of edges.
    """

    family: str
    home: str
    words: str
    without_leak: str = ""  # of a method whose scores `audit_scorer` refuses: the name of the same without its leak


METHODS = {
    "yinyan": Card("ours", "ours:yinyan", "energy descent with attraction and repulsion"),
    "yinyan-without-negatives": Card("ours", "ours:yinyan_without_negatives", "the same without repulsion (K = 0)"),
    "yinyan-as-suggested": Card(
        "ours", "ours:yinyan_as_suggested", "the same with default settings: structural sketches, node dropout"
    ),
    "yinyan-imputed": Card(
        "ours", "imputed:yinyan_from_imputed_edges", "the same from imputed edges (low-rank completion)"
    ),
    "yinyan-combined": Card(
        "ours", "combined:yinyan_combined", "the same from two low-rank completions, with a weight chosen on validation"
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
    "aa-decayed": Card(
        "temporal", "timed:adamic_adar_decayed", "Adamic-Adar and paths of three links, by links that decay with age"
    ),
    "preferential-decayed": Card(
        "temporal", "timed:preferential_decayed", "preferential attachment by links that decay with age"
    ),
    "popularity-window": Card("temporal", "timed:popularity_window", "the product of the links of a last window"),
    "recency": Card("temporal", "timed:recency", "time since the last links of both nodes"),
    "last-neighbour": Card("temporal", "timed:last_neighbour", "neighbours of the last neighbours"),
    "boosted": Card("trees", "boosted:boosted", "gradient-boosted trees over six heuristics"),
    "mlp": Card("no graph", "mlp:mlp", "no graph (MLP)"),
    "distilled-logits": Card(
        "distillation", "distillation:distilled_logits", "MLP that matches the probabilities of GraphSAGE"
    ),
    "distilled-representations": Card(
        "distillation", "distillation:distilled_representations", "MLP that matches the embeddings of GraphSAGE"
    ),
    "llp": Card("distillation", "distillation:llp", "linkless link prediction: MLP that ranks as GraphSAGE does"),
    "distilled-logits-from-yinyan": Card(
        "distillation", "distillation:distilled_logits_from_yinyan", "MLP that matches the probabilities of YinYanGNN"
    ),
    "distilled-representations-from-yinyan": Card(
        "distillation",
        "distillation:distilled_representations_from_yinyan",
        "MLP that matches the embeddings of YinYanGNN",
    ),
    "llp-from-yinyan": Card("distillation", "distillation:llp_from_yinyan", "MLP that ranks as YinYanGNN does"),
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
    "plnlp": Card("gnn", "plnlp:plnlp", "GraphSAGE with a pairwise loss (squared AUC surrogate)"),
    "agdn": Card("gnn", "agdn:agdn", "diffusion over a graph attention, with attention over hops"),
    "gidn": Card("gnn", "agdn:gidn", "the same with inception branches"),
    "cflp": Card("gnn", "cflp:cflp", "graph convolution trained on counterfactual links too"),
    "ncn": Card("edge-wise", "ncn:ncn", "our encoder, sums over common neighbours in the decoder"),
    "ncnc": Card("edge-wise", "ncn:ncnc", "the same with completed common neighbours"),
    "seal": Card("edge-wise", "seal:seal", "a graph network over the enclosing subgraph of each pair"),
    "neo-gnn": Card("edge-wise", "neo_gnn:neo_gnn", "graph convolution and weighted overlap of neighbourhoods"),
    "nbfnet": Card("edge-wise", "nbfnet:nbfnet", "neural Bellman-Ford passes from both ends of each pair"),
    "ocn": Card("edge-wise", "ocn:ocn", "common neighbours of two orders, normalised over the graph, orthogonal"),
    "ocnp": Card("edge-wise", "ocn:ocnp", "the same without orthogonalisation: a constant polynomial, as published"),
    "ocn-as-published": Card(
        "edge-wise",
        "ocn:ocn_as_published",
        "OCN normalised over the batch, which reveals the label: no fair figure",
        without_leak="ocn",
    ),
    "ocnp-as-published": Card(
        "edge-wise",
        "ocn:ocnp_as_published",
        "OCNP normalised over the batch, which reveals the label: no fair figure",
        without_leak="ocnp",
    ),
    "surel": Card("edge-wise", "surel:surel", "random walks of both ends, joined by landing counts, read by an LSTM"),
    "surel+": Card("edge-wise", "surel:surel_plus", "the same with sets of nodes instead of walks, read by attention"),
    "gdgnn": Card("edge-wise", "gdgnn:gdgnn", "graph convolution, sums over neighbours on shortest paths (vertical)"),
    "gdgnn-horizontal": Card(
        "edge-wise", "gdgnn:gdgnn_horizontal", "graph convolution, sums along one shortest path of three edges at most"
    ),
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
    return _heuristic(name, found) if METHODS[name].family == "heuristic" else found


def _heuristic(name: str, score: Callable[[Graph, Pairs], Scores]) -> Method:
    """No training: scores over the messages of test time."""

    def run(task: Task) -> Outcome:
        messages = task.split.graph.with_edges(task.split.test_messages)
        blocks = HeuristicBlocks(messages)
        return Outcome(lambda pairs: score(messages, pairs), block=functools.partial(blocks.scores, name))

    return run
