"""How much memory training will take at its peak, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from yinyan import completion, native
from yinyan.features import SparseFeatures
from yinyan.settings import DecoderSettings, EncoderSettings, Settings
from yinyan.sketches import sketch_width
from yinyan.splits import Split

__all__ = [
    "MemoryEstimate",
    "Scatter",
    "Sizes",
    "batch_of",
    "estimate",
    "in_words",
]

_FLOAT, _PLACE, _LONG = 4, 4, 8  # bytes
_RUNTIME = 90 << 20  # what torch loads at its first step: kernels, the optimiser's modules, the autograd threads
# `held_memory` keeps freed blocks, and what outlives a step lies scattered among them, so that the next blocks do not
# all fit where the last ones were. Measured on 20 runs of 20,000 to 300,000 nodes: so many resident bytes for each one
# in use, of what is kept and of what the backward pass adds.
_KEPT, _BACKWARD = 1.25, 1.9
_BY_TERMS = 2.3  # … of all, where a margin makes dozens of small blocks of every layer
_GIVEN_BACK = 1.1  # … of blocks so large that they are returned at once, and on other devices, which round up
_HELD_BELOW = 1 << 30  # `allocation` keeps no larger blocks
_BLOCK = 65_536  # pairs that validation decodes at a time


@dataclass(frozen=True)
class Sizes:
    """What the peak depends on besides the settings: all counts, so that nothing is allocated to know it."""

    nodes: int
    links: int  # of the whole graph
    messages: int  # links that pass messages in training
    valid_messages: int  # … in validation, where they are others than in training; else 0
    test_messages: int  # … in the end
    known: int  # links that the loss's sampler avoids
    targets: int  # training links
    valid_pairs: int  # the larger of the validation's links and non-links
    feature_columns: int = 0
    feature_entries: int | None = None  # nonzero ones, if the features are sparse
    directed: bool = False

    @classmethod
    def of(cls, split: Split) -> Sizes:
        """The sizes of a split and its graph."""
        graph, features = split.graph, split.graph.features
        same = np.array_equal(split.train_messages, split.valid_messages)
        return cls(
            nodes=graph.num_nodes,
            links=graph.num_edges,
            messages=split.train_messages.size,
            valid_messages=0 if same else split.valid_messages.size,
            test_messages=split.test_messages.size,
            known=split.known_in_training.size,
            targets=len(split.train_targets),
            valid_pairs=max(len(split.valid_targets), split.valid_negatives.size // 2),
            feature_columns=0 if features is None else features.shape[1],
            feature_entries=len(features.values) if isinstance(features, SparseFeatures) else None,
            directed=graph.directed,
        )


class Scatter(NamedTuple):
    """Resident bytes for each one in use."""

    kept: float
    decoder: float
    gradients: float


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of each part. Not all live at once: `total` is the peak."""

    graph: int  # message pairs, compressed rows, keys of known pairs
    features: int  # on the device, with the places of their transpose
    weights: int  # and their gradients
    moments: int  # Adam's two
    copies: int  # averaged weights and the best so far
    negatives: int  # the matrices of a step's links and non-links
    embeddings: int  # f, the layers and what dropout and normalisation keep, from the forward to the backward pass
    decoder: int  # a batch's pairs, their activations and the gradients of these
    gradients: int  # of the layers: what the backward pass adds after the decoder's memory is free again
    building: int  # sorting, before the first step, and drawing non-links, before the embeddings of a step
    update: int  # what Adam adds, after a step
    validation: int  # a pass without gradients, its energies and a block of pairs
    finishing: int  # the same over one more graph, when Adam's moments are gone
    scatter: Scatter
    sizes: Sizes
    device: str

    @property
    def total(self) -> int:
        """The peak of resident memory, above what the process has now."""
        return _runtime(self.device) + sum(self._at_the_peak().values())

    def largest(self) -> tuple[str, int]:
        """The largest part of those that live at the peak, in words, with what it takes of the total."""
        return max(self._at_the_peak().items(), key=lambda part: part[1])

    def _at_the_peak(self) -> dict[str, int]:
        """Resident bytes of what lives at the peak, in words."""
        kept, decoder, gradients = self.scatter
        step = {"the matrices of links and non-links": self.negatives, "the embeddings of all layers": self.embeddings}
        step = {name: int(kept * size) for name, size in step.items()}
        phases = (
            {**step, "the pairs of a batch": int(decoder * self.decoder)},
            {**step, "the gradients of the layers": int(gradients * self.gradients)},
            {"sorting and drawing pairs": int(kept * self.building)},
            {"the update of the weights": int(kept * self.update)},
            {"validation": int(kept * self.validation)},
            {"the final embeddings": int(kept * self.finishing)},
        )
        lasting = {
            "the graph": self.graph,
            "the features": self.features,
            "the weights, their gradients and copies": self.weights + self.moments + self.copies,
        }
        highest = max(phases, key=lambda phase: sum(phase.values()))
        return {name: int(kept * size) for name, size in lasting.items()} | highest


