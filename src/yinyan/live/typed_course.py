"""The course of a model with relations in service: it follows the versions of the log, and makes no changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from yinyan.live.log_records import Logged
from yinyan.live.typed_state import TypedServed, TypedState

__all__ = ["NO_CHANGES", "TypedCourse", "TypedStep"]

_log = logging.getLogger("yinyan.service")

NO_CHANGES = (
    "a model with relations is served without changes of its graph: fit again with the new edges, save to the same "
    "directory, and POST /v1/reload (or send SIGHUP)"
)


class TypedStep(NamedTuple):
    """A next version that nobody sees yet."""

    version: int


class TypedCourse:
    """States of one model with relations, by version; used by one thread, while others read `state`."""

    def __init__(self, served: TypedServed) -> None:
        self.state = TypedState(served, 0)

    def replayed(self, found: Sequence[Logged]) -> Iterator[TypedStep]:
        """The version after the records of a log; what is not a reload is named and left out."""
        for number, change in found:
            if change["kind"] != "reload":
                _log.warning("change %d is left out: %s", number, NO_CHANGES)
        if found:
            yield TypedStep(found[-1].version)

    def show(self, step: TypedStep) -> None:
        """Let readers have the next version."""
        self.state = TypedState(self.state.served, step.version)
