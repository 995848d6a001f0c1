"""Arrays and facts of a model as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from yinyan.files import system_errors
from yinyan.graph.features import Features, SparseFeatures

__all__ = ["feature_arrays", "save_arrays", "save_json"]

Arrays = dict[str, NDArray[Any]]


def feature_arrays(features: Features | None, prefix: str = "") -> Arrays:
    """Features by the names that they are saved under."""
    if features is None:
        return {}
    if not isinstance(features, SparseFeatures):
        return {f"{prefix}features": features}
    return {
        f"{prefix}feature_indptr": features.indptr,
        f"{prefix}feature_indices": features.indices,
        f"{prefix}feature_values": features.values,
    }


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write arrays to a safetensors file."""
    with system_errors():
        save_file({name: np.asarray(value, order="C") for name, value in arrays.items()}, path)


def save_json(path: Path, content: Any) -> None:
    """Write a JSON file that people can read."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
