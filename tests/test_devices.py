"""The same path on every device: what a CPU computes is the reference, and CUDA has to agree with it.

`pytest -m cuda` runs the half that needs a device. The other half runs the same code on the CPU, so that the tests
themselves are known to work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from contracts import planted_graph
from yinyan import Graph, LinkPredictor
from yinyan.training.adam import Adam, Group

_ABSENT = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, _ABSENT])]

BARE: dict[str, Any] = {
    "encoder": {"inputs": "embeddings", "hidden_size": 16, "embedding_size": 16, "sketch_size": 8, "num_steps": 3},
    "decoder": {"width": 16},
    "training": {"epochs": 3, "batch_size": 40, "valid_negatives": 200},
}
INNER: dict[str, Any] = {  # what large graphs without features get
    "encoder": {
        **{"inputs": "embeddings", "embedding_start": "spectral", "hidden_size": 16, "embedding_size": 16},
        **{"learn_repulsion": "no", "node_dropout": 0.5, "feature_dropout": 0.0, "dropout": 0.0},
        **{"degree_column": True, "step_size": 0.8, "anchoring": 0.1},
    },
    "decoder": {"kind": "dot"},
    "training": {
        **{"loss": "infonce", "loss_sampler": "shared", "loss_negatives": 16, "moments": "rows", "averaging": 0.0},
        **{"epochs": 3, "batch_size": 40, "valid_negatives": 200, "node_order": "local"},
    },
}
SAMPLED: dict[str, Any] = {**BARE, "encoder": {**BARE["encoder"], "expected_negatives": False, "num_negatives": 2}}
MARGIN: dict[str, Any] = {**BARE, "encoder": {**SAMPLED["encoder"], "margin": 0.5}}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_graph()


def fitted(graph: Graph, device: str, settings: dict[str, Any]) -> LinkPredictor:
    return LinkPredictor(seed=0, device=device, **settings).fit(graph)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("settings", [BARE, INNER, SAMPLED, MARGIN], ids=["bare", "inner", "sampled", "margin"])
class TestFits:
    def test_learns(self, graph: Graph, device: str, settings: dict[str, Any]) -> None:
        history = fitted(graph, device, settings).fitted_.history
        assert history[-1].loss < history[0].loss
        assert history[-1].auc is not None and history[-1].auc > 0.55

    def test_a_saved_model_answers_alike_on_the_cpu(
        self, graph: Graph, device: str, settings: dict[str, Any], tmp_path: Path
    ) -> None:
        model = fitted(graph, device, settings)
        model.save(tmp_path / "model")
        loaded = LinkPredictor.load(tmp_path / "model", device="cpu")
        ids = [graph.ids[row] for row in range(6)]
        pairs = [(a, b) for a in ids for b in ids if a != b]
        np.testing.assert_allclose(model.score(pairs), loaded.score(pairs), rtol=1e-4, atol=1e-4)
        mine, others = (some.recommend(ids[0], k=3) for some in (model, loaded))
        np.testing.assert_allclose(mine.scores, others.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_features_of_both_kinds(device: str) -> None:
    rng = np.random.default_rng(0)
    plain = planted_graph()
    features = rng.random((plain.num_nodes, 12), dtype=np.float32)
    graph = Graph.from_arrays(plain.edges, num_nodes=plain.num_nodes, features=features)
    settings = {**BARE, "encoder": {**BARE["encoder"], "inputs": "both"}}
    history = fitted(graph, device, settings).fitted_.history
    assert history[-1].loss < history[0].loss


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_the_optimiser_moves_weights_alike(device: str, by_rows: bool) -> None:
    found = []
    for place in ("cpu", device):
        param = nn.Parameter(torch.linspace(-1, 1, 60, device=place).view(20, 3))
        optimizer = Adam([Group([param], 0.1, by_rows=by_rows)])
        for step in range(3):
            param.grad = torch.cos(torch.arange(60.0, device=place) + step).view(20, 3)
            optimizer.step(0.05)
        found.append(param.detach().cpu())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
