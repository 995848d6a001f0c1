"""The model without a graph: nothing but two nodes' own features moves its scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peer_contract import PeerContract

from contracts import planted_graph
from yinyan.graph import Graph
from yinyan.model.fitted import Fitted, embed_graph
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.peers import Task, contract
from yinyan.peers.mlp import mlp
from yinyan.splits import random_split
from yinyan.training.hooks import Hooks


class TestMLP(PeerContract):
    name = "mlp"


@pytest.mark.parametrize("with_features", [True, False])
def test_does_not_look_at_the_graph(with_features: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = planted_graph(size=10, inside=0.4)
    features = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32) if with_features else None
    graph = Graph.from_arrays(plain.edges, num_nodes=20, features=features)
    fits: list[Fitted] = []
    real = contract.fit_model

    def watched(*given: Any, **options: Any) -> Fitted:
        fits.append(real(*given, **options))
        return fits[-1]

    monkeypatch.setattr(contract, "fit_model", watched)
    epochs: list[int] = []
    hooks = Hooks(on_epoch=lambda record: epochs.append(record.epoch))
    asked = {"encoder": {"hidden_size": 16, "num_steps": 8}, "training": {"epochs": 2, "learning_rate": 0.01}}
    mlp(Task(random_split(graph, seed=0), 2, asked, "cpu", hooks))
    fitted = fits[0]
    assert fitted.settings.encoder.hidden_size == 16  # as asked for
    assert fitted.settings.training.learning_rate == 0.01
    assert fitted.settings.encoder.dropout == 0.3  # its own, since nothing was asked for
    assert fitted.settings.encoder.num_steps == 0  # what makes it an MLP, whatever was asked for
    assert fitted.settings.encoder.inputs == ("features" if with_features else "embeddings")
    assert epochs == [1, 2] and fitted.seed == 2
    device = torch.device("cpu")
    for chosen in (np.arange(0), np.arange(graph.num_edges)):
        messages = message_graph(graph, chosen, device)
        y = embed_graph(fitted.model, feature_tensor(features, device), messages, fitted.settings, 2)
        assert torch.equal(y, fitted.embeddings)
    if with_features:
        assert fitted.encoder.base.table is None, "two nodes with equal features are equal to it"
