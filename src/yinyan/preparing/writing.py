"""Last stage: the files of each part, and the manifest that makes them a prepared graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from yinyan import __version__
from yinyan.distributed.prepared import FORMAT, MANIFEST, MARK, part_name
from yinyan.errors import StoreError
from yinyan.files import atomic_path, file_digest, write_text
from yinyan.preparing.buckets import read_bucket
from yinyan.preparing.plan import Plan
from yinyan.preparing.ranges import Ranges
from yinyan.preparing.tasks import Summary, task_files
from yinyan.progress import make_folder

__all__ = ["Material", "write_manifest", "write_part"]

Rows = npt.NDArray[np.int64]


class Material(NamedTuple):
    """What the parts have in common."""

    mark: str  # of the preparation
    ranges: Ranges
    features: int  # columns
    missing: tuple[float, ...]  # features of a node without a row in the node tables
    id_type: str  # 'int64' or 'string'
    with_weights: bool
    with_times: bool


def write_part(plan: Plan, common: Material, place: Path, part: int) -> Summary:
    """Write the nodes and edges of a part, a range at a time."""
    ranges = common.ranges
    own = range(part * ranges.per_part, (part + 1) * ranges.per_part)
    first, last = int(ranges.bounds[own[0]]), int(ranges.bounds[own[-1] + 1])
    met = np.zeros(int(ranges.bounds[-1]), dtype=np.bool_)  # nodes of other parts that are neighbours here
    facts: Summary = {"nodes": 0, "edges": 0, "cut": 0, "roles": [0, 0, 0]}
    names = {kind: part_name(kind, part) for kind in ("nodes", "edges")}
    with (
        _parquet(plan.out / names["nodes"], _node_schema(plan, common)) as nodes,
        _parquet(plan.out / names["edges"], _edge_schema(plan, common)) as edges,
    ):
        for number in own:
            halves = _halves(plan, ranges, number)
            degrees = np.zeros(ranges.bounds[number + 1] - ranges.bounds[number], dtype=np.int64)
            if halves is not None:
                row, role, neighbour = (halves[name].to_numpy() for name in ("row", "role", "neighbour"))
                degrees += np.bincount(row[role == 0] - ranges.bounds[number], minlength=len(degrees))
                outside = neighbour[(neighbour < first) | (neighbour >= last)]
                met[outside] = True
                facts["cut"] += len(outside)
                facts["edges"] += len(row)
                facts["roles"] = (np.array(facts["roles"]) + np.bincount(role, minlength=3)).tolist()
                edges.write_table(halves.select(edges.schema.names).cast(edges.schema))
            if len(degrees):
                nodes.write_table(_nodes(plan, common, number, degrees).select(nodes.schema.names).cast(nodes.schema))
            facts["nodes"] += len(degrees)
    facts["boundary"] = int(met.sum())
    facts["files"] = {
        name: {"rows": facts[kind], "sha256": file_digest(plan.out / name)} for kind, name in names.items()
    }
    return facts


def write_manifest(plan: Plan, facts: dict[str, Any], encoder: dict[str, Any] | None) -> None:
    """The encoder of features, if there are any, and last of all the manifest."""
    files = dict(facts.pop("files"))
    if encoder is not None:
        write_text(plan.out / "features.json", json.dumps(encoder))
        files["features.json"] = {"rows": 1, "sha256": file_digest(plan.out / "features.json")}
    whole = {"format": FORMAT, "yinyan": __version__, "plan": plan.digest(), **facts, "files": files}
    write_text(plan.out / MANIFEST, json.dumps(whole, indent=1) + "\n")


def _halves(plan: Plan, ranges: Ranges, number: int) -> pa.Table | None:
    """The edges of a range of rows, sorted by row and neighbour."""
    table = read_bucket(task_files(plan.work, "halve-edges", ".halves"), number, len(ranges))
    if table is None:
        return None
    row, neighbour = table["row"].to_numpy(), table["neighbour"].to_numpy()
    keys = row * ranges.bounds[-1] + neighbour
    if plan.directed:  # of an edge and its reverse, the one that leaves the row first
        keys = 2 * keys + ~table["forward"].to_numpy()
    return table.take(pa.array(np.argsort(keys)))


def _nodes(plan: Plan, common: Material, number: int, degrees: Rows) -> pa.Table:
    """The nodes of a range of rows, in order."""
    ranges = common.ranges
    rows = np.arange(ranges.bounds[number], ranges.bounds[number + 1])
    table = read_bucket(task_files(plan.work, "place-ids", ".nodes"), number, len(ranges))
    order = np.empty(0, dtype=np.int64) if table is None else np.argsort(table["row"].to_numpy())
    if table is None or not np.array_equal(table["row"].to_numpy()[order], rows):
        raise StoreError(f"ids are missing among rows {rows[0]:,} to {rows[-1]:,}: prepare anew with restart=True")
    table = table.take(pa.array(order)).append_column("degree", pa.array(degrees))
    return table.append_column("features", _features(plan, common, number, rows)) if common.features else table


def _features(plan: Plan, common: Material, number: int, rows: Rows) -> pa.Array:
    matrix = np.empty((len(rows), common.features), dtype=np.float32)
    matrix[:] = common.missing or np.nan
    table = read_bucket(task_files(plan.work, "send-features", ".features"), number, len(common.ranges))
    if table is not None:
        values = pa.concat_arrays(table["features"].chunks).flatten().to_numpy()
        matrix[table["row"].to_numpy() - rows[0]] = values.reshape(-1, common.features)
    if np.isnan(matrix).any():
        raise StoreError(f"features are missing among rows {rows[0]:,} to {rows[-1]:,}: prepare anew with restart=True")
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), common.features)


def _node_schema(plan: Plan, common: Material) -> pa.Schema:
    columns = [("row", pa.int64()), ("id", pa.int64() if common.id_type == "int64" else pa.large_string())]
    columns += [("left", pa.bool_())] if plan.bipartite else []
    columns += [("degree", pa.int64())]
    columns += [("features", pa.list_(pa.float32(), common.features))] if common.features else []
    return pa.schema(columns, {MARK: common.mark.encode()})


def _edge_schema(plan: Plan, common: Material) -> pa.Schema:
    columns = [("row", pa.int64()), ("neighbour", pa.int64()), ("edge", pa.int64()), ("role", pa.int8())]
    columns += [("weight", pa.float32())] if common.with_weights else []
    columns += [("time", pa.int64())] if common.with_times else []
    columns += [("forward", pa.bool_())] if plan.directed else []
    return pa.schema(columns, {MARK: common.mark.encode()})


@contextmanager
def _parquet(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    make_folder(path.parent, path)
    text = [field.name for field in schema if pa.types.is_large_string(field.type)]
    with (
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", use_dictionary=text) as writer,
    ):
        yield writer
