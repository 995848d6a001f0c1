"""Decoders and embeddings of trained models on synthetic graphs of any size, kept on disk.

The graphs are those of graphs.py with Citation2's mean degree of 21 and 128 features per node: a vector of its
community and as much noise again. A model learns for a hundred steps on 20,000 nodes (or fewer, if fewer are asked
for); as it reads features alone, its weights embed a larger graph of the same kind as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from lib.graphs import Synthetic, drawn
from yinyan import Graph, LinkPredictor
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.model.encoder import Encoder
from yinyan.model.inference import embed_all
from yinyan.model.messages import MessageGraph
from yinyan.settings import Settings
from yinyan.training.defaults import suggest
from yinyan.training.node_order import local_order

SIZE = 128  # dimensions, and width of the decoder
DEGREE = 21  # mean, as in Citation2
LEARNED_ON = 20_000  # nodes at most
STEPS = 25  # per epoch
_SIGNAL, _NOISE = 1.0, 1.0


class Trained(NamedTuple):
    """What retrieval needs of a model."""

    decoder: Decoder
    embeddings: Tensor  # (n, SIZE + sketches)
    pairs: Tensor  # (m, 2) links, the lower node first


def settings_of(
    kind: str, num_links: int, epochs: int, sketch_size: int, decoder: Mapping[str, Any] | None = None
) -> Settings:
    """Every setting of the model, so that it does not depend on what yinyan suggests for the graph."""
    return Settings().updated(
        {
            "encoder": {
                "inputs": "features",
                "hidden_size": SIZE,
                "num_steps": 3,
                "feature_dropout": 0.1,
                "dropout": 0.1,
                "sketch_size": sketch_size,
            },
            "decoder": {"kind": kind, "width": SIZE, "dropout": 0.1, **(decoder or {})},
            "training": {
                "epochs": epochs,
                "batch_size": -(-num_links * 9 // 10 // STEPS),
                "weight_decay": 0.0,
                "evaluate_every": 1,
            },
        }
    )


def default_settings(num_nodes: int, epochs: int) -> Settings:
    """What yinyan suggests for a graph of so many nodes with these features; the steps are those of few nodes."""
    learned_on = min(num_nodes, LEARNED_ON)

    def suggested(count: int) -> Settings:
        graph = Graph.from_arrays(np.array([[0, 1]]), num_nodes=count, features=np.zeros((count, SIZE), np.float32))
        return suggest(graph, _num_links(count) * 9 // 10).settings

    few = suggested(learned_on).training
    steps = {"epochs": epochs, "batch_size": few.batch_size, "node_order": "given", "evaluate_every": 1}
    return suggested(num_nodes).updated({"training": steps})


def trained(
    num_nodes: int,
    kind: str,
    cache: Path,
    *,
    epochs: int,
    sketch_size: int = 0,
    decoder: Mapping[str, Any] | None = None,
) -> Trained:
    """A model with a decoder of `kind`, perhaps with other settings of it, and the embeddings of a graph.

    The kind 'default' takes every setting that yinyan suggests.
    """
    cache.mkdir(parents=True, exist_ok=True)
    learned_on = min(num_nodes, LEARNED_ON)
    if kind == "default":
        settings = default_settings(num_nodes, epochs)
        sketch_size = settings.encoder.sketch_size
    else:
        settings = settings_of(kind, _num_links(learned_on), epochs, sketch_size, decoder)
    mark = _digest(settings)
    file = cache / f"trained-{kind}-{num_nodes}-{mark}.safetensors"
    if not file.exists():
        weights = _weights(learned_on, settings, cache / f"weights-{kind}-{learned_on}-{mark}.safetensors")
        graph, features = _graph(num_nodes)
        encoder = Encoder(settings.encoder, num_nodes, SIZE)
        encoder.load_state_dict(_under("encoder.", weights))
        messages = MessageGraph.from_pairs(graph.pairs, num_nodes)
        y = embed_all(encoder, features, messages, negatives=None)
        own = {name: value for name, value in weights.items() if name.startswith("decoder.")}
        save_file({"embeddings": y, "pairs": graph.pairs.contiguous(), **own}, file)
    kept = load_file(file)
    size = settings.encoder.hidden_size
    scores = build_decoder(settings.decoder, size, directed=False, sketch_size=sketch_size)
    scores.load_state_dict(_under("decoder.", kept))
    return Trained(scores.eval(), kept["embeddings"], kept["pairs"])


def _under(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _digest(settings: Settings) -> str:
    marks = (settings.to_dict(), _SIGNAL, _NOISE, DEGREE, LEARNED_ON)
    return hashlib.blake2b(repr(marks).encode(), digest_size=4).hexdigest()


def _num_links(num_nodes: int) -> int:
    return num_nodes * DEGREE // 2


def links_of(num_nodes: int) -> NDArray[np.int64]:
    """(m, 2) links of the graph of so many nodes, without its features."""
    return _graph(num_nodes)[0].pairs.numpy()


def _graph(num_nodes: int) -> tuple[Synthetic, Tensor]:
    """A graph in local order, as training would put it, and its features."""
    graph = drawn(num_nodes, _num_links(num_nodes), 0)
    place = torch.from_numpy(np.argsort(local_order(graph.pairs.numpy(), num_nodes)))
    pairs = place[graph.pairs].sort(1).values
    communities = torch.empty_like(graph.communities)
    communities[place] = graph.communities
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(int(communities.max()) + 1, SIZE, generator=generator).mul_(_SIGNAL)
    features = torch.randn(num_nodes, SIZE, generator=generator).mul_(_NOISE).add_(centres[communities])
    return Synthetic(pairs, communities), features


def _weights(num_nodes: int, settings: Settings, file: Path) -> dict[str, Tensor]:
    """Of a model that has learned on so many nodes."""
    if not file.exists():
        graph, features = _graph(num_nodes)
        links = Graph.from_arrays(graph.pairs.numpy(), num_nodes=num_nodes, features=features.numpy())
        model = LinkPredictor(encoder=settings.encoder, decoder=settings.decoder, training=settings.training).fit(links)
        save_file({name: value.contiguous() for name, value in model.fitted_.model.state_dict().items()}, file)
    return load_file(file)
