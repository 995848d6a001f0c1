"""Graph neural networks with PyTorch Geometric's layers, trained and decoded as ours."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yinyan.model.messages import MessageGraph
from yinyan.peers.contract import Method, Outcome, Overrides, Task, trained
from yinyan.peers.layered import Layered, builder, geometric, layered
from yinyan.peers.matrices import edge_index, mean_matrix, normalised_matrix, sum_matrix
from yinyan.randomness import dropout
from yinyan.settings import EncoderSettings

__all__ = [
    *("GAT", "GCN", "GCNII", "GIN", "JKNet", "LightGCN", "SAGE"),
    *("gat", "gcn", "gcnii", "gin", "jknet", "lightgcn", "sage"),
]


class GCN(Layered):
    """Y ← Ã Y W with Ã = D^-1/2 (A + I) D^-1/2 (Kipf and Welling, ICLR 2017)."""

    def layer(self, number: int, size: int) -> nn.Module:
        """A convolution over a matrix that is normalised already."""
        return geometric().GCNConv(size, size, normalize=False)  # type: ignore[no-any-return]

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Tensor:
        """Ã."""
        return normalised_matrix(messages, hidden)


class SAGE(Layered):
    """Y ← Y W₁ + D^-1 A Y W₂: GraphSAGE with the mean over all neighbours (Hamilton et al., NeurIPS 2017)."""

    def layer(self, number: int, size: int) -> nn.Module:
        """A sum over the entries of a matrix of means."""
        return geometric().SAGEConv(size, size, aggr="sum")  # type: ignore[no-any-return]

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Tensor:
        """D^-1 A."""
        return mean_matrix(messages, hidden)


class GIN(Layered):
    """Y ← MLP((1 + ε) Y + A Y) with ε learned (Xu et al., ICLR 2019); without batch normalisation."""

    def layer(self, number: int, size: int) -> nn.Module:
        """Two linear maps around a ReLU."""
        mlp = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        return geometric().GINConv(mlp, train_eps=True)  # type: ignore[no-any-return]

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Tensor:
        """A."""
        return sum_matrix(messages, hidden)


class GAT(Layered):
    """y_i ← ‖_h Σ_j α_ij W_h y_j with α_ij = softmax_j LeakyReLU(aᵀ [W_h y_i, W_h y_j]) over i and its neighbours,
    and ELU between layers (Veličković et al., ICLR 2018). Weights of links and dropout of α are left out.
    """

    def layer(self, number: int, size: int) -> nn.Module:
        """Four heads side by side, or as many as divide the width."""
        heads = math.gcd(4, size)
        return geometric().GATConv(size, size // heads, heads=heads, dropout=0.0)  # type: ignore[no-any-return]

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Tensor:
        """A list; the layer adds the self loops."""
        return edge_index(messages, hidden)

    def between(self, y: Tensor, drops: torch.Generator | None) -> Tensor:
        """ELU, as in the paper."""
        return dropout(F.elu(y), self.settings.dropout, drops)


class JKNet(GCN):
    """Y = [Y(1), …, Y(T)] W over the layers of a GCN (Xu et al., ICML 2018), by concatenation."""

    def __init__(self, settings: EncoderSettings, num_nodes: int, num_features: int) -> None:
        super().__init__(settings, num_nodes, num_features)
        self.jump = geometric().JumpingKnowledge("cat")
        self.output = nn.Linear(settings.hidden_size * max(1, settings.num_steps), settings.hidden_size)

    def stacked(self, f: Tensor, links: Tensor, drops: torch.Generator | None) -> Tensor:
        """Every layer's output is kept, and mapped together at the end."""
        y, outputs = f, []
        for layer in self.layers:
            y = self.between(layer(y, links), drops)
            outputs.append(y)
        return self.output(self.jump(outputs or [f]))  # type: ignore[no-any-return]


class GCNII(GCN):
    """Y ← ((1 - α) Ã Y + α f) ((1 - β_t) I + β_t W) with β_t = log(θ / t + 1) (Chen et al., ICML 2020).

    α = 0.1 and θ = 0.5 are the paper's for Cora.
    """

    def layer(self, number: int, size: int) -> nn.Module:
        """A convolution with a residual to f and to the identity."""
        conv = geometric().GCN2Conv(size, alpha=0.1, theta=0.5, layer=number, normalize=False)
        return conv  # type: ignore[no-any-return]

    def stacked(self, f: Tensor, links: Tensor, drops: torch.Generator | None) -> Tensor:
        """ReLU of f at first, and after every layer."""
        f = y = F.relu(f)
        for layer in self.layers:
            y = F.relu(layer(dropout(y, self.settings.dropout, drops), f, links))
        return y


class LightGCN(GCN):
    """Y = mean of f, Ã f, …, Ã^T f with Ã = D^-1/2 A D^-1/2: no weights in the layers (He et al., SIGIR 2020)."""

    def layer(self, number: int, size: int) -> nn.Module:
        """A product with Ã."""
        return geometric().LGConv(normalize=False)  # type: ignore[no-any-return]

    def links(self, messages: MessageGraph, hidden: Tensor | None, negatives: torch.Generator | None) -> Tensor:
        """Ã, without self loops."""
        return normalised_matrix(messages, hidden, self_loops=False)

    def stacked(self, f: Tensor, links: Tensor, drops: torch.Generator | None) -> Tensor:
        """The mean over all layers, f among them."""
        outputs = [f]
        for layer in self.layers:
            outputs.append(layer(outputs[-1], links))
        return torch.stack(outputs).mean(0)


def _stack(kind: type[Layered], **own: int) -> Method:
    """The method of an encoder of this kind, with settings of its own."""
    return lambda task: layered(task, kind, own, {"num_negatives": 0})


gcn = _stack(GCN, num_steps=2)
sage = _stack(SAGE, num_steps=2)
gat = _stack(GAT, num_steps=2)
gin = _stack(GIN, num_steps=2)
jknet = _stack(JKNet, num_steps=3)
gcnii = _stack(GCNII, num_steps=8, hidden_size=64)  # 64 wide as published: eight wide ones take minutes per run


def lightgcn(task: Task) -> Outcome:
    """Three linear propagations of learned embeddings and their inner product; features are not read, as published."""
    own = {"encoder": {"num_steps": 3, "dropout": 0.0}}
    fixed: Overrides = {
        "encoder": {"num_negatives": 0, "inputs": "embeddings", "output_norm": False},
        "decoder": {"kind": "dot"},
    }
    return trained(task, builder(LightGCN), own, fixed=fixed)
