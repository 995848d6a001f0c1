"""The node table: ids matched with those of the edges, and the columns that become features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from yinyan.errors import InputError
from yinyan.graph.attributes import Attributes, kept_attributes
from yinyan.graph.column_report import ColumnUse
from yinyan.graph.column_types import is_text, known_texts, na_texts, plain_text, typed_column
from yinyan.graph.columns import find_column, guess_node_column
from yinyan.graph.edge_lists import row_name
from yinyan.graph.feature_columns import plan_column
from yinyan.graph.features import FeatureEncoder, Features, fit_columns
from yinyan.graph.ids import Ids
from yinyan.graph.label_tables import attribute_column, attribute_names, label_name
from yinyan.graph.table_options import TableOptions
from yinyan.graph.tables import TableSource
from yinyan.text import counted

__all__ = ["NodeTable", "feature_names", "id_values", "prefixed", "read_nodes", "refuse_missing_ids"]

_SAMPLE = 1_000  # ids of the edges that are looked for in the columns of a node table
_MOST = 0.5  # share of them that a column of ids has


class NodeTable(NamedTuple):
    """All nodes of a graph, their features and attributes."""

    ids: Ids
    features: Features | None = None
    encoder: FeatureEncoder | None = None
    notes: tuple[str, ...] = ()
    uses: tuple[ColumnUse, ...] = ()
    attributes: Attributes | None = None


def read_nodes(opened: TableSource, ids: Ids, options: TableOptions, *, edges_label: str) -> NodeTable:
    """Read a node table and match it with the ids that the edges mention."""
    names, node_id = list(opened.names), options.node_id
    id_name = guess_node_column(names) if node_id is None else find_column(names, node_id, "node id")
    chosen, beside, table = _read_columns(opened, id_name, options)
    if node_id is None and (better := _id_column(table, id_name, ids)) != id_name:
        id_name = better
        chosen, beside, table = _read_columns(opened, id_name, options)
    what, notes = f"{opened.label}, column {id_name!r}", list[str]()
    refuse_missing_ids(table[id_name], options, what)
    if table[id_name].null_count:
        notes.append(f"dropped {counted(table[id_name].null_count, 'row')} of {opened.label} without an id")
        table = table.filter(table[id_name].is_valid())
    values = id_values(table[id_name], options.id_type, what)
    try:
        described = Ids.from_values(values)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    all_ids, rows = _match(ids, described, opened.label, edges_label, options, notes)
    label, attributes, more = _attributes(opened, {name: table[name] for name in beside}, options)
    guessed = [f"node id = {id_name!r}"] if node_id is None else []
    guessed += [f"label = {label!r}"] if label is not None and options.label is None else []
    notes = [*([f"columns: {', '.join(guessed)} of {opened.label} (guessed)"] if guessed else []), *notes, *more]
    kept = None if attributes is None else attributes.take(rows)
    if options.feature_columns is None and options.label is None and label is not None:
        chosen = [name for name in chosen if name != label]  # nearly unique text is no feature
    asked, na_values = options.feature_columns is not None, na_texts(options.na_values)
    columns = {name: typed_column(table[name], na_values, dates_only=not opened.is_text) for name in chosen}
    described_by = pa.array(rows, mask=rows < 0)  # null where no row describes a node
    aligned = pa.table(columns).take(described_by) if chosen else pa.table({})
    encoder, uses = fit_columns(aligned, chosen if asked else None, ids=all_ids, na_values=na_values)
    found = _uses(opened, id_name, label, uses, options)
    if not chosen:
        return NodeTable(all_ids, None, None, tuple(notes), found, kept)
    notes += [f"{opened.label}: {note}" for note in encoder.notes]
    if not encoder.num_columns:
        notes.append(f"{opened.label}: no column is left for features")
        return NodeTable(all_ids, None, None, tuple(notes), found, kept)
    return NodeTable(all_ids, encoder.transform(aligned, ids=all_ids), encoder, tuple(notes), found, kept)


def _read_columns(opened: TableSource, id_name: str, options: TableOptions) -> tuple[list[str], list[str], pa.Table]:
    """The names of features and attributes beside a column of ids, and the table of all of them."""
    chosen = feature_names(list(opened.names), id_name, options.feature_columns)
    beside = attribute_names(opened, id_name, options.attributes, options.label)
    return chosen, beside, opened.read(list(dict.fromkeys([id_name, *chosen, *beside])))


def refuse_missing_ids(column: pa.ChunkedArray, options: TableOptions, what: str, first_row: int = 0) -> None:
    """Refuse ids that read as a missing value, by the row of the first one; the column may begin at `first_row`."""
    texts = [text for text in na_texts(options.na_values) if text]
    if not texts or not is_text(column.type):
        return
    wrong = pc.is_in(plain_text(column), value_set=pa.array(texts, pa.large_string()))
    if pc.any(wrong).as_py():
        place = int(np.argmax(np.asarray(wrong)))
        where = row_name(first_row + place)
        raise InputError(
            f"{what}: the id in {where} is {column[place].as_py()!r}, which means a missing value: fill it "
            "in or remove the row; if it is an id, pass na_values=() (--na '')"
        )


def _uses(
    opened: TableSource, id_name: str, label: str | None, found: Sequence[ColumnUse], options: TableOptions
) -> tuple[ColumnUse, ...]:
    """What became of each column of the node table, in its order."""
    by_name = {use.column: use._replace(table=opened.label) for use in found}
    by_name[id_name] = ColumnUse(opened.label, id_name, "node id", note="guessed" if options.node_id is None else "")
    if label is not None and (label not in by_name or by_name[label].role == "dropped"):
        by_name[label] = ColumnUse(opened.label, label, "label", note="guessed" if options.label is None else "")
    why = "no name" if options.feature_columns is None else "not among feature_columns (--feature)"
    return tuple(by_name.get(name, ColumnUse(opened.label, name, "dropped", note=why)) for name in opened.names)


def _label(columns: dict[str, pa.ChunkedArray], options: TableOptions, names: Sequence[str]) -> str | None:
    """The column of labels; one that is a feature, such as words that recur, is none unless it is chosen."""
    label = label_name(columns, options.label, names)
    if options.label is not None or label is None:
        return label
    if plan_column(label, known_texts(columns[label], na_texts(options.na_values))).plan is None:
        return label
    return _label({name: column for name, column in columns.items() if name != label}, options, names)


def _attributes(
    opened: TableSource, columns: dict[str, pa.ChunkedArray], options: TableOptions
) -> tuple[str | None, Attributes | None, list[str]]:
    """The column of labels, what is kept of a node table, and notes."""
    typed = {name: attribute_column(opened, column, na_texts(options.na_values)) for name, column in columns.items()}
    label = _label(typed, options, opened.names)
    if label is not None:
        typed[label] = columns[label]  # as it is written
    if options.attributes is None:
        return label, *kept_attributes(typed, label)
    wanted = [] if options.attributes is False else [
        find_column(list(opened.names), column, "attribute") for column in options.attributes
    ]  # fmt: skip
    wanted = [name for name in typed if name in wanted or name == label]
    return label, *kept_attributes({name: typed[name] for name in wanted}, label, wanted)


def id_values(column: pa.ChunkedArray, id_type: Literal["keep", "text", "integer"], what: str) -> pa.ChunkedArray:
    """A column of ids, cast if asked to."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if id_type == "keep" or (id_type == "integer" and pa.types.is_integer(column.type)):
        if not text and not pa.types.is_integer(column.type) and column.type != pa.string_view():
            raise InputError(
                f"{what}: node ids must be integers or text (got {column.type}): cast the column, "
                "in pandas for example with .astype('Int64') or .astype(str)"
            )
        return column
    if id_type == "text" and (text or pa.types.is_integer(column.type)):
        return column.cast(pa.large_string())
    try:
        return pc.utf8_trim_whitespace(column.cast(pa.large_string())).cast(pa.int64())
    except pa.ArrowInvalid:
        wrong = pc.invert(pc.match_substring_regex(column.cast(pa.large_string()), r"^\s*-?[0-9]{1,18}\s*$"))
        found = column.filter(wrong)
        example = repr(found[0].as_py()) if len(found) else f"a column of type {column.type}"
        raise InputError(
            f'{what}: {example} is no integer of 64 bits: pass id_type="text" or leave id_type out'
        ) from None


