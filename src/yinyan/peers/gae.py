"""Graph auto-encoders that propagate linearly, plain and optimised."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from yinyan.model.encoder import BaseModel, EncoderInput, NodeEncoder
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.layered import builder
from yinyan.randomness import dropout
from yinyan.settings import EncoderSettings

__all__ = ["LinearPropagation", "gae", "optimised_gae"]


class LinearPropagation(NodeEncoder):
    """Σ_l c_l Ã^l (X W), l = 1..L: no weights and no activations between the propagations.

    Ã = (D + I)^-1/2 (A + I) (D + I)^-1/2 over the links that are not hidden; the c_l are learned.
    """

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__()
        self.settings = settings
        self.base = BaseModel(settings, num_nodes, num_features)
        self.mix = nn.Parameter(torch.full((settings.num_steps,), 1.0 / max(1, settings.num_steps)))
        self.norm = nn.LayerNorm(settings.hidden_size) if settings.output_norm else nn.Identity()

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings."""
        x = self.base(given.features, None, given.drops)
        links, loop = given.messages.adjacency(given.hidden)
        y = torch.zeros_like(x)
        for share in self.mix:
            x = links.product(x) + loop * x
            y = y + share * x
        return dropout(self.norm(y), self.settings.dropout, given.drops)


def gae(task: Task) -> Outcome:
    """One propagation and an MLP over the product of two embeddings, as NCN's authors ran it as "GAE"."""
    own = {
        "encoder": {"num_steps": 1, "output_norm": False, "dropout": 0.1},
        "decoder": {"depth": 3, "norm": True, "dropout": 0.1},
    }
    return trained(task, builder(LinearPropagation), own)


def optimised_gae(task: Task) -> Outcome:
    """Linear propagation, orthogonal embeddings where there are no features, a deep residual Hadamard MLP.

    With gradient clipping and with masking of the supervised links, which the loop does for every method.
    """
    own = {
        "encoder": {"num_steps": 2, "output_norm": False, "dropout": 0.3},
        "decoder": {"depth": 4, "residual": True, "norm": True, "dropout": 0.3},
    }
    return trained(task, builder(LinearPropagation), own)
