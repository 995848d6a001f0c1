"""OGB's link prediction data with their official splits, from OGB's own folders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from yinyan.datasets.dataset import Size
from yinyan.datasets.ogb_files import read_matrix, read_number, read_part
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.splits import Parts
from yinyan.text import counted

__all__ = ["LAYOUTS", "Layout", "read_ogb"]

_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Layout:
    """How OGB ships a data set: the columns of its master.csv that matter here."""

    folder: str
    archive: str  # the name of the zip file, and of the only folder within
    split: str
    metric: str
    size: Size
    has_features: bool = True
    directed: bool = False
    leaks: str = ""  # of the official split, which its makers mean

    @property
    def files(self) -> tuple[str, ...]:
        """What is read. The edges are: all of them are in the split files, `raw/edge.csv.gz` has the training part."""
        features = ("raw/node-feat.csv.gz",) if self.has_features else ()
        split = (f"split/{self.split}/{part}.pt" for part in _PARTS)
        return ("raw/num-node-list.csv.gz", "raw/num-edge-list.csv.gz", *features, *split)


LAYOUTS = {
    "ogbl-ddi": Layout(
        folder="ogbl_ddi",
        archive="ddi",
        split="target",
        metric="hits@20",
        size=Size(nodes=4_267, parts=(1_067_911, 133_489, 133_489)),
        has_features=False,
    ),
    "ogbl-collab": Layout(
        folder="ogbl_collab",
        archive="collab",
        split="time",
        metric="hits@50",
        size=Size(nodes=235_868, features=128, parts=(1_179_052, 60_084, 46_329)),
        leaks="authors work together again: a test link may be a training link of an earlier year",
    ),
    "ogbl-ppa": Layout(
        folder="ogbl_ppa",
        archive="ppassoc",
        split="throughput",
        metric="hits@100",
        size=Size(nodes=576_289, features=58, parts=(21_231_931, 6_062_562, 3_031_780)),
    ),
    "ogbl-citation2": Layout(
        folder="ogbl_citation2",
        archive="citation-v2",
        split="time",
        metric="mrr",
        size=Size(nodes=2_927_963, features=128, parts=(30_387_995, 86_596, 86_596)),
        directed=True,
    ),
}


def read_ogb(folder: Path, layout: Layout) -> tuple[Graph, Parts]:
    """Read a folder of OGB's: the graph of all links, those of validation and test too, and the official parts."""
    num_nodes = read_number(folder / "raw" / "num-node-list.csv.gz")
    found = {part: read_part(folder / "split" / layout.split / f"{part}.pt", num_nodes) for part in _PARTS}
    listed = read_number(folder / "raw" / "num-edge-list.csv.gz")
    if listed != len(found["train"]["pairs"]):
        raise InputError(
            f"'{folder}' lists {listed:,} edges, but its training part has {len(found['train']['pairs']):,}: "
            "fetch it again"
        )
    features = read_matrix(folder / "raw" / "node-feat.csv.gz") if layout.has_features else None
    parts = Parts(
        train=found["train"]["pairs"],
        valid=found["valid"]["pairs"],
        test=found["test"]["pairs"],
        valid_negatives=found["valid"].get("negatives"),
        test_negatives=found["test"].get("negatives"),
    )
    return _graph(found, num_nodes, features, directed=layout.directed), parts


def _graph(
    found: dict[str, dict[str, npt.NDArray[Any]]],
    num_nodes: int,
    features: npt.NDArray[np.float32] | None,
    *,
    directed: bool,
) -> Graph:
    pairs, notes = np.concatenate([held["pairs"] for held in found.values()]), []
    values = {
        key: np.concatenate([held[key] for held in found.values()])
        for key in ("weight", "year")
        if all(key in held for held in found.values())
    }
    if values:
        # a weight or year that validation or test adds to a link of training must not reach the messages
        kept = _first_seen(pairs, [len(held["pairs"]) for held in found.values()], num_nodes, directed=directed)
        if not kept.all():
            again = counted(int((~kept).sum()), "pair")
            notes.append(f"{again} of a later part met before: the graph keeps their weight and year from the earlier")
        pairs, values = pairs[kept], {key: held[kept] for key, held in values.items()}
    graph = Graph.from_arrays(
        pairs,
        num_nodes=num_nodes,
        features=features,
        weights=values.get("weight"),
        times=values.get("year"),
        directed=directed,
    )
    return replace(graph, notes=(*graph.notes, *notes))


def _first_seen(
    pairs: npt.NDArray[np.int64], sizes: list[int], num_nodes: int, *, directed: bool
) -> npt.NDArray[np.bool_]:
    """Whether each pair is in no part before its own; within a part it may repeat."""
    ends = pairs if directed else np.sort(pairs, axis=1)
    _, places = np.unique(ends[:, 0] * num_nodes + ends[:, 1], return_inverse=True)
    part = np.repeat(np.arange(len(sizes)), sizes)
    first = np.full(places.max(initial=-1) + 1, len(sizes))
    np.minimum.at(first, places, part)
    seen: npt.NDArray[np.bool_] = first[places] == part
    return seen
