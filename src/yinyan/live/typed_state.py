"""What the service answers from when a model has relations: the saved graph, which changes by a reload alone."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from yinyan.graph.ids import Id
from yinyan.graph.typed_graph import RelationName
from yinyan.live.finder import IndexFinder
from yinyan.live.live_state import NO_DRIFT, LiveState, Measured
from yinyan.live.search import Search
from yinyan.live.typed_neighbours import TypedNeighbours
from yinyan.model.fitted import Fitted
from yinyan.model.typed_fitted import TypedFitted
from yinyan.retrieval.exact import Excluded, TopK
from yinyan.retrieval.index import FoundState
from yinyan.retrieval.questions import Questions
from yinyan.retrieval.relation_names import RelationNames
from yinyan.retrieval.state import AnswerState, FittedState
from yinyan.retrieval.typed_names import TypedNames
from yinyan.retrieval.typed_questions import TypedQuestions
from yinyan.text import counted

__all__ = ["Answering", "RelationFinders", "RelationState", "TypedServed", "TypedState", "without_labels"]

Rows = NDArray[np.int64]

_LISTED = 10  # relations whose index is described in a line at the start


class RelationFinders:
    """An index for each predicted relation: of large graphs made at once, of others at the first question."""

    def __init__(self, makers: Mapping[str, Callable[[], IndexFinder]], at_once: Sequence[str]) -> None:
        self._makers, self._lock = makers, threading.Lock()
        self._made: dict[str, IndexFinder] = {}
        for relation in at_once:
            self.of(relation)

    def __str__(self) -> str:
        lines = [str(finder) for finder in islice(self._made.values(), _LISTED)]
        if more := len(self._made) - len(lines):
            lines.append(f"and the indexes of {counted(more, 'relation')} more")
        if later := len(self._makers) - len(self._made):
            lines.append(f"{counted(later, 'relation')}: searched exactly, or by a saved index")
        return "\n".join(lines)

    def of(self, relation: str) -> IndexFinder:
        """The index of one relation."""
        with self._lock:
            if relation not in self._made:
                self._made[relation] = self._makers[relation]()
            return self._made[relation]


@dataclass(frozen=True, eq=False)
class TypedServed:
    """A model with relations as it was saved, and what was made of it for serving."""

    path: Path
    fitted: TypedFitted
    fingerprint: str
    finder: RelationFinders

    directed = False  # as the change log has it: of a graph with relations it holds no edges

    @functools.cached_property
    def names(self) -> TypedNames:
        """The names of all nodes."""
        return TypedNames(self.fitted.graph)

    @functools.cached_property
    def neighbours(self) -> TypedNeighbours:
        """The neighbours of each node, over all relations."""
        return TypedNeighbours(self.fitted.graph)

    @functools.cached_property
    def searches(self) -> dict[str, Search]:
        """The search over ids and labels of each type."""
        found = {}
        for name, kind in self.fitted.graph.nodes.items():
            labels = None if kind.attributes is None else kind.attributes.labels
            found[name] = Search(kind.ids, None if labels is None else labels.to_pylist())
        return found


def without_labels(fitted: TypedFitted) -> TypedFitted:
    """The same model without labels and attributes of nodes."""
    graph = fitted.graph
    bare = replace(graph, nodes={name: replace(kind, attributes=None) for name, kind in graph.nodes.items()})
    relations = {name: replace(own, graph=bare.of_relation(name)) for name, own in fitted.relations.items()}
    return replace(fitted, graph=bare, relations=relations)


class RelationState(FittedState):
    """One predicted relation of a served model, searched by its index."""

    questions: Questions  # answered from this state

    def __init__(self, fitted: Fitted, names: RelationNames, found: FoundState, version: int) -> None:
        super().__init__(fitted, names)
        self.found, self.version = found, version

    def searched(self, sources: Rows, k: int, excluded: Excluded | None, pool: Rows | None) -> list[TopK]:
        """By the index."""
        return self.found.found(sources, min(k, self.num_nodes), excluded, pool)


Answering = LiveState | RelationState


class TypedState:
    """A model with relations at one version: nothing here ever changes."""

    num_rejected = 0
    drift = 0.0
    arrived = None  # no edge comes after the fit
    measured: Measured = NO_DRIFT

    def __init__(self, served: TypedServed, version: int) -> None:
        """`version` is that of the last reload in the change log."""
        self.served, self.version = served, version
        self.questions = TypedQuestions(served.fitted, self._state_of)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, of all types."""
        return self.served.fitted.graph.num_nodes

    @property
    def num_links(self) -> int:
        """How many edges there are, of all relations."""
        return self.served.fitted.graph.num_edges

    def of(self, relation: RelationName | None) -> RelationState:
        """What questions about one predicted relation are answered from."""
        questions = self.questions.of(relation)
        state = questions.state
        if not isinstance(state, RelationState):
            raise TypeError("a served relation answers from its own state")
        state.questions = questions
        return state

    def vectors(self, rows: Rows) -> torch.Tensor:
        """(len(rows), d) stored vectors of rows of the whole graph."""
        return self.served.fitted.embeddings[torch.from_numpy(rows)]

    def ids(self, rows: Rows) -> list[Id]:
        """The ids of some rows of the whole graph."""
        return self.served.names.ids(rows)

    def _state_of(self, name: str) -> AnswerState:
        served = self.served
        return RelationState(
            served.fitted.relations[name], self.questions.names(name), served.finder.of(name).state, self.version
        )
