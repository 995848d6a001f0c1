"""What is learned about one column of a node table, so that new nodes are encoded in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ColumnPlan", "Kind", "Outcome"]

Kind: TypeAlias = Literal["number", "flag", "category", "vector", "tokens", "hashed"]


@dataclass(frozen=True)
class ColumnPlan:
    """What `fit` learned about one column."""

    name: str
    kind: Kind
    size: int = 1  # columns of the result, the mark of missing values apart
    mean: float = 0.0
    scale: float = 1.0
    has_missing: bool = False
    categories: tuple[str, ...] = ()  # of a category, and the tokens of multi-hot columns
    separator: str = ""  # between the tokens of a cell; '[]': lists written as text; 'words': free text; '': neither

    @property
    def width(self) -> int:
        """Columns of the result, the mark of missing values included."""
        return self.size + self.has_missing


class Outcome(NamedTuple):
    """A plan and the nonzero entries it makes, or no plan; the note says what a reader should know."""

    plan: ColumnPlan | None
    note: str = ""
    nonzero: int = 0
