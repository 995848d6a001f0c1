"""Sixth stage: which part owns which nodes, so that neighbours share a part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from yinyan.errors import InputError, MissingExtraError
from yinyan.files import atomic_path
from yinyan.native import graph_kernels, partition_kernels
from yinyan.preparing.merging import edge_blocks
from yinyan.preparing.plan import Plan
from yinyan.preparing.tasks import Summary
from yinyan.training.node_order import block_order

__all__ = ["Sizes", "check_partition", "partition_nodes"]

Rows = npt.NDArray[np.int64]

# bytes in memory: compressed rows take 8 per edge (both merge nodes to smaller graphs, METIS copies too), orders,
# labels and costs the rest
_PER_EDGE = {"communities": 40, "metis": 80}
_PER_NODE = {"communities": 160, "metis": 160}
_SLACK = 1.05  # of its share of the cost that a part may have
_COMMUNITIES = 2  # per part at least: one that is cut joins two parts
_MOST_EDGES = 2**30 - 1  # places in compressed rows have 32 bits


@dataclass(frozen=True)
class Sizes:
    """Counts of a graph."""

    nodes: int
    edges: int


def check_partition(partition: str) -> None:
    """Refuse a method whose package is missing."""
    if partition == "metis":
        _metis()


def partition_nodes(plan: Plan, sizes: Sizes, place: Path, task: int) -> Summary:
    """Write `.npy`, the final row of each row by hash, unless they are the same; parts are ranges of final rows."""
    if plan.parts > sizes.nodes:
        raise InputError(
            f"'parts' (--parts) needs to be at most the number of nodes, {sizes.nodes:,} (got {plan.parts})"
        )
    method, note = _affordable(plan, sizes)
    facts: Summary = {"partition": method, "note": note, "place": method != "hash"}
    if method == "hash":
        return {**facts, "starts": [sizes.nodes * part // plan.parts for part in range(plan.parts + 1)]}
    largest = max(1, sizes.nodes // (_COMMUNITIES * plan.parts))
    order = block_order(lambda: _pairs(plan), sizes.nodes, largest)
    owner = _metis_parts(plan, sizes) if method == "metis" else _communities(plan, sizes)
    order = order[np.argsort(owner[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=plan.parts))])
    if (np.diff(starts) == 0).any():
        raise InputError(f"METIS leaves one of {plan.parts} parts without nodes: use fewer parts, or 'communities'")
    final = np.empty(sizes.nodes, dtype=np.int64)
    final[order] = np.arange(sizes.nodes)
    with atomic_path(place.with_suffix(".npy")) as temporary, temporary.open("wb") as file:
        np.save(file, final)
    return {**facts, "starts": [int(start) for start in starts]}


def _affordable(plan: Plan, sizes: Sizes) -> tuple[str, str]:
    """The method that was asked for if memory, kernels and 32-bit places allow it, else 'hash', and why."""
    method = plan.partition
    if method == "hash":
        return method, ""
    need = _PER_EDGE[method] * sizes.edges + _PER_NODE[method] * sizes.nodes
    if partition_kernels.why_not() is not None:
        return "hash", f"parts by hash: {method} needs the compiled kernels ({partition_kernels.why_not()})"
    if sizes.edges > _MOST_EDGES:
        return "hash", f"parts by hash: {method} takes {_MOST_EDGES:,} edges at most"
    if need > plan.memory:
        has = f"{need / 2**30:.2g} GiB, and {plan.memory / 2**30:.2g} GiB may be used"
        return "hash", f"parts by hash: {method} needs about {has} (memory=, --memory)"
    return method, ""


def _pairs(plan: Plan) -> Iterator[Tensor]:
    """Unordered pairs with an edge, once each, a range at a time."""
    for block in edge_blocks(plan):
        pairs = np.stack([block.low, block.high], axis=1)
        yield torch.from_numpy(pairs[block.is_first()] if plan.directed else pairs)


def _communities(plan: Plan, sizes: Sizes) -> Rows:
    """(n,) the part of each node: parts of about the same cost, half of it by nodes, half by edges."""
    if plan.parts == 1:
        return np.zeros(sizes.nodes, dtype=np.int64)
    indptr, columns = graph_kernels.symmetric_rows_of_blocks(lambda: _pairs(plan), sizes.nodes)
    degrees = indptr.diff().double()
    cost = degrees + degrees.mean().clamp(min=1.0)
    return partition_kernels.partition(indptr, columns, cost, plan.parts, _SLACK).numpy().astype(np.int64)


def _metis() -> Any:
    try:
        import pymetis
    except ImportError:
        raise MissingExtraError("partition 'metis' needs the package pymetis: pip install 'yinyan[metis]'") from None
    return pymetis


def _metis_parts(plan: Plan, sizes: Sizes) -> Rows:
    """(n,) the part of each node, by METIS."""
    if plan.parts == 1:
        return np.zeros(sizes.nodes, dtype=np.int64)
    indptr, columns = graph_kernels.symmetric_rows_of_blocks(lambda: _pairs(plan), sizes.nodes)
    pymetis = _metis()
    adjacency = pymetis.CSRAdjacency(indptr.numpy(), columns.numpy())
    _, owner = pymetis.part_graph(plan.parts, adjacency, options=pymetis.Options(seed=plan.seed))
    return np.asarray(owner, dtype=np.int64)
