"""A run in two lines: the model and its training, as the settings make them."""

from __future__ import annotations

import math

from yinyan.graph import Graph
from yinyan.settings import Settings
from yinyan.text import counted

__all__ = ["model_in_words", "training_in_words"]

_LOSSES = {
    "paper": "log loss",
    "squared": "squared loss",
    "auc": "squared AUC loss",
    "hinge": "hinge AUC loss",
    "logrank": "BPR loss",
    "infonce": "InfoNCE",
    "hardest": "log loss weighted towards the hardest negatives",
}


def model_in_words(settings: Settings, graph: Graph) -> str:
    """Inputs, propagation, sketches and decoder of a model."""
    encoder, decoder = settings.encoder, settings.decoder
    features = counted(0 if graph.features is None else graph.features.shape[1], "node feature")
    table = f"learned node embeddings ({encoder.embedding_size})"
    inputs = {
        "features": features,
        "embeddings": table,
        "both": f"{features}, {table}" if graph.features is not None else table,
        "random": f"random node features ({encoder.embedding_size})",
    }
    steps = counted(encoder.num_steps, "propagation step") if encoder.num_steps else "no propagation"
    parts = [inputs[encoder.inputs], f"{steps} in {encoder.hidden_size} dimensions"]
    parts += [f"{encoder.sketch_size}-dimensional structural sketches"] if encoder.sketch_size else []
    return ", ".join([*parts, f"{decoder.kind} decoder"])


def training_in_words(settings: Settings, num_targets: int) -> str:
    """Epochs, steps and loss of a training run over `num_targets` edges."""
    training = settings.training
    steps = math.ceil(num_targets / (training.batch_size or num_targets))
    negatives = f"{training.loss_negatives} negative{'' if training.loss_negatives == 1 else 's'} per edge"
    everyone = training.loss == "infonce" and training.loss_sampler == "all"
    loss = f"{_LOSSES[training.loss]} {'against all nodes' if everyone else f'with {negatives}'}"
    return f"up to {counted(training.epochs, 'epoch')}, {counted(steps, 'step')} each, {loss}"
