"""Node features: from the columns of a node table to a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from yinyan.errors import InputError
from yinyan.graph.column_plans import ColumnPlan
from yinyan.graph.column_report import ColumnUse
from yinyan.graph.column_types import NA_VALUES, known_texts
from yinyan.graph.columns import find_column
from yinyan.graph.feature_columns import column_block, column_entries, kind_in_words, plan_column
from yinyan.graph.feature_matrix import (
    Features,
    SparseFeatures,
    features_from_matrix,
    is_sparse,
    sparse_from_entries,
    stacked_features,
)
from yinyan.graph.ids import Ids
from yinyan.text import listed

__all__ = ["FeatureEncoder", "Features", "SparseFeatures", "features_from_matrix", "fit_columns", "stacked_features"]

_NEEDED = {"category": "text", "vector": "lists of numbers", "tokens": "lists of text", "hashed": "lists of text"}


@dataclass(frozen=True)
class FeatureEncoder:
    """Turns a node table, without its id column, into a feature matrix, always in the same way.

    Numbers are standardised, except columns of 0 and 1, which stay; a missing number becomes the mean, and
    a further 0/1 column marks it. Text with few distinct values becomes one 0/1 column per value (a missing
    value is one of them, a value unknown to `fit` is all zero). Lists of numbers of one length are taken as they
    are. Lists of text, and texts such as 'a|b|c', become one 0/1 column per token, or share columns by a hash if
    there are many tokens. Dates become seconds, and then numbers. Identifiers, constant columns and nearly unique
    text are skipped, and `notes` says so.
    """

    plans: tuple[ColumnPlan, ...] = ()
    sparse: bool = False  # whether the matrix that `fit` saw has few nonzero entries (`is_sparse`)
    notes: tuple[str, ...] = ()
    na_values: tuple[str, ...] = NA_VALUES  # texts that mean a missing value

    @property
    def num_columns(self) -> int:
        """How many columns the matrix has."""
        return sum(plan.width for plan in self.plans)

    @classmethod
    def fit(
        cls,
        table: pa.Table,
        columns: Sequence[str | int] | None = None,
        *,
        ids: Ids | None = None,
        na_values: Sequence[str] = NA_VALUES,
    ) -> FeatureEncoder:
        """Learn how to encode some columns (or all); `ids` name the rows in messages."""
        return fit_columns(table, columns, ids=ids, na_values=na_values)[0]

    def transform(self, table: pa.Table, *, ids: Ids | None = None) -> Features:
        """Encode a table that has the columns `fit` chose."""
        shape = table.num_rows, self.num_columns
        dense = np.zeros((0, 0) if self.sparse else shape, dtype=np.float32)
        entries: list[tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]] = []
        offset = 0
        for plan in self.plans:
            if plan.name not in table.column_names:
                raise InputError(f"the node table lacks the feature column {plan.name!r}")
            try:
                if self.sparse:
                    rows, columns, values = column_entries(plan, table[plan.name], ids, self.na_values)
                    entries.append((rows, columns + offset, values))
                else:
                    block = column_block(plan, table[plan.name], ids, self.na_values)
                    dense[:, offset : offset + plan.width] = block
            except pa.ArrowException as error:
                wanted, kind = _NEEDED.get(plan.kind, "numbers"), table[plan.name].type
                raise InputError(f"column {plan.name!r} needs {wanted} (got {kind})") from error
            offset += plan.width
        if not self.sparse:
            return dense
        rows, columns, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        return sparse_from_entries(rows, columns, values, shape)

    def to_dict(self) -> dict[str, Any]:
        """Return a form that JSON keeps exactly."""
        plans = [{**asdict(plan), "categories": list(plan.categories)} for plan in self.plans]
        return {
            "columns": plans,
            "sparse": self.sparse,
            "notes": list(self.notes),
            "na_values": list(self.na_values),
        }

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> FeatureEncoder:
        """Read back what `to_dict` wrote."""
        try:
            plans = tuple(ColumnPlan(**{**plan, "categories": tuple(plan["categories"])}) for plan in form["columns"])
            notes = tuple(str(note) for note in form["notes"])
            na_values = tuple(str(text) for text in form.get("na_values", NA_VALUES))  # earlier versions had no choice
            return cls(plans, bool(form["sparse"]), notes, na_values)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not the stored form of a feature encoder ({error!r})") from None


def fit_columns(
    table: pa.Table,
    columns: Sequence[str | int] | None = None,
    *,
    ids: Ids | None = None,
    na_values: Sequence[str] = NA_VALUES,
) -> tuple[FeatureEncoder, list[ColumnUse]]:
    """Learn how to encode some columns (or all), and say what each became, in a table without a name."""
    names: Sequence[str] = table.column_names
    if columns is not None:
        names = list(dict.fromkeys(find_column(names, column, "feature") for column in columns))
    plans, notes, nonzero, uses = [], [], 0, []
    skipped: dict[str, list[str]] = {}
    for name in names:
        plan, note, entries = plan_column(name, known_texts(table[name], na_values), ids, asked=columns is not None)
        if plan is None:
            skipped.setdefault(note, []).append(name)
            uses.append(ColumnUse("", name, "dropped", note=note))
            continue
        plans.append(plan)
        nonzero += entries
        notes += [f"column {name!r}: {note}"] if note else []
        uses.append(ColumnUse("", name, "feature", kind_in_words(plan, table[name].type), plan.width, note))
    notes += [
        f"skipped column{'' if len(found) == 1 else 's'} {listed(found, 3)}: {reason}"
        for reason, found in skipped.items()
    ]
    encoder = FeatureEncoder(tuple(plans), notes=tuple(notes), na_values=tuple(na_values))
    return replace(encoder, sparse=is_sparse(nonzero, (table.num_rows, encoder.num_columns))), uses
