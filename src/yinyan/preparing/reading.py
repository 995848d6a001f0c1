"""A prepared folder, read back as a graph and its split on one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from yinyan.datasets.digests import file_digest
from yinyan.errors import StoreError
from yinyan.graph import Graph
from yinyan.graph.features import FeatureEncoder, Features, features_from_matrix
from yinyan.graph.ids import Ids
from yinyan.preparing.writing import FORMAT, MANIFEST, MARK, part_name
from yinyan.splits import Split
from yinyan.splits.split import split_by_roles

__all__ = ["is_prepared", "read_manifest", "read_prepared"]


def is_prepared(folder: str | os.PathLike[str]) -> bool:
    """Whether a path is a prepared folder."""
    file = Path(folder) / MANIFEST
    return file.is_file() and '"starts"' in file.read_text(encoding="utf-8")


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a prepared folder, checked; files that are missing or of another graph are refused by name."""
    place = Path(folder)
    if not (place / MANIFEST).is_file():
        rest = ": the preparation is unfinished, repeat its command" if (place / ".work").exists() else ""
        raise StoreError(f"'{place}' is no prepared folder: it has no {MANIFEST}{rest}")
    try:
        facts: dict[str, Any] = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        version, files = facts["format"], facts["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"'{place / MANIFEST}' is damaged ({error!r}): prepare the graph again") from None
    if version != FORMAT:
        raise StoreError(f"'{place}' has format {version} (expected {FORMAT}): prepare the graph again")
    for name, wanted in files.items():
        if not (place / name).is_file():
            raise StoreError(f"'{place}' lacks '{name}': copy all files of the preparation, or prepare the graph again")
        if name.endswith(".parquet"):
            _check_part(place / name, facts, wanted["rows"])
    return facts


def read_prepared(folder: str | os.PathLike[str], *, verify: bool = False) -> tuple[Graph, Split]:
    """Read a prepared folder as a graph and its split, on one machine.

    Rows of the graph are those of the folder. In a bipartite graph the nodes of side 0 come first.

    Parameters
    ----------
    folder
        The folder that `prepare` wrote.
    verify
        Whether the checksum of every file is compared, which reads all of them once more.

    Returns
    -------
    tuple of Graph and Split
        The graph, and the split whose roles the folder has.

    Raises
    ------
    StoreError
        If files are missing, damaged, or of another preparation.

    Examples
    --------
    >>> from pyarrow import csv, table
    >>> csv.write_csv(table({"source": graph.edges[:, 0], "target": graph.edges[:, 1]}), "edges.csv")
    >>> from yinyan import prepare, read_prepared
    >>> prepared = prepare("edges.csv", "prepared", parts=2)
    >>> whole, split = read_prepared("prepared")
    >>> len(split.valid_targets) == prepared.roles[1]
    True
    """
    place, facts = Path(folder), read_manifest(folder)
    if verify:
        _verify(place, facts["files"])
    nodes = _joined([pq.read_table(place / part_name("nodes", part)) for part in range(facts["parts"])])
    edges = _joined([_lower_halves(place / part_name("edges", part)) for part in range(facts["parts"])])
    if (nodes.num_rows, edges.num_rows) != (facts["nodes"], facts["edges"]):
        raise StoreError(
            f"'{place}' has {nodes.num_rows:,} nodes and {edges.num_rows:,} edges (expected {facts['nodes']:,} and "
            f"{facts['edges']:,}): prepare the graph again"
        )
    encoder = None
    if facts["features"] is not None:
        encoder = FeatureEncoder.from_dict(json.loads((place / "features.json").read_text(encoding="utf-8")))
    graph, roles = _graph(nodes, edges, facts, encoder)
    return graph, split_by_roles(graph, roles, protocol=facts["split"]["protocol"], seed=facts["seed"])


def _check_part(path: Path, facts: dict[str, Any], rows: int) -> None:
    """Refuse a file that is damaged, or that another preparation wrote."""
    try:
        found = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"'{path}' is damaged ({error}): prepare the graph again") from None
    mark = (found.metadata or {}).get(MARK, b"").decode()
    if mark != facts["prepared"]:
        raise StoreError(
            f"'{path}' is of another preparation ({mark or 'without a mark'}, expected {facts['prepared']}): do "
            "not mix the parts of two graphs"
        )
    if found.num_rows != rows:
        raise StoreError(f"'{path}' has {found.num_rows:,} rows (expected {rows:,}): prepare the graph again")


def _verify(place: Path, files: dict[str, dict[str, Any]]) -> None:
    for name, wanted in files.items():
        if file_digest(place / name) != wanted["sha256"]:
            raise StoreError(f"'{place / name}' is damaged: its checksum differs from that of {MANIFEST}")


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([table.replace_schema_metadata(None) for table in tables])


def _lower_halves(path: Path) -> pa.Table:
    """The edges of a part whose smaller row it owns: over all parts, each edge once and in order."""
    table = pq.read_table(path)
    return table.filter(pa.array(table["row"].to_numpy() < table["neighbour"].to_numpy()))


def _graph(
    nodes: pa.Table, edges: pa.Table, facts: dict[str, Any], encoder: FeatureEncoder | None
) -> tuple[Graph, npt.NDArray[np.int8]]:
    """The graph, and the role of each of its edges. Sides and directions may need another order."""
    source, target = edges["row"].to_numpy(), edges["neighbour"].to_numpy()
    turned = np.zeros(len(source), dtype=np.bool_)
    sides = None
    if facts["num_left"] is not None:
        order = np.argsort(~nodes["left"].to_numpy(), kind="stable")
        nodes, sides = nodes.take(pa.array(order)), (np.arange(len(order)) >= facts["num_left"]).astype(np.int8)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        source, target = place[source], place[target]
        turned = source > target
    elif facts["directed"]:
        turned = ~edges["forward"].to_numpy()
    source, target = np.where(turned, target, source), np.where(turned, source, target)
    sort = np.argsort(source * facts["nodes"] + target)
    chosen = edges.take(pa.array(sort))
    weights, times = (np.array(chosen[name]) if name in chosen.column_names else None for name in ("weight", "time"))
    graph = Graph(
        Ids.from_values(nodes["id"]),
        np.stack([source[sort], target[sort]], axis=1),
        weights,
        times,
        _features(nodes) if encoder is not None else None,
        sides,
        facts["directed"],
        encoder,
    )
    return graph, np.array(chosen["role"])


def _features(nodes: pa.Table) -> Features:
    lists = pa.concat_arrays(nodes["features"].chunks)
    return features_from_matrix(np.array(lists.flatten()).reshape(len(lists), -1), len(lists))
