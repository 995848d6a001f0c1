"""A prepared folder of a graph that is in memory; `yinyan prepare` writes those of larger ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from yinyan import __version__
from yinyan.distributed.prepared import FORMAT, ROLES
from yinyan.files import write_text
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures
from yinyan.splits import Split

__all__ = ["write_prepared"]

Rows = NDArray[np.int64]


def write_prepared(split: Split, folder: Path, parts: int, order: Rows | None = None) -> Path:
    """Write the graph of a split in so many parts of about as many nodes.

    `order` (n,) are the rows of the graph in the order of the folder: parts are cut from it. Without it, the rows keep
    their order.
    """
    graph, n = split.graph, split.graph.num_nodes
    order = np.arange(n) if order is None else order
    starts = [n * part // parts for part in range(parts + 1)]
    halves = _halves(split, np.argsort(order))
    files: dict[str, dict[str, Any]] = {}
    for part, (first, last) in enumerate(zip(starts, starts[1:], strict=False)):
        begin, end = np.searchsorted(halves["row"], [first, last])
        tables = {
            "nodes": _nodes(graph, order[first:last], first),
            "edges": pa.table({name: column[begin:end] for name, column in halves.items()}),
        }
        for kind, table in tables.items():
            name = f"{kind}/part-{part:05d}.parquet"
            (folder / kind).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / name)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            files[name] = {"rows": table.num_rows, "sha256": digest}
    columns = 0 if graph.features is None else graph.features.shape[1]
    manifest = {
        **{"format": FORMAT, "yinyan": __version__, "parts": parts, "nodes": n, "edges": graph.num_edges},
        **{"directed": graph.directed, "num_left": graph.num_left, "starts": starts},
        **{"ids": "string" if graph.ids.is_text else "int64", "partition": "given", "seed": split.seed},
        "features": {"columns": list(map(str, range(columns))), "dtype": "float32"} if columns else None,
        **{"weights": graph.weights is not None, "times": False, "split": {"protocol": split.protocol}},
        "graph": hashlib.sha256(halves["row"].tobytes() + halves["neighbour"].tobytes()).hexdigest(),
        "files": files,
    }
    write_text(folder / "manifest.json", json.dumps(manifest))
    return folder


def _halves(split: Split, place: Rows) -> dict[str, NDArray[Any]]:
    """Every edge from both of its ends, sorted; place[i] is the row of the folder of the graph's row i."""
    graph, n = split.graph, split.graph.num_nodes
    role = np.full(graph.num_edges, ROLES["test"], np.int8)
    role[graph.find_edges(split.train_targets)] = ROLES["train"]
    role[graph.find_edges(split.valid_targets)] = ROLES["valid"]
    edges = place[graph.edges]
    number = np.unique(edges.min(axis=1) * n + edges.max(axis=1), return_inverse=True)[1].astype(np.int64)
    both = np.concatenate([edges, edges[:, ::-1]])
    forward = np.repeat([True, False], len(edges))
    order = np.lexsort((~forward, both[:, 1], both[:, 0]))
    edge = order % len(edges)
    found = {"row": both[order, 0], "neighbour": both[order, 1], "edge": number[edge], "role": role[edge]}
    if graph.directed:
        found["forward"] = forward[order]
    if graph.weights is not None:
        found["weight"] = graph.weights[edge]
    return found


def _nodes(graph: Graph, rows: Rows, first: int) -> pa.Table:
    columns: dict[str, Any] = {"row": np.arange(first, first + rows.size), "id": pa.array(graph.ids.take(rows))}
    if graph.num_left is not None:
        columns["left"] = rows < graph.num_left
    features = graph.features
    if features is not None:
        some = features.take(rows).to_dense() if isinstance(features, SparseFeatures) else features[rows]
        values = pa.array(np.ascontiguousarray(some, np.float32).reshape(-1))
        columns["features"] = pa.FixedSizeListArray.from_arrays(values, some.shape[1])
    return pa.table(columns)
