"""Cora, from the data files of an installed package: a real graph without a download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from yinyan.errors import MissingExtraError
from yinyan.graph import Graph

__all__ = ["bundled_cora"]


def bundled_cora() -> Graph:
    """Cora: 2,708 papers, 5,278 citations between them (as undirected links), 1,433 words as features.

    The papers' subjects, which are in the file too, are labels: the model does not see them.
    """
    folder = _folder()
    graph = Graph.from_table(
        folder / "cora_rels.parquet.gzip",
        source="sourceNodeId",
        target="targetNodeId",
        nodes=folder / "cora_nodes.parquet.gzip",
        node_id="nodeId",
        feature_columns=["features"],
    )
    return graph


def _folder() -> Path:
    # found by path and never imported: its files are wanted, not its database client
    spec = find_spec("graphdatascience")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        found = Path(folder) / "resources" / "cora"
        if found.is_dir():
            return found
    raise MissingExtraError("the demo's data come with an extra: pip install 'yinyan[demo]'")
