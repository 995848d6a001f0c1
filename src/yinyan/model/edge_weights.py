"""Weights of messages that are learned from the features of edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError

__all__ = ["EdgeWeights"]

_HIDDEN = 16  # units: few, since every edge is an example of the same function


class EdgeWeights(nn.Module):
    """w(x) = sigmoid(an MLP of the edge's features): positive, at most 1, and the same in both directions.

    The MLP starts as 0, so that all edges weigh alike at first.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.hidden = nn.Linear(num_features, _HIDDEN)
        self.output = nn.Linear(_HIDDEN, 1)
        if not self.output.weight.is_meta:
            nn.init.zeros_(self.output.weight)
            nn.init.zeros_(self.output.bias)

    def forward(self, features: Tensor | None) -> Tensor:
        """(m,) weights of edges with (m, c) features."""
        if features is None or features.shape[1] != self.num_features:
            got = "none" if features is None else f"{features.shape[1]:,}"
            raise SettingsError(
                f"the model learned weights from {self.num_features:,} edge features (edge_features=), and this graph "
                f"has {got}: read its edges with the same columns"
            )
        features = features.to(self.output.weight.dtype)
        return torch.sigmoid(self.output(torch.relu(self.hidden(features)))[:, 0])
