"""Results as Markdown and JSON: the published value, and ours under each protocol."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from yinyan.evaluation import PROTOCOLS, mean_and_spread
from yinyan.reproduce.recipe import Place, Recipe, Row
from yinyan.reproduce.running import CURVE, Result
from yinyan.reproduce.standings import NEAR, standings
from yinyan.text import counted

__all__ = [
    "as_json",
    "as_markdown",
    "glance",
    "in_words",
    "markdown_row",
    "published_value",
    "result_cell",
    "results_of",
    "spread_over_seeds",
    "values_of",
]


def as_markdown(recipe: Recipe, results: Sequence[Result], command: str) -> str:
    """A page: what was asked, the table, and the command that makes it."""
    protocols = list(dict.fromkeys(q for row in recipe.rows for place in row.places for q in place.protocols))
    shown = [f"{q}, {in_words(m)}" if recipe.also else q for q in protocols for m in (recipe.metric, *recipe.also)]
    head = ["data", recipe.title, f"paper ({recipe.source})", *shown, "seeds", "seconds a run"]
    rows = [
        _line(row, place, protocols, recipe.also, results)
        for data in _data_of(recipe)
        for row in recipe.rows
        for place in row.places
        if place.data == data
    ]
    lines = [f"# {recipe.title}", "", recipe.about, ""]
    named = any(place.metric for row in recipe.rows for place in row.places)
    metrics = " and ".join(map(in_words, (recipe.metric, *recipe.also)))
    lines += [f"{metrics}{' if none is named,' if named else ''} in per cent, mean ± standard deviation."]
    lines += ["", markdown_row(head), markdown_row(["---"] * len(head)), *map(markdown_row, rows), ""]
    lines += [f"- *{name}*: {PROTOCOLS[name]}" for name in protocols]
    lines += ["", f"Made by `{command}`."]
    if "clean" in protocols and len(_data_of(recipe)) > 1:
        lines += ["", "Under *clean*, and in brackets what was published for it:", "", glance(recipe, results, "clean")]
    lines += _curves(recipe, results)
    if recipe.compare:
        for name in (recipe.metric, *recipe.also):
            lines += ["", *_comparison(recipe, results, name)]
    return "\n".join(lines) + "\n"


def _curves(recipe: Recipe, results: Sequence[Result]) -> list[str]:
    """The learning curves of the first seed, where results have them."""
    first = [
        r for r in results if r.cell.seed == recipe.first_seed and any(name.startswith(CURVE) for name in r.figures)
    ]
    if not first:
        return []
    lines = ["", f"Validation MRR by epoch, in per cent, of seed {recipe.first_seed}:", ""]
    lines += [markdown_row(["data", "method", "epoch: MRR"]), markdown_row(["---"] * 3)]
    for row in recipe.rows:
        for result in first:
            if result.cell.row == row.name:
                curve = {int(k.removeprefix(CURVE)): v for k, v in result.figures.items() if k.startswith(CURVE)}
                shown = ", ".join(f"{epoch}: {100 * value:.1f}" for epoch, value in sorted(curve.items()))
                lines.append(markdown_row([result.cell.data, row.name, shown]))
    return lines


def _comparison(recipe: Recipe, results: Sequence[Result], metric: str) -> list[str]:
    """The first row of each data set beside the one that is compared, and how often that is first."""
    found = [line for line in standings(recipe, results, metric) if line.own]
    counts = {place: sum(line.place == place for line in found) for place in ("first", NEAR)}
    summary = (
        f"By {in_words(metric)}, *{recipe.compare}* is first on {counts['first']} and within the spread of the first "
        f"(at most one standard deviation below it) on {counts[NEAR]} of {counted(len(found), 'data set')} that it was "
        "run on. All rows are taken by its seeds:"
    )
    lines = [textwrap.fill(summary, 100, break_on_hyphens=False), ""]
    head = ["data", f"first by {in_words(metric)}", in_words(metric), recipe.compare, "place"]
    lines += [markdown_row(head), markdown_row(["---"] * len(head))]
    for line in standings(recipe, results, metric):
        own = mean_and_spread(line.own, 2) if line.own else "–"
        lines.append(markdown_row([line.data, line.first, mean_and_spread(line.best, 2), own, line.place]))
    return lines


def glance(recipe: Recipe, results: Sequence[Result], protocol: str) -> str:
    """One line a row and one column a data set, under one protocol; published values only where they are of it."""
    names = _data_of(recipe)
    lines = [markdown_row(["", *names]), markdown_row(["---"] * (len(names) + 1))]
    for row in recipe.rows:
        places = {place.data: place for place in row.places if protocol in place.protocols}
        if not places:
            continue
        cells = [_glance_cell(row, places.get(name), protocol, recipe, results) for name in names]
        lines.append(markdown_row([row.name, *cells]))
    return "\n".join(lines)


def as_json(recipe: Recipe, results: Sequence[Result], command: str) -> dict[str, Any]:
    """Every figure with its protocol, seed by seed."""
    return {
        "recipe": recipe.name,
        "title": recipe.title,
        "metric": recipe.metric,
        **({"also": list(recipe.also)} if recipe.also else {}),
        "published under": recipe.source,
        "command": command,
        **({"standings": _standings(recipe, results)} if recipe.compare else {}),
        "rows": [
            {
                "row": row.name,
                "method": row.method,
                "data": place.data,
                "expect": place.expect,
                "spread": place.spread,
                **({"published by": place.expect_of} if place.expect_of else {}),
                **({"published under": row.source} if row.source else {}),
                "settings": place.settings,
                "results": {
                    protocol: [_plain(result) for result in results_of(row, place, protocol, results)]
                    for protocol in place.protocols
                },
            }
            for row in recipe.rows
            for place in row.places
        ],
    }


def _standings(recipe: Recipe, results: Sequence[Result]) -> list[dict[str, Any]]:
    """The first row of each data set under each metric, and the place of the one that is compared."""
    return [
        {"data": line.data, "metric": name, "first": line.first, "row": recipe.compare, "place": line.place}
        for name in (recipe.metric, *recipe.also)
        for line in standings(recipe, results, name)
    ]


def spread_over_seeds(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Each metric's mean, standard deviation and values over the seeds; nothing if the results are of several rows."""
    if len({(result.cell.recipe, result.cell.row, result.cell.data, result.cell.protocol) for result in results}) != 1:
        return {}
    ordered = [result.figures for result in sorted(results, key=lambda result: result.cell.seed) if result.figures]
    found = {name: [figures[name] for figures in ordered] for name in (ordered[0] if ordered else ())}
    return {
        name: {"mean": mean(values), "std": stdev(values) if len(values) > 1 else 0.0, "values": values}
        for name, values in found.items()
    }


