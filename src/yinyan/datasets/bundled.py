"""Graphs from the data files of an installed package: real ones without a download."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from yinyan.datasets.dataset import Size, packaged
from yinyan.errors import MissingExtraError
from yinyan.graph import Graph

__all__ = ["LASTFM_SIZES", "bundled_cora", "bundled_lastfm", "cora_subjects"]

LASTFM_SIZES = {
    "lastfm-friends": Size(nodes=1_892, edges=12_717),
    "lastfm-listens": Size(nodes=1_892 + 17_632, edges=92_834),
}
_SUBJECTS = (  # in the order of the file's numbers, which their known sizes tell apart
    *("neural networks", "rule learning", "reinforcement learning", "probabilistic methods"),
    *("theory", "genetic algorithms", "case-based reasoning"),
)


def bundled_cora() -> Graph:
    """Cora: 2,708 papers, 5,278 citations between them as undirected edges, 1,433 words as features.

    The subjects of the papers, which are in the file too, are labels: they are no features.

    Returns
    -------
    Graph
        The graph.

    Raises
    ------
    MissingExtraError
        If the extra `demo` is not installed.

    Examples
    --------
    >>> from yinyan import datasets
    >>> datasets.bundled_cora()
    Graph(undirected, nodes=2,708, edges=5,278, features=1433)
    """
    folder = _folder("cora")
    return Graph.from_table(
        folder / "cora_rels.parquet.gzip",
        source="sourceNodeId",
        target="targetNodeId",
        nodes=folder / "cora_nodes.parquet.gzip",
        node_id="nodeId",
        feature_columns=["features"],
    )


def bundled_lastfm(name: str) -> Graph:
    """LastFM (HetRec 2011), without features: friends among users, or which users listen to which artists.

    How often a user listened is in the file too; links count alike, as the numbers span six orders of magnitude.
    """
    bipartite = name == "lastfm-listens"
    file = "user_listen_artist_rels.parquet.gzip" if bipartite else "user_friend_df_directed.parquet.gzip"
    return Graph.from_table(
        _folder("lastfm") / file, source="sourceNodeId", target="targetNodeId", weight=False, bipartite=bipartite
    )


def cora_subjects() -> pa.Table:
    """The subject of each paper: columns id, label and subject."""
    table = pq.read_table(_folder("cora") / "cora_nodes.parquet.gzip", columns=["nodeId", "subject"])
    words = [_SUBJECTS[number] for number in table["subject"].to_pylist()]
    labels = [f"{word}, paper {number}" for word, number in zip(words, table["nodeId"].to_pylist(), strict=True)]
    return pa.table({"id": table["nodeId"], "label": labels, "subject": words})


def _folder(name: str) -> Path:
    folder = packaged("graphdatascience", f"resources/{name}")
    if folder is not None:
        return folder
    raise MissingExtraError("Cora (for the demo) and LastFM come with an extra: pip install 'yinyan[demo]'")
