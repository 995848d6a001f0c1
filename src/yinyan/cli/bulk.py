"""Questions and answers in bulk: ids read from tables, rows written to files, for every node part by part."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from yinyan.cli.flags import SqlTarget
from yinyan.errors import InputError, StoppedError, StoreError, UnknownNodeError
from yinyan.files import write_error, write_text
from yinyan.graph import Graph
from yinyan.graph.labels import rows_of_texts, unknown_node
from yinyan.graph.pair_tables import pair_columns
from yinyan.graph.table_writing import check_rows_file, rows_writer, write_rows
from yinyan.graph.tables import TableSource, open_table, write_parquet
from yinyan.model.fitted import Fitted
from yinyan.predictor import LinkPredictor
from yinyan.results import Id
from yinyan.retrieval.index import Index
from yinyan.retrieval.rules import Rules
from yinyan.retrieval.sharded_index import ShardedIndex
from yinyan.retrieval.state import SearchState
from yinyan.text import counted
from yinyan.training.fingerprints import graph_fingerprint

__all__ = [
    "bulk_rules",
    "candidates",
    "check_parts_folder",
    "check_rows_file",
    "is_parts_folder",
    "named_rows",
    "pairs_of",
    "recommend_all",
    "write_rows",
]

_MARK = "parts.json"  # in a folder of parts: what they are parts of
_BLOCK = 500  # sources a part of an exact search
_HASHED = 1 << 16  # rows at a time: all of them need not fit into memory
_NAMED = 5  # lines with unknown nodes that an error names
_INDEXED = 8192  # of one by an index, which asks for similar sources together


def candidates(
    graph: Graph,
    path: Path,
    *,
    header: bool = True,
    skip_unknown: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Id]:
    """The nodes in the first column of a table, by id or label."""
    opened = open_table(path, header=header)
    rows = _known_rows(graph, opened, [opened.names[0]], skip_unknown=skip_unknown, tell=tell)
    return graph.ids.take(rows[:, 0])


def bulk_rules(graph: Graph, allow: Path | None, deny: Path | None, once: str | None) -> Rules:
    """Rules from tables of source and target, by id or label."""

    def lists(path: Path | None) -> list[tuple[Id, Id]] | None:
        if path is None:
            return None
        rows = pairs_of(graph, path, None, None)
        return list(zip(graph.ids.take(rows[:, 0]), graph.ids.take(rows[:, 1]), strict=True))

    return Rules(lists(allow), lists(deny), once)  # type: ignore[arg-type]  # a wrong word is refused


def pairs_of(
    graph: Graph,
    path: Path,
    source: str | None,
    target: str | None,
    *,
    header: bool = True,
    skip_unknown: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> NDArray[np.int64]:
    """(p, 2) rows of the pairs in a table, by id or label; columns that are not named are guessed."""
    opened = open_table(path, header=header)
    columns = pair_columns(list(opened.names), source, target)
    return _known_rows(graph, opened, columns, skip_unknown=skip_unknown, tell=tell)


def recommend_all(
    model: LinkPredictor,
    path: Path,
    k: int,
    *,
    relation: str | None = None,
    index: Index | None = None,
    where: str | None = None,
    at_once: int = 1,
    sql: SqlTarget | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Write the `k` best new partners of every node to a file, by the end of its name; returns the number of rows.

    Of a model with relations those of one `relation`, for every node of its types.

    They are found exactly, or by an `index`, among the candidates that a condition `where` admits. Finished parts lie
    in a folder beside `path` until all are there, so a second call with the same model, index, `where` and `k` goes on
    after an interruption. A `path` without an ending is itself the folder of the parts. With `at_once` several parts
    are under way, so that those who search need not wait while answers are written. With `sql` the rows go to a table
    in one transaction at the end, and `path` only names the folder of the parts.
    """
    into_parts = sql is None and is_parts_folder(path)
    if sql is not None:
        sql.check()
    else:
        check_parts_folder(path) if into_parts else check_rows_file(path)
    fitted, questions, _ = model._asked(relation)
    state, total = questions.state, questions.state.num_nodes
    folder = path if into_parts else path.with_name(f"{path.name}.parts")
    block = _BLOCK if index is None else _INDEXED
    _prepare(folder, fitted, k, block, index, where, relation)
    parts = {start: folder / f"{start:012d}.parquet" for start in range(0, total, block)}

    def answer(start: int) -> None:
        nodes = named_rows(state, np.arange(start, min(start + block, total)))
        found = model.recommend(nodes, k, relation=relation, where=where, index=index, search="exact")
        write_parquet(found.to_arrow(), parts[start])

    missing = [start for start, part in parts.items() if not part.exists()]
    for done, _ in enumerate(_in_order(answer, missing, at_once, should_stop), start=len(parts) - len(missing) + 1):
        on_progress(min(done * block, total), total)
    left = sum(not part.exists() for part in parts.values())
    if left:
        done = min((len(parts) - left) * block, total)
        raise StoppedError(f"stopped after {done:,} of {total:,} nodes; the finished parts are in '{folder}'")
    if into_parts:
        return sum(pq.read_metadata(part).num_rows for part in parts.values())
    count = _join(list(parts.values()), path if sql is None else sql)
    shutil.rmtree(folder, ignore_errors=True)
    return count


def is_parts_folder(path: Path) -> bool:
    """Whether rows are to be written as a folder of Parquet parts: its name has no ending."""
    return not path.suffix


def check_parts_folder(path: Path) -> None:
    """Refuse a folder that holds something else, before its parts are made."""
    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / _MARK).exists()):
        raise StoreError(f"cannot write parts to '{path}': it is there, and holds something else (choose another name)")
    if not path.parent.is_dir():
        raise StoreError(f"cannot write '{path}': its folder does not exist (create it first)")


