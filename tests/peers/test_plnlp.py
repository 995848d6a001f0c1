"""Pairwise learning: the layers of its encoder, and the loss that it is trained with."""

from __future__ import annotations

import numpy as np
import torch
from layered_contract import LayeredContract
from peer_contract import communities, small, split_of
from test_gnn import dense, layers_of

from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Pairs
from yinyan.peers import Task, method
from yinyan.peers.plnlp import PairwiseSAGE


class TestPLNLP(LayeredContract):
    name = "plnlp"
    kind = PairwiseSAGE

    def test_equals_its_equation(self) -> None:
        encoder = self.encoder(num_steps=1)
        f, y = layers_of(encoder)
        a = dense(normalised=False)
        mean = a / a.sum(1, keepdim=True).clamp(min=1)
        layer = encoder.layers[0]
        torch.testing.assert_close(y, torch.relu(layer.lin_l(mean @ f) + layer.lin_r(f)))

    def test_descends_on_pairs_of_an_edge_and_its_negatives(self) -> None:
        """The loss by loops, whatever loss was asked for; both of its decoders."""
        split = split_of(communities())
        for kind in ("hadamard", "dot"):
            asked = small(decoder={"kind": kind}, training={"loss": "paper", "epochs": 1})
            fitted = method("plnlp")(Task(split, settings=asked, device="cpu")).fitted
            assert fitted is not None
            assert fitted.settings.training.loss == "auc" and fitted.settings.decoder.kind == kind
            y, messages = torch.randn(80, 16), MessageGraph.from_pairs(torch.from_numpy(split.graph.edges), 80)
            edges, negatives = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[[4, 5], [6, 7]], [[8, 9], [0, 9]]])
            found = fitted.model.loss(Pairs(y, edges, negatives), messages, fitted.settings.training.loss)
            terms = []
            for (a, b), others in zip(edges.tolist(), negatives.tolist(), strict=True):
                for c, d in others:
                    gap = fitted.model.decoder(y[a], y[b]) - fitted.model.decoder(y[c], y[d])
                    terms.append(float((1 - gap).detach() ** 2))
            np.testing.assert_allclose(float(found.detach()), np.mean(terms), rtol=1e-5)
