"""Conditions on links by attributes of both ends, evaluated over all candidates at once."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.graph.attributes import Column
from yinyan.retrieval.condition_syntax import (
    All,
    Attribute,
    Comparison,
    IsNull,
    Literal,
    Node,
    Not,
    OneOf,
    SomeOf,
    Truth,
    Value,
    nearest_word,
    parsed_condition,
    refuse,
)
from yinyan.retrieval.node_columns import graph_column, graph_columns

__all__ = ["Columns", "Condition", "GraphColumns", "check_condition"]

Rows: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
_NUMERIC: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXTUAL: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "contains": lambda texts, part: pc.match_substring(texts, part),
    "startswith": lambda texts, part: pc.starts_with(texts, part),
}
_KINDS = {"text": "text", "number": "a number", "flag": "true or false", "time": "a time"}


class Columns(Protocol):
    """Attributes of all nodes by name."""

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""

    def column_names(self) -> list[str]:
        """The names of all attributes."""

    def column(self, name: str) -> Column:
        """One of them."""


class Condition:
    """A condition for one state of the graph. It never runs code: it compares columns with values.

    A comparison with a missing value is false, so that `not` of it is true; `is null` asks for missing values.
    """

    def __init__(self, text: str, columns: Columns) -> None:
        self.text, self._columns = text, columns
        self.tree = parsed_condition(text)
        self._used: dict[str, Column] = {}
        self._times: dict[Literal, int] = {}  # dates that are written as texts
        for node in _nodes(self.tree):
            self._check(node)
        used = (value for value in _values(self.tree) if isinstance(value, Attribute))
        self.source_names = sorted({value.name for value in used if value.end == "source"})
        self._kept: dict[int, Mask] = {}  # of parts that do not depend on the source

    # -- asking --------------------------------------------------------------------------------------------

    def groups(self, rows: Rows) -> Rows:
        """A number for each source; sources of equal numbers have the same candidates."""
        found = np.zeros(rows.size, dtype=np.int64)
        for name in self.source_names:
            column = self._used[name]
            _, codes = np.unique(column.values[rows], return_inverse=True)
            codes = np.where(column.missing[rows], 0, codes + 1)
            _, found = np.unique(found * (codes.max(initial=0) + 1) + codes, return_inverse=True)
        return found

    def mask(self, source: int) -> Mask:
        """(n,) which nodes are candidates of a source."""
        found = self._eval(self.tree, source)
        return np.broadcast_to(np.asarray(found, dtype=np.bool_), (self._columns.num_nodes,))

    # -- binding -------------------------------------------------------------------------------------------

    def _check(self, node: Node) -> None:
        """Refuse unknown attributes and values of other types, at their place."""
        if isinstance(node, Truth) and self._kind(node.value) != "flag":
            refuse(self.text, node.at, f"a comparison is missing: the value is {self._words(node.value)}")
        if isinstance(node, IsNull):
            self._kind(node.value)
        if isinstance(node, OneOf):
            for option in node.options:
                self._check_pair("=", node.value, option)
        if isinstance(node, Comparison):
            self._check_pair(node.operator, node.left, node.right, node.at)
            if node.operator in ("contains", "startswith") and _is_of(node.right, "candidate"):
                refuse(self.text, node.right.at, f"after {node.operator!r} stands a text or an attribute of the source")

    def _check_pair(self, operator: str, left: Value, right: Value, at: int | None = None) -> None:
        kinds = self._kind(left), self._kind(right)
        for value, kind, other in ((left, kinds[0], kinds[1]), (right, kinds[1], kinds[0])):
            if other == "time" and kind == "text" and isinstance(value, Literal):
                self._times[value] = self._time(value)
                return self._check_operator(operator, "time", right.at if at is None else at)
        if kinds[0] != kinds[1]:
            refuse(self.text, right.at, f"{self._words(left)} is compared with {self._words(right)}")
        return self._check_operator(operator, kinds[0], right.at if at is None else at)

    def _check_operator(self, operator: str, kind: str, at: int) -> None:
        if operator in ("contains", "startswith") and kind != "text":
            refuse(self.text, at, f"{operator!r} is for text")
        if operator in ("<", "<=", ">", ">=") and kind in ("flag", "null"):
            refuse(self.text, at, f"{operator!r} is for numbers, times and text")

    def _kind(self, value: Value) -> str:
        if isinstance(value, Literal):
            if value.value is None:
                return "null"
            if isinstance(value.value, bool):
                return "flag"
            return "text" if isinstance(value.value, str) else "number"
        if value.name not in self._used:
            known = self._columns.column_names()
            if value.name not in known:
                listed = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
                near = nearest_word(value.name, known)
                refuse(self.text, value.at, f"there is no attribute {value.name!r} (there are {listed}{near})")
            self._used[value.name] = self._columns.column(value.name)
        return self._used[value.name].kind

    def _words(self, value: Value) -> str:
        if isinstance(value, Literal):
            return "null" if value.value is None else f"{value.value!r} ({_KINDS[self._kind(value)]})"
        return f"{value.end}.{value.name} ({_KINDS[self._kind(value)]})"

    def _time(self, value: Literal) -> int:
        """Microseconds since 1970 of a date that is written as text."""
        try:
            moment = datetime.datetime.fromisoformat(str(value.value))
        except ValueError:
            refuse(self.text, value.at, f"{value.value!r} is no time: write one as '2024-05-31' or '2024-05-31 12:00'")
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.timezone.utc)
        return round((aware - _EPOCH) / datetime.timedelta(microseconds=1))

    # -- evaluation ----------------------------------------------------------------------------------------

    def _eval(self, node: Node, source: int) -> Any:
        """A mask over all candidates, or one truth value for all."""
        fixed = not any(_is_of(value, "source") for value in _values(node))
        if fixed and id(node) in self._kept:
            return self._kept[id(node)]
        found = self._evaluated(node, source)
        if fixed:
            self._kept[id(node)] = found
        return found

    def _evaluated(self, node: Node, source: int) -> Any:
        if isinstance(node, Not):
            return np.logical_not(self._eval(node.part, source))
        if isinstance(node, All | SomeOf):
            join = np.logical_and if isinstance(node, All) else np.logical_or
            found = self._eval(node.parts[0], source)
            for part in node.parts[1:]:
                found = join(found, self._eval(part, source))
            return found
        if isinstance(node, OneOf):
            tests = (self._compared("=", node.value, option, source) for option in node.options)
            found = next(tests)
            for test in tests:
                found = np.logical_or(found, test)
            return found
        if isinstance(node, IsNull):
            value = self._operand(node.value, source)
            return value.missing if isinstance(value, Column) else value is None
        if isinstance(node, Truth):
            return self._compared("=", node.value, Literal(True, node.at), source)
        return self._compared(node.operator, node.left, node.right, source)

    def _operand(self, value: Value, source: int) -> Any:
        """The column of a candidate's attribute; else one value, None where it is missing."""
        if isinstance(value, Literal):
            return self._times.get(value, value.value)
        column = self._used[value.name]
        return column if value.end == "candidate" else column.value(source)

    def _compared(self, operator: str, left: Value, right: Value, source: int) -> Any:
        a, b = self._operand(left, source), self._operand(right, source)
        if not isinstance(a, Column) and not isinstance(b, Column):
            return a is not None and b is not None and _one(operator, a, b)
        if isinstance(a, Column) and isinstance(b, Column):
            return _columns_compared(operator, a, b)
        if isinstance(a, Column):
            return _column_compared(operator, a, b)
        return _column_compared(_FLIPPED[operator], b, a)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def check_condition(graph: Graph, text: str) -> None:
    """Refuse a condition that cannot be used on a graph, before anything is searched."""
    Condition(text, GraphColumns(graph))