def prefixed(column: pa.ChunkedArray, prefix: str) -> pa.ChunkedArray:
    """Ids as text with a prefix; without one as they are."""
    if not prefix:
        return column
    text = column.cast(pa.large_string())
    return pc.binary_join_element_wise(pa.scalar(prefix, text.type), text, pa.scalar("", text.type))


def feature_names(names: list[str], id_name: str, columns: Sequence[str | int] | None) -> list[str]:
    """The columns of a node table that may become features: those named, else all but the ids."""
    if columns is None:
        return [name for name in names if name != id_name and name.strip()]
    chosen = list(dict.fromkeys(find_column(names, column, "feature") for column in columns))
    if id_name in chosen:
        raise InputError(f"column {id_name!r} holds the node ids and cannot be a feature as well")
    return chosen


def _match(
    ids: Ids, described: Ids, label: str, edges_label: str, options: TableOptions, notes: list[str]
) -> tuple[Ids, npt.NDArray[np.int64]]:
    """All ids, those of the edges first, and the row of the node table that describes each, or -1."""
    rows = described.find(ids.to_arrow()["id"] if ids.kind != "mixed" else ids.take(range(len(ids))))
    mentioned = np.zeros(len(described), dtype=np.bool_)
    mentioned[rows[rows >= 0]] = True
    extra, lacking = np.flatnonzero(~mentioned), np.flatnonzero(rows < 0)
    if (len(extra) or len(lacking)) and {ids.kind, described.kind} == {"integer", "text"}:
        here, there = ("text", "integers") if ids.is_text else ("integers", "text")
        raise InputError(
            f"node ids are {here} in {edges_label} and {there} in {label}: "
            'pass id_type="text" (--id-type text) to compare them as text'
        )
    if options.unmatched == "error" and len(lacking):
        raise InputError(
            f"{edges_label} mentions {_some(ids, lacking)} that {label} lacks: add the rows, or pass "
            'unmatched="keep" (--keep-unmatched) to treat the features as missing'
        )
    if options.unmatched == "error" and len(extra):
        raise InputError(
            f"{label} describes {_some(described, extra)} that {edges_label} never mentions: remove the "
            'rows, or pass unmatched="keep" (--keep-unmatched) to keep nodes without an edge'
        )
    if options.bipartite and len(extra):
        raise InputError(
            f"{label} describes {_some(described, extra)} that {edges_label} never mentions, so that "
            "the side of the bipartite graph is unknown: remove the rows"
        )
    if len(lacking):
        notes.append(f"{label} lacks {_some(ids, lacking)}: the features are treated as missing")
    if len(extra):
        notes.append(f"{edges_label} never mentions {_some(described, extra)} of {label}: kept without an edge")
        ids = ids.concat(described.select(extra))
        rows = np.concatenate([rows, extra])
    return ids, rows


def _id_column(table: pa.Table, guessed: str, ids: Ids) -> str:
    """The guessed column of ids; another one if the guessed has no id of the edges and the other has most of them."""
    wanted = pa.array([str(node) for node in ids.take(range(min(len(ids), _SAMPLE)))], pa.large_string())

    def share(name: str) -> float:
        return float(pc.mean(pc.is_in(wanted, value_set=plain_text(table[name]).combine_chunks())).as_py())

    kinds = {name: table[name].type for name in table.column_names}
    plain = [name for name, kind in kinds.items() if is_text(kind) or pa.types.is_integer(kind)]
    if guessed not in plain or share(guessed) > 0:
        return guessed
    best = max(plain, key=share)
    return best if share(best) > _MOST else guessed


def _some(ids: Ids, rows: npt.NDArray[np.int64]) -> str:
    """How many nodes some rows are, and the names of a few."""
    named = ", ".join(repr(value) for value in ids.take(rows[:3]))
    return f"{counted(len(rows), 'node')} ({named}{', ...' if len(rows) > 3 else ''})"
