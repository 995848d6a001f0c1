"""Seventh stage: edges by final rows, numbered in their canonical order, one half for the owner of each end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from yinyan.preparing.buckets import bucket_file, read_batches, read_bucket
from yinyan.preparing.merging import edge_blocks
from yinyan.preparing.plan import Plan
from yinyan.preparing.ranges import Ranges
from yinyan.preparing.splitting import SplitRule
from yinyan.preparing.tasks import Summary, task_files

__all__ = ["halve_range", "place_edges", "place_ids"]


def place_edges(plan: Plan, ranges: Ranges, rule: SplitRule, place: Path, number: int) -> Summary:
    """Write `.edges`: the edges of one range of rows by hash, with their roles, by range of their smaller final row."""
    rows, counts = 0, np.zeros(len(ranges), dtype=np.int64)  # unordered pairs by range
    with bucket_file(place.with_suffix(".edges"), len(ranges)) as file:
        for block in edge_blocks(plan, number):
            first, second = ranges.final(block.low), ranges.final(block.high)
            swapped = first > second
            low = np.where(swapped, second, first)
            columns = {"low": low, "high": np.where(swapped, first, second), "role": rule.roles(block)}
            columns |= {"backward": block.backward ^ swapped} if plan.directed else {}
            columns |= {n: v for n, v in (("weight", block.weight), ("time", block.time)) if v is not None}
            where = ranges.of(low)
            counts += np.bincount(where[block.is_first()], minlength=len(ranges))
            rows += len(where)
            file.add(pa.table(columns), where)
    return {"rows": rows, "counts": counts.tolist()}


def place_ids(plan: Plan, ranges: Ranges, starts: Sequence[int], place: Path, bucket: int) -> Summary:
    """Write `.nodes`: the ids of one bucket, by range of their final row."""
    (batch,) = read_batches(task_files(plan.work, "number", ".ids")[bucket], 0, 1)
    rows = ranges.final(np.arange(starts[bucket], starts[bucket + 1]))
    with bucket_file(place.with_suffix(".nodes"), len(ranges)) as file:
        table = pa.Table.from_batches([batch]).append_column("row", pa.array(rows))
        file.add(table, ranges.of(rows))
    return {"rows": len(rows)}


def halve_range(plan: Plan, ranges: Ranges, starts: Sequence[int], place: Path, number: int) -> Summary:
    """Write `.halves`: each edge of a range once with each end, by range of that end.

    Edges are numbered by unordered pair, from `starts` of the range on: a directed edge and its reverse share a number.
    """
    table = read_bucket(task_files(plan.work, "place-edges", ".edges"), number, len(ranges))
    with bucket_file(place.with_suffix(".halves"), len(ranges)) as file:
        if table is None:
            return {"rows": 0, "halves": 0}
        low, high = table["low"].to_numpy(), table["high"].to_numpy()
        backward = table["backward"].to_numpy() if plan.directed else None
        keys = low * ranges.bounds[-1] + high
        order = np.argsort(keys if backward is None else 2 * keys + backward)
        rest = table.drop_columns(["low", "high", *(["backward"] if plan.directed else [])]).take(pa.array(order))
        low, high, keys = low[order], high[order], keys[order]
        edge = starts[number] - 1 + np.cumsum(np.diff(keys, prepend=-1) != 0)
        for row, neighbour, turned in ((low, high, False), (high, low, True)):
            half = {"row": row, "neighbour": neighbour, "edge": edge}
            half |= {} if backward is None else {"forward": backward[order] == turned}
            half |= {name: rest[name] for name in rest.column_names}
            file.add(pa.table(half), ranges.of(row))
    return {"rows": len(low), "halves": 2 * len(low)}
