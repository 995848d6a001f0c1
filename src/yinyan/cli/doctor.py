"""What this installation can do, and what to do about what it cannot."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import Any

import numpy as np

from yinyan import __version__
from yinyan.results import text_table

__all__ = ["examination_table", "examine"]

_SHOWN = 4  # packages of an extra that are named with their versions
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


def examine() -> dict[str, Any]:
    """Versions, devices, extras, and a check that the propagation kernel computes what it should."""
    import torch

    from yinyan.model.operators import EdgeStructure
    from yinyan.native import graph_kernels
    from yinyan.native.library_cache import describe_cache

    cache = describe_cache()  # before anything is loaded from it, and what is damaged is compiled again
    pairs = torch.tensor([[0, 1], [1, 2]])
    structure = EdgeStructure.from_pairs(pairs, 4)
    product = structure.scaled(torch.ones(2), torch.ones(4)).product(torch.eye(4))
    expected = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    devices = ["cpu"]
    devices += [f"cuda ({torch.cuda.get_device_name(0)})"] if torch.cuda.is_available() else []
    devices += ["mps"] if torch.backends.mps.is_available() else []
    needed = _requirements()
    core, extras = needed.pop(""), {extra: {n: _version(n) for n in names} for extra, names in needed.items()}
    return {
        "yinyan": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": devices,
        "packages": {name: _version(name) for name in core},
        "extras": {extra: _version_of_all(packages) for extra, packages in extras.items()},
        "extra_packages": extras,
        "kernels": graph_kernels.origin(),
        "kernel_cache": cache,
        "kernel": "correct" if np.array_equal(product.numpy(), expected) else "WRONG: reinstall torch",
    }


def examination_table(found: dict[str, Any]) -> str:
    """What `examine` found, for reading; what is missing comes with the command that installs it."""
    rows: list[list[str]] = []
    for name, value in found.items():
        if name == "packages":
            rows += [[part, number or f"missing: pip install {part}"] for part, number in value.items()]
        elif name == "extra_packages":
            rows += [[f"extra {extra}", _extra_in_words(extra, packages)] for extra, packages in value.items()]
        elif name != "extras":
            rows.append([name, ", ".join(value) if isinstance(value, list) else str(value)])
    header, *rest = rows
    return text_table(header, rest)


def _extra_in_words(extra: str, packages: dict[str, str | None]) -> str:
    missing = [name for name, number in packages.items() if number is None]
    if not missing:
        shown = ", ".join(f"{name} {number}" for name, number in packages.items())
        return f"installed: {shown}" if len(packages) <= _SHOWN else f"installed: {len(packages)} packages"
    return f"missing {', '.join(missing)}: pip install 'yinyan[{extra}]'"


def _version_of_all(packages: dict[str, str | None]) -> str | None:
    """The version of an extra's first package; None unless all are installed."""
    return None if None in packages.values() else next(iter(packages.values()), None)


def _requirements() -> dict[str, list[str]]:
    """Package names by extra, as the installed package declares them; those that are always needed under ''."""
    found: dict[str, list[str]] = {"": []} | {extra: [] for extra in metadata("yinyan").get_all("Provides-Extra") or ()}
    for line in requires("yinyan") or ():
        text, _, marker = line.partition(";")
        extra, name = _EXTRA.search(marker), _REQUIREMENT.match(text.strip())
        if name is not None and (extra is not None or not marker):
            found[extra[1] if extra else ""].append(name[1])
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
