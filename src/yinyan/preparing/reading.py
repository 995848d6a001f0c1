"""A prepared folder, read back as a graph and its split on one machine."""

from __future__ import annotations

import os
from pathlib import Path

from yinyan.distributed.prepared import read_manifest
from yinyan.distributed.whole import whole_graph
from yinyan.graph import Graph
from yinyan.splits import Split
from yinyan.splits.split import split_by_roles

__all__ = ["read_prepared"]


def read_prepared(folder: str | os.PathLike[str], *, verify: bool = False) -> tuple[Graph, Split]:
    """Read a prepared folder as a graph and its split, on one machine.

    Rows of the graph are those of the folder. In a bipartite graph the nodes of side 0 come first.

    Parameters
    ----------
    folder
        The folder that `prepare` wrote.
    verify
        Whether the checksum of every file is compared, which reads all of them once more.

    Returns
    -------
    tuple of Graph and Split
        The graph, and the split whose roles the folder has.

    Raises
    ------
    StoreError
        If files are missing, damaged, or of another preparation.

    Examples
    --------
    >>> from pyarrow import csv, table
    >>> csv.write_csv(table({"source": graph.edges[:, 0], "target": graph.edges[:, 1]}), "edges.csv")
    >>> from yinyan import prepare, read_prepared
    >>> prepared = prepare("edges.csv", "prepared", parts=2)
    >>> whole, split = read_prepared("prepared")
    >>> len(split.valid_targets) == prepared.roles[1]
    True
    """
    manifest = read_manifest(Path(folder))
    whole = whole_graph(manifest, verify=verify)
    return whole.graph, split_by_roles(whole.graph, whole.roles, protocol=manifest.protocol, seed=manifest.seed)