def estimate(sizes: Sizes, settings: Settings, device: torch.device) -> MemoryEstimate:
    """What training our model will take, part by part as the code allocates it."""
    encoder, n, d = settings.encoder, sizes.nodes, settings.encoder.hidden_size
    on_cpu = device.type == "cpu"
    trained, fixed = _weights(sizes, settings)
    averaged = trained if settings.training.averaging else 0
    layer = n * d * _FLOAT
    matrices = _matrices(sizes.messages, n, encoder)
    plain = _without_kernels(sizes.messages, layer, d, device)
    energies = 6 * layer + plain  # f, Y, and up to four products of their size
    sketches = n * sketch_width(encoder.sketch_size) * _FLOAT
    decoded = 2 * layer + _activations(min(_BLOCK, sizes.valid_pairs), d, settings.decoder, directed=sizes.directed)
    valid_matrices = _matrices(sizes.valid_messages or sizes.messages, n, encoder)
    test_graph = _message_graph(sizes.test_messages, n) + _matrices(sizes.test_messages, n, encoder)
    return MemoryEstimate(
        graph=_graph(sizes, shared=on_cpu),
        features=_features(sizes, shared=on_cpu),
        weights=2 * trained + fixed + n * encoder.sketch_size * _FLOAT,  # and the sketches' signs
        moments=2 * trained,
        copies=averaged + trained + fixed,
        negatives=matrices,
        embeddings=_kept(sizes, settings) + 2 * sketches,
        decoder=_decoding(sizes, settings),
        gradients=_layer_gradients(layer, settings) + plain,
        building=max(_sorting(sizes), _drawing(sizes.messages, encoder) + matrices, _completing(n, encoder)),
        update=layer + 2 * trained,
        validation=max(valid_matrices + max(energies, decoded) + 2 * sketches, trained),
        finishing=max(0, test_graph + layer + energies + 2 * sketches - 2 * trained),
        scatter=_scatter(layer, sizes, settings, device),
        sizes=sizes,
        device=device.type,
    )


def in_words(size: int) -> str:
    """Bytes as a reader likes them: MiB, from one GiB on with a decimal."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20)):,} MiB"


# -- parts ---------------------------------------------------------------------------------------------------


def _runtime(device: str) -> int:
    return _RUNTIME if device == "cpu" else 0  # a device's own is taken before it says what is free


def _scatter(layer: int, sizes: Sizes, settings: Settings, device: torch.device) -> Scatter:
    if device.type != "cpu":
        return Scatter(_GIVEN_BACK, _GIVEN_BACK, _GIVEN_BACK)
    ends = batch_of(sizes, settings) * settings.training.loss_negatives * 2 * settings.encoder.hidden_size * _FLOAT
    if _by_terms(settings.encoder) and layer < _HELD_BELOW:
        return Scatter(_BY_TERMS, _BY_TERMS, _BY_TERMS)
    return Scatter(
        _KEPT if layer < _HELD_BELOW else _GIVEN_BACK,
        _BACKWARD if ends < _HELD_BELOW else _GIVEN_BACK,
        _BACKWARD if layer < _HELD_BELOW else _GIVEN_BACK,
    )


def batch_of(sizes: Sizes, settings: Settings) -> int:
    """Target links that are decoded together."""
    return min(settings.training.batch_size or sizes.targets, sizes.targets)


def _message_graph(messages: int, nodes: int) -> int:
    """Pairs, weights, compressed rows with the pair of each entry, sorted keys with their order."""
    return messages * (2 * _LONG + _FLOAT + 4 * _PLACE + 2 * _LONG) + nodes * _PLACE


def _graph(sizes: Sizes, *, shared: bool) -> int:
    """Two message graphs at most, the known pairs, the graph's own keys; on a CPU pairs are shared with the split."""
    own = _message_graph(sizes.messages, sizes.nodes)
    valid = _message_graph(sizes.valid_messages, sizes.nodes) if sizes.valid_messages else 0
    copied = 0 if shared else 2 * _LONG * (sizes.targets + 2 * sizes.valid_pairs)
    marks = 4 * sizes.known  # bits by which most drawn pairs are seen to be none of them
    return own + valid + 2 * _LONG * sizes.known + marks + _LONG * (sizes.targets + sizes.links) + copied


