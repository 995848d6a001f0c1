"""Filtered ranking of triples by a fitted model of relations."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph.typed_graph import Relation, TypedGraph
from yinyan.metrics.filtered_ranking import FilteredRanking, filtered_ranking
from yinyan.model.answer_ranking import rank_answers
from yinyan.model.decoder import Decoder
from yinyan.model.relation_vectors import RelationVectors
from yinyan.model.typed_fitted import TypedFitted
from yinyan.retrieval.scorer import Scorer

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

    Vectors of relations ask for each end by a vector of its own. Candidates are all nodes of the right type. `known`
    are left out; of relations without direction either way round.
    """
    graph, y = fitted.graph, fitted.embeddings
    found = [graph.relations[name] for name in fitted.predicted]
    heads_of, tails_of = (
        [graph.offsets[kind] + np.arange(len(graph.nodes[kind].ids)) for kind in kinds]
        for kinds in ([r.source for r in found], [r.target for r in found])
    )
    vectors = fitted.model.relations
    both = np.array([r.is_within and not r.directed for r in found])
    mirrored = known[both[known[:, 2]]][:, [1, 0, 2]]
    known = np.concatenate([known, mirrored])
    if isinstance(vectors, RelationVectors):
        return rank_answers(vectors, y, triples, known, _spans(graph, found), ks=ks)
    scorers: dict[tuple[int, bool], Scorer] = {}

    def scores(rows: Rows, relation: int, *, backwards: bool) -> NDArray[np.float32]:
        key = relation, backwards
        if key not in scorers:
            decoder = fitted.relations[fitted.predicted[relation]].model.decoder
            scorers[key] = Scorer(_turned(decoder) if backwards else decoder)
        candidates = (heads_of if backwards else tails_of)[relation]
        return np.stack([scorers[key].scores(y, y[int(row)], candidates) for row in rows])

    return filtered_ranking(
        lambda rows, relation: scores(rows, relation, backwards=False),
        lambda rows, relation: scores(rows, relation, backwards=True),
        triples,
        known=known,
        heads_of=heads_of,
        tails_of=tails_of,
        ks=ks,
    )


def _spans(graph: TypedGraph, relations: Sequence[Relation]) -> torch.Tensor:
    """(R, 4) the first row and the number of sources and of targets of each relation."""
    ends = [(graph.offsets[kind], len(graph.nodes[kind].ids)) for r in relations for kind in (r.source, r.target)]
    return torch.tensor(ends, dtype=torch.int64).view(-1, 4)


def _turned(decoder: Decoder) -> Decoder:
    """The decoder whose score of (i, j) is that of (j, i)."""
    if decoder.source_map is None:
        return decoder
    made = copy.copy(decoder)
    made._parameters = {**decoder._parameters, "source_map": decoder.target_map, "target_map": decoder.source_map}
    return made
