"""The section of recommended links: their map and their table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yinyan.reporting.colours import COMMUNITY_COLOURS
from yinyan.reporting.content import ReportContent, Row, as_array, given
from yinyan.reporting.map_chart import MOST_NUMBERED, embedding_map
from yinyan.reporting.markup import escaped, figure, section
from yinyan.reporting.spelling import number, percent
from yinyan.wording import counted

__all__ = ["recommended_section"]

_MOST_ROWS = 100  # recommendations listed


def recommended_section(content: ReportContent) -> str:
    """The map beside the table, or the one that is given; empty with neither."""
    table, chart = _recommendation_table(content.recommendations, content.base_rate), ""
    if given(content.points):
        reading = _map_reading(content)
        svg = embedding_map(
            content.points if content.points is not None else (),
            point_labels=content.point_labels,
            links=content.links,
            predicted=content.predicted,
            label=reading,
        )
        chart = figure("", svg, f"{reading} Near means alike; distances between far groups mean little.", "map")
    if not table and not chart:
        return ""
    heading = "Recommended links" if table else "Map of the nodes"
    return section(heading, f"<div class='map-and-table'>{chart}{table}</div>" if table and chart else chart + table)


def _recommendation_table(rows: Sequence[Row], base_rate: float | None) -> str:
    if not len(rows):
        return ""
    stated = any(probability is not None for *_, probability in rows)
    body = ""
    for rank, (source, target, score, probability) in enumerate(rows[:_MOST_ROWS], start=1):
        chance = f"<td>{percent(probability)}</td>" if stated else ""
        ids = f"<td><bdi>{escaped(source)}</bdi></td><td><bdi>{escaped(target)}</bdi></td>"
        body += f"<tr><th scope='row'>{rank}</th>{ids}<td>{number(score, 2)}</td>{chance}</tr>"
    names = ["rank", "source", "target", "score", *(["probability"] if stated else [])]
    head = "<thead><tr>" + "".join(f"<th scope='col'>{name}</th>" for name in names) + "</tr></thead>"
    more = len(rows) - _MOST_ROWS
    caption = f"The first {_MOST_ROWS} of {len(rows):,}, best first." if more > 0 else "Best first."
    if stated and base_rate is not None:
        caption += f" The probability holds where {percent(base_rate)} of the pairs asked about are links."
    return f"<table class='links'><caption>{caption}</caption>{head}<tbody>{body}</tbody></table>"


def _map_reading(content: ReportContent) -> str:
    predicted = as_array(content.predicted).reshape(-1, 2).astype(np.int64)[:MOST_NUMBERED]
    reading = f"{counted(len(as_array(content.points)), 'node')} in two dimensions"
    if content.point_labels is not None:
        labels = np.asarray(content.point_labels)
        groups, most = np.unique(labels).size, len(COMMUNITY_COLOURS)
        reading += f", coloured by community ({groups if groups <= most else f'the {most} largest'})"
    reading += ", some known links in grey" if given(content.links) else ""
    if not len(predicted):
        return reading + "."
    reading += f", and {counted(len(predicted), 'recommended link')} dashed, numbered by rank"
    if content.point_labels is None:
        return reading + "."
    within = int((labels[predicted[:, 0]] == labels[predicted[:, 1]]).sum())
    return f"{reading}; {within} of them stay{'s' if within == 1 else ''} within a community."
