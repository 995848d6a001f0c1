"""How much memory training takes at its peak, and whether that much is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from yinyan.errors import MemoryLimitError
from yinyan.graph.features import SparseFeatures
from yinyan.model import scoring
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training import all_pairs
from yinyan.training.best_weights import LARGE
from yinyan.training.data import num_listed
from yinyan.training.free_memory import free_memory
from yinyan.training.shared_negatives import BLOCK

__all__ = ["MemoryEstimate", "check_memory", "estimate", "in_words"]

_FLOAT = 4  # bytes
_EDGE = 60  # bytes per edge: pairs, compressed rows, matrices of a step
_KNOWN = 50  # bytes per edge that is looked up: sorted keys, targets of their own
_LOOSE, _LOOSE_EDGES = 110, 2_000_000  # bytes per edge that a run's many passes leave between blocks, up to so many
_RUNTIME = 32 << 20  # what torch and LAPACK load at their first calls
# resident bytes per byte in use: freed blocks are kept and get scattered (benchmarks/speed/memory.py measures it)
_ALLOCATOR, _OTHER_DEVICES = 1.4, 1.1
_SHARED_ALLOCATOR = 1.9  # of weights and layers beside the small blocks of shared negatives
_MAPPED, _MAPPED_FROM = 1.05, 1 << 30  # but matrices of so many bytes go back to the system as a whole
_PAIRS_ALLOCATOR = 1.25  # of the pairs, whose blocks have one size in all steps
_OF_PAIRS = "the decoder's pairs"
_OF_WEIGHTS, _OF_LAYERS = "the weights with gradients, moments and copies", "the layers of the encoder"


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of each part at the peak, above what the process holds before training."""

    parts: dict[str, int]

    @property
    def total(self) -> int:
        """The peak."""
        return sum(self.parts.values())


def estimate(split: Split, settings: Settings, device: torch.device) -> MemoryEstimate:
    """The peak of training our model; docs/explanation/performance.md has how near it comes to what was measured."""
    on_cpu = device.type == "cpu"
    lasting = {
        "the graph": _graph(split, settings),
        "the features": _features(split, settings, copied=not on_cpu or settings.training.node_order == "local"),
        _OF_WEIGHTS: _weights(split, settings),
    }
    kept, gradients = _layers(split, settings)
    decoding = {_OF_LAYERS: kept, _OF_PAIRS: _decoder(split, settings)}
    backward = {_OF_LAYERS: kept + gradients}  # when the decoder's pairs are free again
    highest = max(decoding, backward, key=lambda parts: sum(parts.values()))
    scattered = _FLOAT * split.graph.num_nodes * settings.encoder.hidden_size < _MAPPED_FROM
    factor = (_ALLOCATOR if scattered else _MAPPED) if on_cpu else _OTHER_DEVICES
    runtime = _RUNTIME if on_cpu else 0  # other devices hold it before they say what is free
    more = _SHARED_ALLOCATOR if on_cpu and scattered and settings.training.loss_sampler == "shared" else factor
    factors = dict.fromkeys((_OF_WEIGHTS, _OF_LAYERS), more) | {_OF_PAIRS: min(factor, _PAIRS_ALLOCATOR)}
    parts = {name: int(factors.get(name, factor) * size) for name, size in (lasting | highest).items()}
    return MemoryEstimate({"torch": runtime} | parts)


def check_memory(split: Split, settings: Settings, device: torch.device, tell: Callable[[str], None]) -> None:
    """Report the estimate and what is free; refuse a run that would not fit, before anything large is allocated."""
    needed, free = estimate(split, settings, device), free_memory(device)
    rest = "" if free is None else f", {in_words(free)} are free"
    tell(f"memory: about {in_words(needed.total)} at the peak{rest}")
    if free is None or needed.total <= free or not settings.training.refuse_oversize:
        return
    name, size = max(needed.parts.items(), key=lambda part: part[1])
    changes = "; ".join(f"{text} ({in_words(total)})" for text, total in _that_fit(split, settings, device, free))
    cure = f"One of these would fit: {changes}" if changes else "Use several smaller settings, or a larger machine"
    raise MemoryLimitError(
        f"training needs about {in_words(needed.total)} at its peak and {in_words(free)} are free: "
        f"{in_words(size)} of it for {name}. {cure}. To try all the same: training.refuse_oversize = false"
    )


