"""Questions about relations: each predicted relation answers as a plain model over the nodes of its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.errors import InputError
from yinyan.graph.typed_graph import RelationName
from yinyan.model.explanation import Explainer
from yinyan.model.typed_fitted import TypedFitted
from yinyan.results import Explanation
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.relation_names import RelationNames, is_id, is_typed
from yinyan.retrieval.state import AnswerState, FittedState
from yinyan.retrieval.typed_explanation import evidence_of, explain_relation, explainer_of
from yinyan.retrieval.typed_names import TypedNames
from yinyan.text import listed

if TYPE_CHECKING:
    from yinyan.retrieval.choice import Chooser

__all__ = ["RelationQuestions", "TypedQuestions"]

StateOf = Callable[[str], AnswerState]


class RelationQuestions(Questions):
    """Questions about one relation; explanations go over all relations."""

    def __init__(self, state: AnswerState, whole: TypedQuestions) -> None:
        super().__init__(state)
        self._whole = whole

    def explain(self, source: Any, target: Any) -> Explanation:
        """Contributions of the neighbours of both ends, each with the relation of its link."""
        return explain_relation(self._whole.fitted, self._whole.explainer(), self, source, target)


class TypedQuestions:
    """Answers about a fitted model of relations; the questions of each relation are made at the first call."""

    def __init__(self, fitted: TypedFitted, state_of: StateOf | None = None) -> None:
        """`state_of` gives what a relation is answered from; the fitted model unless given."""
        self.fitted, self._state_of = fitted, state_of or self._fitted_state
        self.nodes = TypedNames(fitted.graph)
        self._explainer: Explainer | None = None
        self._made: dict[str, RelationQuestions] = {}
        self.choosers: dict[str, Chooser] = {}  # between exact search and an index, by relation

    def named(self, relation: RelationName | None) -> str:
        """The predicted relation that a question is about."""
        fitted = self.fitted
        if relation is None:
            if len(fitted.predicted) == 1:
                return fitted.predicted[0]
            raise InputError(
                f"this model predicts several relations: name one, relation={fitted.predicted[0]!r} (--relation; "
                f"predicted: {listed(list(fitted.predicted))})"
            )
        name = fitted.graph.relation(relation).name
        if name not in fitted.predicted:
            raise InputError(
                f"relation {name!r} is not predicted by this model, it is a message only (predicted: "
                f"{listed(list(fitted.predicted))}; fit with predict={name!r})"
            )
        return name

    def of(self, relation: RelationName | None) -> RelationQuestions:
        """The questions of one relation."""
        name = self.named(relation)
        if name not in self._made:
            self._made[name] = RelationQuestions(self._state_of(name), self)
        return self._made[name]

    def names(self, relation: RelationName | None) -> RelationNames:
        """The names of the nodes of one relation."""
        return RelationNames(self.fitted.graph, self.fitted.graph.relations[self.named(relation)])

    def explainer(self) -> Explainer:
        """What all explanations share, made at the first call."""
        if self._explainer is None:
            self._explainer = explainer_of(self.fitted)
        return self._explainer

    def energy_trace(self, num_steps: int | None = None) -> list[float]:
        """The energy before the first layer and after each, over all relations."""
        encoder, given = evidence_of(self.fitted)
        return encoder.energy_trace(given, num_steps)

    def embed(self, nodes: Any) -> NDArray[np.float32]:
        """The stored vectors of (type, id) nodes, or of ids where there is one type."""
        one = is_id(nodes) or is_typed(nodes, self.fitted.graph.nodes)
        rows = [self.row(node) for node in ([nodes] if one else nodes)]
        vectors: NDArray[np.float32] = self.fitted.embeddings[torch.tensor(rows)].cpu().numpy()
        return vectors[0] if one else vectors

    def row(self, node: Any) -> int:
        """The row of a (type, id) node among all nodes, or of an id that nodes of one type alone have."""
        return self.nodes.row(node)

    def _fitted_state(self, name: str) -> AnswerState:
        return FittedState(self.fitted.relations[name], self.names(name))
