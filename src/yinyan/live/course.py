"""The course of a model in service: its present state, what computes the next one, and steps from one to the other."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError, YinYanError
from yinyan.live.live_state import NO_DRIFT, LiveState, Measured, Served
from yinyan.live.log_records import Logged
from yinyan.live.new_nodes import Inputs
from yinyan.live.planning import Draft
from yinyan.live.renewal import Renewal, WholeRenewal, grown_inputs, renewal_for
from yinyan.live.structure import Effect, Structure
from yinyan.model.inference import is_finite

__all__ = ["Course", "Step"]

Rows = NDArray[np.int64]

_log = logging.getLogger("yinyan.service")

_WHOLE = 0.05  # changed links as a share of all, from which on one pass over all rows is cheaper than many local ones
_FEW = 64  # changes that are made one by one in any case


class Step(NamedTuple):
    """A next state that nobody sees yet."""

    structure: Structure
    version: int
    effects: Sequence[Effect]
    rows: Rows | None = None  # that have changed; all if None, unless there are no values
    values: Tensor | None = None
    inputs: Inputs | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows are those of a pass over the whole graph."""
        return self.rows is None and self.values is not None


class Course:
    """States of one model, each made of the one before; used by one thread, while others read `state`."""

    def __init__(self, served: Served) -> None:
        structure = Structure.of(served.fitted.graph)
        self.state = LiveState(served, 0, structure, served.finder.state, Inputs.of(served.fitted))
        self._measured = NO_DRIFT
        self.renewal: Renewal | None = None  # None where it has to be made of the state

    def prepare(self) -> Renewal:
        """What computes the rows of the next state; it takes a pass over the whole graph unless it is there."""
        if self.renewal is None:
            state = self.state
            self.renewal = renewal_for(state.served.fitted, state.structure, state.inputs)
        return self.renewal

    def spoil(self) -> None:
        """What was computed is not going to be shown: the next step starts from the state again."""
        self.renewal = None

    def computed(self, draft: Draft, version: int, limit: float = np.inf) -> Step | None:
        """What the changes of a draft lead to; None if there are none. Numbers that are none are refused.

        If more than `limit` links have changed since the last pass over all rows, or many at once, there is another.
        """
        state, effects, structure = self.state, draft.effects, draft.finished()
        if version == state.version:
            return None
        moving = [effect for effect in effects if effect.moves_rows]
        if not moving:
            return Step(structure, version, effects)
        nodes = [node for effect in moving for node in effect.nodes]
        size = sum(len(e.added) + len(e.removed) for e in moving) + sum(len(x.neighbours) + 1 for x in nodes)
        fitted, rows = state.served.fitted, None
        before = 0 if self.renewal is None else self.renewal.changed
        much = before + size > limit or size > max(_FEW, _WHOLE * structure.num_links)
        if much and not isinstance(self.renewal, WholeRenewal):  # which makes such a pass in any case
            self.renewal = renewal_for(fitted, structure, grown_inputs(fitted, state.inputs, nodes))
            values = self.renewal.values
        else:
            rows, values = self.prepare().apply(structure, moving)
        if not is_finite(values):
            self.spoil()
            raise InputError("embeddings would not be finite after this change: its features or edges are too extreme")
        inputs = None if self.renewal is None else self.renewal.inputs
        return Step(structure, version, effects, rows, values, inputs)

    def replayed(self, found: Sequence[Logged]) -> Iterator[Step]:
        """Steps that make what the log holds; each is to be shown before the next is asked for.

        What does not fit the model, or cannot be computed, is named and left out, and the rest goes on.
        """
        version = found[-1].version if found else 0
        chosen = [logged for logged in found if logged.change["kind"] != "reload"]
        try:
            step = self._replayed(chosen, version)
        except Exception as error:
            self.spoil()
            if len(chosen) < 2:
                known = isinstance(error, YinYanError)
                _log.warning("change %d cannot be made and is left out: %s", version, error, exc_info=not known)
                yield Step(self.state.structure, version, ())
                return
            half = len(chosen) // 2
            yield from self.replayed(chosen[:half])
            yield from self.replayed(chosen[half:])
            return
        if step is not None:
            yield step

    def _replayed(self, found: Sequence[Logged], version: int) -> Step | None:
        draft = Draft(self.state.structure, [logged.change for logged in found], lenient=True)
        for number, change in found:
            try:
                effect = draft.plan(change)
            except YinYanError as error:
                effect = Effect(skipped=(str(error),))
            for words in effect.skipped:
                _log.warning("a part of change %d does not fit this model and is left out: %s", number, words)
            draft.take(effect)
        return self.computed(draft, version)

    def show(self, step: Step) -> None:
        """Let readers have the next state."""
        state = self.state
        finder = state.served.finder
        if step.values is not None:
            everyone = step.rows is None or step.rows.size == step.structure.num_nodes
            finder.refresh(step.values) if everyone or step.rows is None else finder.update(step.rows, step.values)
        self._shown(step.version, step.structure, step.inputs or state.inputs)

    def take_up(self, renewal: Renewal, missed: Sequence[Effect]) -> None:
        """Go on with rows of a pass over the whole graph, after what has changed while it ran."""
        state = self.state
        moving = [effect for effect in missed if effect.moves_rows]
        if moving:
            renewal.apply(state.structure, moving)
        values = renewal.values
        if not is_finite(values):
            return
        self.renewal = renewal
        state.served.finder.refresh(values)
        self._shown(state.version, state.structure, renewal.inputs)

    def note(self, measured: Measured) -> None:
        """What a pass has found, for this state and those after it."""
        self._measured = measured
        self._shown(self.state.version, self.state.structure, self.state.inputs)

    def _shown(self, version: int, structure: Structure, inputs: Inputs) -> None:
        served = self.state.served
        self.state = LiveState(served, version, structure, served.finder.state, inputs, self._measured)
