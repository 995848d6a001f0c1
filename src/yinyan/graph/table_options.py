"""What the tables of a graph are read with: one declaration for `Graph.from_table` and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from yinyan.errors import InputError

__all__ = ["Switch", "TableOptions"]


class Switch(NamedTuple):
    """A flag without a value, which stands for one value of its option."""

    flag: str
    value: Any
    help: str


def _option(default: Any, help: str, *, flag: str | None = None, switch: Switch | None = None) -> Any:
    """A field with a flag that takes a value, called `flag` or as the field, and perhaps a `switch`."""
    return field(default=default, metadata={"help": help, "flag": flag, "switch": switch})


def _switch(default: Any, flag: str, value: Any, help: str) -> Any:
    """A field with a switch only."""
    return field(default=default, metadata={"help": help, "flag": "", "switch": Switch(flag, value, help)})


@dataclass(frozen=True)
class TableOptions:
    """Which column plays which role (None: guessed, False: none), and how the tables are read."""

    source: str | int | None = _option(None, "column of source ids: name or position (default: guessed)")
    target: str | int | None = _option(None, "column of target ids (default: guessed)")
    weight: str | int | Literal[False] | None = _option(
        None, "column of edge weights (default: guessed)", switch=Switch("no-weight", False, "read no edge weights")
    )
    time: str | int | Literal[False] | None = _option(
        None, "column of edge times (default: guessed)", switch=Switch("no-time", False, "read no edge times")
    )
    edge_features: Sequence[str | int] | None = _option(
        None, "column of the edge table to weigh messages by, repeatable", flag="edge-feature"
    )
    query: str | None = _option(None, "SELECT or table of the edges")
    nodes: Any = _option(None, "table of nodes: ids and feature columns (default: none)")  # noqa: RUF009
    nodes_query: str | None = _option(None, "SELECT or table of the nodes")
    node_id: str | int | None = _option(None, "column of ids in the node table (default: guessed)")
    feature_columns: Sequence[str | int] | None = _option(
        None, "feature column of the node table, repeatable (default: all)", flag="feature"
    )
    label: str | int | Literal[False] | None = _option(
        None,
        "column of labels in the node table (default: guessed)",
        switch=Switch("no-label", False, "read no labels of nodes"),
    )
    attributes: Sequence[str | int] | Literal[False] | None = _option(
        None,
        "column kept for conditions, repeatable (default: all)",
        flag="attribute",
        switch=Switch("no-attributes", False, "keep no columns for conditions"),
    )
    directed: bool = _switch(False, "directed", True, "directed edges (default: undirected)")
    bipartite: bool = _switch(False, "bipartite", True, "edges between two kinds of nodes only (default: no)")
    prefixes: tuple[str, str] | None = _option(None, "id prefixes of the two kinds: user:,item: (default: none)")
    unmatched: Literal["error", "keep"] = _switch(
        "error", "keep-unmatched", "keep", "keep nodes that only one table has (default: error)"
    )
    id_type: Literal["keep", "text", "integer"] = _option("keep", "type of ids: keep, text or integer (default: keep)")
    header: bool = _switch(True, "no-header", False, "first line is data (default: column names)")
    delimiter: str | None = _option(None, "character between columns (default: detected)")
    encoding: str = _option("utf-8", "encoding of text files (default: utf-8)")
    na_values: Sequence[str] | None = _option(
        None, "missing value, repeatable, '' for none (default: NA, ...)", flag="na"
    )

    def __post_init__(self) -> None:
        if self.directed and self.bipartite:
            raise InputError("a graph is either directed or bipartite (got both): leave one out")
        if self.prefixes is not None and not self.bipartite:
            raise InputError("prefixes are for bipartite graphs: pass bipartite=True (--bipartite) as well")
        if self.prefixes is not None and (len(self.prefixes) != 2 or self.prefixes[0] == self.prefixes[1]):
            raise InputError(f"'prefixes' (--prefixes) needs two different texts (got {self.prefixes!r})")
        chosen = (self.node_id, self.feature_columns, self.label or None, self.attributes or None)
        if self.nodes is not None and self.nodes_query is not None:
            raise InputError("'nodes' and 'nodes_query' (--nodes, --nodes-query) exclude each other: leave one out")
        if not self.has_nodes and any(choice is not None for choice in chosen):
            raise InputError(
                "node_id, feature_columns, label and attributes (--node-id, --feature, --label, --attribute) choose "
                "columns of a node table: pass nodes= (--nodes) as well"
            )
        if self.na_values is not None and (
            isinstance(self.na_values, str) or not all(isinstance(text, str) for text in self.na_values)
        ):
            raise InputError(f"'na_values' (--na) needs texts, such as ['NULL'] (got {self.na_values!r})")
        for name, flag, value, allowed in (
            ("unmatched", "--keep-unmatched", self.unmatched, ("error", "keep")),
            ("id_type", "--id-type", self.id_type, ("keep", "text", "integer")),
        ):
            if value not in allowed:
                raise InputError(f"{name!r} ({flag}) needs to be {_either(allowed)} (got {value!r})")

    @property
    def has_nodes(self) -> bool:
        """Whether there is a table of nodes."""
        return self.nodes is not None or self.nodes_query is not None

    def sources(self, edges: Any) -> tuple[Any, Any]:
        """The tables of edges and nodes: those of a database by their queries, others as they are."""
        if self.query is None and self.nodes_query is None:
            return edges, self.nodes
        from yinyan.connect.tables import DatabaseTable, is_database  # help imports no pyarrow

        if not is_database(edges):
            raise InputError(
                "'query' and 'nodes_query' (--query, --nodes-query) are for databases: give a URL such as "
                "sqlite:///edges.db, a DB-API connection or an engine of SQLAlchemy in place of the table of edges"
            )
        nodes = self.nodes if self.nodes_query is None else DatabaseTable(edges, self.nodes_query)
        return edges if self.query is None else DatabaseTable(edges, self.query), nodes


def _either(values: Sequence[str]) -> str:
    return f"{', '.join(map(repr, values[:-1]))} or {values[-1]!r}"
