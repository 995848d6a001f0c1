"""Results of the predictor: small tables in the caller's ids."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from yinyan.graph.to_objects import data_frame
from yinyan.text import how_sure, html_table, percent, probability, text_table

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import pyarrow as pa

    from yinyan.connect.databases import IfExists

__all__ = ["Contribution", "Explanation", "Recommendation", "Recommendations", "text_table"]

Id = int | str

_SHOWN = 20  # rows of a long answer that its repr shows
_EXPLANATION_COLUMNS = ("end", "", "neighbour", "change of the score")


class Recommendation(NamedTuple):
    """One recommended link."""

    source: Id  # the node asked about
    target: Id  # the recommended node
    score: float  # the larger, the likelier a link
    rank: int  # from 1


# of `Recommendations`: an entry per row
_COLUMNS = (
    *("sources", "targets", "scores", "ranks", "probabilities"),
    *("source_labels", "target_labels", "source_types", "target_types"),
)


@dataclass(frozen=True, eq=False)
class Recommendations(Sequence[Recommendation]):
    """Recommended links, best first for each source, as columns of equal length.

    It is a sequence of `Recommendation`: `len`, iteration, an index and slices work.

    Examples
    --------
    >>> found = model.recommend([0, 1], k=3)
    >>> found[0].rank, len(found[:2])
    (1, 2)
    """

    sources: tuple[Id, ...]  # the nodes asked about
    targets: tuple[Id, ...]  # the recommended nodes
    scores: NDArray[np.float32]  # the larger, the likelier a link
    ranks: NDArray[np.int64]  # from 1
    probabilities: NDArray[np.float64] | None = None  # that a new link is a missing edge, at the base rate
    recall: float | None = 1.0  # of the search, per node: 1 if exact, else measured for an index; None: not measured
    source_labels: tuple[str | None, ...] | None = None  # of the nodes asked about, where the graph has labels
    target_labels: tuple[str | None, ...] | None = None  # of the recommended nodes
    source_types: tuple[str, ...] | None = None  # of the nodes asked about, in a graph with several types
    target_types: tuple[str, ...] | None = None  # of the recommended nodes
    base_rate: float | None = None  # that the probabilities hold for: missing edges as a share of all new pairs
    missing_share: float | None = None  # the same number of edges as a share of the known ones

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> Recommendation: ...
    @overload
    def __getitem__(self, index: slice) -> Recommendations: ...
    def __getitem__(self, index: int | slice) -> Recommendation | Recommendations:
        if isinstance(index, slice):
            columns = {name: getattr(self, name) for name in _COLUMNS}
            part: dict[str, Any] = {n: None if values is None else values[index] for n, values in columns.items()}
            return replace(self, **part)
        return Recommendation(
            self.sources[index], self.targets[index], float(self.scores[index]), int(self.ranks[index])
        )

    def __iter__(self) -> Iterator[Recommendation]:
        return (self[i] for i in range(len(self)))

    def to_arrow(self) -> pa.Table:
        """The table as an Arrow table.

        Returns
        -------
        pyarrow.Table
            Columns source, target, score and rank, and probability if known. Where the graph has labels, source_label
            and target_label too; where it has several types, source_type and target_type. Mixed ids become text.

        Examples
        --------
        >>> model.recommend(0, k=3).to_arrow().column_names
        ['source', 'target', 'score', 'rank', 'probability']
        """
        import pyarrow as pa

        columns = self._columns() | {"source": id_column(self.sources), "target": id_column(self.targets)}
        for name in columns.keys() & {"source_label", "target_label"}:
            columns[name] = pa.array(columns[name], pa.large_string())
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a data frame.

        Returns
        -------
        pandas.DataFrame
            Columns as those of `to_arrow`.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> model.recommend(0, k=3).to_pandas().shape
        (3, 5)
        """
        return data_frame(self._columns())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Plain values for JSON: a dict for each row.

        Returns
        -------
        list of dict
            Keys as the columns of `to_arrow`.

        Examples
        --------
        >>> list(model.recommend(0, k=1).to_dicts()[0])
        ['source', 'target', 'score', 'rank', 'probability']
        """
        columns = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self._columns().items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file, whole or not at all.

        Parameters
        ----------
        path
            A name that ends in .csv, .parquet, .jsonl, .ndjson, .arrow, .feather or .xlsx, which is the format.

        Raises
        ------
        InputError
            If the name ends otherwise.
        StoreError
            If the file cannot be written.
        MissingExtraError
            If the format is .xlsx and openpyxl is not installed (`pip install 'yinyan[excel]'`).

        Examples
        --------
        >>> model.recommend(0, k=3).save("links.csv")
        """
        from yinyan.graph.table_writing import write_rows

        write_rows(self.to_arrow(), Path(path))

    def to_sql(self, database: Any, table: str, *, if_exists: IfExists = "error") -> int:
        """Write the rows to a table of a database, all of them or none.

        Parameters
        ----------
        database
            A URL such as `sqlite:///links.db`, a DB-API connection, or an engine or connection of SQLAlchemy. On a
            connection with an open transaction the rows belong to it, and you commit it.
        table
            The name of the table, perhaps with its schema; created with the columns of `to_arrow`.
        if_exists
            What to do if there is such a table: 'error', 'append' or 'replace'.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        InputError
            If the table exists and `if_exists` is 'error', or the database refuses the rows. Nothing is written then.
        MissingExtraError
            If the driver of a URL is not installed.

        Examples
        --------
        >>> import sqlite3
        >>> db = sqlite3.connect(":memory:")
        >>> model.recommend(0, k=3).to_sql(db, "links")
        3
        >>> db.execute("SELECT max(rank) FROM links").fetchone()
        (3,)
        """
        from yinyan.connect.tables import write_rows_to

        rows = self.to_arrow()
        return write_rows_to(database, table, rows.schema, [rows], if_exists)

    def to_neo4j(
        self,
        database: Any,
        relationship: str,
        *,
        key: str = "id",
        label: str | tuple[str, str] = "",
        if_exists: IfExists = "error",
    ) -> int:
        """Write the links to Neo4j as relationships from source to target, all of them or none.

        Parameters
        ----------
        database
            A driver of Neo4j, or a URL such as `neo4j://user:password@host:7687/database`.
        relationship
            The type of the relationships, such as 'SUGGESTED'. Their properties are score, rank and probability.
        key
            The property of nodes that holds the ids.
        label
            The label of the nodes, or those of sources and targets; any unless given. An index of label and key makes
            this fast.
        if_exists
            What to do if there are relationships of this type: 'error', 'append' or 'replace'.

        Returns
        -------
        int
            The number of relationships.

        Raises
        ------
        InputError
            If relationships exist and `if_exists` is 'error', or an id is not that of exactly one node. Nothing is
            written then.
        MissingExtraError
            If the driver is not installed (`pip install 'yinyan[neo4j]'`).

        Examples
        --------
        >>> model.recommend(0, k=3).to_neo4j("postgresql://localhost/graph", "SUGGESTED")
        Traceback (most recent call last):
        yinyan.errors.InputError: expected a Neo4j database: a driver, or a URL such as \
neo4j://user:password@host:7687 (got postgresql://localhost/graph)
        """
        from yinyan.connect.tables import write_relationships

        labels = (label, label) if isinstance(label, str) else label
        return write_relationships(database, self.to_arrow(), relationship, key, labels, if_exists)

    def to_networkx(self, graph: nx.Graph | None = None) -> nx.Graph:
        """The links as edges of a NetworkX graph.

        Parameters
        ----------
        graph
            A graph that the edges are added to. Unless given, they make a new directed graph from sources to targets.

        Returns
        -------
        networkx.Graph
            The graph. Its new edges have the attributes predicted, score, rank and probability. An edge that was there
            already stays as it is.

        Raises
        ------
        MissingExtraError
            If networkx is not installed.

        Examples
        --------
        >>> model.recommend(0, k=3).to_networkx().number_of_edges()
        3
        """
        from yinyan.graph.to_objects import links_to_networkx

        return links_to_networkx(self.to_dicts(), graph)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "source": self.sources,
            "source_type": self.source_types,
            "source_label": self.source_labels,
            "target": self.targets,
            "target_type": self.target_types,
            "target_label": self.target_labels,
            "score": self.scores,
            "rank": self.ranks,
            "probability": self.probabilities,
        }
        return {name: values for name, values in columns.items() if values is not None}

    def how_sure(self) -> str:
        """The base rate of the probabilities, and how many of ten such links turn out to be edges, in a sentence.

        Returns
        -------
        str
            One line; empty without probabilities.

        Examples
        --------
        >>> model.recommend(0, k=3).how_sure().split(":")[0]
        'probability'
        """
        if self.probabilities is None or self.base_rate is None or not len(self):
            return ""
        return how_sure(self.base_rate, self.missing_share, float(self.probabilities.mean()))

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Names and cells of the first rows."""
        rows, names = self[:_SHOWN].to_dicts(), list(self._columns())
        return names, [[_cell(name, row[name]) for name in names] for row in rows]

    def __repr__(self) -> str:
        if not len(self):
            return "no links to recommend"
        more = len(self) - _SHOWN
        names, rows = self._shown()
        lines = [text_table(names, rows, right=_numbers(names)), *([f"… and {more:,} more rows"] if more > 0 else [])]
        return "\n".join(line for line in [*lines, self.how_sure()] if line)

    def _repr_html_(self) -> str:
        below = self.how_sure()
        names, rows = self._shown()
        table = html_table(names, rows, more=len(self) - _SHOWN, right=_numbers(names))
        return table + (f"<p>{html.escape(below)}</p>" if below else "")


def _numbers(names: Sequence[str]) -> list[int]:
    """Places of the columns of numbers."""
    return [place for place, name in enumerate(names) if name in ("score", "rank", "probability")]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return probability(value) if name == "probability" else f"{value:.3f}" if isinstance(value, float) else str(value)


class Contribution(NamedTuple):
    """How one neighbour of one end moved a score."""

    end: Id  # the end of the pair whose neighbour it is
    neighbour: Id | None  # None: all nodes together (expected negatives)
    kind: str  # "attracts" (an edge) or "repels" (a negative)
    amount: float  # share of score - score_alone: positive raised the score
    label: str | None = None  # of the neighbour
    relation: str | None = None  # of the edge, in a graph with relations
    neighbour_type: str | None = None  # type of the neighbour, there too
    end_type: str | None = None  # type of the end, there too


@dataclass(frozen=True)
class Explanation:
    """A pair's score taken apart: score = score_alone + the sum of all amounts + residue + shared.

    Examples
    --------
    >>> why = model.explain(0, 1)
    >>> why.contributions[0].kind in ("attracts", "repels")
    True
    """

    source: Id  # one end of the pair
    target: Id  # the other end
    score: float  # of the pair
    score_alone: float  # the score if no message reached or left either end
    contributions: tuple[Contribution, ...]  # largest effect first
    residue: float  # what the numerical integration leaves unexplained
    is_link: bool  # whether the graph holds the pair already
    probability: float | None = None  # that the pair is a link
    base_rate: float | None = None  # that the probability holds for
    source_label: str | None = None  # of one end, where the graph has labels
    target_label: str | None = None  # of the other end
    shared: float = 0.0  # what exact counts of shared neighbours add, where they rerank listed links

    def __repr__(self) -> str:
        more = len(self.contributions) - _SHOWN
        rows, columns = self._rows(), self._columns()
        table = text_table(columns, rows, right=(len(columns) - 1,)) if rows else "(no neighbours)"
        return "\n".join([*self._head(), table, *([f"… and {more:,} smaller ones"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        head, alone = self._head()
        columns, more = self._columns(), len(self.contributions) - _SHOWN
        table = html_table(columns, self._rows(), title=head, more=more, right=(len(columns) - 1,))
        return f"{table}<p>{html.escape(alone)}</p>"

    def _head(self) -> tuple[str, str]:
        """The score with its probability, and the score without messages."""
        chance = ""
        if self.probability is not None and self.base_rate is not None:
            chance = f", probability {probability(self.probability)} at a base rate of {percent(self.base_rate)}"
        known = "this edge is in the graph; " if self.is_link else ""
        shared = f"; exact counts of shared neighbours add {self.shared:+.3f}" if self.shared else ""
        return (
            f"{_called(self.source, self.source_label)} – {_called(self.target, self.target_label)}: "
            f"score {self.score:.3f}{chance}",
            f"{known}without any message to or from either end the score would be {self.score_alone:.3f}{shared}",
        )

    def _rows(self) -> list[list[str]]:
        return [
            [
                str(c.end),
                c.kind,
                _called("all other nodes" if c.neighbour is None else c.neighbour, c.label),
                *([c.relation or ""] if self.has_relations else []),
                f"{c.amount:+.3f}",
            ]
            for c in self.contributions[:_SHOWN]
        ]

    @property
    def has_relations(self) -> bool:
        """Whether contributions name the relations of their edges."""
        return any(c.relation is not None for c in self.contributions)

    def by_relation(self) -> dict[str, float]:
        """The sum of the contributions of each relation.

        Returns
        -------
        dict
            Amounts by the name of the relation; empty without relations.

        Examples
        --------
        >>> model.explain(0, 1).by_relation()
        {}
        """
        found: dict[str, float] = {}
        for c in self.contributions:
            if c.relation is not None:
                found[c.relation] = found.get(c.relation, 0.0) + c.amount
        return found

    def _columns(self) -> tuple[str, ...]:
        first = _EXPLANATION_COLUMNS[:-1]
        return (*first, "relation", _EXPLANATION_COLUMNS[-1]) if self.has_relations else _EXPLANATION_COLUMNS

    def _fields(self) -> tuple[str, ...]:
        """Of contributions; those of relations only where there are any."""
        return Contribution._fields if self.has_relations else Contribution._fields[:-3]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON.

        Returns
        -------
        dict
            The fields by name, contributions as dicts.

        Examples
        --------
        >>> sorted(model.explain(0, 1).to_dict())[:3]
        ['base_rate', 'contributions', 'is_link']
        """
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "contributions"}
        fields = self._fields()
        return {**plain, "contributions": [{name: getattr(c, name) for name in fields} for c in self.contributions]}

    def to_pandas(self) -> pd.DataFrame:
        """The contributions as a data frame.

        Returns
        -------
        pandas.DataFrame
            Columns end, neighbour, kind, amount and label, largest effect first; with relations also relation,
            neighbour_type and end_type.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.

        Examples
        --------
        >>> list(model.explain(0, 1).to_pandas().columns)
        ['end', 'neighbour', 'kind', 'amount', 'label']
        """
        return data_frame({name: [getattr(c, name) for c in self.contributions] for name in self._fields()})


def _called(node: Id, label: str | None) -> str:
    """An id and its label."""
    return str(node) if label is None else f"{node} ({label})"


def id_column(ids: Sequence[Id]) -> pa.Array:
    """An arrow column of ids: integers, or text (which mixed ids become)."""
    import pyarrow as pa

    if set(map(type, ids)) == {int}:  # millions of rows have as many
        try:
            return pa.array(ids, pa.int64())
        except (OverflowError, pa.ArrowInvalid):  # beyond 64 bits: text holds them exactly
            pass
    return pa.array([str(i) for i in ids], pa.large_string())
