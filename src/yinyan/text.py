"""Counts, lists and tables as people read them: in messages, on a terminal and in a notebook."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Mapping, Sequence

__all__ = ["counted", "how_sure", "html_facts", "html_table", "listed", "percent", "probability", "text_table"]

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(count: int, noun: str) -> str:
    """A number and its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(values: Sequence[object], most: int = 12) -> str:
    """The first few of some values, and how many more there are."""
    if not len(values):
        return "none"
    shown = ", ".join(repr(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"


def probability(value: float) -> str:
    """Three decimals, that never round to impossible or certain."""
    return "<0.001" if 0 < value < 0.0005 else ">0.999" if 0.9995 <= value < 1 else f"{value:.3f}"


def percent(share: float) -> str:
    """A share in per cent, with two digits."""
    return f"{float(f'{100 * share:.2g}'):.10f}".rstrip("0").rstrip(".") + " %"


def how_sure(base_rate: float, missing_share: float | None, mean: float) -> str:
    """The base rate of some probabilities, what it assumes, and their mean as a count of links."""
    assumed = "" if missing_share is None else f" (as many missing edges as {percent(missing_share)} of the known)"
    return f"probability: at a base rate of {percent(base_rate)}{assumed}; {_of_such(mean)}"


def _of_such(mean: float) -> str:
    """'of ten such links, about three': of a hundred or a thousand, where ten have less than one."""
    for size, name in ((10, "ten"), (100, "a hundred"), (1000, "a thousand")):
        count = round(size * mean)
        if count:
            many = "one is a missing edge" if count == 1 else f"{_count(count)} are missing edges"
            return f"of {name} such links, about {many}"
    return "of a thousand such links, fewer than one is a missing edge"


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


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


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    more: int = 0,
    right: Sequence[int] | None = None,
) -> str:
    """A table for notebooks: every cell escaped, a title above, and how many `more` rows are not shown below.

    Columns at `right` hold numbers and are aligned there, others on the left. Without `right` a notebook decides.
    """

    def line(tag: str, row: Sequence[str]) -> str:
        cells = []
        for place, cell in enumerate(row):
            way = "" if right is None else f' style="text-align:{"right" if place in right else "left"}"'
            cells.append(f"<{tag}{way}>{html.escape(cell)}</{tag}>")
        return "".join(cells)

    head, body = line("th", header), "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    rest = f"<p>… and {more:,} more rows</p>" if more > 0 else ""
    return (f"<p><strong>{html.escape(title)}</strong></p>" if title else "") + table + rest


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """Names and values for notebooks, under a title."""
    body = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
    return f"<p><strong>{html.escape(title)}</strong></p><table><tbody>{body}</tbody></table>"
