"""Preparing a graph that may exceed memory: tables in, a folder of parts out, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yinyan.preparing.reading import read_prepared
    from yinyan.preparing.stages import Prepared, prepare

__all__ = ["Prepared", "prepare", "read_prepared"]


def __getattr__(name: str) -> Any:
    """Loaded on first use: the command line's help needs no numpy."""
    if name not in __all__:
        raise AttributeError(f"module 'yinyan.preparing' has no attribute {name!r}")
    from yinyan.preparing import reading, stages

    return getattr(reading if name == "read_prepared" else stages, name)
