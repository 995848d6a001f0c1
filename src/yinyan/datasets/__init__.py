"""Graphs to try the library on."""

from __future__ import annotations

from yinyan.datasets.bundled import bundled_cora
from yinyan.datasets.dataset import Dataset
from yinyan.datasets.loading import NAMES, load

__all__ = ["NAMES", "Dataset", "bundled_cora", "load"]
