"""The model card: what a stranger needs to know of a saved model, in Markdown."""

from __future__ import annotations

import platform

import numpy as np
import torch

from yinyan import __version__
from yinyan.calibration import BASE_RATE
from yinyan.fitting import Fitted

__all__ = ["METRIC_WORDS", "model_card"]

METRIC_WORDS = {
    "hits@10%": "share of held-out links that score above 90 % of the non-links",
    "hits@100": "share of links that score above the 100th best non-link",
    "mrr": "mean reciprocal rank of a link among all sampled non-links",
    "auc": "probability that a link beats a non-link",
    "ap": "average precision",
    "score_spread": "how far a score moves with the negative sample, as a share of the scores' own spread",
}


def model_card(fitted: Fitted) -> str:
    """Data, protocol, scores, seed and versions of a model."""
    encoder, decoder = fitted.settings.encoder, fitted.settings.decoder
    figures = [f"| {name} | {value:.4f} | {METRIC_WORDS.get(name, '')} |" for name, value in fitted.metrics.items()]
    lines = [
        "# Link-prediction model",
        "",
        f"A YinYanGNN encoder ({encoder.num_steps} descent steps, {encoder.hidden_size} dimensions) with a "
        f"{decoder.kind} decoder, fitted by yinyan {__version__}.",
        "",
        "## Data",
        "",
        fitted.graph.describe(),
        "",
        "## Protocol",
        "",
        *(f"- {line}" for line in fitted.split_text.splitlines()),
        f"- weights of epoch {fitted.best_epoch} of {len(fitted.history)}, the best on the validation links",
        "",
        f"## Validation figures (protocol '{fitted.protocol}')",
        "",
        "These chose the weights, so they flatter a little; `yinyan evaluate` measures on links that chose nothing.",
        "",
        "| figure | value | meaning |",
        "|---|---|---|",
        *figures,
        "",
        f"Probabilities are calibrated on the same pairs, for a base rate of {BASE_RATE:g}.",
        "",
        "## Choices",
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
