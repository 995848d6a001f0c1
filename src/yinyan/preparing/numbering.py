"""Second stage: every distinct id gets a row number, in the order of the hashes of the ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.preparing.buckets import bucket_file, read_batches
from yinyan.preparing.hashing import id_hashes, mixed
from yinyan.preparing.plan import Plan
from yinyan.preparing.tasks import Summary, task_files
from yinyan.text import counted

__all__ = ["Numbers", "check_nodes", "number_ids", "numbers_of"]

_SHOWN = 3  # ids that a message names


class Numbers(NamedTuple):
    """Where the numbers of each bucket begin, and the files with the numbers of the ids of each chunk."""

    starts: npt.NDArray[np.int64]  # (buckets + 1,)
    files: Sequence[Path]

    def rows(self, chunk: int, num_chunks: int) -> npt.NDArray[np.int64]:
        """(·,) the row number of each id of a chunk, in the order of the chunk's ids."""
        found = [
            batch["number"].to_numpy().astype(np.int64) + start
            for start, file in zip(self.starts[:-1], self.files, strict=True)
            for batch in read_batches(file, chunk, num_chunks)
        ]
        return np.concatenate(found)


def number_ids(plan: Plan, place: Path, bucket: int) -> Summary:
    """Write `.ids`, the distinct ids of a bucket in order, and `.numbers`, where those of each chunk stand there.

    Chunks of edges come first, then those of node tables. Ids that a node table repeats, or that stand on both sides of
    a bipartite graph, are refused by name.
    """
    stages = [name for name in ("read-edges", "read-nodes") if (plan.work / name).exists()]
    batches, of_nodes = list[pa.RecordBatch](), list[bool]()
    for name in stages:
        for path in task_files(plan.work, name, ".ids"):
            found = list(read_batches(path, bucket, plan.id_buckets))
            batches += found
            of_nodes += [name == "read-nodes"] * len(found)
    joined = pa.Table.from_batches(batches)
    encoded = pa.concat_arrays(joined["id"].chunks).dictionary_encode()
    order = _order(encoded.dictionary)
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    codes = number[encoded.indices.to_numpy()]
    ids = encoded.dictionary.take(pa.array(order))
    lengths = [batch.num_rows for batch in batches]
    facts = _facts(plan, ids, codes, joined["sides"].to_numpy(), np.repeat(of_nodes, lengths))
    with bucket_file(place.with_suffix(".ids"), 1) as file:
        file.add_sorted(pa.table({"id": ids, "left": facts.pop("left")}), np.array([0, len(ids)]))
    with bucket_file(place.with_suffix(".numbers"), len(batches)) as file:
        file.add_sorted(pa.table({"number": codes}), np.concatenate([[0], np.cumsum(lengths)]))
    return facts


def numbers_of(plan: Plan, summaries: Sequence[Summary]) -> Numbers:
    """The numbers that all buckets give together."""
    starts = np.concatenate([[0], np.cumsum([facts["nodes"] for facts in summaries])])
    return Numbers(starts, task_files(plan.work, "number", ".numbers"))


def check_nodes(plan: Plan, summaries: Sequence[Summary]) -> tuple[int, int]:
    """How many nodes the node tables lack, and how many they have in addition, if these are allowed."""
    if not plan.nodes:
        return 0, 0
    lacking, extra = (sum(facts[name] for facts in summaries) for name in ("lacking", "extra"))
    if plan.tables.unmatched == "error" and lacking:
        raise InputError(
            f"the edges mention {_some(summaries, 'lacking', lacking)} that the node tables lack: add the rows, or "
            'pass unmatched="keep" (--keep-unmatched) to treat the features as missing'
        )
    if extra and (plan.tables.unmatched == "error" or plan.bipartite):
        cure = (
            "so that the side of the bipartite graph is unknown: remove the rows"
            if plan.bipartite
            else 'remove the rows, or pass unmatched="keep" (--keep-unmatched) to keep nodes without an edge'
        )
        raise InputError(
            f"the node tables describe {_some(summaries, 'extra', extra)} that the edges never mention: {cure}"
        )
    return lacking, extra


def _order(ids: pa.Array) -> npt.NDArray[np.int64]:
    """Distinct ids in the order of their hashes; those of one hash in their own order."""
    hashes = id_hashes(ids)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if len(ordered) and (ordered[1:] == ordered[:-1]).any():
        rank = pc.rank(ids, sort_keys="ascending", tiebreaker="first").to_numpy()
        order = np.lexsort((rank, hashes))
    return order


def _facts(
    plan: Plan,
    ids: pa.Array,
    codes: npt.NDArray[np.int32],
    sides: npt.NDArray[np.int8],
    of_nodes: npt.NDArray[np.bool_],
) -> Summary:
    """Counts and examples; `left` says which ids stand on side 0."""
    mentions = np.zeros(len(ids), dtype=np.int8)
    for bit in (1, 2):
        mentions[codes[(sides & bit) > 0]] |= bit
    described = (
        np.bincount(codes[of_nodes], minlength=len(ids)) if of_nodes.any() else np.zeros(len(ids), dtype=np.int64)
    )
    if (described > 1).any():
        value = ids[int(np.argmax(described > 1))].as_py()
        raise InputError(f"id {value!r} occurs more than once in the node tables: node ids must be distinct")
    both = np.flatnonzero(mentions == 3)
    if plan.bipartite and len(both):
        named = ", ".join(repr(ids[int(place)].as_py()) for place in both[:_SHOWN])
        raise InputError(
            f"{counted(len(both), 'id')} at least on both sides of the bipartite graph ({named}"
            f"{', ...' if len(both) > _SHOWN else ''}): "
            'pass prefixes=("user:", "item:") (--prefixes) to make the ids of the two sides different'
        )
    facts: Summary = {"ids": len(codes), "nodes": len(ids), "left": mentions == 1}
    facts["digest"] = int(mixed(id_hashes(ids), 1).sum(dtype=np.uint64))
    facts["num_left"] = int((mentions == 1).sum())
    for name, found in (("lacking", described == 0), ("extra", mentions == 0)):
        rows = np.flatnonzero(found) if plan.nodes else np.empty(0, dtype=np.int64)
        facts[name] = len(rows)
        facts[f"{name}_ids"] = [ids[int(row)].as_py() for row in rows[:_SHOWN]]
    return facts


def _some(summaries: Sequence[Summary], name: str, count: int) -> str:
    shown = [value for facts in summaries for value in facts[f"{name}_ids"]][:_SHOWN]
    return f"{counted(count, 'node')} ({', '.join(map(repr, shown))}{', ...' if count > len(shown) else ''})"
