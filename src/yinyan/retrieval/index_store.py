"""An index on disk: one file in its model's directory, mapped, refused when it is damaged or the model has changed."""

from __future__ import annotations

import hashlib
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
from yinyan.retrieval.building import KINDS
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index
from yinyan.retrieval.list_checks import checked_efforts, checked_lists
from yinyan.retrieval.lists import Lists
from yinyan.retrieval.metadata import IndexMetadata, fingerprint, read_metadata
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.queries import check_covered, points_of
from yinyan.retrieval.relation_names import RelationNames
from yinyan.retrieval.snapshot import Snapshot
from yinyan.store.mapping import mapped_arrays

__all__ = ["INDEX_FILE", "OutdatedIndexError", "index_file", "load_index", "save_index"]

INDEX_FILE = "index.safetensors"
_FORMAT = 4  # with a checksum, and a recall measured for each k with searches that begin in the graph
_NAMES = ("weights", "centres", "spreads", "lows", "steps", "codes", "rows", "starts")
_IN_MEMORY = ("weights", "centres", "spreads", "lows", "steps")  # small, and torch reads them


class OutdatedIndexError(StoreError):
    """An index is whole, and of another model or of an earlier version of this library."""


def index_file(names: RelationNames | None) -> str:
    """The name of the file in its model's directory; each predicted relation has one of its own."""
    return INDEX_FILE if names is None else f"index-{names.number}.safetensors"


def save_index(folder: Path, metadata: IndexMetadata, lists: Lists | None, file: str = INDEX_FILE) -> None:
    """Write the index into a model's directory, whole or not at all."""
    if not folder.is_dir():
        raise StoreError(f"there is no model directory '{folder}': save the model first, its index lies beside it")
    arrays = {name: np.zeros(0, np.uint8) for name in _NAMES} if lists is None else _arrays(lists)
    said = json.dumps({"format": _FORMAT, **metadata.to_dict()})
    with atomic_path(folder / file) as temporary:
        save_file(arrays, temporary, metadata={"index": said, "sha256": _digest(said, arrays)})


def load_index(
    folder: Path, graph: Graph, decoder: Decoder, embeddings: Tensor, names: RelationNames | None = None
) -> Index:
    """The index of a model, or of the relation that has these names; its lists stay on disk until they are used."""
    file = folder / index_file(names)
    if not file.is_file():
        of_relation = "" if names is None else f" of relation {names.relation.name!r}"
        flag = "" if names is None else f" --relation {names.relation.name}"
        raise StoreError(
            f"the model in '{folder}' has no index{of_relation}: build one with yinyan index{flag}, or "
            "model.index().save()"
        )
    y = embeddings.detach().cpu()
    try:
        arrays, said = mapped_arrays(file)
        facts = json.loads(said["index"])
        number = facts.pop("format")
        if number == _FORMAT:
            made = _index(facts, arrays, said, graph, decoder, y)
            return made if names is None else made._of_relation(names)
    except OutdatedIndexError as error:
        raise OutdatedIndexError(f"the index in '{folder}' {error} (build it again)") from error
    except Exception as error:  # a damaged file can raise almost any
        raise StoreError(f"'{file}' is damaged: {error!r} (build the index again)") from error
    raise OutdatedIndexError(
        f"'{file}' has format version {number}, and this library reads version {_FORMAT}: build it again"
    )


def _index(
    facts: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    said: dict[str, str],
    graph: Graph,
    decoder: Decoder,
    y: Tensor,
) -> Index:
    """The index, after everything in the file has been compared with its checksum, its model, and what is possible."""
    if said.get("sha256") != _digest(said["index"], arrays):
        raise ValueError("its checksum differs")
    metadata = read_metadata(facts)
    if metadata.fingerprint != fingerprint(decoder, y):
        raise OutdatedIndexError("belongs to another model: this one has changed since")
    if (metadata.num_nodes, metadata.columns) != tuple(y.shape) or metadata.kind not in KINDS:
        raise ValueError(f"it describes {metadata.num_nodes} rows of {metadata.columns} columns as {metadata.kind!r}")
    search: ExactSearch | Probing = ExactSearch(decoder)
    if metadata.effort is not None:
        check_covered(decoder)
        kept = {name: arrays[name].copy() if name in _IN_MEMORY else arrays[name] for name in _NAMES}
        lists = checked_lists(kept, len(y), points_of(decoder, y[:1]).shape[1])
        search = Probing(decoder, lists, checked_efforts(metadata))
    return Index(graph, decoder, Snapshot.of(y), search, metadata)


def _digest(said: str, arrays: dict[str, NDArray[Any]]) -> str:
    """A checksum of all that the file says."""
    digest = hashlib.sha256(said.encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _arrays(lists: Lists) -> dict[str, NDArray[Any]]:
    return {name: np.ascontiguousarray(getattr(lists, name)) for name in _NAMES}
