"""The small graphs of the SEAL paper, from its .mat files."""

from __future__ import annotations

from pathlib import Path

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.errors import InputError, MissingExtraError
from yinyan.graph import Graph

__all__ = ["FILES", "SIZES", "read_seal"]

FILES = {"usair": "USAir.mat", "ns": "NS.mat", "power": "Power.mat", "router": "Router.mat"}

SIZES = {
    "usair": Size(nodes=332, edges=2_126),
    "ns": Size(nodes=1_589, edges=2_742),
    "power": Size(nodes=4_941, edges=6_594),
    "router": Size(nodes=5_022, edges=6_258),
}


def read_seal(path: Path) -> Graph:
    """Read the adjacency matrix `net`: an undirected graph without features."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise MissingExtraError(".mat files need scipy: pip install 'yinyan[datasets]'") from None
    with refuse_damaged(path, "is not a .mat file, or is damaged"):
        held = loadmat(path)
    if not hasattr(held.get("net"), "tocoo"):
        raise InputError(f"'{path}' needs to hold a sparse matrix called 'net' (got {sorted(held)})")
    return Graph.from_scipy(held["net"], directed=False)
