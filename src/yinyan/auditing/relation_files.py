"""Splits of graphs with relations that other people wrote: a table with a column of relations for each part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yinyan.auditing.split_files import TABLES, part_named
from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.typed_graph import TypedGraph
from yinyan.graph.typed_tables import ONE_TYPE, TypedOptions, graph_from_tables
from yinyan.splits import Parts

__all__ = ["read_relation_folder"]

Rows = NDArray[np.int64]


def read_relation_folder(folder: Path, graph: TypedGraph, options: TypedOptions) -> dict[str, Parts]:
    """The parts of each relation; the files are read as the table of the graph was, and name its nodes."""
    if not folder.is_dir():
        raise InputError(f"'{folder}' is not a folder: name the folder that holds train, valid and test tables")
    plain = replace(options.tables, nodes=None, node_id=None, feature_columns=None, label=None, attributes=None)
    parts: dict[str, dict[str, Rows]] = {}
    for path, part in _files(folder):
        if part in parts:
            raise InputError(f"the {part} links are given more than once, by '{path.name}' too: move one out")
        read = graph_from_tables(path, replace(options, tables=plain, nodes=None))
        parts[part] = {name: _rows(graph, read, name, path) for name in read.relations}
    for part in ("train", "test"):
        if part not in parts:
            raise InputError(f"'{folder}' has no table of {part} links ({', '.join(TABLES)}), such as {part}.csv")
    none = np.empty((0, 2), dtype=np.int64)
    names = dict.fromkeys(name for found in parts.values() for name in found)
    return {
        name: Parts(*(parts.get(part, {}).get(name, none) for part in ("train", "valid", "test"))) for name in names
    }


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Tables whose name says which part they are."""
    for path in sorted(folder.iterdir()):
        bare = Path(path.name.removesuffix(".gz"))
        part = part_named(bare.stem) if path.is_file() and bare.suffix.lower() in TABLES else None
        if part is not None:
            yield path, part


def _rows(graph: TypedGraph, part: TypedGraph, name: str, path: Path) -> Rows:
    """(m, 2) rows of the edges of a relation among the nodes of the whole graph."""
    graph.relation(name)  # an unknown one is refused
    ids = part.nodes[ONE_TYPE].ids
    rows = graph.nodes[ONE_TYPE].ids.find(ids.take(range(len(ids))))
    if (rows < 0).any():
        words = graph.nodes[ONE_TYPE].ids.unknown(ids[int(np.argmax(rows < 0))])
        raise UnknownNodeError(f"'{path.name}': {words}. The table of edges needs those of all parts")
    return rows[part.relations[name].edges]
