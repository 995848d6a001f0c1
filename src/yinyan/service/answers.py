"""Answers about pairs and nodes as plain values: the questions of the live state, in the forms of the schemas."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import YinYanError
from yinyan.graph.ids import Id
from yinyan.live.live_state import LiveState
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.recommend import Wish, partners_together
from yinyan.retrieval.similar import similar_nodes

__all__ = ["Wish", "embed", "explain", "recommend", "recommend_together", "score", "similar"]

Pair = Sequence[Id]
Rows = NDArray[np.int64]


def score(state: LiveState, pairs: Sequence[Pair], base_rate: float | None = None) -> dict[str, Any]:
    """Score and probability of each pair."""
    questions = state.questions
    rows = questions.pair_rows(pairs)
    scores = questions.score_rows(rows)
    chances = questions.probabilities(scores, base_rate)
    links = [state.has_edge(a, b) for a, b in rows.tolist()]
    columns = {
        **{name: state.ids(rows[:, end]) for end, name in enumerate(("source", "target"))},
        **{f"{name}_label": _labels(state, rows[:, end]) for end, name in enumerate(("source", "target"))},
        "score": scores.tolist(),
        "probability": chances.tolist(),
        "is_link": links,
    }
    answers = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rate = state.base_rate if base_rate is None else base_rate
    return {"scores": answers, "base_rate": rate, "version": state.version}


def recommend(state: LiveState, wish: Wish) -> dict[str, Any]:
    """The k best new partners of each node, best first."""
    (answer,) = recommend_together(state, [wish])
    if isinstance(answer, YinYanError):
        raise answer
    return answer


def recommend_together(state: LiveState, wishes: Sequence[Wish]) -> list[dict[str, Any] | YinYanError]:
    """Answers to several requests, in the time of few."""
    found = partners_together(state, wishes)
    tops = [top for partners in found if not isinstance(partners, YinYanError) for top in partners.tops]
    listed = iter(_listed(state, tops))
    return [
        partners
        if isinstance(partners, YinYanError)
        else {
            "results": [{**node, "recommendations": next(listed)} for node in _named(state, partners.rows)],
            "base_rate": state.base_rate,
            "missing_share": state.missing_share,
            "version": state.version,
        }
        for partners in found
    ]


def _listed(state: LiveState, tops: Sequence[TopK]) -> list[list[dict[str, Any]]]:
    """Partners of each source, with their names and probabilities."""
    if not tops:
        return []
    rows = np.concatenate([top.rows for top in tops])
    scores = np.concatenate([top.scores for top in tops])
    chances = state.questions.probabilities(scores).tolist()
    columns = zip(state.ids(rows), _labels(state, rows), scores.tolist(), chances, strict=True)
    return [
        [
            {"target": target, "label": label, "score": s, "probability": p, "rank": rank}
            for rank, (target, label, s, p) in enumerate(islice(columns, len(top.rows)), 1)
        ]
        for top in tops
    ]


def similar(state: LiveState, nodes: Sequence[Id], k: int) -> dict[str, Any]:
    """The k nodes nearest to each in the embedding space."""
    found = similar_nodes(state, nodes, k)
    results = [
        {
            **node,
            "similar": [
                {**other, "similarity": cosine, "rank": rank}
                for rank, (other, cosine) in enumerate(
                    zip(_named(state, top.rows), top.scores.tolist(), strict=True), 1
                )
            ],
        }
        for node, top in zip(_named(state, found.rows), found.tops, strict=True)
    ]
    return {"results": results, "version": state.version}


def _labels(state: LiveState, rows: Rows) -> list[str | None]:
    """A label or None for each row."""
    return state.labels(rows) or [None] * rows.size


def _named(state: LiveState, rows: Rows) -> list[dict[str, Any]]:
    """Id and label of each row."""
    return [{"node": node, "label": label} for node, label in zip(state.ids(rows), _labels(state, rows), strict=True)]


def embed(state: LiveState, nodes: Sequence[Id]) -> dict[str, Any]:
    """The stored vector of each node."""
    rows = state.rows(nodes)
    vectors = state.vectors(rows).cpu().numpy().tolist()
    answers = [{"node": node, "vector": vector} for node, vector in zip(state.ids(rows), vectors, strict=True)]
    return {"embeddings": answers, "version": state.version}


def explain(state: LiveState, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Which neighbours moved the score of each pair, and by how much."""
    state.questions.pair_rows(pairs)  # an unknown node is refused before anything is computed
    answers = [state.questions.explain(*pair).to_dict() for pair in pairs]
    return {"explanations": answers, "version": state.version}
