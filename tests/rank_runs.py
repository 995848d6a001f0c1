"""What the tests of training by several processes have in common: settings, prepared folders, command lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from contracts import tiny
from preparing_tables import write_graph
from yinyan import Graph, prepare
from yinyan.preparing.plan import Protocol

TESTS = Path(__file__).parent
FEW = {"epochs": 3, "batch_size": 60, "evaluate_every": 1, "patience": 0}
OVERRIDES: dict[str, dict[str, dict[str, Any]]] = {
    "features": {
        "encoder": {"inputs": "both", "sketch_size": 8, "node_dropout": 0.2},
        "training": {**FEW, "loss": "hardest"},
    },
    "bipartite": {
        "encoder": {"inputs": "embeddings", "sketch_size": 8, "embedding_start": "spectral"},
        "training": {**FEW, "selection": "ranking", "loss": "infonce"},
    },
    "directed": {"encoder": {"inputs": "embeddings"}, "training": {**FEW, "loss_sampler": "source"}},
    "inner products": {
        "encoder": {"inputs": "embeddings", "degree_column": True, "learn_repulsion": "no", "node_dropout": 0.5},
        "decoder": {"kind": "dot"},
        "training": {**FEW, "loss": "infonce", "loss_sampler": "shared", "loss_negatives": 8, "moments": "rows"},
    },
    "cora": {
        "encoder": {"inputs": "features", "hidden_size": 16},
        "training": {**FEW, "batch_size": 1000, "loss": "infonce", "loss_negatives": 4},
    },
}


def prepared(graph: Graph, folder: Path, protocol: Protocol = "holdout") -> Path:
    sides = {"directed": graph.directed, "bipartite": graph.sides is not None}
    tables = write_graph(graph, folder.with_name(f"{folder.name} tables"))
    return prepare(**tables, out=folder, parts=4, partition="hash", protocol=protocol, **sides).folder


def overrides(case: str) -> dict[str, dict[str, Any]]:
    chosen = tiny(**OVERRIDES[case])
    return {group: chosen[group] for group in ("encoder", "decoder", "training")}


def environment() -> dict[str, str]:
    import yinyan

    source = str(Path(yinyan.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(TESTS)]), "OMP_NUM_THREADS": "1"}


def command(folder: Path, out: Path, case: str = "inner products") -> list[str]:
    chosen = overrides(case)
    if case == "inner products":
        chosen["training"] |= {"epochs": 12, "evaluate_every": 2}
    given = [f"--set={group}.{name}={_text(value)}" for group in chosen for name, value in chosen[group].items()]
    return ["fit", str(folder), "--out", str(out), "--quiet", *given]


def _text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
