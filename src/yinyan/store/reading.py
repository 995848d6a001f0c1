"""From the files of a model to a fitted model: nothing in them is believed before its shape and range are checked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from yinyan.graph import Graph
from yinyan.graph.attributes import Attributes, stored_column
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.features import FeatureEncoder, Features, SparseFeatures
from yinyan.graph.ids import Ids
from yinyan.model.calibration import calibration_from_dict
from yinyan.model.decoder import Decoder
from yinyan.model.fitted import EpochRecord, Fitted, empty_decoder, empty_model
from yinyan.model.inference import is_finite
from yinyan.model.reranking import reranking_from_dict
from yinyan.settings import Settings, settings_from_text, without_retired
from yinyan.store.lists import read_lists
from yinyan.store.mapping import mapped_arrays
from yinyan.store.opening import OpenedModel

__all__ = [
    "attributes_from",
    "check_work",
    "decoder_from",
    "features_from",
    "figures_from",
    "fitted_from",
    "ids_from",
    "of_type",
    "with_weights",
]

_MOST_REPEATS = 100_000  # of steps, samples and other work that the weights do not bound

Arrays = dict[str, NDArray[Any]]
_Module = TypeVar("_Module", bound=torch.nn.Module)


def fitted_from(opened: OpenedModel, device: torch.device, *, mapped: bool) -> tuple[Fitted, dict[str, Any]]:
    """The fitted model and the predictor's parameters. What does not fit together raises an error of any kind."""
    facts = of_type(opened.json("model.json"), dict, "model.json")
    settings = Settings().updated(settings_from_text(opened.text("settings.toml"), "settings.toml", saved=True))
    arrays = opened.arrays("graph.safetensors", mapped=mapped)
    numbers = opened.arrays("embeddings.safetensors", mapped=mapped)
    weights = opened.arrays("weights.safetensors", mapped=False)
    check_work(settings, weights, numbers["embeddings"].shape)
    ids = ids_from(opened, len(numbers["embeddings"]))
    graph = _graph(arrays, facts, ids, attributes_from(opened, facts.get("label"), len(ids)))
    model = with_weights(empty_model(settings, graph), weights, opened.parted_names)
    _check_numbers(numbers, graph, settings)
    history = [json.loads(line) for line in opened.text("training.jsonl").splitlines()]
    fitted = Fitted(
        graph=graph,
        message_edges=_message_edges(arrays["message_edges"], graph),
        settings=settings,
        seed=of_type(facts["seed"], int, "seed"),
        model=model.to(device),
        embeddings=torch.from_numpy(numbers["embeddings"]).to(device),
        calibration=calibration_from_dict(facts["calibration"]),
        metrics=figures_from(opened.json("metrics.json")["validation"], "metrics.json"),
        protocol=of_type(facts["protocol"], str, "protocol"),
        split_text=of_type(facts["split"], str, "split"),
        reasons=tuple(of_type(reason, str, "reasons") for reason in facts["reasons"]),
        history=tuple(EpochRecord(**record) for record in history),
        best_epoch=of_type(facts["best_epoch"], int, "best_epoch"),
        energy=tuple(float(value) for value in facts["energy"]),
        seconds=float(facts["seconds"]),
        valid_scores=(numbers["valid_links"], numbers["valid_non_links"]),
        valid_lists=read_lists(numbers, facts.get("missing")),
        reranking=reranking_from_dict(facts.get("reranking")),
    )
    return fitted, without_retired(of_type(facts["params"], dict, "params"))