class GraphColumns:
    """The attributes of a graph, where there is no model yet."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.num_nodes = graph, graph.num_nodes

    def column_names(self) -> list[str]:
        """The names of all attributes."""
        return graph_columns(self.graph)

    def column(self, name: str) -> Column:
        """One of them."""
        return graph_column(self.graph, name)


def _one(operator: str, a: Any, b: Any) -> bool:
    if operator in ("contains", "startswith"):
        return bool(b in a if operator == "contains" else a.startswith(b))
    return bool(_NUMERIC[operator](a, b))


def _column_compared(operator: str, column: Column, value: Any) -> Mask:
    """(n,) a column against one value; missing ones compare as false."""
    if value is None:
        return np.zeros(column.values.size, dtype=np.bool_)
    if column.texts is None:
        found: Mask = _NUMERIC[operator](column.values, value)
    else:  # each distinct text is compared once
        answers = _TEXTUAL[operator](column.texts, value).to_numpy(zero_copy_only=False).astype(np.bool_)
        found = answers[column.values] if answers.size else np.zeros(column.values.size, dtype=np.bool_)
    return found & ~column.missing


def _columns_compared(operator: str, a: Column, b: Column) -> Mask:
    """(n,) two columns, row by row of the arrays."""
    missing = a.missing | b.missing
    if a.texts is None or b.texts is None:
        found: Mask = _NUMERIC[operator](a.values, b.values)
        return found & ~missing
    rows = np.flatnonzero(~missing)
    texts = [column.texts.take(pa.array(column.values[rows])) for column in (a, b)]  # type: ignore[union-attr]
    made = np.zeros(missing.size, dtype=np.bool_)
    made[rows] = _TEXTUAL[operator](*texts).to_numpy(zero_copy_only=False)
    return made


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for part in (node.part,) if isinstance(node, Not) else getattr(node, "parts", ()):
        yield from _nodes(part)


def _values(node: Node) -> Iterator[Value]:
    for part in _nodes(node):
        if isinstance(part, Comparison):
            yield from (part.left, part.right)
        elif isinstance(part, OneOf | IsNull | Truth):
            yield part.value


def _is_of(value: Value, end: str) -> bool:
    return isinstance(value, Attribute) and value.end == end
