"""A prepared folder: its manifest, the parts of one process, and the whole graph."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from yinyan.errors import InputError

__all__ = ["ROLES", "Manifest", "Part", "is_prepared", "read_manifest", "read_part"]

FORMAT = 1
ROLES = {"train": 0, "valid": 1, "test": 2}
_KEYS = ("format", "parts", "nodes", "edges", "directed", "num_left", "starts", "features", "graph", "files")


@dataclass(frozen=True)
class Manifest:
    """What a prepared folder holds."""

    folder: Path
    content: dict[str, Any]
    digest: str  # of the file

    @property
    def num_nodes(self) -> int:
        """Nodes of the whole graph."""
        return int(self.content["nodes"])

    @property
    def num_edges(self) -> int:
        """Edges of the whole graph."""
        return int(self.content["edges"])

    @property
    def num_parts(self) -> int:
        """Parts, each with its rows."""
        return int(self.content["parts"])

    @property
    def num_left(self) -> int | None:
        """Nodes of the left side; None unless the graph is bipartite."""
        return None if self.content["num_left"] is None else int(self.content["num_left"])

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return bool(self.content["directed"])

    @property
    def num_features(self) -> int:
        """Columns of the node features."""
        features = self.content["features"]
        return 0 if features is None else len(features["columns"])

    @property
    def protocol(self) -> str:
        """How the edges were split."""
        return str(self.content.get("split", {}).get("protocol", "holdout"))

    def starts(self, num_processes: int) -> NDArray[np.int64]:
        """(processes + 1,) where the rows of each process begin: each has parts that follow each other."""
        if num_processes > self.num_parts:
            raise InputError(
                f"'{self.folder}' has {self.num_parts} parts, and there are {num_processes} processes: each needs a "
                f"part of its own (prepare the graph with --parts {num_processes}, or start fewer processes)"
            )
        starts = np.asarray(self.content["starts"], dtype=np.int64)
        return starts[[process * self.num_parts // num_processes for process in range(num_processes + 1)]]

    def parts_of(self, process: int, num_processes: int) -> range:
        """The parts of a process."""
        return range(
            process * self.num_parts // num_processes,
            (process + 1) * self.num_parts // num_processes,
        )


@dataclass(frozen=True)
class Part:
    """Nodes and edges of consecutive rows."""

    ids: pa.ChunkedArray
    features: NDArray[np.float32] | None  # (rows, c)
    left: NDArray[np.bool_] | None  # (rows,) of a bipartite graph
    row: NDArray[np.int64]  # (e,) of the edges, sorted by (row, neighbour)
    neighbour: NDArray[np.int64]
    edge: NDArray[np.int64]  # number of the undirected edge
    role: NDArray[np.int8]
    forward: NDArray[np.bool_] | None  # row -> neighbour, of a directed graph
    weight: NDArray[np.float32] | None
    time: NDArray[Any] | None


def is_prepared(path: Path) -> bool:
    """Whether a path is a prepared folder."""
    return path.is_dir() and (path / "manifest.json").is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared folder."""
    file = folder / "manifest.json"
    try:
        data = file.read_bytes()
        content = json.loads(data)
    except FileNotFoundError:
        raise InputError(
            f"'{folder}' is no prepared folder: it has no manifest.json, which is written last "
            "(run yinyan prepare, or run it again if it was stopped)"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read '{file}': {error} (run yinyan prepare again)") from error
    missing = [key for key in _KEYS if key not in content]
    if missing or content["format"] != FORMAT:
        wrong = f"it lacks {', '.join(missing)}" if missing else f"it has format {content['format']}, expected {FORMAT}"
        raise InputError(f"cannot read '{file}': {wrong} (run yinyan prepare of this version)")
    if len(content["starts"]) != content["parts"] + 1 or content["starts"][-1] != content["nodes"]:
        raise InputError(f"'{file}' is damaged: its starts do not fit its parts and nodes (run yinyan prepare again)")
    return Manifest(folder, content, hashlib.sha256(data).hexdigest())


def read_part(manifest: Manifest, parts: range) -> Part:
    """The nodes and edges of some parts that follow each other."""
    nodes = pa.concat_tables([_table(manifest, "nodes", part) for part in parts])
    edges = pa.concat_tables([_table(manifest, "edges", part) for part in parts])
    starts = manifest.content["starts"]
    first, last = starts[parts.start], starts[parts.stop]
    rows = _column(nodes, "row", np.int64)
    if not np.array_equal(rows, np.arange(first, last)):
        raise InputError(
            f"parts {parts.start} to {parts.stop - 1} of '{manifest.folder}' do not hold the rows {first:,} to "
            f"{last - 1:,} of the manifest: they are of another graph (run yinyan prepare again)"
        )
    features = None
    if manifest.num_features:
        values = nodes["features"].combine_chunks().flatten()
        features = np.asarray(values, dtype=np.float32).reshape(len(rows), manifest.num_features)
    names = edges.column_names
    return Part(
        ids=nodes["id"],
        features=features,
        left=None if manifest.num_left is None else _column(nodes, "left", np.bool_),
        row=_column(edges, "row", np.int64),
        neighbour=_column(edges, "neighbour", np.int64),
        edge=_column(edges, "edge", np.int64),
        role=_column(edges, "role", np.int8),
        forward=_column(edges, "forward", np.bool_) if manifest.directed else None,
        weight=_column(edges, "weight", np.float32) if "weight" in names else None,
        time=np.asarray(edges["time"]) if "time" in names else None,
    )


def _table(manifest: Manifest, kind: str, part: int) -> pa.Table:
    """A file of the folder; it needs to be there, with as many rows as the manifest names."""
    name = f"{kind}/part-{part:05d}.parquet"
    path = manifest.folder / name
    listed = manifest.content["files"].get(name, {})
    cure = "copy it again, or run yinyan prepare again"
    try:
        digest = _digest(path)
        table = pq.read_table(path)
    except FileNotFoundError:
        raise InputError(f"part {part} is missing: there is no '{path}' ({cure})") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"cannot read '{path}': {error} ({cure})") from error
    if listed.get("rows") != table.num_rows or listed.get("sha256") != digest:
        raise InputError(
            f"'{path}' is not the file of the manifest: {table.num_rows:,} rows and digest {digest[:12]}, expected "
            f"{listed.get('rows', 0):,} and {str(listed.get('sha256'))[:12]}: it is damaged, or of another graph "
            f"({cure})"
        )
    return table


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _column(table: pa.Table, name: str, dtype: Any) -> NDArray[Any]:
    """As an array of its own: Arrow's memory is not writable, which torch asks for."""
    return np.require(table[name].to_numpy(), dtype, "W")
