"""The files of a model with relations: those of a plain model, with ids per type and figures per relation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from yinyan import __version__
from yinyan.graph.column_report import ColumnReport
from yinyan.graph.features import FeatureEncoder, SparseFeatures
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.model.calibration import calibration_from_dict
from yinyan.model.fitted import EpochRecord, Fitted
from yinyan.model.relation_decoder import RelationModel
from yinyan.model.reranking import reranking_from_dict
from yinyan.model.scoring import Model
from yinyan.model.typed_fitted import TypedFitted, empty_typed_model, rows_of_relation
from yinyan.settings import Settings, settings_from_text, without_retired
from yinyan.store.lists import list_arrays, read_lists
from yinyan.store.opening import OpenedModel
from yinyan.store.reading import (
    attributes_from,
    check_work,
    features_from,
    figures_from,
    ids_from,
    of_type,
    with_weights,
)
from yinyan.store.writing import ArrayWriter, feature_arrays, save_json

__all__ = ["is_typed", "typed_card", "typed_from", "write_typed_files"]

Arrays = dict[str, NDArray[Any]]
Facts = dict[str, Any]


def is_typed(opened: OpenedModel) -> bool:
    """Whether a saved model has relations."""
    return "relations.json" in opened.manifest["files"]


# -- writing -------------------------------------------------------------------------------------------------


def write_typed_files(folder: Path, writer: ArrayWriter, fitted: TypedFitted, params: Facts) -> None:
    """All files but the manifest and the list of parts."""
    graph = fitted.graph
    weights = {name: value.detach().cpu().numpy() for name, value in fitted.model.state_dict().items()}
    writer.save("weights.safetensors", weights)
    numbers: Arrays = {"embeddings": fitted.embeddings.cpu().numpy()}
    arrays: Arrays = {}
    for n, (name, relation) in enumerate(graph.relations.items()):
        arrays[f"{n}/edges"], arrays[f"{n}/message_edges"] = relation.edges, fitted.message_edges[name]
        arrays |= {f"{n}/{k}": v for k in ("weights", "times") if (v := getattr(relation, k)) is not None}
        if (own := fitted.relations.get(name)) is not None:
            numbers |= {f"{n}/valid_links": own.valid_scores[0], f"{n}/valid_non_links": own.valid_scores[1]}
            numbers |= {f"{n}/{key}": value for key, value in list_arrays(own.valid_lists).items()}
    for n, kind in enumerate(graph.nodes.values()):
        arrays |= feature_arrays(kind.features, f"type/{n}/")
        pq.write_table(kind.ids.to_arrow(), folder / f"ids-{n}.parquet")
        if kind.attributes is not None:
            pq.write_table(kind.attributes.table, folder / f"attributes-{n}.parquet", compression="zstd")
    writer.save("embeddings.safetensors", numbers)
    writer.save("graph.safetensors", arrays)
    (folder / "settings.toml").write_text(fitted.settings.to_toml(), encoding="utf-8")
    by_relation = {name: own.metrics for name, own in fitted.relations.items()}
    figures = {"protocol": fitted.protocol, "validation": fitted.metrics, "relations": by_relation}
    save_json(folder / "metrics.json", figures)
    save_json(folder / "model.json", _facts(fitted, params))
    save_json(folder / "relations.json", _relation_facts(fitted))
    lines = [json.dumps(dataclasses.asdict(record)) + "\n" for record in fitted.history]
    (folder / "training.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "README.md").write_text(typed_card(fitted), encoding="utf-8")


def _facts(fitted: TypedFitted, params: Facts) -> Facts:
    return {
        "params": params,
        "seed": fitted.seed,
        "notes": list(fitted.graph.notes),
        "columns": fitted.graph.columns.to_dicts(),
        "protocol": fitted.protocol,
        "split": fitted.split_text,
        "reasons": list(fitted.reasons),
        "best_epoch": fitted.best_epoch,
        "energy": list(fitted.energy),
        "seconds": fitted.seconds,
    }


def _relation_facts(fitted: TypedFitted) -> Facts:
    kinds = [
        {
            "name": name,
            "nodes": len(kind.ids),
            "num_features": kind.features.num_columns if isinstance(kind.features, SparseFeatures) else None,
            "feature_encoder": None if kind.feature_encoder is None else kind.feature_encoder.to_dict(),
            "label": None if kind.attributes is None else kind.attributes.label,
        }
        for name, kind in fitted.graph.nodes.items()
    ]
    relations = []
    for name, relation in fitted.graph.relations.items():
        facts: Facts = {"name": name, "source": relation.source, "target": relation.target}
        facts["directed"] = relation.directed
        if (own := fitted.relations.get(name)) is not None:
            facts["calibration"] = own.calibration.to_dict()
            facts["reranking"] = None if own.reranking is None else own.reranking.to_dict()
            facts["missing"] = None if own.valid_lists is None else own.valid_lists.missing
            facts["split"] = own.split_text
        relations.append(facts)
    return {"types": kinds, "relations": relations, "predicted": list(fitted.predicted)}


def typed_card(fitted: TypedFitted) -> str:
    """Data, protocol, figures and versions of a model with relations, in Markdown."""
    rows = [
        f"| {name} | {fitted.attractions[name]:.3f} | "
        + (" | ".join(f"{own.metrics[k]:.4f}" if k in own.metrics else "" for k in ("hits@10%", "mrr", "auc", "ap")))
        + " |"
        if (own := fitted.relations.get(name)) is not None
        else f"| {name} (messages only) | {fitted.attractions[name]:.3f} | | | | |"
        for name in fitted.graph.relations
    ]
    return "\n".join(
        [
            "# Link-prediction model with relations",
            "",
            f"A YinYanGNN encoder ({fitted.settings.encoder.num_steps} propagation steps, "
            f"{fitted.settings.encoder.hidden_size} dimensions), fitted by yinyan {__version__}.",
            "",
            "## Data",
            "",
            fitted.graph.describe(),
            "",
            "## Protocol",
            "",
            *(f"- {line}" for line in fitted.split_text.splitlines()),
            f"- weights of epoch {fitted.best_epoch} of {len(fitted.history)}, the best on the validation edges",
            "",
            f"## Validation figures (protocol '{fitted.protocol}')",
            "",
            "These figures chose the weights, so they are optimistic.",
            "",
            "| relation | attraction | hits@10% | mrr | auc | ap |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "## Settings chosen for this graph",
            "",
            *(f"- {reason}" for reason in fitted.reasons),
            "",
            f"seed {fitted.seed}, {fitted.seconds:.0f} s of training, yinyan {__version__}, torch {torch.__version__}",
            "",
        ]
    )


# -- reading -------------------------------------------------------------------------------------------------


def typed_from(opened: OpenedModel, device: torch.device) -> tuple[TypedFitted, Facts]:
    """The fitted model and the predictor's parameters. What does not fit together raises an error of any kind."""
    facts, more = (of_type(opened.json(name), dict, name) for name in ("model.json", "relations.json"))
    settings = Settings().updated(settings_from_text(opened.text("settings.toml"), "settings.toml", saved=True))
    arrays, numbers, weights = (
        opened.arrays(f"{name}.safetensors", mapped=False) for name in ("graph", "embeddings", "weights")
    )
    check_work(settings, weights, numbers["embeddings"].shape)
    graph = _graph(opened, arrays, facts, more)
    predicted = tuple(graph.relation(name).name for name in of_type(more["predicted"], list, "predicted"))
    model = empty_typed_model(settings, graph, predicted)
    with_weights(model, weights, opened.parted_names)
    embeddings = numbers["embeddings"]
    columns = settings.encoder.hidden_size + settings.encoder.structure_columns
    if embeddings.dtype != np.float32 or embeddings.shape != (graph.num_nodes, columns):
        raise ValueError(
            f"embeddings are {embeddings.dtype} of shape {embeddings.shape}, expected {graph.num_nodes} rows"
        )
    if not np.isfinite(embeddings).all():
        raise ValueError("'embeddings' needs to be finite")
    model = model.to(device)
    history = tuple(EpochRecord(**json.loads(line)) for line in opened.text("training.jsonl").splitlines())
    metrics = opened.json("metrics.json")
    message_edges = {
        name: _positions(arrays[f"{n}/message_edges"], len(relation.edges))
        for n, (name, relation) in enumerate(graph.relations.items())
    }
    shared = {
        "settings": settings,
        "seed": of_type(facts["seed"], int, "seed"),
        "protocol": of_type(facts["protocol"], str, "protocol"),
        "reasons": tuple(of_type(reason, str, "reasons") for reason in facts["reasons"]),
        "history": history,
        "best_epoch": of_type(facts["best_epoch"], int, "best_epoch"),
        "seconds": float(facts["seconds"]),
    }
    held = torch.from_numpy(embeddings).to(device)
    found = {
        name: _relation(
            name, predicted.index(name), model, graph, held, message_edges[name], more["relations"][n], numbers,
            figures_from(metrics["relations"][name], "metrics.json"), f"{n}/", shared,
        )
        for n, name in enumerate(graph.relations)
        if name in predicted
    }  # fmt: skip
    fitted = TypedFitted(
        graph=graph,
        predicted=predicted,
        message_edges=message_edges,
        model=model,
        embeddings=held,
        relations={name: found[name] for name in predicted},
        metrics=figures_from(metrics["validation"], "metrics.json"),
        split_text=of_type(facts["split"], str, "split"),
        energy=tuple(float(value) for value in facts["energy"]),
        **shared,
    )
    return fitted, without_retired(of_type(facts["params"], dict, "params"))


