"""A report of one model as a single web page that needs nothing else."""

from __future__ import annotations

import html
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yinyan import figures
from yinyan.errors import InputError
from yinyan.files import write_text
from yinyan.wording import counted

__all__ = ["ReportContent", "write_report"]

Row = tuple[object, object, float, float | None]  # source, target, score, probability

_MOST_ROWS = 100  # recommendations listed
_LOWER_IS_BETTER = frozenset({"brier", "ece", "log_loss", "loss", "mean_rank"})
_METRICS = {
    "mrr": ("MRR", "mean of 1 / rank of a link among non-links"),
    "auc": ("AUC", "how often a link outscores a non-link"),
    "ap": ("AP", "area under the precision-recall curve"),
    "average_precision": ("AP", "area under the precision-recall curve"),
}


@dataclass(frozen=True, eq=False)
class ReportContent:
    """What a report tells. All but the title may be left out, and its section then is too."""

    title: str
    subtitle: str = ""
    generated: str | None = None  # when; None keeps the page the same from run to run
    name: str = "yinyan"  # of this model, beside its peers
    protocol: str | None = None  # how links were held out, named under the comparison; None: facts["protocol"]
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()  # whole sentences on what was guessed, merged or chosen
    metrics: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # name to metrics
    # of each epoch: epoch, loss, learning_rate, hits, mrr, auc, repulsion; None where not validated
    history: Sequence[Mapping[str, float | None]] = ()
    best_epoch: int | None = None  # whose weights were restored
    energy: Sequence[float] = ()  # before the first layer, and after each
    positive_scores: ArrayLike | None = None  # logits of held-out links
    negative_scores: ArrayLike | None = None  # and of held-out non-links
    positive_probabilities: ArrayLike | None = None
    negative_probabilities: ArrayLike | None = None
    base_rate: float | None = None  # share of links the probabilities are stated for; None: as sampled
    points: ArrayLike | None = None  # (n, 2) of the map
    point_labels: ArrayLike | None = None  # (n,) small integers, the communities
    links: ArrayLike | None = None  # (m, 2) rows of points, for context
    predicted: ArrayLike | None = None  # (p, 2) rows of points: the first p of `recommendations`
    recommendations: Sequence[Row] = ()  # best first
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # group to name to value

    def __post_init__(self) -> None:
        """Refuse a map whose parts do not fit together."""
        if not _given(self.points):
            return
        points = np.asarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
            raise InputError(f"'points' needs finite numbers of shape (n, 2) (got shape {points.shape})")
        if self.point_labels is not None and np.shape(self.point_labels) != (len(points),):
            raise InputError(f"'point_labels' needs {len(points):,} labels (got shape {np.shape(self.point_labels)})")
        for name in ("links", "predicted"):
            rows = _array(getattr(self, name)).reshape(-1)
            if rows.size % 2 or (rows.size and (rows.min() < 0 or rows.max() >= len(points))):
                raise InputError(f"'{name}' needs pairs of rows of 'points', from 0 to {len(points) - 1:,}")


def write_report(path: str | os.PathLike[str], content: ReportContent) -> None:
    """Write the page whole or not at all; the same content gives the same bytes."""
    write_text(path, _page(content))


_ALLOWED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # nothing is fetched, no script runs


def _page(content: ReportContent) -> str:
    title = _text(content.title)
    sections = (
        _result(content),
        _basis(content),
        _recommended(content),
        _told_apart(content),
        _training(content),
        _settings(content),
    )
    subtitle = f"<p class='subtitle'>{_text(content.subtitle)}</p>" if content.subtitle else ""
    generated = f"<p class='small'>{_text(content.generated)}</p>" if content.generated else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_ALLOWED}">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>{_MARK}<div><h1>{title}</h1>{subtitle}{generated}</div></header>
