"""Small files in exactly the layouts of the data sets, and the real ones where they are at hand."""

from __future__ import annotations

import gzip
import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

TORCH_MAGIC = 0x1950A86A20F9469CFC6C


def real_data(*needed: str) -> Path:
    """The folder of real data, or a skip that says what is missing."""
    named = os.environ.get("YINYAN_DATA")
    if not named:
        pytest.skip("YINYAN_DATA is not set: no real data to test on")
    lacking = [part for part in needed if not (Path(named) / part).exists()]
    if lacking:
        pytest.skip(f"YINYAN_DATA has no {lacking[0]}")
    return Path(named)


def write_planetoid(folder: Path, name: str = "tiny") -> None:
    """Six nodes: 0 to 2 in allx, 5, 3 in tx (in that order), 4 absent from the test index; two links and a loop."""
    folder.mkdir(parents=True, exist_ok=True)
    held: dict[str, Any] = {
        "allx": csr_matrix(np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=np.float32)),
        "tx": csr_matrix(np.array([[0, 0, 0, 5], [0, 0, 0, 3]], dtype=np.float32)),
        "graph": defaultdict(list, {0: [1, 1], 1: [0, 0], 2: [2], 3: [5], 4: [], 5: [3]}),
    }
    for ending, value in held.items():
        # protocol 2, and scipy's module by the name it had then
        content = pickle.dumps(value, protocol=2).replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")
        (folder / f"ind.{name}.{ending}").write_bytes(content)
    (folder / f"ind.{name}.test.index").write_text("5\n3\n")


def write_old_torch(path: Path, value: Any) -> None:
    """What torch.save wrote before version 1.6: four pickles and the list of storages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    with path.open("wb") as file:
        for part in (TORCH_MAGIC, 1001, system, value, []):
            pickle.dump(part, file, protocol=2)


def write_table(path: Path, rows: Any) -> None:
    """A gzipped CSV file without a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(str(value) for value in np.atleast_1d(row)) for row in rows]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


def pairs(*rows: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
