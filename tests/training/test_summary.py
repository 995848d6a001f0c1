"""A run in two lines: what they print follows from the settings."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from contracts import planted_graph
from yinyan import Graph
from yinyan.settings import Settings, TrainingSettings
from yinyan.training.summary import model_in_words, training_in_words

BARE = planted_graph()
FEATURED = Graph.from_arrays(BARE.edges, num_nodes=BARE.num_nodes, features=np.ones((BARE.num_nodes, 5)))


def model(graph: Graph, **encoder: Any) -> str:
    return model_in_words(Settings().updated({"encoder": encoder}), graph)


@pytest.mark.parametrize(
    ("graph", "encoder", "words"),
    [
        (BARE, {"inputs": "embeddings", "embedding_size": 128}, "learned node embeddings (128), "),
        (BARE, {"inputs": "both"}, "learned node embeddings (64), "),
        (FEATURED, {"inputs": "both"}, "5 node features, learned node embeddings (64), "),
        (FEATURED, {"inputs": "features"}, "5 node features, 4 propagation steps in 256 dimensions, "),
        (BARE, {"inputs": "random"}, "random node features (64), "),
        (FEATURED, {"inputs": "features", "num_steps": 0}, "5 node features, no propagation in 256 dimensions"),
    ],
)
def test_inputs_and_steps(graph: Graph, encoder: dict[str, Any], words: str) -> None:
    assert model(graph, **encoder).startswith(words)


def test_sketches_and_decoder() -> None:
    assert model(BARE, sketch_size=64).endswith(", 64-dimensional structural sketches, hadamard decoder")
    assert "sketches" not in model(BARE, sketch_size=0)


def test_training() -> None:
    changes = {"epochs": 20, "batch_size": 100, "loss": "infonce", "loss_negatives": 8}
    settings = Settings().updated({"training": changes})
    assert training_in_words(settings, 1150) == "up to 20 epochs, 12 steps each, InfoNCE with 8 negatives per edge"
    one = Settings().updated({"training": {"epochs": 1, "batch_size": 0, "loss_negatives": 1}})
    assert training_in_words(one, 1150) == "up to 1 epoch, 1 step each, log loss with 1 negative per edge"


@pytest.mark.parametrize("loss", get_args(get_type_hints(TrainingSettings)["loss"]))
def test_every_loss_has_a_name(loss: str) -> None:
    assert "negatives per edge" in training_in_words(Settings().updated({"training": {"loss": loss}}), 10)
