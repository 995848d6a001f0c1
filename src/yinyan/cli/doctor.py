"""What this installation can do, and what to do about what it cannot."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from yinyan import __version__
from yinyan.results import text_table

__all__ = ["examination_table", "examine"]

_CORE = ("torch", "numpy", "pyarrow", "safetensors", "typer", "tomli-w")
_EXTRAS = {"demo": "graphdatascience", "plots": "matplotlib"}


def examine() -> dict[str, Any]:
    """Versions, devices, extras, and a check that the propagation kernel computes what it should."""
    import torch

    from yinyan import native
    from yinyan.propagation import EdgeStructure

    pairs = torch.tensor([[0, 1], [1, 2]])
    structure = EdgeStructure.from_pairs(pairs, 4)
    product = structure.scaled(torch.ones(2), torch.ones(4)).product(torch.eye(4))
    expected = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    devices = ["cpu"]
    devices += [f"cuda ({torch.cuda.get_device_name(0)})"] if torch.cuda.is_available() else []
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return {
        "yinyan": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": devices,
        "packages": {name: _version(name) for name in _CORE},
        "extras": {extra: _version(package) for extra, package in _EXTRAS.items()},
        "kernels": "compiled for this processor" if native.library() else f"torch's own ({native.why_not()})",
        "kernel": "correct" if np.array_equal(product.numpy(), expected) else "WRONG: reinstall torch",
    }


def examination_table(found: dict[str, Any]) -> str:
    """What `examine` found, for reading; what is missing names its cure."""
    rows: list[list[str]] = []
    for name, value in found.items():
        if name == "packages":
            rows += [[part, number or f"missing: pip install {part}"] for part, number in value.items()]
        elif name == "extras":
            for extra, number in value.items():
                present = f"{_EXTRAS[extra]} {number}"
                rows.append([f"extra {extra}", present if number else f"missing: pip install 'yinyan[{extra}]'"])
        else:
            rows.append([name, ", ".join(value) if isinstance(value, list) else str(value)])
    header, *rest = rows
    return text_table(header, rest)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