<main>
{"".join(section for section in sections if section)}</main>
</body>
</html>
"""


def _result(content: ReportContent) -> str:
    if not content.metrics:
        return ""
    tiles = "".join(
        f"<div><dt>{_metric(name)}</dt><dd>{_number(value)}</dd><dd class='small'>{_meaning(name)}</dd></div>"
        for name, value in content.metrics.items()
    )
    return _section("Result", f"<dl class='tiles'>{tiles}</dl>" + (_comparison(content) if content.peers else ""))


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
            shown = _number(metrics.get(name, math.nan))
            cells += f"<td>{f'<strong>{shown}</strong>' if shown == best[name] else shown}</td>"
        kind = " class='ours'" if model == content.name else ""
        body += f"<tr{kind}><th scope='row'><bdi>{_text(model)}</bdi></th>{cells}</tr>"
    protocol = content.protocol or content.facts.get("protocol")
    caption = "The same held-out pairs for all" + (f". Protocol: {_text(protocol)}" if protocol else "")
    caption += ". The best of each column in bold" + ("; ↓ lower is better." if any(map(_falls, columns)) else ".")
    won = sum(_number(content.metrics.get(name, math.nan)) == best[name] for name in columns)
    reading = f"{_text(content.name)} leads, alone or level, on {won} of {counted(len(columns), 'metric')}."
    head = f"<thead><tr><td></td>{head}</tr></thead>"
    table = f"<table class='numbers'><caption><span>{caption}</span></caption>{head}<tbody>{body}</tbody></table>"
    return f"<h3>Beside its peers</h3><p>{reading}</p>{_wide(table, 'comparison with peers')}"


def _basis(content: ReportContent) -> str:
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in content.facts.items()
    )
    notes = "".join(f"<li>{_text(note)}</li>" for note in content.notes)
    parts = [f"<div><h3>Facts</h3><dl class='facts'>{facts}</dl></div>"] if facts else []
    parts += [f"<div><h3>Guessed, merged or chosen</h3><ul>{notes}</ul></div>"] if notes else []
    return _section("What this rests on", f"<div class='pair'>{''.join(parts)}</div>") if parts else ""


def _recommended(content: ReportContent) -> str:
    table, chart = _recommendation_table(content.recommendations), ""
    if _given(content.points):
        reading = _map_reading(content)
        svg = figures.embedding_map(
            content.points if content.points is not None else (),
            point_labels=content.point_labels,
            links=content.links,
            predicted=content.predicted,
            label=reading,
        )
        chart = _figure("", svg, f"{reading} Near means alike; distances between far groups mean little.", "map")
    if not table and not chart:
        return ""
    heading = "Recommended links" if table else "Map of the nodes"
    return _section(heading, f"<div class='map-and-table'>{chart}{table}</div>" if table and chart else chart + table)


def _recommendation_table(rows: Sequence[Row]) -> str:
    if not len(rows):
        return ""
    stated = any(probability is not None for *_, probability in rows)
    body = ""
    for rank, (source, target, score, probability) in enumerate(rows[:_MOST_ROWS], start=1):
        chance = f"<td>{_percent(probability)}</td>" if stated else ""
        ids = f"<td><bdi>{_text(source)}</bdi></td><td><bdi>{_text(target)}</bdi></td>"
        body += f"<tr><th scope='row'>{rank}</th>{ids}<td>{_number(score, 2)}</td>{chance}</tr>"
    names = ["rank", "source", "target", "score", *(["probability"] if stated else [])]
    head = "<thead><tr>" + "".join(f"<th scope='col'>{name}</th>" for name in names) + "</tr></thead>"
    more = len(rows) - _MOST_ROWS
    caption = f"The first {_MOST_ROWS} of {len(rows):,}, best first." if more > 0 else "Best first."
    return f"<table class='links'><caption>{caption}</caption>{head}<tbody>{body}</tbody></table>"


def _map_reading(content: ReportContent) -> str:
    predicted = _array(content.predicted).reshape(-1, 2).astype(np.int64)[: figures.MOST_NUMBERED]
    reading = f"{counted(len(_array(content.points)), 'node')} in two dimensions"
    if content.point_labels is not None:
        labels = np.asarray(content.point_labels)
        groups, most = np.unique(labels).size, len(figures.COMMUNITY_COLOURS)
        reading += f", coloured by community ({groups if groups <= most else f'the {most} largest'})"
    reading += ", some known links in grey" if _given(content.links) else ""
    if not len(predicted):
        return reading + "."
    reading += f", and {counted(len(predicted), 'recommended link')} dashed, numbered by rank"
    if content.point_labels is None:
        return reading + "."
    within = int((labels[predicted[:, 0]] == labels[predicted[:, 1]]).sum())
    return f"{reading}; {within} of them stay{'s' if within == 1 else ''} within a community."


def _told_apart(content: ReportContent) -> str:
    charts = _separation(content) + _calibration(content)
    return _section("Links against non-links", f"<div class='charts'>{charts}</div>") if charts else ""


def _separation(content: ReportContent) -> str:
    positive, negative = content.positive_scores, content.negative_scores
    if positive is None or negative is None or not _given(positive) or not _given(negative):
        return ""
    num_links, num_others = np.size(positive), np.size(negative)
    *_, auc = figures.roc_curve(positive, negative)
    *_, precision = figures.precision_recall_curve(positive, negative)
    chance = num_links / (num_links + num_others)
    readings = (
        f"The scores of {counted(num_links, 'held-out link')} and {counted(num_others, 'non-link')}: "
        f"the less the two overlap, the better.",
        f"A link outscores a non-link {_percent(auc)} of the time (ties count one half).",
        f"Average precision is {precision:.3f}, against {chance:.3f} by chance. It depends on the share of "
        f"links among the pairs, here {_percent(chance)}.",
    )
    drawn = (figures.score_histogram, figures.roc_figure, figures.precision_recall_figure)
    titles = ("Scores", "Ranking", "Precision and recall")
    return "".join(
        _figure(title, draw(positive, negative, label=reading), reading)
        for title, draw, reading in zip(titles, drawn, readings, strict=True)
    )


def _calibration(content: ReportContent) -> str:
    positive, negative = content.positive_probabilities, content.negative_probabilities
    if positive is None or negative is None or not _given(positive) or not _given(negative):
        return ""
    bins = figures.reliability_bins(positive, negative, base_rate=content.base_rate)
    good = int(((bins.low <= bins.predicted) & (bins.predicted <= bins.high)).sum())
    reading = (
        f"In {good} of {counted(len(bins.counts), 'bin')} the stated probability lies within the 95 % Wilson "
        f"interval (vertical line) of the observed share of links."
    )
    weighting = " Pairs count as they were sampled."
    if content.base_rate is not None:
        rate = _percent(content.base_rate)
        weighting = f" Non-links are weighted so that links make up {rate} of the pairs: the stated base rate."
    scale = " Both axes are in odds, since links are rare." if bins.on_odds else ""
    caption = f"{reading}{weighting}{scale} Bars count the pairs, unweighted."
    return _figure("Are the probabilities right?", figures.reliability_figure(bins, label=reading), caption)


def _training(content: ReportContent) -> str:
    charts = _loss(content) + _validation(content) + _repulsion(content)
    heading = "Training" if charts else "Energy over the layers"
    charts += _energy(content)
    return _section(heading, f"<div class='charts'>{charts}</div>") if charts else ""


def _loss(content: ReportContent) -> str:
    loss = _column(content, "loss")
    seen = _seen(loss)
    if not seen:
        return ""
    reading = f"The training loss went {_course(seen)} in {counted(len(loss), 'epoch')}."
    return _over_epochs(content, "Loss", {"loss": loss}, "training loss", reading)


def _validation(content: ReportContent) -> str:
    columns = {name: _column(content, key) for key, name in (("hits", "Hits"), ("auc", "AUC"), ("mrr", "MRR"))}
    validated = {name: values for name, values in columns.items() if _seen(values)}
    if not validated:
        return ""
    at, when = -1, "at the end"
    epochs = _column(content, "epoch")
    if content.best_epoch in epochs:
        at, when = (
            epochs.index(content.best_epoch),
            f"at epoch {content.best_epoch}, whose weights were restored",
        )
    values = {name: v[at] if v[at] is not None else _seen(v)[-1] for name, v in validated.items()}
    shown = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    return _over_epochs(content, "Validation", validated, "on validation pairs", f"Validation {when}: {shown}.")


def _repulsion(content: ReportContent) -> str:
    repulsion = _column(content, "repulsion")
    seen = _seen(repulsion)
    if len(set(seen)) < 2:  # not learned
        return ""
    reading = f"The learned repulsion between nodes without a link went {_course(seen)}."
    return _over_epochs(content, "Repulsion", {"repulsion": repulsion}, "mean repulsion", reading)


def _energy(content: ReportContent) -> str:
    energy = [float(value) for value in content.energy]
    if len(energy) < 2:  # no layer
        return ""
    falls = "falls at every layer" if (np.diff(energy) < 0).all() else "does not fall at every layer"
    reading = f"The energy {falls}: it goes {_course(energy)} in {counted(len(energy) - 1, 'layer')}."
    caption = f"{reading} Each layer is one step downhill; a rise would mean that the steps are too long."
    return _figure("Energy", figures.energy_curve(energy, label=reading), caption)


def _course(values: Sequence[float]) -> str:
    return f"from {_plain(values[0])} to {_plain(values[-1])}"


def _column(content: ReportContent, key: str) -> list[float | None]:
    return [row.get(key) for row in content.history]


def _seen(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _over_epochs(
    content: ReportContent, title: str, series: Mapping[str, Sequence[float | None]], axis: str, reading: str
) -> str:
    numbers = [index if epoch is None else epoch for index, epoch in enumerate(_column(content, "epoch"), start=1)]
    name, best = title.lower(), content.best_epoch
    svg = figures.epoch_curves(name, numbers, series, axis=axis, best_epoch=best, label=reading)
    return _figure(title, svg, reading)


def _settings(content: ReportContent) -> str:
    groups = ""
    for group, values in content.settings.items():
        rows = "".join(
            f"<tr><th scope='row'>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in values.items()
        )
        groups += f"<div><h3>{_text(group)}</h3><table class='settings'>{rows}</table></div>" if rows else ""
    if not groups:
        return ""
    summary = "<summary><h2>Settings</h2></summary>"
    return f"<section><details>{summary}<div class='groups'>{groups}</div></details></section>\n"


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{heading}</h2>{body}</section>\n"


def _figure(title: str, svg: str, caption: str, kind: str = "chart") -> str:
    heading = f"<h3>{title}</h3>" if title else ""
    return f"<figure class='{kind}'>{heading}{svg}<figcaption>{_text(caption)}</figcaption></figure>"


def _wide(table: str, label: str) -> str:
    """A table that may be wider than a phone scrolls by itself."""
    return f"<div class='wide' role='region' aria-label='{label}' tabindex='0'>{table}</div>"


_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MISSING = "\N{EN DASH}"


def _text(value: object) -> str:
    """Any value as text that no browser takes for markup; what has no form at all becomes a question mark."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", str(value)))