def _features(sizes: Sizes, *, shared: bool) -> int:
    """Sparse: places of entries and of the transpose's; the values, and dense features, are shared on a CPU."""
    if sizes.feature_entries is None:
        return 0 if shared else sizes.nodes * sizes.feature_columns * _FLOAT
    places = sizes.feature_entries * (2 * _PLACE + _LONG) + (sizes.nodes + sizes.feature_columns) * _PLACE
    return places + (0 if shared else sizes.feature_entries * _FLOAT)


def _weights(sizes: Sizes, settings: Settings) -> tuple[int, int]:
    """Bytes of the learned weights, and of those that stay as they are."""
    encoder, decoder, d = settings.encoder, settings.decoder, settings.encoder.hidden_size
    blocks, table = encoder.sign_hops + 1, sizes.nodes * encoder.embedding_size
    columns = sizes.feature_columns if encoder.inputs in ("features", "both") else 0
    columns += 0 if encoder.inputs == "features" else encoder.embedding_size
    count = blocks * columns * d + (encoder.num_layers - 1) * d * d
    if decoder.kind == "hadamard" and decoder.depth > 1:
        count += d * decoder.width + (decoder.depth - 2) * decoder.width**2
    if sizes.directed and decoder.directed_maps:
        count += 2 * d * d
    if encoder.inputs == "random":
        return count * _FLOAT, table * _FLOAT
    return (count + (0 if encoder.inputs == "features" else table)) * _FLOAT, 0


def _completing(nodes: int, encoder: EncoderSettings) -> int:
    completes = encoder.table_start in ("completed", "smoothed") and encoder.inputs in ("embeddings", "both")
    smoothed = encoder.table_start == "smoothed"
    return completion.bytes_for(nodes, encoder.embedding_size, smoothed=smoothed) if completes else 0


def _num_graphs(encoder: EncoderSettings) -> int:
    """Negative graphs that stay apart: those of one weight are merged, their mean is one."""
    apart = encoder.learn_repulsion != "no" or encoder.margin is not None
    return encoder.num_negatives if apart and not encoder.expected_negatives else min(1, encoder.num_negatives)


def _matrices(messages: int, nodes: int, encoder: EncoderSettings) -> int:
    """Values of the links' matrix; columns and values of each sampled one, or a mean's few columns of n."""
    links = 2 * messages * _FLOAT + messages + 8 * nodes * _FLOAT  # a mask, and degrees in their several forms
    if encoder.expected_negatives:
        return links + (12 * nodes * _FLOAT if encoder.num_negatives else 0)
    sampled = 2 * messages * (_PLACE + _FLOAT) * encoder.num_negatives
    return links + sampled + 4 * nodes * _FLOAT * _num_graphs(encoder)


def _inputs(sizes: Sizes, encoder: EncoderSettings) -> int:
    """Dropped inputs of f, each with its byte of chance."""
    if round(encoder.feature_dropout * 256) == 0:
        return 0
    entries = sizes.nodes * encoder.embedding_size if encoder.inputs == "random" else 0
    if encoder.inputs in ("features", "both"):
        dense = sizes.nodes * sizes.feature_columns
        entries += dense if sizes.feature_entries is None else sizes.feature_entries
    return entries * (_FLOAT + 1)


def _is_learned(encoder: EncoderSettings) -> bool:
    return encoder.learn_repulsion != "no"


def _by_terms(encoder: EncoderSettings) -> bool:
    """Whether layers run term by term under autograd: with a margin, unless it bounds one sampled graph."""
    return encoder.margin is not None and (encoder.expected_negatives or _num_graphs(encoder) != 1)


