"""FB15k-237 and WN18RR: with their relations and parts, or without the types of their edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yinyan.datasets.dataset import Size, refuse_damaged
from yinyan.errors import InputError
from yinyan.graph import Graph
from yinyan.graph.ids import Ids
from yinyan.graph.packed_files import unpacked
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.splits import Parts
from yinyan.text import counted

__all__ = ["FILES", "SIZES", "TRIPLES", "KnowledgeGraph", "read_knowledge", "read_triples"]

FILES = ("train.txt.gz", "valid.txt.gz", "test.txt.gz")

SIZES = {
    "fb15k-237": Size(nodes=14_541, edges=282_551),  # of 310,116 triples
    "wn18rr": Size(nodes=40_943, edges=92_870),  # of 93,003
}

# entities, relations, and triples of training, validation and test
TRIPLES = {
    "fb15k-237": (14_541, 237, (272_115, 17_535, 20_466)),
    "wn18rr": (40_943, 11, (86_835, 3_034, 3_134)),
}

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """A knowledge graph with the parts that it comes with; see `load_knowledge_graph`.

    Parts are (t, 3) rows of head and tail and the number of the relation. The graph has the triples of all parts, but
    for those from an entity to itself, which no edge is.
    """

    name: str  # of the data set
    graph: TypedGraph  # with the triples of all parts
    train: Rows  # (t, 3) training triples
    valid: Rows  # (t, 3) validation triples
    test: Rows  # (t, 3) test triples

    @property
    def known(self) -> Rows:
        """(m, 3) the triples of all parts, which filtered ranking leaves out."""
        return np.concatenate([self.train, self.valid, self.test])

    def parts(self) -> dict[str, Parts]:
        """The parts of each relation as pairs of rows.

        Returns
        -------
        dict
            `Parts` by the name of the relation.

        Examples
        --------
        >>> from yinyan import datasets
        >>> len(datasets.load_knowledge_graph("wn18rr").parts())  # doctest: +SKIP
        11
        """
        found = {}
        for number, name in enumerate(self.graph.relations):
            pairs = []
            for part in (self.train, self.valid, self.test):
                own = part[(part[:, 2] == number) & (part[:, 0] != part[:, 1])]
                pairs.append(np.unique(own[:, :2], axis=0))
            found[name] = Parts(*pairs)
        return found


def read_triples(folder: Path, name: str) -> KnowledgeGraph:
    """Read the triples of all parts, entities and relations numbered in the order of the files."""
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    parts = []
    for file in FILES:
        with refuse_damaged(folder / file, "needs lines of head, relation and tail between tabs, compressed with gzip"):
            rows = []
            for line in unpacked(folder / file).decode("utf-8").splitlines():
                head, relation, tail = line.split("\t")
                ends = entities.setdefault(head, len(entities)), entities.setdefault(tail, len(entities))
                rows.append((*ends, relations.setdefault(relation, len(relations))))
            parts.append(np.array(rows, dtype=np.int64).reshape(-1, 3))
    sizes = (len(entities), len(relations), tuple(map(len, parts)))
    if sizes != TRIPLES[name]:
        raise InputError(
            f"{name!r} has {sizes} entities, relations and triples, but {TRIPLES[name]} were published: its files are "
            "damaged or of another version"
        )
    triples = np.concatenate(parts)
    found = {}
    for number, relation in enumerate(relations):
        own = triples[(triples[:, 2] == number) & (triples[:, 0] != triples[:, 1]), :2]
        found[relation] = Relation(relation, "entity", "entity", np.unique(own, axis=0), directed=True)
    loops = int((triples[:, 0] == triples[:, 1]).sum())
    notes = (f"dropped {counted(loops, 'self loop')}",) if loops else ()
    graph = TypedGraph({"entity": NodeType(Ids.from_values(list(entities)))}, found, notes)
    return KnowledgeGraph(name, graph, *parts)


def read_knowledge(folder: Path) -> Graph:
    """Read the triples of all parts: a directed graph with the entities' names as ids, in the order of the files.

    The parts that the data come with are not kept: without types, pairs of one stand in another.
    """
    rows: dict[str, int] = {}
    pairs = []
    for name in FILES:
        with refuse_damaged(folder / name, "needs lines of head, relation and tail between tabs, compressed with gzip"):
            for line in unpacked(folder / name).decode("utf-8").splitlines():
                head, _, tail = line.split("\t")
                pairs.append((rows.setdefault(head, len(rows)), rows.setdefault(tail, len(rows))))
    edges = np.unique(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=0)
    kept = edges[edges[:, 0] != edges[:, 1]]
    graph = Graph.from_arrays(kept, num_nodes=len(rows), ids=list(rows), directed=True)
    notes = [f"{counted(len(pairs), 'triple')} became {counted(len(kept), 'edge')} without types"]
    if len(kept) < len(edges):
        notes.append(f"dropped {counted(len(edges) - len(kept), 'self loop')}")
    return replace(graph, notes=(*graph.notes, *notes))