def in_words(size: int) -> str:
    """Bytes in MiB, from one GiB on in GiB with a decimal."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20)):,} MiB"


def _graph(split: Split, settings: Settings) -> int:
    """Message graphs, known pairs and targets."""
    looked_up = split.graph.directed or settings.training.loss_sampler != "shared"
    each = _EDGE + (_KNOWN if looked_up else 0)
    same = np.array_equal(split.train_messages, split.valid_messages)
    loose = _LOOSE * min(split.graph.num_edges, _LOOSE_EDGES)
    return each * split.graph.num_edges + loose + (0 if same else each * split.valid_messages.size // 2)


def _features(split: Split, settings: Settings, *, copied: bool) -> int:
    """The matrix where training needs a copy, and its entries after dropout (a float and a byte)."""
    features, encoder = split.graph.features, settings.encoder
    if features is None or encoder.inputs not in ("features", "both"):
        return 0
    dropped = 5 if encoder.feature_dropout else 0
    if isinstance(features, SparseFeatures):
        return len(features.values) * (20 + dropped)  # with the places of the transpose
    return features.size * ((_FLOAT if copied else 0) + dropped)


def _weights(split: Split, settings: Settings) -> int:
    """Each learned weight with its gradient, Adam's moments, the average and the best copy if it is in memory."""
    graph, encoder, decoder, d = split.graph, settings.encoder, settings.decoder, settings.encoder.hidden_size
    columns = graph.features.shape[1] if graph.features is not None and encoder.inputs in ("features", "both") else 0
    table = 0 if encoder.inputs == "features" else graph.num_nodes * encoder.embedding_size
    columns += encoder.embedding_size if table else 0
    learned = (encoder.sign_hops + 1) * columns * d + max(0, encoder.num_layers - 1) * d * d + table
    learned += (decoder.depth - 1) * max(d, decoder.width) * decoder.width + (2 * d * d if graph.directed else 0)
    fixed = table if encoder.inputs == "random" else 0
    copies = 6 if settings.training.averaging else 5
    saved = 0.0  # bytes over those of a float, per entry of the table
    if table > fixed and settings.training.moments == "rows":
        saved += 1.5
    if table > fixed and _FLOAT * table >= LARGE:
        saved += 1
    return int(_FLOAT * (copies * (learned - fixed) + 2 * fixed - saved * table))


def _layers(split: Split, settings: Settings) -> tuple[int, int]:
    """What the encoder keeps of all nodes for the backward pass, with sketches and sampled graphs; the gradients."""
    encoder, graphs = settings.encoder, 0 if settings.encoder.expected_negatives else settings.encoder.num_negatives
    stored = 0.5 if encoder.storage == "bfloat16" else 1.0
    kept = 0.0 if encoder.learn_repulsion == "no" else stored * (2 if encoder.recompute else encoder.num_steps)
    if encoder.margin is not None:
        kept = encoder.num_steps * (1 if graphs == 1 else 5 + graphs)  # one sampled graph has a kernel of its own
    kept += 3 * max(1, encoder.num_layers)  # f, its dropout, its norm
    gradients = 4 * stored * encoder.hidden_size
    constant = encoder.margin is None and encoder.learn_repulsion == "no" and encoder.num_steps > 0
    if constant and encoder.output_norm and encoder.storage == "float32":  # see `descend_and_normalise`
        shared = settings.training.loss_sampler == "shared"
        kept, gradients = (2.0 if shared else 3.0), (2.0 if shared else 3.0) * encoder.hidden_size
    columns = kept * encoder.hidden_size + 2 * encoder.structure_columns + encoder.sketch_size
    column = _FLOAT * split.graph.num_nodes
    return int(column * columns) + 16 * graphs * split.train_messages.size, int(column * gradients)


