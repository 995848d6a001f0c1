"""Answers about pairs and nodes, as plain values, from one moment of the live graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.calibration import BASE_RATE, shifted
from yinyan.errors import InputError, YinYanError
from yinyan.explanation import explain_pair
from yinyan.fitting import our_encoder
from yinyan.ids import Id
from yinyan.messages import MessageGraph
from yinyan.propagation import SparseMatrix
from yinyan.randomness import Streams
from yinyan.retrieval.exact import TopK
from yinyan.service.moment import Moment
from yinyan.service.renewal import joined_features, messages_of, with_table
from yinyan.training import Model

__all__ = ["Explainer", "Wish", "embed", "recommend", "recommend_together", "score"]

Rows = NDArray[np.int64]
Pair = Sequence[Id]

_BLOCK = 8_192  # pairs scored at a time


def _pair_rows(moment: Moment, pairs: Sequence[Pair]) -> Rows:
    flat = [value for pair in pairs for value in pair]
    return moment.structure.names.rows(flat).reshape(-1, 2) if flat else np.empty((0, 2), dtype=np.int64)


@torch.no_grad()
def score(moment: Moment, pairs: Sequence[Pair], base_rate: float = BASE_RATE) -> dict[str, Any]:
    """Score and probability of each pair."""
    rows = _pair_rows(moment, pairs)
    decoder, vectors = moment.served.fitted.model.decoder, moment.vectors
    parts = [
        decoder(vectors.take(rows[a : a + _BLOCK, 0]), vectors.take(rows[a : a + _BLOCK, 1])).numpy()
        for a in range(0, len(rows), _BLOCK)
    ]
    scores = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    chances = shifted(moment.served.fitted.calibration.probabilities(scores), base_rate)
    links = [moment.structure.has_link(a, b) for a, b in rows.tolist()]
    answers = [
        {"source": pair[0], "target": pair[1], "score": s, "probability": p, "is_link": link}
        for pair, s, p, link in zip(pairs, scores.tolist(), chances.tolist(), links, strict=True)
    ]
    return {"scores": answers, "version": moment.version}


class Wish(NamedTuple):
    """What one request wants recommended."""

    nodes: Sequence[Id]
    k: int = 10
    known: bool = False
    among: Sequence[Id] | None = None


def recommend(moment: Moment, wish: Wish) -> dict[str, Any]:
    """The k best new partners of each node, best first."""
    (answer,) = recommend_together(moment, [wish])
    if isinstance(answer, YinYanError):
        raise answer
    return answer


def recommend_together(moment: Moment, wishes: Sequence[Wish]) -> list[dict[str, Any] | YinYanError]:
    """Answers to several requests, in the time of few: those of a kind are looked for together."""
    sources, answers = _sources(moment, wishes)
    groups: dict[tuple[int, bool, bool, int], list[tuple[int, int]]] = {}  # places and sources that go together
    for place, (wish, rows) in enumerate(zip(wishes, sources, strict=True)):
        for source in rows:
            alone = -1 if wish.among is None else place  # candidates of its own
            groups.setdefault((wish.k, wish.known, _side(moment, source), alone), []).append((place, source))
    tops: dict[tuple[int, int], TopK] = {}
    for (k, known, _, alone), members in groups.items():
        pool = None if alone < 0 else np.unique(_rows(moment, wishes[alone].among or ()))
        asked = [source for _, source in members]
        found = moment.served.finder.top_k(moment, asked, k, _left_out(moment, known=known), pool)
        tops |= dict(zip(members, found, strict=True))
    listed = _listed(moment, list(tops.values()))
    results = dict(zip(tops, listed, strict=True))
    for place, (wish, rows, answer) in enumerate(zip(wishes, sources, answers, strict=True)):
        if not isinstance(answer, YinYanError):
            named = zip(wish.nodes, rows, strict=True)
            answer["results"] = [{"node": node, "recommendations": results[place, row]} for node, row in named]
    return answers


def _sources(moment: Moment, wishes: Sequence[Wish]) -> tuple[list[list[int]], list[dict[str, Any] | YinYanError]]:
    """The rows that each request asks about, none where it is wrong, and answers to be filled in, or what is wrong."""
    sources: list[list[int]] = []
    answers: list[dict[str, Any] | YinYanError] = []
    for wish in wishes:
        try:
            _rows(moment, wish.among or ())
            sources.append(_rows(moment, wish.nodes).tolist())
            answers.append({"results": [], "version": moment.version})
        except YinYanError as error:
            sources.append([])
            answers.append(error)
    return sources, answers


def _rows(moment: Moment, nodes: Sequence[Id]) -> Rows:
    return moment.structure.names.rows(nodes) if nodes else np.empty(0, dtype=np.int64)


def _side(moment: Moment, source: int) -> bool:
    left = moment.structure.num_left
    return left is not None and source >= left


def _left_out(moment: Moment, *, known: bool) -> Callable[[int], Rows]:
    """Whom not to recommend to a row."""
    structure = moment.structure

    def rows(source: int) -> Rows:
        rejected = structure.rejected.of(source)
        if known:
            return rejected
        linked = structure.out.of(source)
        return np.concatenate([rejected, linked]) if rejected.size else linked

    return rows


def _listed(moment: Moment, tops: Sequence[TopK]) -> list[list[dict[str, Any]]]:
    """Partners of each source, with their names and chances."""
    if not tops:
        return []
    names = moment.structure.names
    rows = np.concatenate([top.rows for top in tops])
    scores = np.concatenate([top.scores for top in tops])
    chances = moment.served.fitted.calibration.probabilities(scores).tolist()
    columns = zip(names.take(rows), rows.tolist(), scores.tolist(), chances, strict=True)
    return [
        [
            {"target": target, "label": names.label(row), "score": s, "probability": p, "rank": rank}
            for rank, (target, row, s, p) in enumerate(islice(columns, len(top.rows)), 1)
        ]
        for top in tops
    ]


def embed(moment: Moment, nodes: Sequence[Id]) -> dict[str, Any]:
    """The stored vector of each node."""
    rows = _rows(moment, nodes)
    vectors = moment.vectors.take(rows).tolist()
    answers = [{"node": node, "vector": vector} for node, vector in zip(nodes, vectors, strict=True)]
    return {"embeddings": answers, "version": moment.version}


class Explainer:
    """Takes scores apart. The layers run over the whole graph, whose matrices are kept between questions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Moment, Model, Tensor | SparseMatrix | None, MessageGraph] | None = None

    def explain(self, moment: Moment, pairs: Sequence[Pair]) -> dict[str, Any]:
        """Which neighbours moved the score of each pair, and by how much."""
        rows = _pair_rows(moment, pairs)
        for (a, b), pair in zip(rows.tolist(), pairs, strict=True):
            if a == b:
                raise InputError(f"explain needs two different nodes (got {pair[0]!r} twice)")
        answers = [self._explained(moment, pair, a, b) for pair, (a, b) in zip(pairs, rows.tolist(), strict=True)]
        return {"explanations": answers, "version": moment.version}

    def _explained(self, moment: Moment, pair: Pair, a: int, b: int) -> dict[str, Any]:
        fitted, names = moment.served.fitted, moment.structure.names
        model, features, messages = self._parts(moment)
        generator = Streams.fresh(fitted.seed, "inference/0", torch.device("cpu"))
        shares, alone, full = explain_pair(our_encoder(model), model.decoder, features, messages, a, b, generator)
        return {
            "source": pair[0],
            "target": pair[1],
            "score": full,
            "score_alone": alone,
            "probability": float(shifted(fitted.calibration.probabilities(full), BASE_RATE)),
            "base_rate": BASE_RATE,
            "is_link": moment.structure.has_link(a, b),
            "contributions": [
                {
                    "end": names[share.end],
                    "neighbour": None if share.neighbour is None else names[share.neighbour],
                    "kind": "attracts" if share.attracts else "repels",
                    "amount": share.amount,
                }
                for share in shares
            ],
            "residue": full - alone - sum(share.amount for share in shares),
        }

    def _parts(self, moment: Moment) -> tuple[Model, Tensor | SparseMatrix | None, MessageGraph]:
        with self._lock:
            kept = self._kept
            if kept is None or kept[0].structure is not moment.structure:
                model = with_table(moment.served.fitted.model, moment.inputs.table)
                features = joined_features(moment.inputs.features)
                kept = (moment, model, features, messages_of(moment.served.fitted, moment.structure))
                self._kept = kept
            return kept[1:]
