"""An index on disk: one file in its model's directory, read by memory map, refused when the model has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from torch import Tensor

from yinyan.errors import StoreError
from yinyan.files import atomic_path
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.metadata import IndexMetadata, fingerprint, read_metadata
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.snapshot import Snapshot
from yinyan.store.mapping import mapped_arrays

__all__ = ["INDEX_FILE", "load_index", "save_index"]

INDEX_FILE = "index.safetensors"
_FORMAT = 3
_READ = (2, 3)  # version 2 promised its recall for one k
_NAMES = ("weights", "centres", "spreads", "lows", "steps", "codes", "rows", "starts")
_IN_MEMORY = ("weights", "centres", "spreads", "lows", "steps")  # small, and torch reads them


def save_index(folder: Path, metadata: IndexMetadata, lists: Lists | None) -> None:
    """Write the index into a model's directory, whole or not at all."""
    if not folder.is_dir():
        raise StoreError(f"there is no model directory '{folder}': save the model first, its index lies beside it")
    arrays = {name: np.zeros(0, np.uint8) for name in _NAMES} if lists is None else _arrays(lists)
    said = json.dumps({"format": _FORMAT, **metadata.to_dict()})
    with atomic_path(folder / INDEX_FILE) as temporary:
        save_file(arrays, temporary, metadata={"index": said})


def load_index(folder: Path, graph: Graph, decoder: Decoder, embeddings: Tensor) -> Index:
    """The index of a model; its lists stay on disk until they are looked into."""
    file = folder / INDEX_FILE
    if not file.is_file():
        raise StoreError(f"the model in '{folder}' has no index: build one with yinyan index, or model.index().save()")
    try:
        mapped, said = mapped_arrays(file)
        arrays: dict[str, Any] = {name: mapped[name].copy() if name in _IN_MEMORY else mapped[name] for name in _NAMES}
        facts = json.loads(said["index"])
        number = facts.pop("format")
        metadata = read_metadata(facts) if number in _READ else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"'{file}' is damaged: {error!r} (build the index again)") from error
    if metadata is None:
        raise StoreError(
            f"'{file}' has format version {number}, and this library reads versions 2 and 3: build it again"
        )
    y = embeddings.detach().cpu()
    if metadata.fingerprint != fingerprint(decoder, y):
        raise StoreError(
            f"the index in '{folder}' belongs to another model: this one has changed since (build it again)"
        )
    search: ExactSearch | Probing = ExactSearch(decoder)
    if metadata.effort is not None:
        efforts = Efforts({at.k: Effort(**at.effort) for at in metadata.per_k})
        search = Probing(decoder, Lists(**arrays), efforts)
    return Index(graph, decoder, Snapshot.of(y), search, metadata)


def _arrays(lists: Lists) -> dict[str, NDArray[Any]]:
    return {name: np.ascontiguousarray(getattr(lists, name)) for name in _NAMES}
