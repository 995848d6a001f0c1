"""Cora, Citeseer and Pubmed, from Planetoid's raw files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.datasets.pickles import SparseRows, read_pickle
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.feature_matrix import Features, SparseFeatures, is_sparse, sparse_from_entries
from yinyan.text import counted

__all__ = ["ENDINGS", "SIZES", "read_planetoid"]

ENDINGS = ("allx", "tx", "graph", "test.index")  # x is a part of allx; y, ty and ally are labels

SIZES = {
    "cora": Size(nodes=2_708, edges=5_278, features=1_433),
    "citeseer": Size(nodes=3_327, edges=4_552, features=3_703),
    "pubmed": Size(nodes=19_717, edges=44_324, features=500),
}


def read_planetoid(folder: Path, name: str) -> tuple[Graph, npt.NDArray[np.int64]]:
    """Read `ind.NAME.*`: an undirected graph with its raw features, and the nodes whose self loops were dropped.

    The graph's notes say what was dropped or mended.
    """
    first, rest, links, places = (folder / f"ind.{name}.{ending}" for ending in ENDINGS)
    features, notes = _features(_matrix(first), _matrix(rest), _test_rows(places))
    pairs = _pairs(links, read_pickle(links))
    loops = pairs[:, 0] == pairs[:, 1]
    looped = np.unique(pairs[loops, 0])
    if looped.size:
        notes.append(f"dropped the self loops of {counted(len(looped), 'node')}")
    listed = np.sort(pairs[~loops], axis=1)
    distinct = np.unique(listed, axis=0)
    repeated = len(listed) - 2 * len(distinct)  # each edge is listed at both of its ends
    if repeated > 0:
        notes.append(f"the lists of neighbours repeat themselves {repeated:,} times: merged")
    graph = Graph.from_arrays(distinct, num_nodes=features.shape[0], features=features)
    return replace(graph, notes=tuple(notes)), looped


def _matrix(path: Path) -> SparseRows:
    matrix = read_pickle(path)
    if not isinstance(matrix, SparseRows):
        raise InputError(f"'{path}' needs to hold a sparse matrix (got {type(matrix).__name__}): fetch it again")
    return matrix


def _test_rows(path: Path) -> npt.NDArray[np.int64]:
    """The node that each row of tx belongs to: they are not in order."""
    with refuse_damaged(path, "needs one node number a line"):
        return np.loadtxt(path, dtype=np.int64, ndmin=1)


def _features(first: SparseRows, rest: SparseRows, test_rows: npt.NDArray[np.int64]) -> tuple[Features, list[str]]:
    begun, nodes = first.shape[0], int(test_rows.max(initial=-1)) + 1
    if len(test_rows) != rest.shape[0] or len(np.unique(test_rows)) != len(test_rows) or test_rows.min() < begun:
        raise InputError(
            f"the test index needs {rest.shape[0]:,} different nodes from {begun:,} on (got {len(test_rows):,} from "
            f"{test_rows.min(initial=nodes):,} on): its files are of two data sets, fetch them again"
        )
    rows = np.concatenate([_entry_rows(first), test_rows[_entry_rows(rest)]])
    columns, values = (np.concatenate([getattr(first, key), getattr(rest, key)]) for key in ("indices", "data"))
    features = sparse_from_entries(rows, columns, values, (nodes, first.shape[1]))
    missing = nodes - begun - len(test_rows)
    notes = [f"{counted(missing, 'node')} absent from the test index: kept, with features of zero"] if missing else []
    dense = not is_sparse(len(features.values), (nodes, first.shape[1]))
    return (features.to_dense() if dense else features), notes


def _entry_rows(matrix: SparseRows) -> npt.NDArray[np.int64]:
    """The row of each entry; a matrix whose parts do not fit together is refused."""
    if len(matrix.indptr) != matrix.shape[0] + 1:
        raise InputError(f"a sparse matrix of {matrix.shape[0]:,} rows has an index of {len(matrix.indptr) - 1:,}")
    return SparseFeatures(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]).entry_rows


def _pairs(path: Path, lists: Any) -> npt.NDArray[np.int64]:
    """Every neighbour of every node: an edge is listed at both of its ends, and at times more often."""
    with refuse_damaged(path, "needs to hold each node's list of neighbours"):
        lengths = [len(neighbours) for neighbours in lists.values()]
        source = np.repeat(np.fromiter(lists, dtype=np.int64, count=len(lists)), lengths)
        target = np.fromiter((row for rows in lists.values() for row in rows), dtype=np.int64, count=sum(lengths))
    return np.stack([source, target], axis=1)