def _number(value: float, decimals: int = 3) -> str:
    if not math.isfinite(value):
        return _MISSING
    return f"{value:,.{decimals}f}" if abs(value) < 1000 else f"{value:,.0f}"


def _plain(value: float) -> str:
    """Three significant digits, and all digits before the point."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def _percent(share: float | None) -> str:
    if share is None or not math.isfinite(share):
        return _MISSING
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%" if share >= 0.01 else f"{100 * share:.2g}\N{NO-BREAK SPACE}%"


def _metric(name: str) -> str:
    known = _METRICS.get(name.lower())
    return known[0] if known else _text(re.sub("^hits", "Hits", name).replace("_", " "))


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
    return _number((min if _falls(name) else max)(finite)) if finite else ""


def _array(values: ArrayLike | None) -> NDArray[Any]:
    return np.asarray(() if values is None else values)


def _given(values: ArrayLike | None) -> bool:
    return _array(values).size > 0


_DARK = """
--ink:#e6e9ec; --muted:#9ba6b2; --faint:#323a43; --paper:#14181c; --card:#1c2127;
--true:#62b5ee; --false:#f0a04b; --third:#45c49e;"""
_LIGHT = " ".join(f"--{name}:{light};" for name, (_, light) in figures.THEME.items()) + " --card:#f5f7f9;"

