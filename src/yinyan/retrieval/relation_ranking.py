"""Filtered ranking of triples by a fitted model of relations."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph.typed_graph import TypedGraph
from yinyan.metrics.filtered_ranking import FilteredRanking, filtered_ranking
from yinyan.model.decoder import Decoder, DotDecoder
from yinyan.model.typed_fitted import TypedFitted
from yinyan.retrieval.scorer import Scorer, dot_queries

__all__ = ["numbered", "relation_ranking"]

Rows = NDArray[np.int64]


def numbered(triples: Rows, graph: TypedGraph, predicted: Sequence[str]) -> Rows:
    """Triples of predicted relations, whose numbers are those of the model."""
    number = {name: n for n, name in enumerate(predicted)}
    own = np.array([number.get(name, -1) for name in graph.relations])[triples[:, 2]]
    kept: Rows = np.column_stack([triples[:, :2], own])[own >= 0]
    return kept


def relation_ranking(
    fitted: TypedFitted, triples: Rows, known: Rows, *, ks: Sequence[int] = (1, 3, 10)
) -> FilteredRanking:
    """Filtered ranking of (t, 3) triples of rows and numbers of predicted relations, by the model's decoder.

    Candidates are all nodes of the right type. `known` are left out; of relations without direction either way round.
    """
    graph, y = fitted.graph, fitted.embeddings
    found = [graph.relations[name] for name in fitted.predicted]
    heads_of, tails_of = (
        [graph.offsets[kind] + np.arange(len(graph.nodes[kind].ids)) for kind in kinds]
        for kinds in ([r.source for r in found], [r.target for r in found])
    )
    both = np.array([r.is_within and not r.directed for r in found])
    mirrored = known[both[known[:, 2]]][:, [1, 0, 2]]
    scorers: dict[tuple[int, bool], Scorer] = {}

    def scores(rows: Rows, relation: int, *, backwards: bool) -> NDArray[np.float32]:
        key = relation, backwards
        if key not in scorers:
            decoder = fitted.relations[fitted.predicted[relation]].model.decoder
            scorers[key] = Scorer(_turned(decoder) if backwards else decoder)
        candidates = (heads_of if backwards else tails_of)[relation]
        decoder = scorers[key].decoder
        if type(decoder) is DotDecoder and decoder.structure is None:  # all sources in one product of two matrices
            far = y[int(candidates[0]) : int(candidates[-1]) + 1]  # the nodes of a type stand next to each other
            found: NDArray[np.float32] = (dot_queries(decoder, y[torch.from_numpy(rows)]) @ far.T).cpu().numpy()
            return found
        return np.stack([scorers[key].scores(y, y[int(row)], candidates) for row in rows])

    return filtered_ranking(
        lambda rows, relation: scores(rows, relation, backwards=False),
        lambda rows, relation: scores(rows, relation, backwards=True),
        triples,
        known=np.concatenate([known, mirrored]),
        heads_of=heads_of,
        tails_of=tails_of,
        ks=ks,
    )


def _turned(decoder: Decoder) -> Decoder:
    """The decoder whose score of (i, j) is that of (j, i)."""
    if decoder.source_map is None:
        return decoder
    made = copy.copy(decoder)
    made._parameters = {**decoder._parameters, "source_map": decoder.target_map, "target_map": decoder.source_map}
    return made
