"""Prepared folders of small graphs, and processes that train on them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from yinyan.graph.features import SparseFeatures
from yinyan.splits import Split


def write_prepared(split: Split, folder: Path, parts: int, *, shuffled: bool = True) -> Path:
    """A split of a graph as `yinyan prepare` writes it, its rows in a random order of their own."""
    graph = split.graph
    n, rng = graph.num_nodes, np.random.default_rng(5)
    order = rng.permutation(n) if shuffled else np.arange(n)  # the graph's row of each row of the folder
    place = np.argsort(order)
    starts = [n * part // parts for part in range(parts + 1)]
    role = np.full(graph.num_edges, 2, np.int8)
    role[graph.find_edges(split.train_targets)] = 0
    role[graph.find_edges(split.valid_targets)] = 1
    edges = place[graph.edges]
    low, high = edges.min(axis=1), edges.max(axis=1)
    number = np.unique(low * n + high, return_inverse=True)[1]
    both = np.concatenate([edges, edges[:, ::-1]])
    forward = np.repeat([True, False], len(edges))
    at = np.tile(np.arange(len(edges)), 2)
    sort = np.lexsort((~forward, both[:, 1], both[:, 0]))
    both, forward, at = both[sort], forward[sort], at[sort]
    features = graph.features.to_dense() if isinstance(graph.features, SparseFeatures) else graph.features
    files = {}
    for kind in ("nodes", "edges"):
        (folder / kind).mkdir(parents=True)
    for part in range(parts):
        first, last = starts[part], starts[part + 1]
        rows = order[first:last]
        nodes = {"row": np.arange(first, last), "id": pa.array([graph.ids[int(r)] for r in rows])}
        if graph.num_left is not None:
            nodes["left"] = rows < graph.num_left
        if features is not None:
            values = pa.array(features[rows].reshape(-1).astype(np.float32))
            nodes["features"] = pa.FixedSizeListArray.from_arrays(values, features.shape[1])
        mine = (both[:, 0] >= first) & (both[:, 0] < last)
        columns = {
            "row": both[mine, 0],
            "neighbour": both[mine, 1],
            "edge": number[at[mine]].astype(np.int64),
            "role": role[at[mine]],
        }
        if graph.directed:
            columns["forward"] = forward[mine]
        if graph.weights is not None:
            columns["weight"] = graph.weights[at[mine]]
        for kind, table in (("nodes", pa.table(nodes)), ("edges", pa.table(columns))):
            name = f"{kind}/part-{part:05d}.parquet"
            pq.write_table(table, folder / name)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            files[name] = {"rows": table.num_rows, "sha256": digest}
    manifest = {
        "format": 1,
        "parts": parts,
        "nodes": n,
        "edges": graph.num_edges,
        "directed": graph.directed,
        "num_left": graph.num_left,
        "starts": starts,
        "ids": "string" if graph.ids.is_text else "int64",
        "features": None if features is None else {"columns": list(map(str, range(features.shape[1]))), "dtype": "float32"},
        "weights": graph.weights is not None,
        "times": False,
        "partition": "hash",
        "seed": 0,
        "split": {"protocol": split.protocol, "valid_share": 0.1, "test_share": 0.0},
        "yinyan": "0.1.0",
        "graph": hashlib.sha256(both.tobytes()).hexdigest(),
        "files": files,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