_STYLE = (
    f":root {{ color-scheme: light dark; {_LIGHT} }}\n"
    f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}\n"
    """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 67rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }
header { display: flex; gap: 1.1rem; align-items: flex-start; }
header svg { flex: none; width: 3rem; height: 3rem; margin-top: .2rem; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; text-wrap: balance; }
h2 { margin: 0 0 1rem; font-size: 1.3rem; line-height: 1.3; }
h3 { margin: 1.5rem 0 .4rem; font-size: 1rem; }
p { margin: 0 0 .7rem; max-width: 44rem; }
.subtitle { margin: .35rem 0 0; color: var(--muted); font-size: 1.1rem; }
.small { margin: .2rem 0 0; color: var(--muted); font-size: .85rem; line-height: 1.4; }
section { margin-top: 2.6rem; padding-top: 1.5rem; border-top: 1px solid var(--faint); }
dl, dd, figure { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .8rem; }
.tiles div { padding: .8rem 1rem 1rem; background: var(--card); border-radius: .5rem; }
.tiles dt { color: var(--muted); font-size: .95rem; }
.tiles dd:not(.small) { font-size: 2rem; line-height: 1.25; font-weight: 600; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: .5rem 3rem; }
.pair h3 { margin-top: 0; }
.pair ul { margin: 0; padding-left: 1.1rem; }
.pair li { margin-bottom: .35rem; }
.facts div { display: flex; gap: 1rem; justify-content: space-between; padding: .25rem 0;
  border-bottom: 1px solid var(--faint); }
.facts dt { color: var(--muted); max-width: 50%; overflow-wrap: break-word; }
.facts dd { text-align: right; min-width: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 2rem 2.5rem; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
figcaption { margin-top: .5rem; color: var(--muted); font-size: .9rem; line-height: 1.45; }
.chart { max-width: 31rem; }
.chart h3 { margin: 0 0 .5rem; }
.map { max-width: 40rem; }
.map-and-table { display: grid; grid-template-columns: minmax(0, 1.3fr) minmax(0, 1fr);
  gap: 2rem; align-items: start; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; line-height: 1.4; }
caption { caption-side: bottom; padding-top: .5rem; text-align: left; color: var(--muted); font-size: .9rem; }
th, td { padding: .33rem .6rem; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
thead th, thead td { border-bottom-color: var(--muted); color: var(--muted); font-weight: 500; overflow-wrap: normal; }
tbody th, tr th[scope=row] { font-weight: 500; }
bdi { white-space: pre-wrap; }
.wide { overflow-x: auto; }
.wide caption span { position: sticky; left: 0; display: inline-block; max-width: min(100%, 100vw - 2.5rem); }
.numbers { width: auto; min-width: min(100%, 34rem); font-variant-numeric: tabular-nums; }
.numbers th:not(:first-child), .numbers td:not(:first-child) { text-align: right; overflow-wrap: normal; }
.numbers th:first-child { overflow-wrap: normal; }
.numbers .ours th, .numbers .ours td { background: var(--card); }
.numbers .ours th { color: var(--true); font-weight: 600; padding-left: .5rem; }
.numbers th:first-child, .numbers td:first-child { padding-left: .5rem; }
.numbers th:last-child, .numbers td:last-child { padding-right: .5rem; }
.links { font-variant-numeric: tabular-nums; font-size: .9rem; }
.links th, .links td { padding: .28rem .4rem; }
.links th:first-child { color: var(--muted); text-align: right; width: 1%; overflow-wrap: normal; }
.links th:nth-child(n+4), .links td:nth-child(n+4) { text-align: right; white-space: nowrap; }
summary { cursor: pointer; }
summary h2 { display: inline; }
.groups { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr));
  gap: 0 2.5rem; }
.settings td { text-align: right; }
.settings th { font-weight: 400; color: var(--muted); }
@media (max-width: 56rem) { .map-and-table { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 34rem) {
  body { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.5rem; }
  header svg { width: 2.2rem; height: 2.2rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .map svg text { font-size: 10.5px !important; }
  .numbers { font-size: .85rem; }
  .numbers th, .numbers td { padding-left: .35rem; padding-right: .35rem; }
  .links { font-size: .82rem; }
  .links th, .links td { padding-left: .25rem; padding-right: .25rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, .tiles, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .charts { grid-template-columns: 1fr 1fr; }
}
"""
)

_MARK = (  # two halves of one circle: attraction and repulsion
    '<svg viewBox="0 0 32 32" aria-hidden="true">'
    '<circle cx="16" cy="16" r="15" fill="none" stroke="var(--ink)" stroke-width="1.2"/>'
    '<path d="M16 1a15 15 0 0 1 0 30a7.5 7.5 0 0 1 0-15a7.5 7.5 0 0 0 0-15z" fill="var(--ink)"/>'
    '<circle cx="16" cy="8.5" r="2.3" fill="var(--ink)"/>'
    '<circle cx="16" cy="23.5" r="2.3" fill="var(--paper)"/></svg>'
)
