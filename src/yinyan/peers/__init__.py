"""Other ways to predict links, scored by the same harness."""

from __future__ import annotations

from yinyan.peers.heuristics import adamic_adar, common_neighbours, resource_allocation
from yinyan.peers.mlp import fit_mlp

__all__ = ["adamic_adar", "common_neighbours", "fit_mlp", "resource_allocation"]
