"""The section of training: curves over the epochs, and the energy over the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from yinyan.reporting.charts import energy_curve, epoch_curves
from yinyan.reporting.content import ReportContent
from yinyan.reporting.markup import figure, section
from yinyan.reporting.spelling import plain
from yinyan.wording import counted

__all__ = ["training_section"]


def training_section(content: ReportContent) -> str:
    """Curves over the epochs and the layers; empty without any."""
    charts = _loss(content) + _validation(content) + _repulsion(content)
    heading = "Training" if charts else "Energy over the layers"
    charts += _energy(content)
    return section(heading, f"<div class='charts'>{charts}</div>") if charts else ""


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
    return figure("Energy", energy_curve(energy, label=reading), caption)


def _over_epochs(
    content: ReportContent, title: str, series: Mapping[str, Sequence[float | None]], axis: str, reading: str
) -> str:
    numbers = [index if epoch is None else epoch for index, epoch in enumerate(_column(content, "epoch"), start=1)]
    name, best = title.lower(), content.best_epoch
    svg = epoch_curves(name, numbers, series, axis=axis, best_epoch=best, label=reading)
    return figure(title, svg, reading)


def _course(values: Sequence[float]) -> str:
    return f"from {plain(values[0])} to {plain(values[-1])}"


def _column(content: ReportContent, key: str) -> list[float | None]:
    return [row.get(key) for row in content.history]


def _seen(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
