"""A prepared folder: its manifest, and the parts of one process."""

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

from yinyan.errors import InputError, StoreError
from yinyan.files import file_digest
from yinyan.graph.features import FeatureEncoder

__all__ = [
    "FORMAT",
    "MANIFEST",
    "MARK",
    "ROLES",
    "Manifest",
    "Part",
    "part_name",
    "read_ids",
    "read_manifest",
    "read_part",
]

FORMAT = 1
MANIFEST = "manifest.json"
MARK = b"yinyan.prepared"  # in the metadata of every file: which preparation it is of
ROLES = {"train": 0, "valid": 1, "test": 2}
_CURE = "copy all files of the preparation again, or run yinyan prepare again"
_KEYS = (
    *("parts", "nodes", "edges", "directed", "num_left", "starts", "features", "graph", "files"),
    *("prepared", "seed", "split"),
)


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
        return str(self.content["split"]["protocol"])

    @property
    def seed(self) -> int:
        """The seed of the split."""
        return int(self.content["seed"])

    def encoder(self) -> FeatureEncoder | None:
        """How columns of nodes became features."""
        if self.content["features"] is None:
            return None
        file = self.folder / "features.json"
        try:
            return FeatureEncoder.from_dict(json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise StoreError(f"'{self.folder}' lacks 'features.json': {_CURE}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"'{file}' is damaged ({error!r}): {_CURE}") from error

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


def part_name(kind: str, part: int) -> str:
    """The path of a part's file below the prepared folder."""
    return f"{kind}/part-{part:05d}.parquet"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a prepared folder."""
    file = folder / MANIFEST
    try:
        data = file.read_bytes()
        content = json.loads(data)
        missing = [key for key in ("format", *_KEYS) if key not in content]
    except FileNotFoundError:
        rest = (
            "the preparation is unfinished, repeat its command" if (folder / ".work").exists() else "run yinyan prepare"
        )
        raise StoreError(f"'{folder}' is no prepared folder: it has no {MANIFEST} ({rest})") from None
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"'{file}' is damaged ({error!r}): {_CURE}") from error
    if "format" not in missing and content["format"] != FORMAT:
        raise StoreError(f"'{folder}' has format {content['format']} (expected {FORMAT}): prepare the graph again")
    if missing:
        raise StoreError(f"'{file}' is damaged (it lacks {', '.join(missing)}): {_CURE}")
    if len(content["starts"]) != content["parts"] + 1 or content["starts"][-1] != content["nodes"]:
        raise StoreError(f"'{file}' is damaged (its starts do not fit its parts and nodes): {_CURE}")
    return Manifest(folder, content, hashlib.sha256(data).hexdigest())


def read_ids(manifest: Manifest) -> pa.ChunkedArray:
    """The ids of all nodes, in the order of the rows."""
    tables = [_table(manifest, "nodes", part, verify=False, columns=["id"]) for part in range(manifest.num_parts)]
    return pa.chunked_array(
        [chunk for table in tables for chunk in table["id"].chunks], tables[0].schema.field("id").type
    )


def read_part(manifest: Manifest, parts: range, *, once: bool = False, verify: bool = True) -> Part:
    """The nodes and edges of some parts that follow each other.

    Edges between owned rows are there from both of their ends; `once` leaves out the end with the larger row, so that
    all parts together have every edge once. `verify` compares checksums.
    """
    nodes = pa.concat_tables([_table(manifest, "nodes", part, verify=verify) for part in parts])
    halves = (_table(manifest, "edges", part, verify=verify) for part in parts)
    edges = pa.concat_tables([_lower_halves(table) if once else table for table in halves])
    starts = manifest.content["starts"]
    first, last = starts[parts.start], starts[parts.stop]
    rows = _column(nodes, "row", np.int64)
    if not np.array_equal(rows, np.arange(first, last)):
        raise StoreError(
            f"parts {parts.start} to {parts.stop - 1} of '{manifest.folder}' do not hold the rows {first:,} to "
            f"{last - 1:,} of the manifest: {_CURE}"
        )
    features = None
    if manifest.num_features:
        values = nodes["features"].combine_chunks().flatten()
        features = np.array(values, dtype=np.float32).reshape(len(rows), manifest.num_features)
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
        time=np.array(edges["time"]) if "time" in names else None,
    )


def _table(manifest: Manifest, kind: str, part: int, *, verify: bool, columns: list[str] | None = None) -> pa.Table:
    """A file of the folder, or some columns of it, of its preparation and as the manifest describes it."""
    name = part_name(kind, part)
    path = manifest.folder / name
    listed = manifest.content["files"].get(name, {})
    try:
        table = pq.read_table(path, columns=columns)
    except FileNotFoundError:
        raise StoreError(f"'{manifest.folder}' lacks '{name}', part {part} is missing: {_CURE}") from None
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"'{path}' is damaged ({error}): {_CURE}") from error
    metadata = table.schema.metadata or {}
    mark = metadata.get(MARK, b"").decode()
    if mark != manifest.content["prepared"]:
        raise StoreError(
            f"'{path}' is of another preparation ({mark or 'without a mark'}, expected "
            f"{manifest.content['prepared']}): do not mix the parts of two graphs ({_CURE})"
        )
    if table.num_rows != listed.get("rows"):
        raise StoreError(f"'{path}' has {table.num_rows:,} rows (expected {listed.get('rows')}): {_CURE}")
    if verify and file_digest(path) != listed.get("sha256"):
        raise StoreError(f"'{path}' is damaged: its checksum differs from that of {MANIFEST} ({_CURE})")
    return table.replace_schema_metadata(None)


def _lower_halves(edges: pa.Table) -> pa.Table:
    return edges.filter(pa.array(edges["row"].to_numpy() < edges["neighbour"].to_numpy()))


def _column(table: pa.Table, name: str, dtype: Any) -> NDArray[Any]:
    """As an array of its own: Arrow's memory is not writable, which torch asks for."""
    return np.require(table[name].to_numpy(), dtype, "W")