def values_of(row: Row, place: Place, protocol: str, results: Sequence[Result]) -> list[float]:
    """The figures of a row on a data set under a protocol, seed by seed."""
    return [result.figure for result in results_of(row, place, protocol, results) if result.figure is not None]


def results_of(row: Row, place: Place, protocol: str, results: Sequence[Result]) -> list[Result]:
    """The results of a row on a data set under a protocol, seed by seed."""
    wanted = (row.name, place.data, protocol)
    found = [r for r in results if (r.cell.row, r.cell.data, r.cell.protocol) == wanted]
    return sorted(found, key=lambda r: r.cell.seed)


def _line(
    row: Row, place: Place, protocols: Sequence[str], also: Sequence[str], results: Sequence[Result]
) -> list[str]:
    mine = {q: results_of(row, place, q, results) for q in place.protocols}
    counts = sorted({len(found) for found in mine.values()})
    seconds = [result.seconds for found in mine.values() for result in found]
    published = published_value(place) + (f" ({place.expect_of})" if place.expect_of else "")
    published += f" ({row.source})" if row.source and place.expect is not None else ""
    cells = [
        cell for q in protocols for cell in (result_cell(mine.get(q)), *(result_cell(mine.get(q), of=m) for m in also))
    ]
    spent = f"{mean(seconds):.{0 if mean(seconds) >= 10 else 1}f}" if seconds else ""
    data = place.data if place.metric is None else f"{place.data} ({in_words(place.metric)})"
    return [data, row.name, published, *cells, "-".join(map(str, counts)), spent]


def published_value(place: Place) -> str:
    """What was published, with its standard deviation if that was."""
    spread = "" if place.spread is None else f" ± {place.spread:.2f}"
    return "–" if place.expect is None else f"{place.expect:.2f}{spread}"


def _data_of(recipe: Recipe) -> list[str]:
    return list(dict.fromkeys(place.data for row in recipe.rows for place in row.places))


def _glance_cell(row: Row, place: Place | None, protocol: str, recipe: Recipe, results: Sequence[Result]) -> str:
    if place is None:
        return ""
    comparable = place.expect is not None and (row.source or recipe.source) == protocol
    published = f" ({place.expect:.1f})" if comparable else ""
    return result_cell(results_of(row, place, protocol, results), digits=1) + published


def result_cell(results: Sequence[Result] | None, digits: int = 2, of: str | None = None) -> str:
    """Mean and spread, of a further metric if named; "not run", or how many runs diverged; empty where the row has no
    such protocol."""
    if results is None:
        return ""
    figures = [r.figure if of is None else 100 * r.figures[of] for r in results if r.figure is not None]
    failed = len(results) - len(figures)
    parts = [mean_and_spread(figures, digits)] if figures else []
    parts += [f"{failed} of {len(results)} diverged"] if failed else []
    return ", ".join(parts) or "not run"


def in_words(metric: str) -> str:
    """A metric's name as it is printed."""
    metric = metric.removeprefix("filtered-")
    names = {"hits": "Hits", "mrr": "MRR", "full-mrr": "MRR", "ndcg": "NDCG", "recall": "Recall"}
    kind, at, depth = metric.partition("@")
    return f"{names.get(kind, kind)}{at}{depth}"


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def _plain(result: Result) -> dict[str, Any]:
    return {
        "protocol": result.protocol,
        "seed": result.cell.seed,
        "figure": None if result.figure is None else round(result.figure, 4),
        "figures": {name: round(value, 6) for name, value in result.figures.items()},
        "seconds": round(result.seconds, 2),
        **({"failure": result.failure} if result.failure else {}),
    }
