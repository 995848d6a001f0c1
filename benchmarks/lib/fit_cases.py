"""The graphs that a fit is timed on, and what a fit prints about itself beforehand."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from lib import graphs, interactions


class Case(NamedTuple):
    """Where the graph comes from."""

    kind: str  # "csv" (synthetic), "data set" (by name), "interactions" (files of users and items)
    nodes: int = 0  # of a synthetic graph; for a bipartite one those on the right
    edges: int = 0
    left: int = 0  # nodes on the left side of a bipartite graph


CASES = {
    "small": Case("csv", 300, 2_400),
    "cora": Case("data set", edges=5_278),
    "pubmed": Case("data set", edges=44_324),
    "citeulike": Case("interactions", edges=151_895),
    "amazon-beauty": Case("interactions", edges=284_530),
    "ml-1m": Case("interactions", edges=590_733),
    "gowalla-size": Case("csv", 40_981, 810_128, left=29_858),
    "large": Case("csv", 3_000_000, 30_000_000),
}
SMOKE = ("small", "ml-1m")
_SEED = 0

_UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0, "GiB": float(2**30), "MiB": float(2**20)}
_AMOUNT = r"\d[\d,]*(?:\.\d+)? (?:{units})\b"


def prepared(name: str, folder: Path, *, smoke: bool) -> dict[str, Any]:
    """What the child needs to read the graph; a synthetic one is written first."""
    case = CASES[name]
    job: dict[str, Any] = {"case": name, "kind": case.kind}
    if case.kind == "data set":
        _data_folder(name)
        return job
    if case.kind == "csv":
        path = folder / f"{name}.csv"
        if not path.exists():
            _write_csv(path, case)
        return job | {"path": str(path), "bipartite": case.left > 0}
    path = folder / name if smoke else _data_folder(name) / "recommender" / name
    if smoke and not path.exists():
        pairs = graphs.bipartite(60, 90, 900, _SEED).numpy() - np.array([0, 60])
        interactions.write(path, train=pairs[:700], test=pairs[700:])
    if not path.is_dir():
        raise SystemExit(f"'{path}' is not there (leave '{name}' out with --cases)")
    return job | {"path": str(path)}


def announced_seconds(lines: list[str]) -> float | None:
    """The time that a fit printed: "time: about 1 h 20 min"; None if it printed none."""
    return _amount(lines, "time", ("h", "min", "s"))


def announced_bytes(lines: list[str]) -> float | None:
    """The peak of memory that a fit printed: "memory: about 1.2 GiB at the peak"; None if it printed none."""
    return _amount(lines, "memory", ("GiB", "MiB"))


def _amount(lines: list[str], what: str, units: tuple[str, ...]) -> float | None:
    """The sum of the amounts that follow "about" in the line that starts with `what`."""
    amount = _AMOUNT.format(units="|".join(units))
    for line in lines:
        found = re.match(rf"{what}: (?:.*?)about ((?:{amount} ?)+)", line)
        if found:
            parts = re.findall(r"([\d.,]+) (\w+)", found[1])
            return sum(float(number.replace(",", "")) * _UNITS[unit] for number, unit in parts)
    return None


def _write_csv(path: Path, case: Case) -> None:
    """A table of edges that names every node."""
    if case.left:
        pairs = graphs.bipartite(case.left, case.nodes, case.edges, _SEED).numpy()
    else:
        drawn = graphs.synthetic(case.nodes, case.edges, _SEED).numpy()
        pairs = graphs.without_isolated(drawn, case.nodes, seed=_SEED)
    pa.csv.write_csv(pa.table({"source": pairs[:, 0], "target": pairs[:, 1]}), path)


def _data_folder(name: str) -> Path:
    if "YINYAN_DATA" not in os.environ:
        raise SystemExit(f"YINYAN_DATA needs to name the folder that holds '{name}' (--cases small needs no data)")
    return Path(os.environ["YINYAN_DATA"]).expanduser().resolve()
