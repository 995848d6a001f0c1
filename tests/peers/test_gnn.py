"""Graph neural networks: each equals its equation, and keeps the contracts of peers and of layers."""

from __future__ import annotations

import sys

import pytest
import torch
from layered_contract import HIDDEN, LINKS, LayeredContract
from peer_contract import communities, small, split_of
from torch import Tensor

from yinyan.errors import MissingExtraError
from yinyan.model.messages import MessageGraph
from yinyan.peers import Task, method
from yinyan.peers.gnn import GAT, GCN, GCNII, GIN, SAGE, JKNet, LightGCN
from yinyan.peers.layered import Layered


def dense(*, self_loops: bool = False, normalised: bool = True) -> Tensor:
    """The visible links of `LINKS` less `HIDDEN`, by definition."""
    matrix = torch.eye(9) if self_loops else torch.zeros(9, 9)
    for a, b in LINKS[~HIDDEN].tolist():
        matrix[a, b] = matrix[b, a] = 1
    if not normalised:
        return matrix
    scale = matrix.sum(1).clamp(min=1).rsqrt()
    return scale[:, None] * matrix * scale


def layers_of(encoder: Layered) -> tuple[Tensor, Tensor]:
    """Rows put in, and what comes out of the layers with the hidden links hidden."""
    messages = MessageGraph.from_pairs(LINKS, 9)
    f = torch.randn(9, 16)
    return f, encoder.stacked(f, encoder.links(messages, HIDDEN, None), None)


class TestGCN(LayeredContract):
    name = "gcn"
    kind = GCN

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder()
        f, y = layers_of(encoder)
        a = dense(self_loops=True)
        (w1, b1), (w2, b2) = ((layer.lin.weight.T, layer.bias) for layer in encoder.layers)
        torch.testing.assert_close(y, a @ torch.relu(a @ f @ w1 + b1) @ w2 + b2)


class TestSAGE(LayeredContract):
    name = "sage"
    kind = SAGE

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=1)
        f, y = layers_of(encoder)
        a = dense(normalised=False)
        mean = a / a.sum(1, keepdim=True).clamp(min=1)
        torch.testing.assert_close(y, encoder.layers[0].lin_l(mean @ f) + encoder.layers[0].lin_r(f))


class TestGIN(LayeredContract):
    name = "gin"
    kind = GIN

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=1)
        torch.nn.init.constant_(encoder.layers[0].eps, 0.25)
        f, y = layers_of(encoder)
        torch.testing.assert_close(y, encoder.layers[0].nn(1.25 * f + dense(normalised=False) @ f))


class TestGAT(LayeredContract):
    name = "gat"
    kind = GAT

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=1)
        f, y = layers_of(encoder)
        layer = encoder.layers[0]
        heads = (f @ layer.lin.weight.T).view(9, 4, 4)
        told, telling = (heads * layer.att_dst).sum(-1), (heads * layer.att_src).sum(-1)
        logits = torch.nn.functional.leaky_relu(told[:, None] + telling[None], 0.2)
        seen = dense(self_loops=True, normalised=False)[:, :, None] > 0
        shares = logits.masked_fill(~seen, -torch.inf).softmax(1)
        torch.testing.assert_close(y, torch.einsum("ijh,jhd->ihd", shares, heads).reshape(9, 16) + layer.bias)


class TestJKNet(LayeredContract):
    name = "jknet"
    kind = JKNet
    layers = 3

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=2)
        f, y = layers_of(encoder)
        a = dense(self_loops=True)
        first = torch.relu(a @ f @ encoder.layers[0].lin.weight.T)
        second = torch.relu(a @ first @ encoder.layers[1].lin.weight.T)
        torch.testing.assert_close(y, encoder.output(torch.cat([first, second], dim=1)))


class TestGCNII(LayeredContract):
    name = "gcnii"
    kind = GCNII
    layers = 8

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=2)
        f, y = layers_of(encoder)
        a, expected = dense(self_loops=True), torch.relu(f)
        for number, layer in enumerate(encoder.layers, start=1):
            beta = torch.log(torch.tensor(0.5 / number + 1))
            mixed = 0.9 * a @ expected + 0.1 * torch.relu(f)
            expected = torch.relu((1 - beta) * mixed + beta * mixed @ layer.weight1)
        torch.testing.assert_close(y, expected)


class TestLightGCN(LayeredContract):
    name = "lightgcn"
    kind = LightGCN
    layers = 3

    def test_equals_its_equation(self) -> None:
        f, y = layers_of(self.encoder(num_steps=2))
        a = dense()
        torch.testing.assert_close(y, (f + a @ f + a @ a @ f) / 3)


def test_without_pytorch_geometric_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[baselines\]'"):
        method("gcn")(Task(split_of(communities()), settings=small()))
