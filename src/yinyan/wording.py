"""Counts and lists as messages spell them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["counted", "listed"]


def counted(count: int, noun: str) -> str:
    """A number and its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(values: Sequence[object], most: int = 12) -> str:
    """The first few of some values, and how many more there are."""
    if not len(values):
        return "none"
    shown = ", ".join(repr(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"
