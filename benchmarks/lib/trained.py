"""Decoders and embeddings of trained models on synthetic graphs of any size, kept on disk.

The graphs are those of graphs.py with Citation2's mean degree of 21 and 128 features a node: a vector of its community
and as much noise again. A model learns for a hundred steps on 20,000 nodes (or fewer, if fewer are asked for); as it
reads features alone, its weights embed a larger graph of the same kind as they are.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from graphs import Synthetic, drawn
from yinyan import Graph, LinkPredictor
from yinyan.decoder import Decoder, build_decoder
from yinyan.embedding import embed_all
from yinyan.encoder import Encoder
from yinyan.messages import MessageGraph
from yinyan.ordering import local_order
from yinyan.settings import DecoderSettings, EncoderSettings

SIZE = 128  # dimensions, and width of the decoder
DEGREE = 21  # mean, as in Citation2
LEARNED_ON = 20_000  # nodes at most
_SIGNAL, _NOISE = 1.0, 1.0
_ENCODER: dict[str, Any] = {
    "inputs": "features",
    "hidden_size": SIZE,
    "num_steps": 3,
    "feature_dropout": 0.1,
    "dropout": 0.1,
}


class Trained(NamedTuple):
    """What retrieval needs of a model."""

    decoder: Decoder
    embeddings: Tensor  # (n, SIZE + sketches)
    pairs: Tensor  # (m, 2) links, the lower node first


def trained(num_nodes: int, kind: str, cache: Path, *, epochs: int = 4, sketch_size: int = 0) -> Trained:
    """A model with a decoder of `kind` and the embeddings of a graph of `num_nodes`."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / f"trained-{kind}-{num_nodes}-{sketch_size}-{_digest(epochs)}.safetensors"
    encoder_settings = EncoderSettings(**_ENCODER, sketch_size=sketch_size)
    decoder_settings = DecoderSettings(kind=kind, width=SIZE, dropout=0.1)  # type: ignore[arg-type]
    decoder = build_decoder(decoder_settings, SIZE, directed=False, sketch_size=sketch_size)
    if not file.exists():
        weights = _weights(min(num_nodes, LEARNED_ON), kind, cache, epochs, sketch_size)
        graph, features = _graph(num_nodes)
        encoder = Encoder(encoder_settings, num_nodes, SIZE)
        encoder.load_state_dict({name[8:]: value for name, value in weights.items() if name.startswith("encoder.")})
        messages = MessageGraph.from_pairs(graph.pairs, num_nodes)
        y = embed_all(encoder, features, messages, negatives=None)
        own = {name: value for name, value in weights.items() if name.startswith("decoder.")}
        save_file({"embeddings": y, "pairs": graph.pairs.contiguous(), **own}, file)
    kept = load_file(file)
    decoder.load_state_dict({name[8:]: value for name, value in kept.items() if name.startswith("decoder.")})
    return Trained(decoder.eval(), kept["embeddings"], kept["pairs"])


def _digest(epochs: int) -> str:
    return hashlib.blake2b(
        repr((_ENCODER, _SIGNAL, _NOISE, DEGREE, LEARNED_ON, epochs)).encode(), digest_size=4
    ).hexdigest()


def _graph(num_nodes: int) -> tuple[Synthetic, Tensor]:
    """A graph in local order, as training would put it, and its features."""
    graph = drawn(num_nodes, num_nodes * DEGREE // 2, 0)
    place = torch.from_numpy(np.argsort(local_order(graph.pairs.numpy(), num_nodes)))
    pairs = place[graph.pairs].sort(1).values
    communities = torch.empty_like(graph.communities)
    communities[place] = graph.communities
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(int(communities.max()) + 1, SIZE, generator=generator).mul_(_SIGNAL)
    features = torch.randn(num_nodes, SIZE, generator=generator).mul_(_NOISE).add_(centres[communities])
    return Synthetic(pairs, communities), features


def _weights(num_nodes: int, kind: str, cache: Path, epochs: int, sketch_size: int) -> dict[str, Tensor]:
    """Of a model that has learned on so many nodes."""
    file = cache / f"weights-{kind}-{num_nodes}-{sketch_size}-{_digest(epochs)}.safetensors"
    if not file.exists():
        graph, features = _graph(num_nodes)
        links = Graph.from_arrays(graph.pairs.numpy(), num_nodes=num_nodes, features=features.numpy())
        training = {"epochs": epochs, "batch_size": -(-len(graph.pairs) * 9 // 10 // 25), "weight_decay": 0.0}
        model = LinkPredictor(
            encoder={**_ENCODER, "sketch_size": sketch_size},
            decoder={"kind": kind, "width": SIZE, "dropout": 0.1},
            training={**training, "evaluate_every": 1},
        ).fit(links)
        save_file({name: value.contiguous() for name, value in model.fitted_.model.state_dict().items()}, file)
    return load_file(file)
