"""What a fit starts from: a split of the graph, and settings for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.settings import Settings
from yinyan.splits import Split, holdout_split
from yinyan.training.defaults import suggest

__all__ = ["Chosen", "chosen"]


class Chosen(NamedTuple):
    """A split, all settings, and the reasons for those that were not given."""

    split: Split
    settings: Settings
    reasons: tuple[str, ...]


def chosen(graph: Graph, overrides: Mapping[str, Any], *, seed: int, split: Split | None = None) -> Chosen:
    """A holdout of validation edges, unless a split is given, and the settings that suit its training edges."""
    if split is None:
        first = suggest(graph, graph.num_edges, overrides).settings.updated(overrides).training
        split = holdout_split(
            graph,
            seed=seed,
            valid_share=first.valid_share,
            valid_negatives=first.valid_negatives,
        )
    elif split.graph is not graph:
        raise InputError("the split was made from another graph (make it anew from this one)")
    suggestion = suggest(graph, len(split.train_targets), overrides)
    return Chosen(split, suggestion.settings.updated(overrides), suggestion.reasons)
