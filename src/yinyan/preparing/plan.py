"""What a preparation is made of: files, columns, options, and how much is held in memory at a time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import torch

from yinyan import __version__
from yinyan.errors import InputError, StoreError
from yinyan.files import write_text
from yinyan.graph.column_types import na_texts
from yinyan.graph.columns import find_column, guess_node_column
from yinyan.graph.edge_lists import row_name
from yinyan.graph.from_tables import Roles, choose_roles, edge_values
from yinyan.graph.node_tables import feature_names
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource
from yinyan.preparing.inputs import Paths, SourceFile, divided, find_files, opened, refuse_missing
from yinyan.training.free_memory import free_memory

__all__ = ["Partition", "Plan", "Protocol", "make_plan", "remembered"]

Partition: TypeAlias = Literal["communities", "metis", "hash"]
Protocol: TypeAlias = Literal["holdout", "clean", "temporal"]

_SHARES = {"holdout": (0.1, 0.0), "clean": (0.1, 0.2), "temporal": (0.1, 0.2)}  # validation, test
_BYTES_PER_ROW = 1024  # of an edge table, while its ids are numbered
_MOST_ROWS, _LEAST_ROWS = 1 << 22, 1 << 12  # of a chunk
_SAMPLE_ROWS = 1 << 12  # that tell whether a guessed column holds numbers
_MOST_BUCKETS = 1 << 12
_DEFAULT_MEMORY = 8 << 30


@dataclass(frozen=True)
class Plan:
    """The preparation of one graph. Results do not depend on the last four but for what memory allows."""

    out: Path
    edges: tuple[SourceFile, ...]
    nodes: tuple[SourceFile, ...]
    tables: TableOptions
    roles: Roles  # columns of the edges
    node_id: str | None  # column of the nodes
    node_columns: tuple[str, ...]  # that may become features
    parts: int
    partition: Partition
    protocol: Protocol
    valid_share: float
    test_share: float
    seed: int
    notes: tuple[str, ...]
    memory: int  # bytes
    chunk_rows: int  # rows of a table that are in memory at a time
    id_buckets: int  # by the hash of an id; a power of two
    edge_ranges: int  # ranges of rows, each with the edges of its nodes

    @property
    def work(self) -> Path:
        """The folder for what the stages leave to each other."""
        return self.out / ".work"

    @property
    def directed(self) -> bool:
        """Whether edges have a direction."""
        return self.tables.directed

    @property
    def bipartite(self) -> bool:
        """Whether edges join two kinds of nodes."""
        return self.tables.bipartite

    def digest(self) -> str:
        """A mark of everything that decides the result."""
        free = ("out", "tables", "notes", "memory", "chunk_rows", "id_buckets", "edge_ranges")
        chosen = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in free}
        chosen["roles"] = self.roles[:4]
        asked = {name: value for name, value in vars(self.tables).items() if name != "nodes"}
        text = repr((__version__, sorted(chosen.items()), sorted(asked.items())))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def make_plan(
    edges: Paths,
    out: Path,
    tables: TableOptions,
    *,
    parts: int,
    partition: Partition,
    protocol: Protocol,
    valid_share: float | None,
    test_share: float | None,
    seed: int,
    memory: float | None,
) -> Plan:
    """Find and check the files; what is wrong with options and columns is refused before anything is read."""
    _check_options(tables, parts, partition, protocol, memory)
    shares = [given if given is not None else usual for given, usual in zip(
        (valid_share, test_share), _SHARES[protocol], strict=True
    )]  # fmt: skip
    _check_shares(protocol, *shares)
    edge_files = find_files(edges, "'edges'")
    node_files = () if tables.nodes is None else find_files(tables.nodes, "'nodes' (--nodes)")
    roles, notes = _edge_columns(edge_files, tables, out)
    if protocol == "temporal" and roles.time is None:
        raise InputError("a temporal split needs the times of the edges (name their column: time='date', --time date)")
    node_id, node_columns = _node_columns(node_files, tables, out)
    budget = _budget(memory)
    rows = sum(piece.rows for group in divided((*edge_files, *node_files), _MOST_ROWS) for piece in group)
    chunk = min(_MOST_ROWS, max(_LEAST_ROWS, budget // _BYTES_PER_ROW))
    many = max(2, -(-2 * rows // chunk))
    return Plan(
        out=out, edges=edge_files, nodes=node_files, tables=tables, roles=roles, node_id=node_id,
        node_columns=node_columns, parts=parts, partition=partition, protocol=protocol, valid_share=shares[0],
        test_share=shares[1], seed=seed, notes=notes, memory=budget, chunk_rows=chunk,
        id_buckets=min(_MOST_BUCKETS, 1 << (many - 1).bit_length()), edge_ranges=min(_MOST_BUCKETS, 2 * many),
    )  # fmt: skip


def remembered(plan: Plan) -> Plan:
    """The plan with the sizes of an unfinished run of the same preparation; another preparation is refused."""
    file = plan.work / "plan.json"
    sizes = ("chunk_rows", "id_buckets", "edge_ranges")
    if not file.exists():
        facts = {"plan": plan.digest(), **{name: getattr(plan, name) for name in sizes}}
        write_text(file, json.dumps(facts))
        return plan
    known = json.loads(file.read_text(encoding="utf-8"))
    if known["plan"] != plan.digest():
        raise StoreError(
            f"'{plan.out}' holds an unfinished preparation of other files or with other options: repeat its command, "
            "choose another folder, or pass restart=True (--restart) to discard it"
        )
    return replace(plan, **{name: known[name] for name in sizes})


def _check_options(tables: TableOptions, parts: int, partition: str, protocol: str, memory: float | None) -> None:
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise InputError(f"'parts' (--parts) needs to be a positive integer (got {parts!r})")
    for name, value, allowed in (
        ("partition", partition, ("communities", "metis", "hash")),
        ("protocol", protocol, tuple(_SHARES)),
    ):
        if value not in allowed:
            raise InputError(f"{name!r} (--{name}) needs to be one of {', '.join(map(repr, allowed))} (got {value!r})")
    if memory is not None and not memory > 0:
        raise InputError(f"'memory' (--memory) needs to be a positive number of GiB (got {memory!r})")
    if tables.edge_features is not None:
        raise InputError(
            "a prepared graph keeps no edge features: leave out edge_features (--edge-feature), or fit the table in "
            "one process (yinyan fit)"
        )
    if tables.label or tables.attributes:
        raise InputError(
            "a prepared graph keeps ids, edges and features, no labels and attributes: leave out label and attributes "
            "(--label, --attribute), and pass the node table to the model (Graph.with_attributes)"
        )


def _check_shares(protocol: str, valid_share: float, test_share: float) -> None:
    if min(valid_share, test_share) < 0 or valid_share + test_share >= 1:
        raise InputError(
            "'valid_share' and 'test_share' (--valid-share, --test-share) need to be positive and to leave edges for "
            f"training (got {valid_share} and {test_share})"
        )
    if protocol == "holdout" and test_share:
        raise InputError(f"protocol 'holdout' has no test edges (got test_share {test_share}): use 'clean'")
    if protocol != "holdout" and not test_share:
        raise InputError(f"protocol {protocol!r} needs test edges (got test_share {test_share}): use 'holdout'")


def _edge_columns(files: tuple[SourceFile, ...], options: TableOptions, scratch: Path) -> tuple[Roles, tuple[str, ...]]:
    """The columns of the edges by the first file; every other local file needs to have them."""
    notes: list[str] = []
    with opened(files[0], options, scratch) as source:
        roles = choose_roles(source, options)
        named = [name for name in roles[:4] if name is not None]
        sample = next(source.blocks(named, _SAMPLE_ROWS), None)
        if not (sample is None or _holds_numbers(sample, source, "weight", roles, notes, options)):
            roles = roles._replace(weight=None)
        if not (sample is None or _holds_numbers(sample, source, "time", roles, notes, options)):
            roles = roles._replace(time=None)
    guessed = [f"{role} = {name!r}" for role, name in zip(roles._fields, roles[:4], strict=False)
               if name is not None and role in roles.guessed]  # fmt: skip
    notes += [f"columns: {', '.join(guessed)} (guessed)"] if guessed else []
    named = [name for name in roles[:4] if name is not None]
    _check_others(files, named, options, scratch)
    return roles._replace(guessed=set()), tuple(notes)


def _holds_numbers(
    sample: pa.Table,
    source: TableSource,
    role: Literal["weight", "time"],
    roles: Roles,
    notes: list[str],
    options: TableOptions,
) -> bool:
    """Whether the column of a role holds numbers; a guessed one that does not is noted, another one refused."""
    name = getattr(roles, role)
    if name is None or sample[name].null_count == sample.num_rows:
        return True
    valid = sample[name].is_valid()
    rows = np.flatnonzero(valid.to_numpy())

    def name_of(position: int) -> str:
        return row_name(int(rows[position]))

    found = edge_values(sample.filter(valid), source, name, role, roles, notes, name_of, na_texts(options.na_values))
    return found is not None


def _node_columns(
    files: tuple[SourceFile, ...], options: TableOptions, scratch: Path
) -> tuple[str | None, tuple[str, ...]]:
    if not files:
        return None, ()
    with opened(files[0], options, scratch) as source:
        names = list(source.names)
    node_id = guess_node_column(names) if options.node_id is None else find_column(names, options.node_id, "node id")
    columns = feature_names(names, node_id, options.feature_columns)
    _check_others(files, [node_id, *columns], options, scratch)
    return node_id, tuple(columns)


def _check_others(files: tuple[SourceFile, ...], columns: list[str], options: TableOptions, scratch: Path) -> None:
    for file in files[1:]:
        if not file.remote:  # the others are checked when they are read
            with opened(file, options, scratch) as source:
                refuse_missing(source, columns)


def _budget(memory: float | None) -> int:
    if memory is not None:
        return int(memory * 2**30)
    free = free_memory(torch.device("cpu"))
    return _DEFAULT_MEMORY if free is None else min(_DEFAULT_MEMORY, free // 2)