def _in_order(
    work: Callable[[int], None], tasks: Sequence[int], at_once: int, should_stop: Callable[[], bool]
) -> Iterator[None]:
    """One result for each task, in their order; no more than `at_once` are under way, and a stop finishes those."""
    if at_once == 1:  # in this thread, which a second Ctrl-C can interrupt
        for task in tasks:
            if should_stop():
                return
            work(task)
            yield
        return
    waiting = deque(tasks)
    running: deque[Future[None]] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="answers") as pool:
        while waiting or running:
            while waiting and len(running) < at_once and not should_stop():
                running.append(pool.submit(work, waiting.popleft()))
            if not running:
                return
            running.popleft().result()
            yield


def _known_rows(
    graph: Graph, opened: TableSource, columns: Sequence[str], *, skip_unknown: bool, tell: Callable[[str], None]
) -> NDArray[np.int64]:
    """(m, columns) rows of the graph; what is not in it is refused by its lines, or skipped and counted."""
    table = opened.read(columns)
    found = np.stack([_found(graph, table[name]) for name in columns], axis=1)
    unknown = (found < 0).any(axis=1)
    if not unknown.any():
        return found
    count = int(unknown.sum())
    if skip_unknown:
        tell(f"skipped {counted(count, 'row')} of {len(found):,} of {opened.label} with unknown nodes")
        return found[~unknown]
    bad = np.flatnonzero(unknown)
    first = int(bad[0])
    name = columns[int(np.argmax(found[first] < 0))]
    value = table[name][first].as_py()
    if value is None:
        raise InputError(f"{opened.label} has no id in row {first + 1:,} of column {name!r} (the first is 1)")
    words = unknown_node(value, graph.ids, graph.ids.__getitem__, graph.label_finder)
    more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
    raise UnknownNodeError(
        f"{opened.label}, {opened.places([first])}: {words}; {counted(count, 'row')} of {len(found):,} "
        f"with unknown nodes: {opened.places(bad[:_NAMED].tolist())}{more} (correct them, or pass --skip-unknown)"
    )


def _found(graph: Graph, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The row of each node of a column, -1 where it is unknown or missing: text may mean an integer id, or a label."""
    values = column.to_pylist()
    distinct = [value for value in dict.fromkeys(values) if value is not None]
    rows = rows_of_texts(graph, distinct, refuse=False).tolist() if distinct else []
    own = dict(zip(distinct, rows, strict=True))
    return np.array([own.get(value, -1) for value in values], dtype=np.int64)


def named_rows(state: SearchState, rows: NDArray[np.int64]) -> list[Any]:
    """Nodes as questions take them: ids, or (type, id) of a relation."""
    ids, types = state.ids(rows), state.types(rows)
    return ids if types is None else list(zip(types, ids, strict=True))


def _prepare(
    folder: Path, fitted: Fitted, k: int, block: int, index: Index | None, where: str | None, relation: str | None
) -> None:
    """The folder of parts, emptied if they are of another model, relation, index, condition or k."""
    graph = fitted.graph
    digest, embeddings = hashlib.blake2b(digest_size=16), fitted.embeddings.cpu().numpy()
    for start in range(0, len(embeddings), _HASHED):
        digest.update(embeddings[start : start + _HASHED].tobytes())
    ids = graph.ids  # part of the answer, though no embedding depends on them
    for start in range(0, len(ids), _BLOCK):
        digest.update(repr(ids.take(range(start, min(start + _BLOCK, len(ids))))).encode())
    facts = {"model": digest.hexdigest(), "graph": graph_fingerprint(graph), "k": k, "block": block}
    facts |= {"by": None if index is None else _kind_of(index)} | ({} if relation is None else {"relation": relation})
    mark = json.dumps({**facts, "where": where, "attributes": _attributes_digest(graph)})
    label = folder / _MARK
    try:
        if folder.exists() and (not label.exists() or label.read_text(encoding="utf-8") != mark):
            shutil.rmtree(folder)
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    write_text(label, mark)


def _kind_of(index: Index) -> dict[str, object]:
    """What parts that an index answered have in common.

    Lists of shards are made anew after an interruption: then another effort may be chosen, by its time, and it keeps
    the same recall.
    """
    names = ("kind", "promised_recall") if isinstance(index, ShardedIndex) else ("kind", "effort")
    facts = index.metadata.to_dict()
    return {name: facts[name] for name in (*names, "cells", "seed")}


def _attributes_digest(graph: Graph) -> str | None:
    """A digest of labels and attributes, which answers show and conditions read."""
    if graph.attributes is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, graph.attributes.table.schema) as writer:
        writer.write_table(graph.attributes.table)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()


def _join(parts: list[Path], out: Path | SqlTarget) -> int:
    """All parts as one file or in one table, a part in memory at a time; returns the number of rows."""
    schema = _joint_schema(parts)
    tables = (pq.read_table(part).cast(schema) for part in parts if pq.read_metadata(part).num_rows)
    if not isinstance(out, Path):
        return out.write(schema, tables)
    count = 0
    with rows_writer(out, schema) as write:
        for table in tables:
            write(table)
            count += table.num_rows
    return count


def _joint_schema(parts: list[Path]) -> pa.Schema:
    """The parts' columns: integers where every part has integers, else text; a part without rows has no say."""
    filled = [pq.read_schema(part) for part in parts if pq.read_metadata(part).num_rows]
    if not filled:
        return pq.read_schema(parts[0])
    schema = filled[0]
    for other in filled[1:]:
        for place, field in enumerate(other):
            if field.type != schema.field(place).type:
                schema = schema.set(place, pa.field(field.name, pa.large_string()))
    return schema
