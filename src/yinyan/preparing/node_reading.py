"""The rows of the node tables: their ids beside those of the edges, and their features, encoded and sent to owners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yinyan.graph.column_types import na_texts, typed_column
from yinyan.graph.features import FeatureEncoder, fit_columns
from yinyan.graph.ids import Ids
from yinyan.graph.node_tables import refuse_missing_ids
from yinyan.graph.tables import TableSource
from yinyan.preparing.buckets import bucket_file, read_batches, read_bucket, sorted_by
from yinyan.preparing.edge_reading import bucket_of, chunks, stored_ids
from yinyan.preparing.hashing import id_hashes
from yinyan.preparing.inputs import MOST_ROWS, Piece, opened, read_blocks
from yinyan.preparing.numbering import Numbers
from yinyan.preparing.plan import Plan
from yinyan.preparing.ranges import Ranges
from yinyan.preparing.tasks import Summary, task_files

__all__ = ["SAMPLE_ROWS", "feature_names", "fit_features", "read_nodes", "send_features"]

SAMPLE_ROWS = 1_000_000  # nodes whose columns decide how all are encoded
_SLICE_SHARE = 16  # of the memory budget, one in so many bytes for encoded rows

NodeTask = tuple[tuple[Piece, ...], int]  # files, and how many chunks the tasks before have


def read_nodes(plan: Plan, place: Path, task: tuple[tuple[Piece, ...], float]) -> Summary:
    """Write `.ids`, the ids of each chunk by bucket, `.rows`, their places there, and `.sample`, a share of rows."""
    pieces, share = task
    facts: Summary = {"rows": 0, "dropped": 0, "chunks": 0, "ids": 0, "kinds": {}}
    sampled = np.uint64(min(2**64 - 1, int(share * 2**64)))
    with (
        bucket_file(place.with_suffix(".ids"), plan.id_buckets) as ids,
        bucket_file(place.with_suffix(".rows"), 1) as rows,
        bucket_file(place.with_suffix(".sample"), 1) as sample,
    ):
        for table in _chunks(plan, facts, pieces):
            array = pa.concat_arrays(table["id"].chunks)
            hashes, count = id_hashes(array), len(array)
            entries = pa.table(
                {"id": array, "sides": np.zeros(count, np.int8), "place": np.arange(count, dtype=np.int32)}
            )
            entries, ends = sorted_by(entries, bucket_of(hashes, plan.id_buckets), plan.id_buckets)
            stands = np.empty(count, dtype=np.int32)
            stands[entries["place"].to_numpy()] = np.arange(count, dtype=np.int32)
            ids.add_sorted(entries.drop_columns(["place"]), ends)
            rows.add_sorted(pa.table({"place": stands}), np.array([0, count]))
            chosen = table.filter(pa.array(hashes <= sampled))
            sample.add_sorted(chosen, np.array([0, chosen.num_rows]))
            facts["chunks"] += 1
            facts["ids"] += count
    return facts


def fit_features(plan: Plan, lacking: int, place: Path, task: int) -> Summary:
    """How the columns of the node tables become features, by the sampled rows, and those of a node without a row."""
    table = read_bucket(task_files(plan.work, "read-nodes", ".sample"), 0, 1)
    if table is None or not plan.node_columns:
        return {"encoder": None, "rows": 0, "columns": 0}
    with opened(plan.nodes[0], plan.tables, plan.work) as source:
        is_text = source.is_text
    na_values = na_texts(plan.tables.na_values)
    columns = {
        name: typed_column(table[_stored(name)], na_values, dates_only=not is_text) for name in plan.node_columns
    }
    ids: Ids | None = None if lacking else Ids.from_values(table["id"])
    aligned = pa.table(columns)
    if lacking:  # rows without values, so that missing ones get their mark
        extra = pa.nulls(min(lacking, table.num_rows), pa.int64())
        aligned = aligned.take(pa.concat_arrays([pa.array(np.arange(table.num_rows)), extra]))
    chosen = list(plan.node_columns) if plan.tables.feature_columns is not None else None
    encoder, _ = fit_columns(aligned, chosen, ids=ids, na_values=na_values)
    if not encoder.num_columns:
        return {"encoder": None, "rows": table.num_rows, "columns": 0, "notes": list(encoder.notes)}
    encoder = replace(encoder, sparse=False)
    missing = np.asarray(encoder.transform(aligned.slice(table.num_rows, 1))) if lacking else np.empty((1, 0))
    facts = {"rows": table.num_rows, "columns": encoder.num_columns, "notes": list(encoder.notes)}
    return {**facts, "encoder": encoder.to_dict(), "missing": missing[0].tolist()}


def send_features(
    plan: Plan, numbers: Numbers, num_chunks: int, ranges: Ranges, encoder: FeatureEncoder, place: Path, task: NodeTask
) -> Summary:
    """Write `.features`: the encoded rows of node tables, by range of final rows."""
    pieces, chunk = task
    facts: Summary = {"rows": 0, "dropped": 0, "chunks": 0, "ids": 0, "kinds": {}}
    step = max(1, plan.memory // _SLICE_SHARE // (4 * encoder.num_columns))
    owners = read_batches(task_files(plan.work, "read-nodes", ".rows")[int(place.name)], 0, 1)
    done = 0
    with bucket_file(place.with_suffix(".features"), len(ranges)) as file:
        for table, stand in zip(_chunks(plan, facts, pieces), owners, strict=True):
            stands = stand["place"].to_numpy()
            rows = ranges.final(numbers.rows(chunk, num_chunks)[stands])
            for begin in range(0, table.num_rows, step):
                part, where = table.slice(begin, step), rows[begin : begin + step]
                raw = {name: part[_stored(name)] for name in plan.node_columns}
                block = encoder.transform(pa.table(raw), ids=Ids.from_values(part["id"]))
                file.add(pa.table({"row": where, "features": _lists(np.asarray(block))}), ranges.of(where))
            done, chunk = done + table.num_rows, chunk + 1
            facts["chunks"] += 1
    facts["ids"] = done
    return facts


def feature_names(encoder: dict[str, Any]) -> list[str]:
    """The name of each column of the matrix: of its column in the table, numbered where that gave several."""
    plans = FeatureEncoder.from_dict(encoder).plans
    return [plan.name if plan.width == 1 else f"{plan.name}[{i}]" for plan in plans for i in range(plan.width)]


def _chunks(plan: Plan, facts: Summary, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """Rows with an id: `id` as it is stored, and the columns of features as they are read."""
    return chunks(
        (_nodes(plan, facts, *block) for piece in pieces for block in _blocks_of(plan, piece)), plan.chunk_rows
    )


def _blocks_of(plan: Plan, piece: Piece) -> Iterator[tuple[TableSource, int, pa.Table]]:
    columns = [str(plan.node_id), *plan.node_columns]
    return read_blocks(piece, columns, plan.tables, plan.work, min(MOST_ROWS, plan.chunk_rows))


def _nodes(plan: Plan, facts: Summary, source: TableSource, first: int, block: pa.Table) -> pa.Table:
    what = f"{source.label}, column {plan.node_id!r}"
    refuse_missing_ids(block[plan.node_id], plan.tables, what, first)
    facts["rows"] += block.num_rows
    facts["dropped"] += block[plan.node_id].null_count
    if block[plan.node_id].null_count:
        block = block.filter(block[plan.node_id].is_valid())
    ids = stored_ids(block[plan.node_id], plan, what, "", facts["kinds"])
    return pa.table({"id": ids} | {_stored(name): block[name] for name in plan.node_columns})


def _stored(name: str) -> str:
    """A column beside `id`."""
    return f"column {name}"


def _lists(block: npt.NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), block.shape[1])
