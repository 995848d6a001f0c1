"""The demonstration: recommended citations of Cora, and which of them the split had hidden."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yinyan.calibration import BASE_RATE
from yinyan.evidence import NewLink, best_links, kept_run
from yinyan.protocol import Evaluation
from yinyan.randomness import named_seed
from yinyan.results import text_table

__all__ = ["Citation", "Recall", "best_citations", "citation_table", "hidden_among_best"]

_SHOWN = 10
_ASKED = 200  # papers with a hidden link that are asked for their best partners


class Citation(NamedTuple):
    """A recommended link, and whether it is one that the split had hidden."""

    link: NewLink
    hidden: bool

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {**self.link._asdict(), "hidden": self.hidden}


def best_citations(evaluation: Evaluation) -> list[Citation]:
    """The best-scored links that the model was not shown."""
    run = kept_run(evaluation)
    ids, links = run.model.graph_.ids, best_links(run.model, _SHOWN)
    rows = np.stack([ids.rows([link.source for link in links]), ids.rows([link.target for link in links])], axis=1)
    hidden = run.split.graph.has_edges(rows)
    return [Citation(link, bool(truth)) for link, truth in zip(links, hidden, strict=True)]


class Recall(NamedTuple):
    """Of the `hidden` links of `papers` papers, `found` are among the best that the model recommends them."""

    found: int
    hidden: int
    papers: int


def hidden_among_best(evaluation: Evaluation, k: int = 10) -> Recall:
    """How many hidden links of some papers, drawn by the seed, are among the paper's `k` best."""
    run = kept_run(evaluation)
    ids, hidden = run.model.graph_.ids, run.split.test_targets
    generator = np.random.default_rng(named_seed(run.split.seed, "asked papers"))
    both = np.concatenate([hidden, hidden[:, ::-1]])  # a link hides from either end
    ends = np.unique(both)
    asked = np.sort(generator.choice(ends, size=min(_ASKED, len(ends)), replace=False))
    mine = both[np.isin(both[:, 0], asked)]
    wanted = {(ids[a], ids[b]) for a, b in mine.tolist()}
    found = {(row.source, row.target) for row in run.model.recommend(ids.take(asked), k)}
    return Recall(len(wanted & found), len(wanted), len(asked))


def citation_table(citations: list[Citation]) -> str:
    """The recommended links for reading."""
    header = ["paper", "paper", "score", f"probability at base rate {BASE_RATE:g}", ""]
    rows = [
        [str(a), str(b), f"{score:.2f}", f"{chance:.3f}", "a hidden citation" if hidden else "new"]
        for (a, b, score, chance), hidden in citations
    ]
    return text_table(header, rows, right=(2, 3))
