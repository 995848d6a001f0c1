"""The decoder as ONNX: what scores pairs of stored rows, without torch and without this library."""

from __future__ import annotations

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from yinyan.connect.urls import imported
from yinyan.errors import InputError
from yinyan.files import atomic_path
from yinyan.model.decoder import Decoder
from yinyan.retrieval.state import SearchState

__all__ = ["TOLERANCE", "write_onnx"]

TOLERANCE = 1e-5  # of a score, relative to the larger of it and one
_PAIRS = 257  # that the exported decoder is checked on
_OPSET = 18


class _Scores(nn.Module):
    """A decoder with two inputs and nothing else."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(batch,) scores of (batch, row) and (batch, row)."""
        return self.decoder(source, target)  # type: ignore[no-any-return]


def write_onnx(state: SearchState, path: str | os.PathLike[str]) -> float:
    """Write the decoder to a file and compare its scores with torch's; returns the largest relative difference."""
    path = Path(path)
    check_onnx_file(path)
    onnx, runtime = _packages()
    decoder = copy.deepcopy(state.decoder).float().cpu().eval().requires_grad_(False)
    rows = np.random.default_rng(0).integers(0, state.num_nodes, (2, _PAIRS))
    source, target = (state.vectors(some).cpu().float() for some in rows)
    with _quiet():
        made = torch.onnx.export(
            _Scores(decoder),
            (source[:2], target[:2]),
            input_names=["source", "target"],
            output_names=["score"],
            dynamic_shapes={name: {0: torch.export.Dim("batch", min=1)} for name in ("source", "target")},
            opset_version=_OPSET,
            dynamo=True,
            verbose=False,
        )
    proto = made.model_proto  # type: ignore[union-attr]
    _describe(proto, decoder)
    onnx.checker.check_model(proto)
    content = proto.SerializeToString()
    difference = _difference(runtime, content, decoder, source, target)
    if not difference <= TOLERANCE:
        raise InputError(
            f"the exported decoder scores otherwise than this model: they differ by {difference:.1e}, and "
            f"{TOLERANCE:.0e} is allowed. Nothing was written"
        )
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return difference


def check_onnx_file(path: Path) -> None:
    """Refuse a wrong name, and missing packages, before a model is loaded."""
    if path.suffix != ".onnx":
        raise InputError(f"'{path}' needs to end in .onnx")
    _packages()


def _packages() -> tuple[Any, Any]:
    names = ("onnxscript", "onnx", "onnxruntime")  # torch exports with the first
    _, onnx, runtime = (imported(name, f"ONNX needs {name}: pip install 'yinyan[onnx]'") for name in names)
    return onnx, runtime


def _describe(proto: Any, decoder: Decoder) -> None:
    """What the inputs are, for whoever opens the file."""
    facts = {
        "inputs": "stored rows of both ends, as LinkPredictor.embeddings_ has them",
        "embedding_columns": decoder.embedding_size,
        "symmetric": decoder.is_symmetric,
    }
    entry = proto.metadata_props.add()
    entry.key, entry.value = "yinyan", json.dumps(facts)


def _difference(runtime: Any, content: bytes, decoder: Decoder, source: Tensor, target: Tensor) -> float:
    """The largest difference of the two scores over batches of several sizes, relative to max(1, |score|)."""
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    worst = 0.0
    for count in (1, 2, len(source)):
        (scores,) = session.run(["score"], {"source": source[:count].numpy(), "target": target[:count].numpy()})
        expected = decoder(source[:count], target[:count]).numpy()
        if scores.shape != expected.shape:
            return float("inf")
        worst = max(worst, float(np.max(np.abs(scores - expected) / np.maximum(1, np.abs(expected)))))
    return worst


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of the exporter on its own parts."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
