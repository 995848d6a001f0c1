"""Graphs to try the library on."""

from __future__ import annotations

from yinyan.datasets.bundled import bundled_cora

__all__ = ["bundled_cora"]