def _kept(sizes: Sizes, settings: Settings) -> int:
    """What the encoder leaves for the backward pass, its result included."""
    encoder, training = settings.encoder, settings.training
    share = training.clusters_per_step / training.clusters
    cells = int(share * sizes.nodes) * encoder.hidden_size
    stored = 2 if encoder.storage == "bfloat16" else _FLOAT
    drops = round(encoder.dropout * 256) > 0
    hidden = _FLOAT + (_FLOAT + 1 if drops else 0) + (_FLOAT if encoder.base_norm else 0)
    kept = (encoder.num_layers - 1) * cells * hidden + (cells if drops else 0)
    result = cells * _FLOAT * (2 if encoder.output_norm else 1)
    result += 2 * cells * _FLOAT if training.updates_per_propagation > 1 else 0  # a copy, and its gradient
    layers = _kept_layers(encoder, training.clusters) * cells * (_FLOAT if encoder.margin is not None else stored)
    # while the layers run there are f, two buffers and the sums of what f reads, whatever is kept of them afterwards
    running = cells * (2 * stored + _FLOAT) if encoder.num_steps else 2 * cells * _FLOAT
    summing = (encoder.sign_hops + 2) * cells * _FLOAT
    whole = 0
    if training.clusters > 1:  # all layers of all nodes without gradients, and a pass that renews them
        whole = sizes.nodes * encoder.hidden_size * ((encoder.num_steps + 1) * stored + 3 * _FLOAT)
    return whole + int(share * _inputs(sizes, encoder)) + kept + max(layers + result, running, summing)


def _kept_layers(encoder: EncoderSettings, clusters: int) -> int:
    """How many matrices of the embeddings' size the layers keep."""
    graphs = _num_graphs(encoder)
    if clusters > 1:  # Y, and what is heard of other nodes through each graph
        return encoder.num_steps * (2 + graphs)
    if encoder.margin is not None:  # the pushes that it weighs; term by term Y as well
        return encoder.num_steps * (1 + graphs if _by_terms(encoder) else 1)
    if not _is_learned(encoder):
        return 0
    return min(1, encoder.num_steps) if encoder.recompute else encoder.num_steps


def _layer_gradients(layer: int, settings: Settings) -> int:
    """Gradients of Y, two buffers, the gradient of f; all layers again, if they are recomputed."""
    encoder, training = settings.encoder, settings.training
    layer = int(layer * training.clusters_per_step / training.clusters)
    stored = layer // 2 if encoder.storage == "bfloat16" else layer
    if encoder.margin is not None:
        return 6 * layer
    again = 2 * stored if encoder.recompute and _is_learned(encoder) else 0
    return 3 * stored + layer + again


def _without_kernels(messages: int, layer: int, width: int, device: torch.device) -> int:
    """What torch's own products take besides: a sum, a product and scaled values, or a row for each entry."""
    if device.type == "cpu" and native.library() is not None:
        return 0
    gathered = 2 * 2 * messages * width * _FLOAT if device.type == "mps" else 0
    return 2 * layer + 2 * messages * _FLOAT + gathered


def _activations(pairs: int, size: int, decoder: DecoderSettings, *, directed: bool) -> int:
    """What the decoder keeps of so many pairs."""
    ends = 2 * (2 if directed and decoder.directed_maps else 1) * size
    if decoder.kind == "dot":
        return pairs * (ends + size) * _FLOAT
    if decoder.kind == "distance":
        return pairs * (ends + 2 * size) * _FLOAT
    drops = round(decoder.dropout * 256) > 0
    hidden = _FLOAT + (_FLOAT + 1 if drops else 0) + (_FLOAT if decoder.norm else 0)
    return pairs * ((ends + size) * _FLOAT + (decoder.depth - 1) * decoder.width * hidden)


def _decoding(sizes: Sizes, settings: Settings) -> int:
    """A batch's links and non-links with their activations, and the gradient of one of them."""
    count, d, decoder = settings.training.loss_negatives, settings.encoder.hidden_size, settings.decoder
    links = batch_of(sizes, settings)
    pairs = links * (1 + count)
    widest = max(d, decoder.width) if decoder.kind == "hadamard" else d
    gradient = links * count * widest * _FLOAT
    return _activations(pairs, d, decoder, directed=sizes.directed) + gradient + 4 * _LONG * pairs


def _drawing(messages: int, encoder: EncoderSettings) -> int:
    """Visible pairs, those drawn so far, and the searches among the known ones."""
    if encoder.num_negatives == 0:
        return 0
    visible = 2 * _LONG * messages
    return visible if encoder.expected_negatives else (1 + encoder.num_negatives) * visible + 5 * _LONG * messages


def _sorting(sizes: Sizes) -> int:
    """Keys with their order, sorted into fresh memory; sparse features likewise."""
    links = max(sizes.messages, sizes.known, sizes.targets)
    return max(6 * _LONG * links, 4 * _LONG * (sizes.feature_entries or 0))
