"""YinYanGNN from two completions of the graph: their rows side by side, with a weight chosen on validation edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.metrics import hits_at_k
from yinyan.model.fitted import our_encoder
from yinyan.model.scoring import Model
from yinyan.model.tensors import pick_device
from yinyan.peers.completion import Factors, completed_and_smoothed
from yinyan.peers.contract import Outcome, Overrides, Task, trained
from yinyan.peers.imputed import start_from_factors
from yinyan.randomness import Streams
from yinyan.training.data import TrainingData

__all__ = ["RANKS", "WEIGHTS", "chosen_weight", "combined_factors", "mean_hits", "yinyan_combined"]

WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of completion beside smoothing
RANKS = (20, 50, 100, 200)  # Hits@20 alone depends on twenty negatives
_PAIRS = 65_536  # scored at a time


def yinyan_combined(task: Task) -> Outcome:
    """For dense graphs without features, of 10,000 nodes at most.

    Half of the columns are those of smoothed scores, half those of the completion before. The score is the sum of both,
    with a weight for completion: one signed product of two stored rows, which training may refine.
    """
    own: Overrides = {
        "encoder": {"num_steps": 0, "dropout": 0.0, "output_norm": False, "embedding_size": 512, "hidden_size": 512},
        "decoder": {"kind": "multi-dot", "heads": 1},
    }

    def start(model: Model, data: TrainingData) -> None:
        base, generator = our_encoder(model).base, Streams.fresh(task.seed, "spectrum", pick_device(task.device))
        size = base.settings.embedding_size
        if size % 2:
            raise SettingsError(
                f"encoder.embedding_size: two completions need an even number of columns (got {size}; use {size + 1})"
            )
        completed, smoothed = completed_and_smoothed(data.messages, size // 2, generator=generator)
        weight = chosen_weight(smoothed, completed, data)
        start_from_factors(base, model.decoder, *combined_factors(smoothed, completed, weight))

    return trained(task, None, own, fixed={"encoder": {"inputs": "embeddings"}}, start=start)


def combined_factors(first: Factors, second: Factors, weight: float) -> Factors:
    """Rows and signed weights of the first's scores plus `weight` times the second's."""
    return Factors(torch.cat([first.rows, second.rows], dim=1), torch.cat([first.signs, weight * second.signs]))


@torch.no_grad()
def chosen_weight(first: Factors, second: Factors, data: TrainingData, weights: Sequence[float] = WEIGHTS) -> float:
    """The weight of the second by which validation edges have the largest mean of Hits@20, @50, @100 and @200."""
    links, others = (
        tuple(_scores(factors, pairs.reshape(-1, 2)) for factors in (first, second))
        for pairs in (data.valid_links, data.valid_non_links)
    )
    hits = [mean_hits(links[0] + w * links[1], others[0] + w * others[1]) for w in weights]
    return weights[int(np.argmax(hits))]


def mean_hits(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean of Hits@20, @50, @100 and @200."""
    return float(np.mean([hits_at_k(positive, negative, rank) for rank in RANKS]))


def _scores(factors: Factors, pairs: Tensor) -> np.ndarray:
    weighted = factors.rows * factors.signs
    parts = [(weighted[i] * factors.rows[j]).sum(1) for i, j in (part.T for part in pairs.split(_PAIRS))]
    return torch.cat(parts).cpu().numpy() if parts else np.empty(0, dtype=np.float32)
