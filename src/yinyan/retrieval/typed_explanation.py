"""Which neighbours moved the score of a pair in a relation, and over which relations they are linked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from yinyan.errors import InputError
from yinyan.model.encoder import Encoder, EncoderInput
from yinyan.model.explanation import Explainer, Share
from yinyan.model.fitted import our_encoder
from yinyan.model.typed_fitted import TypedFitted
from yinyan.model.typed_tensors import typed_features, typed_messages
from yinyan.randomness import Streams
from yinyan.results import Contribution, Explanation, Id

if TYPE_CHECKING:
    from yinyan.retrieval.questions import Questions

__all__ = ["evidence_of", "explain_relation", "explainer_of"]


def explain_relation(
    fitted: TypedFitted, explainer: Explainer, questions: Questions, source: Any, target: Any
) -> Explanation:
    """Contributions of the neighbours of both ends, each with the relation of its link."""
    state = questions.state
    if state.names is None:
        raise TypeError("the questions of a relation need the names of its nodes")
    ends = state.pair_rows([(source, target)])[0]
    if ends[0] == ends[1]:
        raise InputError(f"explain needs two different nodes (got {source!r} twice)")
    a, b = fitted.graph.rows_of_view(fitted.graph.relations[state.names.relation.name])[ends].tolist()
    shares, alone, full = explainer.explain(state.decoder, a, b)
    more = 0.0 if state.reranker is None else float(state.reranker.of_pairs(ends[None])[0])
    names, labels = state.ids(ends), state.labels(ends) or [None, None]
    end_ids = dict(zip((a, b), names, strict=True))
    return Explanation(
        source=names[0],
        target=names[1],
        score=full + more,
        score_alone=alone,
        contributions=tuple(_contribution(fitted, share, end_ids) for share in shares),
        residue=full - alone - sum(share.amount for share in shares),
        is_link=state.has_edge(*ends.tolist()),
        probability=float(questions.probabilities(full + more)),
        base_rate=state.base_rate,
        source_label=labels[0],
        target_label=labels[1],
        shared=more,
    )


def explainer_of(fitted: TypedFitted) -> Explainer:
    """What all explanations of a model share."""
    encoder, given = evidence_of(fitted)
    if given.negatives is None:
        raise TypeError("explanations draw negatives")
    return Explainer(encoder, given.features, given.messages, given.negatives)


def evidence_of(fitted: TypedFitted) -> tuple[Encoder, EncoderInput]:
    """The encoder of a model, and all that it reads."""
    device, maps = fitted.embeddings.device, fitted.settings.encoder.relation_maps
    messages = typed_messages(fitted.graph, fitted.message_edges, device, maps=maps)[0]
    features: Any = typed_features(fitted.graph, device)
    draws = Streams.fresh(fitted.seed, "inference/0", device)
    return our_encoder(fitted.model), EncoderInput(features, messages, draws)


def _contribution(fitted: TypedFitted, share: Share, end_ids: dict[int, Id]) -> Contribution:
    """A share in the caller's ids; without several relations the only one is named."""
    way = "attracts" if share.attracts else "repels"
    graph = fitted.graph
    end_type = graph.nodes_at([share.end])[0][0]
    if share.neighbour is None:
        return Contribution(end_ids[share.end], None, way, share.amount, end_type=end_type)
    (kind, node) = graph.nodes_at([share.neighbour])[0]
    attributes = graph.nodes[kind].attributes
    row = share.neighbour - graph.offsets[kind]
    labels = None if attributes is None else attributes.labels_of(np.array([row]))
    relation = list(graph.relations)[share.relation or 0] if share.attracts else None
    return Contribution(
        end_ids[share.end], node, way, share.amount, None if labels is None else labels[0], relation, kind, end_type
    )