def of_type(value: Any, kind: type, name: str) -> Any:
    """The value, which needs to be of a type."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} needs to be of type {kind.__name__} (got {type(value).__name__})")
    return value


def figures_from(values: Mapping[str, Any], name: str) -> dict[str, float]:
    """Figures by name."""
    if not all(type(value) in (int, float) for value in of_type(values, dict, name).values()):
        raise TypeError(f"{name} needs numbers by name")
    return dict(values)


def _parquet(opened: OpenedModel, name: str) -> pq.ParquetFile:
    """A Parquet file of a model, read in the caller's thread.

    A thread of Arrow that still holds the Python file when the process ends aborts it (exit status 134).
    """
    return pq.ParquetFile(opened.file(name), pre_buffer=False)


def ids_from(opened: OpenedModel, count: int, name: str = "ids.parquet") -> Ids:
    """Ids of as many nodes."""
    held = _parquet(opened, name)
    if held.metadata.num_rows != count:  # seen before they are read: a few bytes can stand for many rows
        raise ValueError(f"{name} has {held.metadata.num_rows:,} ids, and there are {count:,} embeddings")
    ids = Ids.from_arrow(held.read())
    if len(ids) != count:
        raise ValueError(f"{name} has {len(ids):,} ids, and there are {count:,} embeddings")
    return ids


def attributes_from(opened: OpenedModel, label: Any, count: int, file: str = "attributes.parquet") -> Attributes | None:
    """Columns of the node table; models of earlier versions have none."""
    if file not in opened.manifest["files"]:
        return None
    held = _parquet(opened, file)
    if held.metadata.num_rows != count:  # seen before they are read: a few bytes can stand for many rows
        raise ValueError(f"{file} has {held.metadata.num_rows:,} rows, and there are {count:,} ids")
    table = held.read()
    columns = {name: stored_column(table[name]) for name in table.column_names}  # Parquet shortens some types
    odd = next((name for name, column in columns.items() if column is None), None)
    if odd is not None:
        raise ValueError(f"{file} holds {table[odd].type} under {odd!r}, which is no attribute")
    return Attributes(pa.table(columns), None if label is None else of_type(label, str, "label"))


def check_work(settings: Settings, weights: Arrays, embeddings: tuple[int, ...]) -> None:
    """Refuse settings that no model with these weights can have, before anything is built of them."""
    widest = max(size for shape in (embeddings, *(array.shape for array in weights.values())) for size in shape)
    bounds = {"num_layers": len(weights), "hidden_size": widest}
    if settings.decoder.kind == "hadamard":  # others have neither
        bounds |= {"depth": len(weights)} | ({"width": widest} if settings.decoder.depth > 1 else {})
    for group in (settings.encoder, settings.decoder, settings.training):
        for field in dataclasses.fields(group):
            value, most = getattr(group, field.name), bounds.get(field.name, _limit(field.name))
            if type(value) is int and value > most:
                raise ValueError(f"{field.name} = {value:,} does not fit the weights (at most {most:,})")


def _limit(name: str) -> int:
    return _MOST_REPEATS if name in ("num_steps", "num_negatives", "sign_hops", "inference_samples") else 1 << 40


def decoder_from(opened: OpenedModel) -> Decoder:
    """The decoder of a plain model, of which only the small files are read."""
    opened.refuse_faults(("model.json", "settings.toml", "weights.safetensors"))
    facts = of_type(opened.json("model.json"), dict, "model.json")
    settings = Settings().updated(settings_from_text(opened.text("settings.toml"), "settings.toml", saved=True))
    group, prefix = "weights.safetensors", "decoder."
    weights = mapped_arrays(opened.file(group), writable=True)[0]
    for array in opened.parted:
        if array.group == group and array.name.startswith(prefix):
            weights[array.name] = opened.rows(group, array.name, 0, array.shape[0])
    check_work(settings, weights, (settings.encoder.hidden_size,))
    decoder = empty_decoder(settings, directed=of_type(facts["directed"], bool, "directed"))
    own = {name.removeprefix(prefix): array for name, array in weights.items() if name.startswith(prefix)}
    return with_weights(decoder, own)


def with_weights(model: _Module, weights: Arrays, kept: Collection[str] = ()) -> _Module:
    """The model with weights of the right names, shapes and types; those that are `kept` stay where they are."""
    expected = model.state_dict()
    if expected.keys() != weights.keys():
        odd = sorted(expected.keys() ^ weights.keys())[0]
        raise ValueError(f"weights.safetensors and the settings differ in {odd!r}")
    made = {}
    for name, wanted in expected.items():
        # clones lie in torch's own memory, aligned as in training: products then sum in the same order
        given = torch.from_numpy(weights[name])
        given = given if name in kept else given.clone()
        if wanted.ndim == 0 and given.numel() == 1:  # an earlier version wrote single numbers as arrays of one
            given = given.reshape(())
        if given.shape != wanted.shape or given.dtype != wanted.dtype:
            raise ValueError(
                f"{name!r} is {given.dtype} of shape {tuple(given.shape)}, expected {wanted.dtype} of shape "
                f"{tuple(wanted.shape)}"
            )
        if given.is_floating_point() and not _is_finite(given):
            raise ValueError(f"{name!r} holds NaN or infinity")
        made[name] = given
    model.load_state_dict(made, assign=True)
    return model


def _check_numbers(numbers: Arrays, graph: Graph, settings: Settings) -> None:
    columns = settings.encoder.hidden_size + settings.encoder.structure_columns
    embeddings = numbers["embeddings"]
    if embeddings.dtype != np.float32 or embeddings.shape != (graph.num_nodes, columns):
        raise ValueError(
            f"embeddings are {embeddings.dtype} of shape {embeddings.shape}, expected float32 of shape "
            f"{(graph.num_nodes, columns)}"
        )
    for name in ("embeddings", "valid_links", "valid_non_links"):
        if numbers[name].dtype != np.float32 or not _is_finite(torch.from_numpy(numbers[name])):
            raise ValueError(f"{name!r} needs to be finite and float32")
        if name != "embeddings" and numbers[name].ndim != 1:
            raise ValueError(f"{name!r} needs one dimension (got the shape {numbers[name].shape})")


def _is_finite(values: torch.Tensor) -> bool:
    return bool(values.isfinite()) if values.ndim == 0 else is_finite(values)


def _message_edges(edges: NDArray[Any], graph: Graph) -> NDArray[np.int64]:
    if edges.dtype != np.int64 or edges.ndim != 1:
        raise ValueError(f"'message_edges' needs to be int64 of one dimension (got {edges.dtype}, {edges.shape})")
    if edges.size and not 0 <= edges.min() <= edges.max() < graph.num_edges:
        raise ValueError(f"'message_edges' needs numbers between 0 and {graph.num_edges - 1:,}")
    return edges


def features_from(arrays: Arrays, num_columns: Any, prefix: str = "") -> Features | None:
    """Features, dense or sparse, checked."""
    features: Any = arrays.get(f"{prefix}features")
    if f"{prefix}feature_indptr" in arrays:
        columns = of_type(num_columns, int, "num_features")
        if columns > 1 << 31:
            raise ValueError(f"num_features = {columns:,} is more than any model has")
        indptr, indices, values = (arrays[f"{prefix}feature_{name}"] for name in ("indptr", "indices", "values"))
        return SparseFeatures(indptr, indices, values, columns)
    if features is not None and features.ndim != 2:
        raise ValueError(f"'features' needs two dimensions (got the shape {features.shape})")
    return features  # type: ignore[no-any-return]


def _graph(arrays: Arrays, facts: dict[str, Any], ids: Ids, attributes: Attributes | None) -> Graph:
    features = features_from(arrays, facts["num_features"])
    encoder = facts["feature_encoder"]
    return Graph(
        ids=ids,
        edges=arrays["edges"],
        weights=arrays.get("weights"),
        times=arrays.get("times"),
        features=features,
        sides=arrays.get("sides"),
        directed=of_type(facts["directed"], bool, "directed"),
        feature_encoder=None if encoder is None else FeatureEncoder.from_dict(encoder),
        notes=tuple(of_type(note, str, "notes") for note in facts["notes"]),
        columns=ColumnReport.from_dicts(facts.get("columns", ())),  # earlier versions did not write it
        attributes=attributes,
        edge_features=arrays.get("edge_features"),
        edge_encoder=None if facts.get("edge_encoder") is None else FeatureEncoder.from_dict(facts["edge_encoder"]),
    )
