"""The section of links against non-links: separation and calibration."""

from __future__ import annotations

import numpy as np

from yinyan.reporting.charts import precision_recall_figure, reliability_figure, roc_figure, score_histogram
from yinyan.reporting.content import ReportContent, given
from yinyan.reporting.curves import precision_recall_curve, reliability_bins, roc_curve
from yinyan.reporting.markup import figure, section
from yinyan.reporting.spelling import percent
from yinyan.wording import counted

__all__ = ["told_apart_section"]


def told_apart_section(content: ReportContent) -> str:
    """Charts of scores and of probabilities, each where given; empty with neither."""
    charts = _separation(content) + _calibration(content)
    return section("Links against non-links", f"<div class='charts'>{charts}</div>") if charts else ""


def _separation(content: ReportContent) -> str:
    positive, negative = content.positive_scores, content.negative_scores
    if positive is None or negative is None or not given(positive) or not given(negative):
        return ""
    num_links, num_others = np.size(positive), np.size(negative)
    *_, auc = roc_curve(positive, negative)
    *_, precision = precision_recall_curve(positive, negative)
    chance = num_links / (num_links + num_others)
    readings = (
        f"The scores of {counted(num_links, 'held-out link')} and {counted(num_others, 'non-link')}: "
        f"the less the two overlap, the better.",
        f"A link outscores a non-link {percent(auc)} of the time (ties count one half).",
        f"Average precision is {precision:.3f}, against {chance:.3f} by chance. It depends on the share of "
        f"links among the pairs, here {percent(chance)}.",
    )
    drawn = (score_histogram, roc_figure, precision_recall_figure)
    titles = ("Scores", "Ranking", "Precision and recall")
    return "".join(
        figure(title, draw(positive, negative, label=reading), reading)
        for title, draw, reading in zip(titles, drawn, readings, strict=True)
    )


def _calibration(content: ReportContent) -> str:
    positive, negative = content.positive_probabilities, content.negative_probabilities
    if positive is None or negative is None or not given(positive) or not given(negative):
        return ""
    bins = reliability_bins(positive, negative, base_rate=content.base_rate)
    good = int(((bins.low <= bins.predicted) & (bins.predicted <= bins.high)).sum())
    reading = (
        f"In {good} of {counted(len(bins.counts), 'bin')} the stated probability lies within the 95 % Wilson "
        f"interval (vertical line) of the observed share of links."
    )
    weighting = " Pairs count as they were sampled."
    if content.base_rate is not None:
        rate = percent(content.base_rate)
        weighting = f" Non-links are weighted so that links make up {rate} of the pairs: the stated base rate."
    scale = " Both axes are in odds, since links are rare." if bins.on_odds else ""
    caption = f"{reading}{weighting}{scale} Bars count the pairs, unweighted."
    return figure("Are the probabilities right?", reliability_figure(bins, label=reading), caption)