def _decoder(split: Split, settings: Settings) -> int:
    """Activations of a batch's edges and negatives, or of a block in validation."""
    encoder, decoder, targets = settings.encoder, settings.decoder, len(split.train_targets)
    if settings.training.loss_sampler == "shared" and decoder.kind == "dot":  # a block at a time, and all gradients
        row = encoder.hidden_size + encoder.structure_columns
        validated = min(scoring.BLOCK, max(len(split.valid_targets), split.valid_negatives.size // 2)) * 5 * row
        return _FLOAT * max(validated, BLOCK * (6 * settings.training.loss_negatives + 8 * row))
    if settings.training.loss_sampler == "all":  # two masks of all pairs; targets, their gradients, a block of logits
        n, heads = split.graph.num_nodes, decoder.heads if decoder.kind == "multi-dot" else 1
        logits = (6 + 5 * (heads if heads > 1 else 0)) * all_pairs.BLOCK * n
        if decoder.kind not in ("dot", "multi-dot"):  # all products of a block are made
            logits = 3 * all_pairs.BLOCK * n * (encoder.hidden_size + decoder.width * (decoder.depth - 1))
        return 4 * n * n + _FLOAT * (logits + 3 * n * encoder.hidden_size)
    pairs = min(settings.training.batch_size or targets, targets) * (1 + settings.training.loss_negatives)
    in_place = decoder.kind == "hadamard" and not split.graph.directed  # see `pair_products`
    # the product and its gradient, edges and negatives one after the other; or both ends, perhaps maps of them, too
    floats = int((1.7 if in_place else 6 if split.graph.directed else 4) * encoder.hidden_size)
    validated = (1 if in_place else 5 if split.graph.directed else 3) * encoder.hidden_size  # without gradients
    if decoder.kind == "hadamard":
        hidden = 2 + decoder.norm + decoder.residual + (1.25 if decoder.dropout else 0)
        shared = decoder.width + 128 if encoder.sketch_size else 0  # what the sketches add, by two layers of 64
        floats += int((decoder.depth - 1) * hidden * decoder.width) + shared
        validated += 2 * decoder.width + shared // 2
    elif decoder.kind == "multi-dot":
        floats += 5 * decoder.heads  # the dots, the hidden layer, its dropout
        validated += 2 * decoder.heads
    listed = num_listed(split) if settings.training.selection == "ranking" else 0
    blocks = min(scoring.BLOCK, max(listed, split.valid_negatives.size // 2))
    return max(pairs * (_FLOAT * floats + 32), blocks * (_FLOAT * validated + 32))


def _that_fit(split: Split, settings: Settings, device: torch.device, free: int) -> Iterator[tuple[str, int]]:
    """Of each setting that saves memory the mildest value that is enough alone, with its peak."""
    encoder, targets = settings.encoder, len(split.train_targets)
    batch, width = min(settings.training.batch_size or targets, targets), settings.decoder.width
    linear = encoder.margin is None and encoder.learn_repulsion != "no"
    kinds: list[list[dict[str, Any]]] = [
        [{"encoder": {"recompute": True}}] if linear else [],
        [{"encoder": {"storage": "bfloat16"}}] if linear else [],
        [{"training": {"moments": "rows"}}] if encoder.inputs in ("embeddings", "both") else [],
        [{"training": {"batch_size": batch >> power}} for power in range(1, 12) if batch >> power >= 512],
        [
            {"encoder": {"hidden_size": size}, "decoder": {"width": min(size, width)}}
            for power in range(1, 12)
            if (size := encoder.hidden_size >> power) >= 8
        ],
    ]
    for kind in kinds:
        for change in kind:
            total = estimate(split, settings.updated(change), device).total
            if total <= free:
                values = [(f"{group}.{name}", v) for group, some in change.items() for name, v in some.items()]
                yield " with ".join(f"{k} = {'true' if v is True else repr(v)}" for k, v in values), total
                break
