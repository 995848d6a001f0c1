"""The section of metrics: tiles, and a comparison with peers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from yinyan.reporting.content import ReportContent
from yinyan.reporting.markup import escaped, section, wide
from yinyan.reporting.spelling import number
from yinyan.wording import counted

__all__ = ["result_section"]

_LOWER_IS_BETTER = frozenset({"brier", "ece", "log_loss", "loss", "mean_rank"})
_METRICS = {
    "mrr": ("MRR", "mean of 1 / rank of a link among non-links"),
    "auc": ("AUC", "how often a link outscores a non-link"),
    "ap": ("AP", "area under the precision-recall curve"),
    "average_precision": ("AP", "area under the precision-recall curve"),
}


def result_section(content: ReportContent) -> str:
    """A tile for each metric, and the comparison where there are peers; empty without metrics."""
    if not content.metrics:
        return ""
    tiles = "".join(
        f"<div><dt>{_metric(name)}</dt><dd>{number(value)}</dd><dd class='small'>{_meaning(name)}</dd></div>"
        for name, value in content.metrics.items()
    )
    return section("Result", f"<dl class='tiles'>{tiles}</dl>" + (_comparison(content) if content.peers else ""))


def _comparison(content: ReportContent) -> str:
    """This model and its peers in one table, the best of each column in bold."""
    models = {content.name: content.metrics, **content.peers}
    columns = list(dict.fromkeys(name for metrics in models.values() for name in metrics))
    best = {name: _best(name, [m[name] for m in models.values() if name in m]) for name in columns}
    head = "".join(f"<th scope='col'>{_metric(name)}{' ↓' if _falls(name) else ''}</th>" for name in columns)
    body = ""
    for model, metrics in models.items():
        cells = ""
        for name in columns:
            shown = number(metrics.get(name, math.nan))
            cells += f"<td>{f'<strong>{shown}</strong>' if shown == best[name] else shown}</td>"
        kind = " class='ours'" if model == content.name else ""
        body += f"<tr{kind}><th scope='row'><bdi>{escaped(model)}</bdi></th>{cells}</tr>"
    protocol = content.protocol or content.facts.get("protocol")
    caption = "The same held-out pairs for all" + (f". Protocol: {escaped(protocol)}" if protocol else "")
    caption += ". The best of each column in bold" + ("; ↓ lower is better." if any(map(_falls, columns)) else ".")
    won = sum(number(content.metrics.get(name, math.nan)) == best[name] for name in columns)
    reading = f"{escaped(content.name)} leads, alone or level, on {won} of {counted(len(columns), 'metric')}."
    head = f"<thead><tr><td></td>{head}</tr></thead>"
    table = f"<table class='numbers'><caption><span>{caption}</span></caption>{head}<tbody>{body}</tbody></table>"
    return f"<h3>Beside its peers</h3><p>{reading}</p>{wide(table, 'comparison with peers')}"


def _metric(name: str) -> str:
    known = _METRICS.get(name.lower())
    return known[0] if known else escaped(re.sub("^hits", "Hits", name).replace("_", " "))


def _meaning(name: str) -> str:
    known, hits = _METRICS.get(name.lower()), re.fullmatch(r"hits@(\d+)", name.lower())
    if hits:
        return f"share of links above the {_ordinal(int(hits[1]))} best non-link"
    return known[1] if known else ""


def _ordinal(n: int) -> str:
    return "" if n == 1 else f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def _falls(name: str) -> bool:
    return name.lower() in _LOWER_IS_BETTER


def _best(name: str, values: Sequence[float]) -> str:
    """The best value as it is shown, so that values shown alike are best together."""
    finite = [value for value in values if math.isfinite(value)]
    return number((min if _falls(name) else max)(finite)) if finite else ""
