"""Answers about pairs and nodes as plain values: the questions of the live state, in the forms of the schemas."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import YinYanError
from yinyan.live.live_state import LiveState
from yinyan.live.typed_state import Answering, TypedState
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.recommend import Wish, partners_together
from yinyan.retrieval.similar import similar_nodes

__all__ = ["Asked", "Wish", "embed", "explain", "recommend", "recommend_together", "score", "similar"]

Pair = Sequence[Any]  # two ids; of a model with relations, or two (type, id)
Rows = NDArray[np.int64]
State = LiveState | TypedState


class Asked(NamedTuple):
    """What one request wants recommended, and of which relation."""

    wish: Wish
    relation: str | None = None


def score(state: Answering, pairs: Sequence[Pair], base_rate: float | None = None) -> dict[str, Any]:
    """Score and probability of each pair."""
    questions = state.questions
    rows = questions.pair_rows(pairs)
    scores = questions.score_rows(rows)
    chances = questions.probabilities(scores, base_rate)
    links = [state.has_edge(a, b) for a, b in rows.tolist()]
    columns = {
        **{name: state.ids(rows[:, end]) for end, name in enumerate(("source", "target"))},
        **{f"{name}_label": _labels(state, rows[:, end]) for end, name in enumerate(("source", "target"))},
        **_end_types(state, rows),
        "score": scores.tolist(),
        "probability": chances.tolist(),
        "is_link": links,
    }
    answers = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rate = state.base_rate if base_rate is None else base_rate
    return {"scores": answers, "base_rate": rate, "version": state.version}


def recommend(state: State, wish: Wish, relation: str | None = None) -> dict[str, Any]:
    """The k best new partners of each node, best first."""
    (answer,) = recommend_together(state, [Asked(wish, relation)])
    if isinstance(answer, YinYanError):
        raise answer
    return answer


def recommend_together(state: State, asked: Sequence[Asked]) -> list[dict[str, Any] | YinYanError]:
    """Answers to several requests, in the time of few; those of one relation go together."""
    answers: dict[int, dict[str, Any] | YinYanError] = {}
    for relation in dict.fromkeys(each.relation for each in asked):
        places = [place for place, each in enumerate(asked) if each.relation == relation]
        try:
            found: Sequence[dict[str, Any] | YinYanError] = _recommended(
                state.of(relation), [asked[place].wish for place in places]
            )
        except YinYanError as error:
            found = [error] * len(places)
        answers |= zip(places, found, strict=True)
    return [answers[place] for place in range(len(asked))]


def _recommended(state: Answering, wishes: Sequence[Wish]) -> list[dict[str, Any] | YinYanError]:
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


def _listed(state: Answering, tops: Sequence[TopK]) -> list[list[dict[str, Any]]]:
    """Partners of each source, with their names and probabilities."""
    if not tops:
        return []
    rows = np.concatenate([top.rows for top in tops])
    scores = np.concatenate([top.scores for top in tops])
    chances = state.questions.probabilities(scores).tolist()
    names = [{"target": each.pop("node"), **each} for each in _named(state, rows)]
    columns = zip(names, scores.tolist(), chances, strict=True)
    return [
        [
            {**name, "score": s, "probability": p, "rank": rank}
            for rank, (name, s, p) in enumerate(islice(columns, len(top.rows)), 1)
        ]
        for top in tops
    ]


def similar(state: Answering, nodes: Sequence[Any], k: int) -> dict[str, Any]:
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


def _labels(state: Answering, rows: Rows) -> list[str | None]:
    """A label or None for each row."""
    return state.labels(rows) or [None] * rows.size


def _named(state: Answering, rows: Rows) -> list[dict[str, Any]]:
    """Id and label of each row, and its type where there are several relations."""
    columns: dict[str, Sequence[Any]] = {"node": state.ids(rows), "label": _labels(state, rows)}
    if (types := state.types(rows)) is not None:
        columns["type"] = types
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _end_types(state: Answering, rows: Rows) -> dict[str, list[str]]:
    """The types of the ends of pairs, where there are relations."""
    found = {f"{name}_type": state.types(rows[:, end]) for end, name in enumerate(("source", "target"))}
    return {name: types for name, types in found.items() if types is not None}


def embed(state: State, nodes: Sequence[Any]) -> dict[str, Any]:
    """The stored vector of each node."""
    if isinstance(state, TypedState):
        rows = state.served.names.rows(nodes)
        named = [{"node": node, "type": kind} for kind, node in state.served.fitted.graph.nodes_at(rows)]
    else:
        rows = state.rows(nodes)
        named = [{"node": node} for node in state.ids(rows)]
    vectors = state.vectors(rows).cpu().numpy().tolist()
    answers = [{**node, "vector": vector} for node, vector in zip(named, vectors, strict=True)]
    return {"embeddings": answers, "version": state.version}


def explain(state: Answering, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Which neighbours moved the score of each pair, and by how much."""
    rows = state.questions.pair_rows(pairs)  # an unknown node is refused before anything is computed
    types = _end_types(state, rows)
    relation = {} if state.names is None else {"relation": state.names.relation.name}
    answers = [
        {
            **state.questions.explain(*pair).to_dict(),
            **relation,
            **{name: found[place] for name, found in types.items()},
        }
        for place, pair in enumerate(pairs)
    ]
    return {"explanations": answers, "version": state.version}
