"""Splits: which edges pass messages, which are predicted, in training, validation and test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yinyan.splits.given import Parts

if TYPE_CHECKING:
    from yinyan.splits.split import (
        Split,
        given_split,
        holdout_split,
        known_pairs,
        random_split,
        released_split,
        temporal_split,
        with_leaks_allowed,
        with_validation,
    )

__all__ = [
    "Parts",
    "Split",
    "given_split",
    "holdout_split",
    "known_pairs",
    "random_split",
    "released_split",
    "temporal_split",
    "with_leaks_allowed",
    "with_validation",
]


def __getattr__(name: str) -> Any:
    """Loaded on first use: reading a data set needs `Parts`, and no torch."""
    if name not in __all__:
        raise AttributeError(f"module 'yinyan.splits' has no attribute {name!r}")
    from yinyan.splits import split

    return getattr(split, name)
