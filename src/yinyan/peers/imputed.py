"""YinYanGNN from imputed edges: its learned table starts at a low-rank completion of the graph."""

from __future__ import annotations

import torch
from torch import Tensor

from yinyan.model.decoder import Decoder, HadamardMLP, MultiDotDecoder
from yinyan.model.encoder import BaseModel
from yinyan.model.fitted import our_encoder
from yinyan.model.scoring import Model
from yinyan.model.tensors import pick_device
from yinyan.peers.completion import smoothed_factors
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.randomness import Streams
from yinyan.training.data import TrainingData

__all__ = ["start_from_factors", "yinyan_from_imputed_edges"]


def yinyan_from_imputed_edges(task: Task) -> Outcome:
    """For dense graphs without features, of 10,000 nodes at most.

    By its own settings a score is the imputed entry before the first step, and training refines it; whichever
    validates better is kept.
    """
    own = {
        "encoder": {"num_steps": 0, "dropout": 0.0, "output_norm": False, "embedding_size": 256, "hidden_size": 256},
        "decoder": {"depth": 1, "dropout": 0.0},
    }

    def start(model: Model, data: TrainingData) -> None:
        base, generator = our_encoder(model).base, Streams.fresh(task.seed, "spectrum", pick_device(task.device))
        rows, signs = smoothed_factors(data.messages, base.settings.embedding_size, generator=generator)
        start_from_factors(base, model.decoder, rows, signs)

    return trained(task, None, own, fixed={"encoder": {"inputs": "embeddings"}}, start=start)


@torch.no_grad()
def start_from_factors(base: BaseModel, decoder: Decoder, rows: Tensor, signs: Tensor) -> None:
    """Let the learned table hold (n, size) factors of the links with their (size,) signs.

    Where f keeps the table as it is and the decoder is one layer, a pair's score without descent steps then is its
    entry in that approximation: a factor's sign is its column's weight.
    """
    table, weight = base.table, base.table_weight
    if table is None or weight is None:
        raise ValueError("there is no table to start from")
    table.copy_(rows)
    if weight.shape[1] == weight.shape[2] and not base.rest:
        weight.copy_(torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device).expand_as(weight))
        if isinstance(decoder, HadamardMLP) and not decoder.hidden:
            decoder.output.weight.copy_(signs[None])
            decoder.output.bias.zero_()
        elif isinstance(decoder, MultiDotDecoder) and decoder.hidden is None:
            decoder.weight.copy_(signs)
            decoder.bias.zero_()
