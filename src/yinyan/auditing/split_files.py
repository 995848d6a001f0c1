"""Splits that other people wrote, read from a folder of files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph import Graph
from yinyan.graph.columns import find_column, guess_edge_columns
from yinyan.graph.node_tables import prefixed
from yinyan.graph.tables import TableSource, open_table
from yinyan.splits import Parts

__all__ = ["NAMING", "TABLES", "SplitFolder", "part_named", "read_split_folder"]

# A name is made of these words and nothing else: a part, perhaps a label, and words that add nothing.
_PART_WORDS = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}
_POSITIVE = frozenset({"pos", "positive", "positives", "true", "edge", "edges", "link", "links"})
_NEGATIVE = frozenset({"neg", "negative", "negatives", "false", "non", "samples"})
_FILLERS = frozenset({"heart", "split", "set", "data", "pairs"})
_LABELS = ("label", "labels", "y")

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".jsonl", ".ndjson", ".xlsx")
NAMING = (
    "train, valid (or val, validation) and test, alone or with _pos, _edges, _links or _neg, _edges_false "
    f"({', '.join(TABLES)}, .npy, .npz, OGB's .pt), or HeaRT's heart_test_samples.npy"
)

Values = tuple[Any, Any] | NDArray[Any]  # two columns of ids, or an array (..., 2) of them


class SplitFolder(NamedTuple):
    """The parts that a folder holds, and what was left aside."""

    parts: Parts
    notes: tuple[str, ...]


class _Entry(NamedTuple):
    name: str  # what messages call it
    part: str
    negative: bool
    special: bool  # each link's own negatives, which are taken before shared ones
    load: Callable[[], Values]


def read_split_folder(
    folder: Path, graph: Graph, *, prefixes: tuple[str, str] | None = None, encoding: str = "utf-8"
) -> SplitFolder:
    """Read a split whose files name nodes by the graph's ids; `NAMING` says what files may be called."""
    if not folder.is_dir():
        raise InputError(f"'{folder}' is not a folder: name the folder that holds the files of the split ({NAMING})")
    entries: list[_Entry] = []
    notes: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            found = list(_entries(path, graph, encoding))
            entries += found
            notes += [] if found else [f"left '{path.name}' aside: its name is no part of a split"]
    arrays = {}
    for part in _PART_WORDS:
        for negative in (False, True):
            chosen, left = _choose([e for e in entries if (e.part, e.negative) == (part, negative)])
            notes += [f"left '{entry.name}' aside: '{chosen.name}' is taken" for entry in left if chosen]
            if chosen is not None:
                arrays[f"{part}_negatives" if negative else part] = _rows(chosen, graph, prefixes)
    _refuse_missing(folder, arrays, notes)
    arrays.setdefault("valid", np.empty((0, 2), dtype=np.int64))
    return SplitFolder(Parts(**arrays), tuple(notes))


def _refuse_missing(folder: Path, arrays: Mapping[str, Any], notes: list[str]) -> None:
    missing = [part for part in ("train", "test") if part not in arrays]
    if missing:
        held = sorted(path.name for path in folder.iterdir())
        shown = ", ".join(held[:8]) + (" and more" if len(held) > 8 else "") or "nothing"
        raise InputError(f"'{folder}' has no links of '{missing[0]}' (it holds {shown}): name the files {NAMING}")
    if "valid" not in arrays:
        notes.append("no validation links")


def _choose(entries: list[_Entry]) -> tuple[_Entry | None, list[_Entry]]:
    """The one entry of a role, and those that it outranks."""
    best = [entry for entry in entries if entry.special] or entries
    if len(best) > 1:
        names = " and ".join(f"'{entry.name}'" for entry in best)
        what = f"{best[0].part} {'negatives' if best[0].negative else 'links'}"
        raise InputError(f"the {what} are given more than once, by {names}: move all but one out of the folder")
    return (best[0] if best else None), [entry for entry in entries if entry not in best]


def _entries(path: Path, graph: Graph, encoding: str) -> Iterator[_Entry]:
    """What a file holds: one role, or several by key or label."""
    name = path.name.removesuffix(".gz")
    stem, suffix = Path(name).stem, Path(name).suffix.lower()
    if not _might_be_split(stem):
        return
    if suffix == ".npy":
        yield from _entry(stem, path.name, lambda: _load_numpy(path))
    elif suffix in (".npz", ".pt"):
        held = _load_numpy(path) if suffix == ".npz" else _load_pt(path)
        for key, array in held.items():
            yield from _entry(f"{stem}_{key}", f"{path.name}: {key}", lambda array=array: array)  # type: ignore[misc]
    elif suffix in TABLES:
        yield from _table_entries(path, stem, graph, encoding)


def _might_be_split(stem: str) -> bool:
    return _words(stem) <= _POSITIVE | _NEGATIVE | _FILLERS | set().union(*_PART_WORDS.values())


