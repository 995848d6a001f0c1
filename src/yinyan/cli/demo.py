"""The demonstration: recommended citations of Cora, and which of them the split had hidden."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yinyan.evaluation import Evaluation, Ranking
from yinyan.peers.registry import METHODS
from yinyan.randomness import named_seed
from yinyan.reporting.report import kept_run
from yinyan.results import Id, text_table

__all__ = ["MRR_WORDS", "RANKING", "Citation", "best_citations", "citation_table", "found_table"]

RANKING = Ranking(k=10, sources=200)
MRR_WORDS = (
    "mrr depends mostly on the few negatives with the highest scores, so that methods change places in it; "
    "the first table ranks all papers."
)
_SHOWN = 10
_PAPERS, _PARTNERS = 300, 3  # papers that are asked, and links that each is recommended


class Citation(NamedTuple):
    """A recommended link, and whether the split had hidden it."""

    source: Id
    target: Id
    score: float
    probability: float
    hidden: bool


def best_citations(evaluation: Evaluation) -> list[Citation]:
    """The highest-scored links that are not in the training graph, of some papers drawn by the seed, each pair once."""
    run = kept_run(evaluation)
    graph = run.model.graph_
    generator = np.random.default_rng(named_seed(run.model.fitted_.seed, "best links"))
    papers = np.sort(generator.choice(graph.num_nodes, size=min(_PAPERS, graph.num_nodes), replace=False))
    found: dict[frozenset[Id], tuple[Id, Id, float]] = {}
    for row in run.model.recommend(graph.ids.take(papers), k=_PARTNERS):
        found.setdefault(frozenset((row.source, row.target)), (row.source, row.target, row.score))
    best = sorted(found.values(), key=lambda link: -link[2])[:_SHOWN]
    pairs = [(a, b) for a, b, _ in best]
    chances = run.model.predict_proba(pairs).tolist()
    hidden = run.split.graph.has_edges([graph.ids.rows(pair) for pair in pairs]).tolist()
    return [Citation(*link, chance, truth) for link, chance, truth in zip(best, chances, hidden, strict=True)]


def found_table(evaluation: Evaluation) -> str:
    """The first figure: the share of hidden citations that each method finds, in a sentence and a table."""
    run, ranking = kept_run(evaluation), RANKING
    held_out = ranking.held_out(run.split)
    papers, nodes = len(np.unique(held_out[:, 0])), run.split.graph.num_nodes
    head = (
        f"{len(held_out):,} citations of {papers:,} papers were hidden. Each method recommends {ranking.k} of all "
        f"{nodes:,} papers to each of them.\nShare of the hidden citations that are among the {ranking.k}"
    )
    if len(evaluation.seeds) > 1:
        head += f" (mean of {len(evaluation.seeds)} seeds; the counts are of the last)"
    rows = [
        [who, f"{share:.1%}", "" if who == "yinyan" else METHODS[who].words]
        for who, share in evaluation.found().items()
    ]
    return f"{head}:\n\n{text_table(['', f'recall@{ranking.k}', ''], rows, right=(1,))}"


def citation_table(citations: list[Citation]) -> str:
    """The recommended links for reading."""
    header = ["paper", "paper", "score", "probability", ""]
    rows = [
        [str(a), str(b), f"{score:.2f}", f"{chance:.3f}", "a hidden citation" if hidden else "new"]
        for a, b, score, chance, hidden in citations
    ]
    return text_table(header, rows, right=(2, 3))
