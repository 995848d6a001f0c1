"""The demonstration: Cora, a clean split, one fit, its test figures beside the peers', ten recommended citations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yinyan.protocol import SeedResult
from yinyan.randomness import named_seed
from yinyan.results import Id, text_table

__all__ = ["Citation", "best_citations", "citation_table"]

_TRUTH = {True: "a hidden citation", False: "new"}
_ASKED = 300  # papers that are asked for their best partner


class Citation(NamedTuple):
    """A recommended link, and whether it is one that the split had hidden."""

    source: Id
    target: Id
    score: float
    probability: float
    hidden: bool


def best_citations(result: SeedResult, count: int = 10) -> list[Citation]:
    """The best-scored new links of some papers drawn by the seed: links the model was not shown."""
    model, split = result.model, result.split
    if model is None or split is None:
        raise ValueError("the result was made without keeping its model")
    ids = model.graph_.ids
    generator = np.random.default_rng(named_seed(result.seed, "demo"))
    asked = generator.choice(len(ids), size=min(_ASKED, len(ids)), replace=False)
    found = model.recommend(ids.take(np.sort(asked)), k=3)
    best: dict[frozenset[Id], tuple[float, Id, Id]] = {}
    for row in found:
        best.setdefault(frozenset((row.source, row.target)), (row.score, row.source, row.target))
    chosen = sorted(best.values(), key=lambda link: -link[0])[:count]
    pairs = [(source, target) for _, source, target in chosen]
    rows = np.stack([ids.rows([a for a, _ in pairs]), ids.rows([b for _, b in pairs])], axis=1)
    hidden = split.graph.has_edges(rows)
    chances = model.predict_proba(pairs)
    return [
        Citation(source, target, score, float(chance), bool(truth))
        for (score, source, target), chance, truth in zip(chosen, chances, hidden, strict=True)
    ]


def citation_table(citations: list[Citation]) -> str:
    """The recommended links for reading."""
    rows = [
        [
            str(c.source),
            str(c.target),
            f"{c.score:.2f}",
            f"{c.probability:.3f}",
            "a hidden citation" if c.hidden else "new",
        ]
        for c in citations
    ]
    return text_table(["paper", "paper", "score", "probability", ""], rows, right=(2, 3))
