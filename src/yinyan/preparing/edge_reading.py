"""First stage: the rows of the edge tables, their ids encoded by chunk and divided by hash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph.column_types import na_texts
from yinyan.graph.edge_lists import row_name
from yinyan.graph.from_tables import edge_values
from yinyan.graph.id_columns import id_column
from yinyan.graph.node_tables import id_values, prefixed, refuse_missing_ids
from yinyan.graph.tables import TableSource
from yinyan.preparing.buckets import bucket_file, sorted_by
from yinyan.preparing.hashing import id_hashes
from yinyan.preparing.inputs import MOST_ROWS, Piece, read_blocks
from yinyan.preparing.plan import Plan
from yinyan.preparing.tasks import Summary

__all__ = ["bucket_of", "chunks", "one_kind", "read_edges", "stored_ids"]


def read_edges(plan: Plan, place: Path, pieces: tuple[Piece, ...]) -> Summary:
    """Write `.ids`, the distinct ids of each chunk by bucket, and `.rows`, the edges as numbers of these ids.

    An id comes with the sides on which it stands: 1 source, 2 target, 3 both.
    """
    facts: Summary = {"rows": 0, "dropped": 0, "chunks": 0, "ids": 0, "kinds": {}, "clocks": {}}
    blocks = (_edges(plan, facts, *block) for piece in pieces for block in _blocks_of(plan, piece))
    with (
        bucket_file(place.with_suffix(".ids"), plan.id_buckets) as ids,
        bucket_file(place.with_suffix(".rows"), 1) as rows,
    ):
        for table in chunks(blocks, plan.chunk_rows):
            entries, ends, encoded = _encoded(table, plan.id_buckets)
            ids.add_sorted(entries, ends)
            rows.add_sorted(encoded, np.array([0, encoded.num_rows]))
            facts["chunks"] += 1
            facts["ids"] += entries.num_rows
    return facts


def bucket_of(hashes: npt.NDArray[np.uint64], num_buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each hash, by its leading bits: buckets in order are hashes in order."""
    bits = num_buckets.bit_length() - 1
    return (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), dtype=np.int64)


def chunks(blocks: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Blocks joined to tables of at least so many rows, but for the last."""
    held: list[pa.Table] = []
    for block in blocks:
        held.append(block)
        if sum(table.num_rows for table in held) >= rows:
            yield pa.concat_tables(held)
            held = []
    if any(table.num_rows for table in held):
        yield pa.concat_tables(held)


def stored_ids(column: pa.ChunkedArray, plan: Plan, what: str, prefix: str, kinds: dict[str, str]) -> pa.Array:
    """Ids as int64 or text; which of the two is noted under `kinds`, with the first column that has it."""
    array, kind = id_column(prefixed(id_values(column, plan.tables.id_type, what), prefix))
    if kind == "mixed":
        raise InputError(f'{what}: an id exceeds 64 bits: pass id_type="text" (--id-type text)')
    if len(array):
        kinds.setdefault(kind, what)
        one_kind(kinds)
    return array


def one_kind(kinds: dict[str, str]) -> str:
    """'integer' or 'text'; ids of both kinds are refused."""
    if len(kinds) > 1:
        raise InputError(
            f"node ids are integers in {kinds['integer']} and text in {kinds['text']}: "
            'pass id_type="text" (--id-type text) to compare them as text'
        )
    return next(iter(kinds))


def _blocks_of(plan: Plan, piece: Piece) -> Iterator[tuple[TableSource, int, pa.Table]]:
    columns = [name for name in plan.roles[:4] if name is not None]
    return read_blocks(piece, columns, plan.tables, plan.work, min(MOST_ROWS, plan.chunk_rows))


def _edges(plan: Plan, facts: Summary, source: TableSource, first: int, block: pa.Table) -> pa.Table:
    """The rows of a block that have both ends, as columns source, target, weight and time."""
    roles, options = plan.roles, plan.tables
    for end in roles[:2]:
        refuse_missing_ids(block[end], options, f"{source.label}, column {end!r}", first)
    whole = pc.and_(block[roles.source].is_valid(), block[roles.target].is_valid()).to_numpy()
    kept = np.flatnonzero(whole)
    facts["rows"] += block.num_rows
    facts["dropped"] += block.num_rows - len(kept)
    block = block if len(kept) == block.num_rows else block.filter(pa.array(whole))

    def name_of(position: int) -> str:
        return row_name(first + int(kept[position]))

    columns: dict[str, Any] = {
        end: stored_ids(block[name], plan, f"{source.label}, column {name!r}", prefix, facts["kinds"])
        for end, name, prefix in zip(("source", "target"), roles[:2], options.prefixes or ("", ""), strict=True)
    }
    for role in ("weight", "time"):
        name = getattr(roles, role)
        if name is not None:
            values = edge_values(block, source, name, role, roles, [], name_of, na_texts(options.na_values))
            columns[role] = values if role == "weight" else _whole(values, f"{source.label}: time {name!r}", name_of)
            if role == "time" and len(kept):
                facts["clocks"].setdefault(_clock(block[name]), source.label)
    return pa.table(columns)


def _whole(times: Any, what: str, name_of: Any) -> npt.NDArray[np.int64]:
    """Times as int64; a fraction is refused by its row."""
    found: npt.NDArray[np.int64] = times.astype(np.int64)
    wrong = found != times
    if wrong.any():
        position = int(np.argmax(wrong))
        raise InputError(
            f"{what} is {times[position]} in {name_of(position)}: a prepared graph has times in whole numbers or "
            "dates (multiply the times, for example to milliseconds)"
        )
    return found


def _clock(column: pa.ChunkedArray) -> str:
    """Whether times are dates or numbers: one graph needs one clock."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return "dates"
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return "dates" if text and pc.any(pc.match_substring_regex(column, r"\d-\d|\d:\d")).as_py() else "numbers"


def _encoded(table: pa.Table, num_buckets: int) -> tuple[pa.Table, npt.NDArray[np.int64], pa.Table]:
    """The distinct ids of a chunk in the order of their buckets, where each begins, and the edges as their numbers."""
    count = table.num_rows
    joined = pa.concat_arrays([*table["source"].chunks, *table["target"].chunks]).dictionary_encode()
    distinct, codes = joined.dictionary, joined.indices.to_numpy()
    del joined
    sides = np.zeros(len(distinct), dtype=np.int8)
    sides[codes[:count]] = 1
    sides[codes[count:]] |= 2
    numbered = pa.table({"id": distinct, "sides": sides, "place": np.arange(len(distinct), dtype=np.int32)})
    entries, ends = sorted_by(numbered, bucket_of(id_hashes(distinct), num_buckets), num_buckets)
    place = np.empty(len(distinct), dtype=np.int32)
    place[entries["place"].to_numpy()] = np.arange(len(distinct), dtype=np.int32)
    columns = {"source": place[codes[:count]], "target": place[codes[count:]]}
    columns |= {name: table[name] for name in ("weight", "time") if name in table.column_names}
    return entries.drop_columns(["place"]), ends, pa.table(columns)
