"""A model of which each process holds its own rows of the table of embeddings; and what such a model does not do."""

from __future__ import annotations

import math

from torch import nn

from yinyan.distributed.shard import Nodes, ShardedMessages
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.fitted import build_model, our_encoder
from yinyan.model.scoring import Model
from yinyan.model.spectral import spectral_width, start_spectrally
from yinyan.randomness import named_seed, normals_at
from yinyan.settings import Settings

__all__ = ["refuse_unsupported", "sharded_model", "start_sharded"]


def refuse_unsupported(settings: Settings) -> None:
    """Refuse settings that need all rows in one process, with what to set instead."""
    encoder, decoder, training = settings.encoder, settings.decoder, settings.training
    refused = (
        (encoder.num_negatives > 0 and not encoder.expected_negatives, "encoder.expected_negatives=true"),
        (encoder.margin is not None, "encoder.margin=none"),
        (encoder.half_life is not None, "encoder.half_life=none"),
        (training.n3 > 0, "training.n3=0"),
        (training.message_times == "past", "training.message_times=all"),
        (encoder.base_norm and encoder.num_layers > 1, "encoder.base_norm=false"),
        (encoder.step_size == "safe", "a number as encoder.step_size, such as 0.3"),
        (encoder.storage != "float32", "encoder.storage=float32"),
        (
            training.loss_sampler == "shared" and decoder.kind == "hadamard" and decoder.dropout > 0,
            "decoder.dropout=0 beside training.loss_sampler=shared, or training.loss_sampler=global",
        ),
    )
    wanted = [cure for is_refused, cure in refused if is_refused]
    if wanted:
        raise SettingsError(f"training by several processes needs {' and '.join(wanted)} (--set), or a single process")


def sharded_model(settings: Settings, like: Graph, nodes: Nodes, seed: int) -> Model:
    """A model with fresh weights, the same in all processes, and the own rows of the table.

    `like` is a graph of one node with the features and the direction of the whole one.
    """
    model = build_model(settings, like, seed).to(nodes.group.device)
    base = our_encoder(model).base
    if base.table is not None:
        size = base.table.shape[1]
        rows = normals_at(named_seed(seed, "table"), nodes.numbers, size) / math.sqrt(size)
        if isinstance(base.table, nn.Parameter):
            base.table = nn.Parameter(rows)
        else:
            base.table = rows
    return model


def start_sharded(model: Model, settings: Settings, messages: ShardedMessages, seed: int) -> None:
    """Give the table its start: the leading eigenvectors, if the settings say so."""
    if settings.encoder.embedding_start != "spectral" or our_encoder(model).base.table is None:
        return
    nodes = messages.nodes
    width = spectral_width(nodes.count, settings.encoder.embedding_size)
    start = normals_at(named_seed(seed, "spectral start"), nodes.numbers, width)
    start_spectrally(our_encoder(model), messages, start)
