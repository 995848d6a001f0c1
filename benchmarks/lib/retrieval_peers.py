"""What retrieval is measured against: a torch loop, PyG's MIPS index, and faiss's flat scan, tuned and checked."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from yinyan.model.decoder import Decoder

Peer = Callable[[Tensor, int], np.ndarray]


@torch.no_grad()
def torch_loop(decoder: Decoder, y: Tensor, sources: np.ndarray, k: int, block: int = 16_384) -> list[Tensor]:
    """What one writes first."""
    found, everyone = [], torch.arange(y.shape[0])
    for source in sources.tolist():
        scores = torch.empty(y.shape[0])
        for start in range(0, y.shape[0], block):
            part = everyone[start : start + block]
            scores[start : start + block] = decoder(y[source].expand(part.numel(), -1), y[part])
        found.append(scores.topk(k).indices)
    return found


def tuned_faiss() -> Any:
    """faiss with the settings it needs here, checked: its BLAS picks old kernels by itself, and is hardly ever used.

    OPENBLAS_CORETYPE counts only if it is set before faiss is loaded.
    """
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    core = "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None
    if core is not None:
        os.environ.setdefault("OPENBLAS_CORETYPE", core)
    import faiss

    faiss.cvar.distance_compute_blas_threshold = 20
    faiss.omp_set_num_threads(torch.get_num_threads())
    if faiss.cvar.distance_compute_blas_threshold != 20 or faiss.omp_get_max_threads() != torch.get_num_threads():
        raise RuntimeError("faiss did not take its settings")
    taken = _blas_core()
    if taken is not None and taken.lower() != os.environ.get("OPENBLAS_CORETYPE", taken).lower():
        raise RuntimeError(f"faiss's BLAS computes as on {taken}: it was loaded before OPENBLAS_CORETYPE was set")
    return faiss


def _blas_core() -> str | None:
    """The processor that the BLAS within faiss's wheel computes for; None where it cannot be asked."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    found = {line.split(maxsplit=5)[5] for line in lines if "faiss" in line and "openblas" in line.lower()}
    for path in found:
        name = getattr(ctypes.CDLL(path), "openblas_get_corename", None)
        if name is not None:
            name.restype = ctypes.c_char_p
            return str(name().decode())
    return None


def pyg_flat(y: Tensor) -> Peer:
    """PyG's exact MIPS index: all inner products by faiss."""
    tuned_faiss()
    from torch_geometric.nn.pool import MIPSKNNIndex

    index = MIPSKNNIndex(y)
    return lambda queries, k: index.search(queries, k).index.numpy()


def pyg_approximate(y: Tensor) -> Peer:
    """PyG's approximate MIPS index: sqrt(n) cells of which 32 are visited, 64 bytes a row, no ranking after."""
    tuned_faiss()
    from torch_geometric.nn.pool import ApproxMIPSKNNIndex

    index = ApproxMIPSKNNIndex(num_cells=max(1, int(y.shape[0] ** 0.5)), num_cells_to_visit=32, bits_per_vector=64)
    sample = y[:: max(1, y.shape[0] // 65_536)].contiguous()
    index.add(sample)  # trains on what it sees first
    index.index.reset()
    index.add(y)
    return lambda queries, k: index.search(queries, k).index.numpy()


def faiss_lists(y: Tensor, cells: int, is_good: Callable[[Peer], bool]) -> Peer:
    """faiss's own lists as ours are: so many cells, a byte a number, exact scores of 300 candidates; the fewest cells
    visited that are good enough."""
    faiss = tuned_faiss()
    flat = faiss.IndexFlatIP(y.shape[1])
    lists = faiss.IndexIVFScalarQuantizer(
        flat, y.shape[1], cells, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    lists.cp.niter, lists.cp.max_points_per_centroid = 6, 39
    rows = y.numpy()
    lists.train(rows[:: max(1, len(rows) // (39 * cells))])
    refined = faiss.IndexRefineFlat(lists)
    refined.add(rows)

    def search(queries: Tensor, k: int) -> np.ndarray:
        refined.k_factor = 300 / k
        return refined.search(queries.numpy(), k)[1]

    for probes in (4, 8, 16, 32, 64, 128):
        lists.nprobe = probes
        if is_good(search):
            break
    return search
