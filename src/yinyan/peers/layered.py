"""What graph neural networks share: our input layer, a stack of layers over the visible links, our decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.errors import MissingExtraError
from yinyan.graph import Graph
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import BaseModel, EncoderInput, NodeEncoder
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Task, merged, trained
from yinyan.randomness import dropout
from yinyan.settings import EncoderSettings, Settings

__all__ = ["Layered", "builder", "geometric", "layered", "suited"]


class Layered(NodeEncoder):
    """Y(T) after T = `num_steps` layers from f(X; W), with ReLU and dropout between layers.

    A subclass defines the `layer` of a number and the `links` that layers read; one that is no plain stack
    defines `stacked` too. `hidden_size`, `inputs`, `output_norm` and both dropouts mean what they mean for ours.
    """

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__()
        self.settings = settings
        self.base = BaseModel(settings, num_nodes, num_features)
        self.layers = nn.ModuleList(
            self.layer(number, settings.hidden_size) for number in range(1, settings.num_steps + 1)
        )
        self.norm = nn.LayerNorm(settings.hidden_size) if settings.output_norm else None

    def layer(self, number: int, size: int) -> nn.Module:
        """The layer of a number from 1 to T: a module of (n, size) rows and links."""
        raise NotImplementedError

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Any:
        """The visible links in the form that the layers read."""
        raise NotImplementedError

    def embeddings(self, given: EncoderInput) -> Tensor:
        """(n, hidden) embeddings."""
        links = self.links(given.messages, given.hidden, given.negatives)
        y = self.stacked(self.base(given.features, None, given.drops), links, given.drops)
        return y if self.norm is None else self.norm(y)

    def stacked(self, f: Tensor, links: Any, drops: torch.Generator | None) -> Tensor:
        """All layers, one after the other; the last is linear."""
        y = f
        for number, layer in enumerate(self.layers):
            y = layer(y if number == 0 else self.between(y, drops), links)
        return y

    def between(self, y: Tensor, drops: torch.Generator | None) -> Tensor:
        """What one layer hands to the next."""
        return dropout(F.relu(y), self.settings.dropout, drops)


def layered(task: Task, kind: type[Layered], own: Mapping[str, Any], fixed: Mapping[str, Any]) -> Outcome:
    """Train an encoder of this kind, with these settings of the encoder."""
    return trained(task, builder(kind), merged(suited(task.split.graph), {"encoder": own}), fixed={"encoder": fixed})


def suited(graph: Graph) -> dict[str, dict[str, Any]]:
    """Settings of a graph neural network that reads features.

    Dropout and decay are weaker than ours, which would underfit: chosen on validation links of Cora for the GCN, and
    kept for all. Without features, nodes have vectors of their own and need ours.
    """
    if graph.features is None:
        return {}
    return {"encoder": {"dropout": 0.3}, "training": {"weight_decay": 0.05}}


def builder(kind: Callable[[EncoderSettings, int, int], NodeEncoder]) -> Callable[[Settings, Graph], Model]:
    """How to make a model of an encoder of this kind and the decoder of the settings."""

    def build(settings: Settings, graph: Graph) -> Model:
        num_features = 0 if graph.features is None else graph.features.shape[1]
        encoder = kind(settings.encoder, graph.num_nodes, num_features)
        return Model(encoder, build_decoder(settings.decoder, settings.encoder.hidden_size, directed=graph.directed))

    return build


def geometric() -> Any:
    """PyTorch Geometric's layers."""
    try:
        import torch_geometric.nn as layers
    except ImportError as error:
        raise MissingExtraError("this method needs PyTorch Geometric: pip install 'yinyan[baselines]'") from error
    return layers