def _words(stem: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", stem.lower()))


def part_named(stem: str) -> str | None:
    """The part whose links a file of this name holds; None if it is another file, or one of negatives."""
    found = list(_entry(stem, stem, lambda: np.empty(0)))
    return found[0].part if found and not found[0].negative else None


def _entry(stem: str, name: str, load: Callable[[], Values]) -> Iterator[_Entry]:
    """The role that a name gives, or nothing."""
    words = _words(stem)
    parts = [part for part, called in _PART_WORDS.items() if words & set(called)]
    if len(parts) == 1 and _might_be_split(stem):
        yield _Entry(name, parts[0], bool(words & _NEGATIVE), "samples" in words, load)


def _table_entries(path: Path, stem: str, graph: Graph, encoding: str) -> Iterator[_Entry]:
    if not list(_entry(stem, path.name, lambda: np.empty(0))):
        return
    table = _opened(path, graph, encoding)
    label = next((name for name in table.names if name.strip().lower() in _LABELS), None)
    if label is None:
        yield from _entry(stem, path.name, lambda: _columns(table, None, ""))
        return
    for value, word in (("1", "pos"), ("0", "neg")):
        yield from _entry(f"{stem}_{word}", f"{path.name}: {label} {value}", lambda v=value: _columns(table, label, v))  # type: ignore[misc]


def _opened(path: Path, graph: Graph, encoding: str) -> TableSource:
    """A table whose first line is data if it reads so, or if it names two nodes."""
    try:
        table = open_table(path, encoding=encoding)
    except InputError:
        return open_table(path, encoding=encoding, header=False)
    first = [name for name in table.names if name.strip()][:2]
    if table.is_text and len(first) == 2 and (_look_up(graph, pa.array(first)) >= 0).all():
        return open_table(path, encoding=encoding, header=False)
    return table


def _columns(table: TableSource, label: str | None, value: str) -> Values:
    names = [name for name in table.names if name != label]
    first, second = guess_edge_columns(names)
    rows = table.read([first, second, *([] if label is None else [find_column(table.names, label, "label")])])
    if label is not None:
        labels = pc.utf8_trim_whitespace(rows[label].cast(pa.string()))
        known = pc.is_in(labels, value_set=pa.array(["0", "1"]))
        if not pc.all(known).as_py():
            raise InputError(f"{table.label} needs 0 or 1 in each row of column {label!r}: 1 is a link, 0 a negative")
        rows = rows.filter(pc.equal(labels, value))
    return rows[first].combine_chunks(), rows[second].combine_chunks()


def _load_numpy(path: Path) -> Any:
    """An array, or arrays by key."""
    try:
        held = np.load(path, allow_pickle=False)
        if isinstance(held, np.ndarray):
            return held
        with held:
            return dict(held)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"'{path}' cannot be read ({error}): save a plain array, or several, with numpy") from None


def _load_pt(path: Path) -> Mapping[str, NDArray[Any]]:
    """Arrays or tensors by name, or a single one; OGB's sources and targets are joined to pairs."""
    import torch

    from yinyan.datasets.pickles import UnpicklingError, read_torch_pickle

    try:
        held = read_torch_pickle(path)
    except InputError as refusal:
        try:
            held = torch.load(path, map_location="cpu", weights_only=True)  # runs no code from the file
        except (UnpicklingError, RuntimeError, ValueError, EOFError, OSError):
            raise refusal from None
    named = held.items() if isinstance(held, dict) else [("", held)]
    arrays = {str(key): np.asarray(values) for key, values in named if hasattr(values, "__array__")}
    if "source_node" in arrays and "target_node" in arrays:
        source, target = arrays.pop("source_node"), arrays.pop("target_node")
        arrays["edge"] = np.stack([source, target], axis=1)
        others = arrays.pop("target_node_neg", None)
        if others is not None:
            arrays["edge_neg"] = np.stack(np.broadcast_arrays(source[:, None], others), axis=-1)
    return arrays


def _rows(entry: _Entry, graph: Graph, prefixes: tuple[str, str] | None) -> NDArray[Any]:
    """Pairs of ids as pairs of node rows."""
    values = entry.load()
    if isinstance(values, np.ndarray):
        values = _paired(entry, values)
        shape, ends = values.shape[:-1], [pa.array(values[..., side].reshape(-1)) for side in (0, 1)]
    else:
        shape, ends = (len(values[0]),), list(values)
    if prefixes is not None:
        ends = [prefixed(end, prefix) for end, prefix in zip(ends, prefixes, strict=True)]
    found = [_look_up(graph, end) for end in ends]
    for end, rows in zip(ends, found, strict=True):
        if (rows < 0).any():
            raise InputError(_unknown(entry, graph, end[int((rows < 0).argmax())].as_py()))
    return np.stack(found, axis=-1).reshape(*shape, 2)


def _paired(entry: _Entry, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 2 and array.shape[0] == 2 and array.shape[1] != 2:
        array = array.T  # as PyTorch Geometric writes them
    shared = array.ndim == 2 or (array.ndim == 3 and entry.negative and entry.part != "train")
    if not shared or array.shape[-1] != 2 or array.dtype.kind not in "iuU":
        own = ", or (links, negatives, 2)" if entry.negative and entry.part != "train" else ""
        raise InputError(
            f"'{entry.name}' needs to be an array of ids of shape (pairs, 2){own} "
            f"(got {array.dtype}, shape {array.shape})"
        )
    return array


def _look_up(graph: Graph, ids: pa.Array) -> NDArray[np.int64]:
    """The row of each id, -1 if unknown; as for the command line, text may mean an integer, and here the reverse."""
    found = graph.ids.find(ids)
    if (found >= 0).all():
        return found
    if pa.types.is_integer(ids.type):
        other = ids.cast(pa.large_string())
    else:
        ids = ids.cast(pa.large_string())
        spelled = pc.match_substring_regex(ids, r"^(0|-?[1-9][0-9]{0,17})$")
        other = pc.if_else(spelled, ids, pa.scalar(None, pa.large_string())).cast(pa.int64())
    return np.where(found >= 0, found, graph.ids.find(other))


def _unknown(entry: _Entry, graph: Graph, value: Any) -> str:
    words = "a pair lacks an end"
    try:
        if value is not None:
            graph.ids.row(value)
    except UnknownNodeError as error:
        words = str(error)
    return f"'{entry.name}': {words}. The table of links needs those of all parts; --nodes adds nodes without links"
