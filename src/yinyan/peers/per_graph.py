"""What is computed once for a message graph, and kept for the next call with the same one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from yinyan.model.messages import MessageGraph

__all__ = ["PerGraph"]

_Made = TypeVar("_Made")

_GRAPHS = 2  # kept at a time: those of training and of validation


class PerGraph(Generic[_Made]):
    """A function of a message graph that remembers its last two values."""

    def __init__(self, make: Callable[[MessageGraph], _Made]) -> None:
        self._make = make
        self._kept: list[tuple[MessageGraph, _Made]] = []

    def __call__(self, messages: MessageGraph) -> _Made:
        """The value of this very graph."""
        for graph, made in self._kept:
            if graph is messages:
                return made
        made = self._make(messages)
        self._kept = [(messages, made), *self._kept[: _GRAPHS - 1]]
        return made
