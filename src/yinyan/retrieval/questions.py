"""The questions, once for all who ask: partners, scores, probabilities, explanations, vectors, similar nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph.pair_tables import is_frame, pairs_from_frame
from yinyan.model.calibration import shifted
from yinyan.model.explanation import Explainer
from yinyan.randomness import Streams
from yinyan.results import Contribution, Explanation, Recommendations
from yinyan.retrieval.best_links import TopKOf, best_links
from yinyan.retrieval.recommend import Rules, Where, Wish, as_table, is_id, recommended
from yinyan.retrieval.row_numbers import checked_rows
from yinyan.retrieval.similar import similar_nodes
from yinyan.retrieval.state import AnswerState, Evidence, pair_scores

__all__ = ["Questions"]

Rows = NDArray[np.int64]


class Questions:
    """Answers from one state. `LinkPredictor` and the service hold one each and add nothing but their own forms.

    What a question needs and the next one needs again is kept: it goes with the state.
    """

    def __init__(self, state: AnswerState) -> None:
        self.state = state
        self._evidence: Evidence | None = None
        self._explainer: Explainer | None = None
        self._lock = threading.Lock()

    def recommend(
        self,
        nodes: Any,
        k: int = 10,
        *,
        among: Iterable[Any] | None = None,
        exclude_known: bool = True,
        where: Where | None = None,
        rules: Rules | None = None,
    ) -> Recommendations:
        """The `k` best partners of each node."""
        return self.with_probabilities(recommended(self.state, Wish(nodes, k, exclude_known, among, where, rules)))

    def similar(self, nodes: Any, k: int = 10) -> Recommendations:
        """The `k` nodes nearest to each, with their cosines as scores."""
        return as_table(self.state, similar_nodes(self.state, nodes, k))

    def best_links(
        self,
        k: int = 100,
        *,
        nodes: Iterable[Any] | None = None,
        where: Where | None = None,
        top_k: TopKOf | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Recommendations:
        """The `k` best new links of the whole graph, or of `nodes`, with their probabilities."""
        found = best_links(
            self.state, k, nodes=nodes, where=where, top_k=top_k, on_progress=on_progress, should_stop=should_stop
        )
        return self.with_probabilities(found)

    def with_probabilities(self, found: Recommendations) -> Recommendations:
        """The same links with their probabilities, and the base rate that they hold for."""
        state = self.state
        chances = self.probabilities(found.scores)
        return replace(found, probabilities=chances, base_rate=state.base_rate, missing_share=state.missing_share)

    def pair_rows(self, pairs: Any) -> Rows:
        """(p, 2) rows of pairs of ids."""
        if is_frame(pairs):
            pairs = pairs_from_frame(pairs)
        if not isinstance(pairs, Iterable):
            raise InputError(f"pairs are (source, target), a sequence of such, or a data frame (got {pairs!r})")
        listed = [tuple(pair) if not is_id(pair) else (pair,) for pair in pairs]
        for place, pair in enumerate(listed):
            if len(pair) != 2:
                raise InputError(f"pair {place} needs two ids (got {pair!r})")
        return self.state.pair_rows(listed)

    def score(self, pairs: Any) -> Any:
        """(p,) scores of a sequence of pairs; a float for one pair."""
        if isinstance(pairs, tuple) and len(pairs) == 2 and all(map(self.state.is_node, pairs)):
            return float(self.score_rows(self.pair_rows([pairs]))[0])
        return self.score_rows(self.pair_rows(pairs))

    def score_rows(self, pairs: Rows) -> NDArray[np.float32]:
        """(p,) scores of (p, 2) pairs of rows."""
        return pair_scores(self.state, checked_rows(pairs, self.state.num_nodes, "pairs", pairs=True))

    def probabilities(self, scores: Any, base_rate: float | None = None) -> NDArray[np.float64]:
        """The probability of a link at each score, at the model's base rate or at another share of links."""
        calibration = self.state.calibration
        rate = self.state.base_rate if base_rate is None else base_rate
        return shifted(calibration.probabilities(scores), rate, calibration.base_rate)

    def embed(self, nodes: Any) -> NDArray[np.float32]:
        """(len(nodes), d) stored vectors; (d,) for one node."""
        vectors: NDArray[np.float32] = self.state.vectors(self.state.rows(self.state.listed(nodes))).cpu().numpy()
        return vectors[0] if self.state.is_node(nodes) else vectors

    def explain(self, source: Any, target: Any) -> Explanation:
        """Which neighbours moved the score of a pair, and by how much."""
        a, b = self.state.rows([source, target]).tolist()
        if a == b:
            raise InputError(f"explain needs two different nodes (got {source!r} twice)")
        shares, alone, full = self.explainer().explain(self.state.decoder, a, b)
        reranker = self.state.reranker
        more = 0.0 if reranker is None else float(reranker.of_pairs(np.array([[a, b]]))[0])
        rows = sorted({a, b, *(share.neighbour for share in shares if share.neighbour is not None)})
        ids = dict(zip(rows, self.state.ids(np.array(rows)), strict=True))  # the ends of shares are a and b
        labels = dict(zip(rows, self.state.labels(np.array(rows)) or [None] * len(rows), strict=True))
        return Explanation(
            source=ids[a],
            target=ids[b],
            score=full + more,
            score_alone=alone,
            contributions=tuple(
                Contribution(
                    ids[share.end],
                    None if share.neighbour is None else ids[share.neighbour],
                    "attracts" if share.attracts else "repels",
                    share.amount,
                    None if share.neighbour is None else labels[share.neighbour],
                )
                for share in shares
            ),
            residue=full - alone - sum(share.amount for share in shares),
            is_link=self.state.has_edge(a, b),
            probability=float(self.probabilities(full + more)),
            base_rate=self.state.base_rate,
            source_label=labels[a],
            target_label=labels[b],
            shared=more,
        )

    def evidence(self) -> Evidence:
        """The encoder and all that it reads, made at the first call."""
        with self._lock:
            if self._evidence is None:
                self._evidence = self.state.evidence()
            return self._evidence

    def explainer(self) -> Explainer:
        """What all explanations share, made at the first call."""
        encoder, features, messages, seed, f = self.evidence()
        with self._lock:
            if self._explainer is None:
                draws = Streams.fresh(seed, "inference/0", messages.pairs.device)
                self._explainer = Explainer(encoder, features, messages, draws, f)
            return self._explainer
