"""The model card: data, protocol, figures and versions of a saved model, in Markdown."""

from __future__ import annotations

import platform

import numpy as np
import torch

from yinyan import __version__
from yinyan.model.fitted import Fitted
from yinyan.model.quality import weakness
from yinyan.text import counted, percent

__all__ = ["METRIC_WORDS", "model_card"]

METRIC_WORDS = {
    "hits@10%": "share of held-out edges that score above 90 % of the negatives",
    "hits@100": "share of test links that score above the 100th best negative",
    "mrr": "mean reciprocal rank of a held-out edge among all sampled negatives",
    "auc": "probability that a held-out edge scores above a negative",
    "ap": "average precision",
    "score_spread": "standard deviation of a score over negative samples, as a share of that of all scores",
}


def model_card(fitted: Fitted) -> str:
    """Data, protocol, scores, seed and versions of a model."""
    encoder, decoder = fitted.settings.encoder, fitted.settings.decoder
    figures = [f"| {name} | {value:.4f} | {METRIC_WORDS.get(name, '')} |" for name, value in fitted.metrics.items()]
    lines = [
        "# Link-prediction model",
        "",
        f"A YinYanGNN encoder ({encoder.num_steps} propagation steps, {encoder.hidden_size} dimensions) with a "
        f"{decoder.kind} decoder, fitted by yinyan {__version__}.",
        "",
        "## Data",
        "",
        fitted.graph.describe(),
        "",
        "## Protocol",
        "",
        *(f"- {line}" for line in fitted.split_text.splitlines()),
        f"- weights of epoch {fitted.best_epoch} of {len(fitted.history)}, the best on the validation edges",
        "",
        f"## Validation figures (protocol '{fitted.protocol}')",
        "",
        "These figures chose the weights, so they are optimistic; `yinyan evaluate` measures on test edges.",
        "",
        "| figure | value | meaning |",
        "|---|---|---|",
        *figures,
        "",
        *([f"**{wrong}.**", ""] if (wrong := weakness(fitted.metrics)) is not None else []),
        f"Probabilities hold at a base rate of {percent(fitted.base_rate)}: as many missing edges as "
        f"{percent(fitted.missing_share)} of the known. {_calibrated_on(fitted)}",
        "",
        "## Settings chosen for this graph",
        "",
        *(f"- {reason}" for reason in fitted.reasons),
        "",
        "## Versions",
        "",
        f"seed {fitted.seed}, {fitted.seconds:.0f} s of training, yinyan {__version__}, torch {torch.__version__}, "
        f"numpy {np.__version__}, Python {platform.python_version()}",
        "",
    ]
    return "\n".join(lines)


def _calibrated_on(fitted: Fitted) -> str:
    lists = fitted.valid_lists
    if lists is None:
        return "They are calibrated on the validation edges and negatives."
    sources = counted(int((lists.ranks == 1).sum()), "node")
    return f"They are calibrated on the lists recommended to {sources} without the validation edges."
