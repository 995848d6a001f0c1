"""Cora, from the data files of an installed package: a real graph without a download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from yinyan.errors import MissingExtraError
from yinyan.graph import Graph

__all__ = ["bundled_cora", "cora_subjects"]

_SUBJECTS = (  # in the order of the file's numbers, which their known sizes tell apart
    *("neural networks", "rule learning", "reinforcement learning", "probabilistic methods"),
    *("theory", "genetic algorithms", "case-based reasoning"),
)


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


def cora_subjects() -> pa.Table:
    """The subject of each paper: columns id, label and subject."""
    table = pq.read_table(_folder() / "cora_nodes.parquet.gzip", columns=["nodeId", "subject"])
    words = [_SUBJECTS[number] for number in table["subject"].to_pylist()]
    labels = [f"{word}, paper {number}" for word, number in zip(words, table["nodeId"].to_pylist(), strict=True)]
    return pa.table({"id": table["nodeId"], "label": labels, "subject": words})


def _folder() -> Path:
    # found by path and never imported: its files are wanted, not its database client
    spec = find_spec("graphdatascience")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        found = Path(folder) / "resources" / "cora"
        if found.is_dir():
            return found
    raise MissingExtraError("the demo's data come with an extra: pip install 'yinyan[demo]'")
