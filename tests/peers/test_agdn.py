"""Diffusion with attention over hops: each layer equals its equation over dense matrices."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from layered_contract import HIDDEN, LINKS, LayeredContract
from test_gnn import dense
from torch import Tensor

from yinyan.model.messages import MessageGraph
from yinyan.peers.agdn import AGDN, GIDN, Diffusion, InceptionDiffusion, places, transition


def dense_attention(layer: Diffusion, x: Tensor) -> Tensor:
    """(n, n) by definition: each row over its visible neighbours; zero for a node without any."""
    logits = F.leaky_relu((x @ layer.from_source)[None] + (x @ layer.from_target)[:, None], 0.2)
    seen = dense(normalised=False).to(x.dtype) > 0
    return logits.masked_fill(~seen, -torch.inf).softmax(1).nan_to_num(0.0)


def dense_hops(layer: Diffusion, y: Tensor) -> list[Tensor]:
    """h(0), …, h(K), each by another power of the dense matrix."""
    x = y @ layer.weight.weight.T
    a = dense_attention(layer, x)
    hops = []
    for k in range(layer.hops + 1):
        rows = torch.linalg.matrix_power(a, k) @ x
        hops.append(torch.stack([row / max(float(row.detach().norm()), 1e-12) for row in rows]) + layer.position[k])
    return hops


def attended(layer: Diffusion, hops: list[Tensor]) -> Tensor:
    """The sum over hops, node by node."""
    rows = []
    for i in range(len(hops[0])):
        logits = [F.leaky_relu(layer.own_hop @ hops[0][i] + layer.other_hop @ hop[i], 0.2) for hop in hops]
        shares = torch.stack(logits).softmax(0)
        rows.append(sum(share * hop[i] for share, hop in zip(shares, hops, strict=True)) * torch.exp(layer.beta))
    return torch.stack(rows)


class TestAGDN(LayeredContract):
    name = "agdn"
    kind = AGDN
    needs_geometric = False

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=1)
        layer = encoder.layers[0]
        layer.bias.data.normal_()
        y = torch.randn(9, 16)
        found = encoder.stacked(y, encoder.links(self.messages(), HIDDEN, None), None)
        expected = attended(layer, dense_hops(layer, y)) + y @ layer.residual.weight.T + layer.bias
        if isinstance(layer, InceptionDiffusion):
            hops = dense_hops(layer, y)
            branches = [torch.relu(hop @ b.weight.T + b.bias) for hop, b in zip(hops, layer.branches, strict=True)]
            expected = expected + torch.cat(branches, dim=1) @ layer.joint.weight.T
        torch.testing.assert_close(found, expected)

    def test_one_layer_more_reaches_one_hop_further(self) -> None:
        """Here: as many hops further as a layer has."""
        path = torch.tensor([[i, i + 1] for i in range(8)])
        for layers in (1, 2):
            encoder = self.encoder(output_norm=False, num_steps=layers)
            rows = encoder.base(None, None).detach().requires_grad_()
            y = encoder.stacked(rows, encoder.links(self.messages(path), None, None), None)
            y[0].square().sum().backward()
            assert rows.grad is not None
            assert int(torch.nonzero(rows.grad.abs().sum(1)).max()) == layers * self.kind.hops

    def test_normalised_between_layers_over_all_nodes(self) -> None:
        plain, norm = (self.encoder(base_norm=base_norm) for base_norm in (False, True))
        assert len(plain.norms) == 0 and len(norm.norms) == 1
        y, links = torch.randn(9, 16), norm.links(self.messages(), HIDDEN, None)
        first = norm.layers[0](y, links)
        middle = (first - first.mean(0)) / (first.var(0, unbiased=False) + 1e-5).sqrt()
        torch.testing.assert_close(norm.stacked(y, links, None), norm.layers[1](torch.relu(middle), links))


class TestGIDN(TestAGDN):
    name = "gidn"
    kind = GIDN


def test_gradients_equal_those_of_dense_matrices() -> None:
    torch.manual_seed(0)
    layer = Diffusion(4, 3).double()
    messages = MessageGraph.from_pairs(LINKS, 9, dtype=torch.float64)
    y = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    links = places(messages, HIDDEN)
    weights = torch.randn(9, 4, dtype=torch.float64)
    ours = (layer(y, links) * weights).sum()
    slow = ((attended(layer, dense_hops_of(layer, y)) + layer.residual(y) + layer.bias) * weights).sum()
    torch.testing.assert_close(ours, slow)
    leaves = (y, *layer.parameters())
    for found, expected in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(slow, leaves), strict=True):
        torch.testing.assert_close(found, expected)


def dense_hops_of(layer: Diffusion, y: Tensor) -> list[Tensor]:
    """As `dense_hops`, with gradients through the lengths."""
    x = y @ layer.weight.weight.T
    a = dense_attention(layer, x)
    return [F.normalize(torch.linalg.matrix_power(a, k) @ x) + layer.position[k] for k in range(layer.hops + 1)]


def test_attention_sums_to_one_over_neighbours() -> None:
    links = places(MessageGraph.from_pairs(LINKS, 9), None)
    shares = transition(links, 50 * torch.randn(9), torch.zeros(9))
    sums = torch.stack([part.sum() for part in shares.split(links.indptr.diff().tolist())])
    torch.testing.assert_close(sums, torch.tensor([1.0] * 8 + [0.0]))
