"""What the predictor answers: small tables in the caller's ids."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Contribution", "Explanation", "Recommendation", "Recommendations", "text_table"]

Id = int | str

_SHOWN = 20  # rows of a long answer that its repr shows


class Recommendation(NamedTuple):
    """One recommended link."""

    source: Id
    target: Id
    score: float
    rank: int


@dataclass(frozen=True, eq=False)
class Recommendations(Sequence[Recommendation]):
    """Recommended links, best first for each source, as columns of equal length."""

    sources: tuple[Id, ...]
    targets: tuple[Id, ...]
    scores: NDArray[np.float32]
    ranks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, index: int) -> Recommendation: ...
    @overload
    def __getitem__(self, index: slice) -> Recommendations: ...
    def __getitem__(self, index: int | slice) -> Recommendation | Recommendations:
        if isinstance(index, slice):
            return Recommendations(self.sources[index], self.targets[index], self.scores[index], self.ranks[index])
        return Recommendation(
            self.sources[index], self.targets[index], float(self.scores[index]), int(self.ranks[index])
        )

    def __iter__(self) -> Iterator[Recommendation]:
        return (self[i] for i in range(len(self)))

    def to_arrow(self) -> pa.Table:
        """Columns source, target, score and rank; ids keep their types (mixed ones become text)."""
        import pyarrow as pa

        return pa.table(
            {
                "source": id_column(self.sources),
                "target": id_column(self.targets),
                "score": pa.array(self.scores),
                "rank": pa.array(self.ranks),
            }
        )

    def to_pandas(self) -> pd.DataFrame:
        """As `to_arrow`, as a data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            from yinyan.errors import MissingExtraError

            raise MissingExtraError("to_pandas needs pandas: pip install pandas") from error
        columns = {"source": self.sources, "target": self.targets, "score": self.scores, "rank": self.ranks}
        return pd.DataFrame({name: list(values) for name, values in columns.items()})

    def _rows(self) -> list[list[str]]:
        return [
            [str(r.source), str(r.target), f"{r.score:.3f}", str(r.rank)]
            for r in map(self.__getitem__, range(min(len(self), _SHOWN)))
        ]

    def __repr__(self) -> str:
        if not len(self):
            return "no links to recommend"
        more = len(self) - _SHOWN
        table = text_table(["source", "target", "score", "rank"], self._rows(), right=(2, 3))
        return table + (f"\n… and {more:,} more rows" if more > 0 else "")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("source", "target", "score", "rank"))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Contribution(NamedTuple):
    """How one neighbour of one end moved a score."""

    end: Id  # the end of the pair whose neighbour it is
    neighbour: Id | None  # None: all nodes together (expected negatives)
    kind: str  # "attracts" (a link) or "repels" (a sampled non-link)
    amount: float  # share of score - score_alone: positive raised the score


@dataclass(frozen=True)
class Explanation:
    """A pair's score taken apart: score = score_alone + the sum of all amounts (to rounding)."""

    source: Id
    target: Id
    score: float
    score_alone: float  # the score if no message reached or left either end
    contributions: tuple[Contribution, ...]  # largest effect first
    residue: float  # what the numerical integration leaves unexplained
    is_link: bool  # whether the graph holds the pair already
    probability: float | None = None
    base_rate: float | None = None

    def __repr__(self) -> str:
        chance = ""
        if self.probability is not None and self.base_rate is not None:
            chance = f", probability {self.probability:.3f} at base rate {self.base_rate:g}"
        head = f"{self.source} – {self.target}: score {self.score:.3f}{chance}"
        known = "this link is in the graph; " if self.is_link else ""
        alone = f"{known}without any message to or from either end the score would be {self.score_alone:.3f}"
        rows = [
            [str(c.end), c.kind, "all other nodes" if c.neighbour is None else str(c.neighbour), f"{c.amount:+.3f}"]
            for c in self.contributions[:_SHOWN]
        ]
        more = len(self.contributions) - _SHOWN
        table = (
            text_table(["end", "", "neighbour", "moved the score by"], rows, right=(3,)) if rows else "(no neighbours)"
        )
        return "\n".join([head, alone, table, *([f"… and {more:,} smaller ones"] if more > 0 else [])])

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "contributions"}
        return {**plain, "contributions": [c._asdict() for c in self.contributions]}


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Aligned columns of plain text; line breaks within a cell are shown escaped."""
    shown = [[cell.replace("\r", "\\r").replace("\n", "\\n") for cell in row] for row in [header, *rows]]
    widths = [max(_columns(row[i]) for row in shown) for i in range(len(header))]

    def aligned(row: Sequence[str]) -> str:
        gaps = [" " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [gap + cell if i in right else cell + gap for i, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(map(aligned, shown))


def _columns(text: str) -> int:
    """Columns that a terminal gives to a text: two to wide characters, none to combining ones."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def id_column(ids: Sequence[Id]) -> pa.Array:
    """An arrow column of ids: integers, or text (which mixed ids become)."""
    import pyarrow as pa

    if ids and all(isinstance(i, int) for i in ids):
        try:
            return pa.array(ids, pa.int64())
        except (OverflowError, pa.ArrowInvalid):  # beyond 64 bits: text holds them exactly
            pass
    return pa.array([str(i) for i in ids], pa.large_string())
