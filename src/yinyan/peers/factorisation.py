"""Matrix factorisation: a vector for each node, without a graph layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from yinyan.graph import Graph
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import EncoderInput, NodeEncoder
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Overrides, Task, trained
from yinyan.settings import Settings

__all__ = ["Table", "factorisation", "unit_rows"]


class Table(NodeEncoder):
    """Y = E: a row for each node, learned with the decoder or given and frozen."""

    def __init__(self, rows: Tensor, *, learned: bool = True) -> None:
        super().__init__()
        self.rows: Tensor
        if learned:
            self.rows = nn.Parameter(rows)
        else:
            self.register_buffer("rows", rows)

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, d) rows, whatever the links."""
        return self.rows


def unit_rows(count: int, size: int) -> Tensor:
    """Random rows of about unit length: longer ones are fitted by heart before they are learned from."""
    return torch.randn(count, size) / math.sqrt(size)


def factorisation(task: Task) -> Outcome:
    """E with a Hadamard MLP, as the matrix factorisation of the Open Graph Benchmark (Hu et al., NeurIPS 2020)."""
    own: Overrides = {
        "decoder": {"residual": True},
        "training": {"weight_decay": 2.0},
    }  # ours, where nodes have no features
    fixed = {"encoder": {"inputs": "embeddings", "num_steps": 0, "num_negatives": 0}}
    return trained(task, _build, own, fixed=fixed)


def _build(settings: Settings, graph: Graph) -> Model:
    size = settings.encoder.hidden_size
    decoder = build_decoder(settings.decoder, size, directed=graph.directed)
    return Model(Table(unit_rows(graph.num_nodes, size)), decoder)
