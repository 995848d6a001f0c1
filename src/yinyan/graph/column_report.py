"""What each column of the tables became."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from yinyan.errors import InputError, MissingExtraError
from yinyan.text import html_table, listed, text_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ColumnReport", "ColumnUse"]

_SHOWN = 40  # rows of a wide table that its repr shows
_NAMED = 3  # columns of one kind that a summary names


class ColumnUse(NamedTuple):
    """What one column of one table became."""

    table: str  # the name of the file, or 'the edge table' and 'the node table'
    column: str  # its name
    role: str  # 'source', 'target', 'weight', 'time', 'edge feature', 'node id', 'label', 'feature' or 'dropped'
    kind: str = ""  # of a feature: 'numeric', 'boolean', 'date', 'categorical', 'vector', 'multi-hot' or 'hashed'
    size: int = 0  # columns of the feature matrix
    note: str = ""  # whether it was guessed, why it was dropped, how missing values were filled


@dataclass(frozen=True)
class ColumnReport(Sequence[ColumnUse]):
    """What each column of the tables of a graph became, the edge table first.

    It is a sequence of `ColumnUse`: `len`, iteration, an index and slices work.

    Examples
    --------
    >>> from yinyan import Graph
    >>> edges = {"citing": ["p1", "p1"], "cited": ["p2", "p3"], "page": [12, 7]}
    >>> print(Graph.from_table(edges).columns)
    table           column  role     kind  columns  note
    the edge table  citing  source                  guessed
    the edge table  cited   target                  guessed
    the edge table  page    dropped                 no usual name of an edge column
    """

    uses: tuple[ColumnUse, ...] = ()  # one per column

    def __len__(self) -> int:
        return len(self.uses)

    @overload
    def __getitem__(self, index: int) -> ColumnUse: ...
    @overload
    def __getitem__(self, index: slice) -> ColumnReport: ...
    def __getitem__(self, index: int | slice) -> ColumnUse | ColumnReport:
        return ColumnReport(self.uses[index]) if isinstance(index, slice) else self.uses[index]

    def __iter__(self) -> Iterator[ColumnUse]:
        return iter(self.uses)

    def to_pandas(self) -> pd.DataFrame:
        """The report as a data frame.

        Returns
        -------
        pandas.DataFrame
            A row per column of the tables: table, column, role, kind, size and note.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_table({"citing": ["p1"], "cited": ["p2"]}).columns.to_pandas()["role"].tolist()
        ['source', 'target']
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self.to_dicts(), columns=list(ColumnUse._fields))

    def to_dicts(self) -> list[dict[str, Any]]:
        """The report as plain values for JSON.

        Returns
        -------
        list
            A dict per column of the tables.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_table({"citing": ["p1"], "cited": ["p2"]}).columns.to_dicts()[0]["column"]
        'citing'
        """
        return [use._asdict() for use in self.uses]

    @classmethod
    def from_dicts(cls, form: Sequence[Mapping[str, Any]]) -> ColumnReport:
        """Read back what `to_dicts` wrote.

        Parameters
        ----------
        form
            A dict per column of the tables.

        Returns
        -------
        ColumnReport
            The report.

        Raises
        ------
        InputError
            If the form is another.

        Examples
        --------
        >>> from yinyan.graph.column_report import ColumnReport
        >>> ColumnReport.from_dicts([{"table": "edges.csv", "column": "u", "role": "source"}])[0].role
        'source'
        """
        try:
            uses = tuple(ColumnUse(**use) for use in form)
        except TypeError as error:
            raise InputError(f"this is not the stored form of a column report ({error})") from None
        for use in uses:
            if any(type(value) is not (int if name == "size" else str) for name, value in use._asdict().items()):
                raise InputError(f"this is not the stored form of a column report (got {use!r})")
        return cls(uses)

    def lines(self) -> list[str]:
        """One line per table: which column has which role.

        Returns
        -------
        list
            The lines, the edge table first.

        Examples
        --------
        >>> from yinyan import Graph
        >>> Graph.from_table({"citing": ["p1"], "cited": ["p2"]}).columns.lines()
        ["source = 'citing', target = 'cited' (guessed)"]
        """
        tables = dict.fromkeys(use.table for use in self.uses)
        return [self._line([use for use in self.uses if use.table == table]) for table in tables]

    @staticmethod
    def _line(uses: Sequence[ColumnUse]) -> str:
        parts = []
        for guessed in (True, False):
            chosen = [
                f"{use.role} = {use.column!r}" + (f" of {use.table}" if use.role == "node id" else "")
                for use in uses
                if use.role not in ("feature", "dropped") and (use.note == "guessed") == guessed
            ]
            parts += [", ".join(chosen) + (" (guessed)" if guessed else "")] if chosen else []
        for kind in dict.fromkeys(use.kind for use in uses if use.role == "feature"):
            parts.append(f"{kind} = {listed([use.column for use in uses if use.kind == kind], _NAMED)}")
        dropped = [use.column for use in uses if use.role == "dropped"]
        parts += [f"dropped = {listed(dropped, _NAMED)}"] if dropped else []
        return "; ".join(parts)

    def _rows(self) -> list[list[str]]:
        return [
            [use.table, use.column, use.role, use.kind, f"{use.size:,}" if use.size else "", use.note]
            for use in self.uses[:_SHOWN]
        ]

    def __repr__(self) -> str:
        if not self.uses:
            return "no tables were read"
        more = len(self) - _SHOWN
        return text_table(_HEADER, self._rows(), right=(4,)) + (f"\n… and {more:,} more columns" if more > 0 else "")

    def _repr_html_(self) -> str:
        return html_table(_HEADER, self._rows(), more=len(self) - _SHOWN)


_HEADER = ("table", "column", "role", "kind", "columns", "note")
