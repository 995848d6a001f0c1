"""Graphs to try the library on."""

from __future__ import annotations

from yinyan.datasets.bundled import bundled_cora
from yinyan.datasets.dataset import Dataset
from yinyan.datasets.knowledge import KnowledgeGraph
from yinyan.datasets.loading import NAMES, load, load_knowledge_graph

__all__ = ["NAMES", "Dataset", "KnowledgeGraph", "bundled_cora", "load", "load_knowledge_graph"]
