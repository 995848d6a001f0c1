"""Labels of nodes: which column holds them, and which node a label stands for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError, UnknownNodeError
from yinyan.graph.attributes import as_text
from yinyan.graph.columns import plain_name
from yinyan.graph.ids import Id, Ids
from yinyan.text import counted

if TYPE_CHECKING:
    from yinyan.graph.graph import Graph

__all__ = ["LABEL_NAMES", "LabelFinder", "guess_label", "rows_by_name", "rows_of_texts", "unknown_node"]

Rows: TypeAlias = npt.NDArray[np.int64]

LABEL_NAMES = ("label", "name", "title", "fullname", "displayname", "labels", "names", "titles")
_NEARLY_UNIQUE = 0.9  # distinct values per row, from which on a column of any name can be the label
_NAMED = 0.5  # the same of a column with a usual name: people may share a name
_LONGEST = 120  # characters, in the mean, of a label without a usual name: abstracts are unique too
_ALIKE = 0.6  # how alike two spellings must be, from 0 to 1
_COMPARED = 2_000  # labels that difflib looks at
_SHOWN = 5  # candidates of an ambiguous label that an error names


def guess_label(columns: dict[str, pa.ChunkedArray]) -> str | None:
    """The column of labels: unique or nearly unique text; one with a usual name comes first."""
    shares = {name: _distinct_share(column) for name, column in columns.items() if _is_text(column.type)}
    usual = {plain_name(name): name for name in reversed(shares)}
    for word in LABEL_NAMES:
        if shares.get(usual.get(word, ""), 0.0) > _NAMED:
            return usual[word]
    good = [name for name, share in shares.items() if share >= _NEARLY_UNIQUE and _reads_as_label(columns[name])]
    return good[0] if good else None


class LabelFinder:
    """Finds rows by label: exactly, then without regard to case. Few labels that came later are compared one by one."""

    def __init__(self, labels: pa.Array | None, newer: Sequence[tuple[int, str]] = ()) -> None:
        self.labels = pa.array([], pa.large_string()) if labels is None else labels
        self.newer = newer  # row and label
        self._lower: pa.Array | None = None

    def __bool__(self) -> bool:
        return len(self.labels) > self.labels.null_count or bool(self.newer)

    def extended(self, newer: Sequence[tuple[int, str]]) -> LabelFinder:
        """The same labels with others that came later."""
        made = LabelFinder(self.labels, newer)
        made._lower = self._lower
        return made

    def find(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """Rows of each text that is a label: one, or several where it is ambiguous."""
        found = _rows_with(self.labels, texts)
        for row, label in self.newer:
            if label in texts:
                found.setdefault(label, []).append(row)
        rest = [text for text in texts if text not in found]
        if rest and self:
            wanted: dict[str, list[str]] = {}
            for text, low in zip(rest, _lowered(pa.array(rest, pa.large_string())).to_pylist(), strict=True):
                wanted.setdefault(low, []).append(text)
            folded = _rows_with(self._lowered_labels(), list(wanted))
            for row, label in self.newer:
                if label.lower() in wanted:
                    folded.setdefault(label.lower(), []).append(row)
            found |= {text: rows for low, rows in folded.items() for text in wanted[low]}
        return found

    def nearest(self, text: str, k: int = 2) -> list[tuple[str, int]]:
        """Up to k labels spelled like this text, best first, with their rows."""
        low = self._lowered_labels()
        wanted = text.lower()
        rows = np.arange(len(low))
        if len(low) > _COMPARED:  # those that hold the text, or begin as it does
            tests = (pc.match_substring(low, wanted), pc.starts_with(low, wanted[:3]))
            near = [np.flatnonzero(test.fill_null(False).to_numpy(zero_copy_only=False)) for test in tests]
            rows = np.concatenate([near[0], np.setdiff1d(near[1], near[0])])[:_COMPARED]
        candidates = [
            (label, row) for row, label in zip(rows.tolist(), low.take(pa.array(rows)).to_pylist(), strict=True)
        ]
        candidates += [(label.lower(), row) for row, label in self.newer[:_COMPARED]]
        matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
        scored = []
        for label, row in candidates:
            if label:
                whole = 0.9 + 0.1 * len(wanted) / len(label)  # it holds the whole text
                alike = whole if wanted and wanted in label else _likeness(matcher, label)
                scored += [(alike, row)] if alike >= _ALIKE else []
        own = dict(self.newer)
        best = [row for _, row in sorted(scored, key=lambda entry: (-entry[0], entry[1]))[:k]]
        return [(own[row] if row in own else self.labels[row].as_py(), row) for row in best]

    def _lowered_labels(self) -> pa.Array:
        if self._lower is None:
            self._lower = _lowered(self.labels)
        return self._lower


def rows_by_name(
    values: Sequence[Any],
    find: Callable[[Sequence[Any]], Rows],
    ids: Ids,
    name_of: Callable[[int], Id],
    labels: LabelFinder | None,
    *,
    refuse: bool = True,
) -> Rows:
    """The row of each node, given by its id or, where there is no such id, by a label that one node has.

    A label of several nodes is refused. An unknown name is refused too, or gets -1 with `refuse=False`.
    """
    found = find(values)
    lost = np.flatnonzero(found < 0).tolist()
    if not lost:
        return found
    texts = list(dict.fromkeys(str(values[place]) for place in lost if isinstance(values[place], str)))
    by_label = labels.find(texts) if labels and texts else {}
    for place in lost:
        value = values[place]
        rows = by_label.get(value, []) if isinstance(value, str) else []
        if len(rows) > 1:
            named = ", ".join(repr(name_of(row)) for row in rows[:_SHOWN])
            more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
            raise InputError(f"the label {value!r} is that of {counted(len(rows), 'node')}: give an id ({named}{more})")
        if rows:
            found[place] = rows[0]
        elif refuse:
            raise UnknownNodeError(unknown_node(value, ids, name_of, labels))
    return found


def unknown_node(value: Any, ids: Ids, name_of: Callable[[int], Id], labels: LabelFinder | None) -> str:
    """The message for a name that is neither an id nor a label, with the nearest of both."""
    near = labels.nearest(value) if labels and isinstance(value, str) else []
    shown = ", ".join(f"{label!r} (id {name_of(row)!r})" for label, row in near)
    return ids.unknown(value, f"; nearest labels: {shown}" if near else "")


def rows_of_texts(graph: Graph, texts: Sequence[Id], *, refuse: bool = True) -> Rows:
    """The row of each text as `Graph.parse` reads it; an unknown one is refused, or gets -1 with `refuse=False`."""
    ids = graph.ids
    found = ids.find(texts)
    lost = [texts[place] for place in np.flatnonzero(found < 0).tolist()]
    if not lost:
        return found
    spelled = {text: ids.spelled(text) for text in dict.fromkeys(lost) if isinstance(text, str)}
    named = [spelled.get(text, text) if isinstance(text, str) else text for text in texts]
    return rows_by_name(named, ids.find, ids, ids.__getitem__, graph.label_finder, refuse=refuse)


def _rows_with(labels: pa.Array, texts: Sequence[str]) -> dict[str, list[int]]:
    """Rows of the labels that are among some texts: one pass over all labels."""
    if not len(labels) or not texts:
        return {}
    hits = pc.is_in(labels, value_set=pa.array(texts, pa.large_string()), skip_nulls=True)
    rows = np.flatnonzero(hits.to_numpy(zero_copy_only=False))
    found: dict[str, list[int]] = {}
    for row, label in zip(rows.tolist(), labels.take(pa.array(rows)).to_pylist(), strict=True):
        found.setdefault(label, []).append(row)
    return found


def _lowered(texts: pa.Array) -> pa.Array:
    return pc.utf8_lower(texts)


def _likeness(matcher: difflib.SequenceMatcher[str], label: str) -> float:
    matcher.set_seq1(label[:200])
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE else 0.0


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _distinct_share(column: pa.ChunkedArray) -> float:
    """Distinct values per row that has one; 0 where half of the rows have none, or all have the same."""
    known = len(column) - column.null_count
    if 2 * known < len(column) or known < 2:
        return 0.0
    return float(len(pc.unique(as_text(column).drop_null())) / known)


def _reads_as_label(column: pa.ChunkedArray) -> bool:
    """Whether texts are short, and no addresses of pages."""
    texts = as_text(column).drop_null()
    links = pc.mean(pc.starts_with(texts, "http")).as_py()
    return bool(pc.mean(pc.utf8_length(texts)).as_py() <= _LONGEST and links < 0.5)
