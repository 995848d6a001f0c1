"""Third and fourth stage: edges as rows, sent to the range of their smaller row, and repeated ones merged there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yinyan.graph.edge_lists import merge_keys, single_precision
from yinyan.preparing.buckets import bucket_file, read_batches, read_bucket
from yinyan.preparing.hashing import mixed
from yinyan.preparing.numbering import Numbers
from yinyan.preparing.plan import Plan
from yinyan.preparing.tasks import Summary, task_files

__all__ = ["EdgeBlock", "edge_blocks", "edge_digest", "merge_range", "send_edges"]

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EdgeBlock:
    """Distinct edges between rows by hash, sorted; `backward`: a directed edge leads from high to low."""

    low: Rows
    high: Rows
    backward: npt.NDArray[np.bool_]
    weight: npt.NDArray[np.float32] | None
    time: Rows | None

    def is_first(self) -> npt.NDArray[np.bool_]:
        """Which edges are the first of their unordered pair: of a directed graph, one of two may not be."""
        first = np.ones(len(self.low), dtype=np.bool_)
        first[1:] = (self.low[1:] != self.low[:-1]) | (self.high[1:] != self.high[:-1])
        return first


def send_edges(plan: Plan, numbers: Numbers, num_nodes: int, num_chunks: int, place: Path, chunk: int) -> Summary:
    """Write `.edges`: the edges of one file of chunks by range of their smaller row, without self loops.

    `chunk` is the number of the file's first chunk.
    """
    rows = task_files(plan.work, "read-edges", ".rows")[int(place.name)]
    facts: Summary = {"rows": 0, "loops": 0, "weightless": 0}
    with bucket_file(place.with_suffix(".edges"), plan.edge_ranges) as file:
        for number, batch in enumerate(read_batches(rows, 0, 1)):
            row_of = numbers.rows(chunk + number, num_chunks)
            source, target = (row_of[batch[end].to_numpy()] for end in ("source", "target"))
            low, high = np.minimum(source, target), np.maximum(source, target)
            columns = {"low": low, "high": high}
            columns |= {"backward": source > target} if plan.directed else {}
            columns |= {name: batch[name].to_numpy() for name in ("weight", "time") if name in batch.schema.names}
            loops = low == high
            empty = columns["weight"] == 0 if "weight" in columns else np.zeros_like(loops)
            facts["rows"] += len(low)
            facts["loops"] += int(loops.sum())
            facts["weightless"] += int((empty & ~loops).sum())
            kept = ~(loops | empty)
            columns = columns if kept.all() else {name: values[kept] for name, values in columns.items()}
            file.add(pa.table(columns), columns["low"] * plan.edge_ranges // num_nodes)
    return facts


def merge_range(plan: Plan, num_nodes: int, place: Path, number: int) -> Summary:
    """Write `.edges`: the distinct edges of one range, sorted; weights are added, the earliest time is kept."""
    table = read_bucket(task_files(plan.work, "send-edges", ".edges"), number, plan.edge_ranges)
    with bucket_file(place.with_suffix(".edges"), 1) as file:
        if table is None:
            return {"rows": 0, "edges": 0, "pairs": 0, "digest": 0}
        keys = table["low"].to_numpy() * num_nodes + table["high"].to_numpy()
        keys = 2 * keys + table["backward"].to_numpy() if plan.directed else keys
        weights, times = (table[name].to_numpy() if name in table.column_names else None for name in ("weight", "time"))
        count = table.num_rows
        del table
        keys, weights, times, _ = merge_keys(keys, weights, times)
        backward = (keys & 1).astype(np.bool_) if plan.directed else np.zeros(len(keys), dtype=np.bool_)
        low, high = np.divmod(keys >> 1 if plan.directed else keys, num_nodes)
        whole = None if times is None else times.astype(np.int64, copy=False)
        block = EdgeBlock(low, high, backward, single_precision(weights), whole)
        columns = {name: values for name, values in vars(block).items() if values is not None}
        file.add_sorted(pa.table(columns), np.array([0, len(keys)]))
    digest = int(mixed(keys, 2).sum(dtype=np.uint64))
    return {"rows": count, "edges": len(keys), "pairs": int(block.is_first().sum()), "digest": digest}


def edge_blocks(plan: Plan, number: int | None = None) -> Iterator[EdgeBlock]:
    """The distinct edges of one range, or of all, in order."""
    files = task_files(plan.work, "merge-edges", ".edges")
    for path in files if number is None else files[number : number + 1]:
        for batch in read_batches(path, 0, 1):
            columns = {name: batch[name].to_numpy(zero_copy_only=False) for name in batch.schema.names}
            yield EdgeBlock(
                columns["low"], columns["high"], columns["backward"], columns.get("weight"), columns.get("time")
            )


def edge_digest(numbered: list[Summary], merged: list[Summary]) -> str:
    """A mark of the ids and edges of a graph, whatever their order in the files was."""
    nodes, edges = sum(facts["nodes"] for facts in numbered), sum(facts["edges"] for facts in merged)
    sums = [sum(facts["digest"] for facts in stage) % 2**64 for stage in (numbered, merged)]
    return f"{nodes:x}-{edges:x}-{sums[0]:016x}-{sums[1]:016x}"