def _graph(opened: OpenedModel, arrays: Arrays, facts: Facts, more: Facts) -> TypedGraph:
    kinds = {}
    for n, kind in enumerate(of_type(more["types"], list, "types")):
        count, encoder = of_type(kind["nodes"], int, "nodes"), kind["feature_encoder"]
        kinds[of_type(kind["name"], str, "name")] = NodeType(
            ids_from(opened, count, f"ids-{n}.parquet"),
            features_from(arrays, kind["num_features"], f"type/{n}/"),
            None if encoder is None else FeatureEncoder.from_dict(encoder),
            attributes_from(opened, kind["label"], count, f"attributes-{n}.parquet"),
        )
    relations = {}
    for n, found in enumerate(of_type(more["relations"], list, "relations")):
        name, source, target = (of_type(found[key], str, key) for key in ("name", "source", "target"))
        relations[name] = Relation(
            *(name, source, target, arrays[f"{n}/edges"], arrays.get(f"{n}/weights"), arrays.get(f"{n}/times")),
            directed=of_type(found["directed"], bool, "directed"),
        )
    notes = tuple(of_type(note, str, "notes") for note in facts["notes"])
    return TypedGraph(kinds, relations, notes, ColumnReport.from_dicts(facts["columns"]))


def _relation(
    name: str,
    number: int,
    model: RelationModel,
    graph: TypedGraph,
    embeddings: torch.Tensor,
    message_edges: NDArray[np.int64],
    facts: Facts,
    numbers: Arrays,
    metrics: dict[str, float],
    prefix: str,
    shared: Facts,
) -> Fitted:
    """The plain fitted model of one relation."""
    own = {key.removeprefix(prefix): value for key, value in numbers.items() if key.startswith(prefix)}
    for key in ("valid_links", "valid_non_links"):
        if own[key].dtype != np.float32 or own[key].ndim != 1 or not np.isfinite(own[key]).all():
            raise ValueError(f"'{prefix}{key}' needs to be finite, float32 and of one dimension")
    return Fitted(
        graph=graph.of_relation(name),
        message_edges=message_edges,
        model=Model(model.encoder, model.decoder_of(number)),
        embeddings=rows_of_relation(graph, name, embeddings),
        calibration=calibration_from_dict(facts["calibration"]),
        metrics=metrics,
        split_text=of_type(facts["split"], str, "split"),
        valid_scores=(own["valid_links"], own["valid_non_links"]),
        valid_lists=read_lists(own, facts.get("missing")),
        reranking=reranking_from_dict(facts.get("reranking")),
        **shared,
    )


def _positions(edges: NDArray[Any], count: int) -> NDArray[np.int64]:
    if edges.dtype != np.int64 or edges.ndim != 1 or (edges.size and not 0 <= edges.min() <= edges.max() < count):
        raise ValueError(f"'message_edges' needs to be int64 numbers between 0 and {count - 1:,}")
    return edges
