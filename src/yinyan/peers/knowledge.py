"""Knowledge graph embeddings with one relation: TransE, ComplEx and DistMult."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder
from yinyan.model.relation_vectors import ComplexVectors, RelationVectors
from yinyan.model.scoring import Model
from yinyan.peers.contract import Outcome, Task, trained
from yinyan.peers.factorisation import Table, unit_rows
from yinyan.peers.triple_formulas import DistMultVectors, TransEVectors
from yinyan.settings import Settings

__all__ = ["ComplEx", "DistMult", "Relation", "TransE", "complex_", "distmult", "transe"]


class Relation(Decoder):
    """bias + score(h, r, t) for the one relation r.

    On an undirected graph a link holds in both directions, as two triples; its score is the mean of theirs.
    """

    formula: type[RelationVectors]

    def __init__(self, size: int, *, directed: bool) -> None:
        super().__init__(size, directed=False)  # a direction is the relation's affair, and needs no maps
        self.directed = directed
        self.relation = nn.Parameter(torch.full((size,), size**-0.5))  # of unit length, as the rows
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def is_symmetric(self) -> bool:
        """Whether (i, j) and (j, i) score alike."""
        return not self.directed

    def pair_logits(
        self, sources: Tensor, targets: Tensor, generator: torch.Generator | None, shared: Tensor | None
    ) -> Tensor:
        """The triple's score, or the mean over both directions."""
        forth = self.triple(sources, targets)
        return self.bias + (forth if self.directed else (forth + self.triple(targets, sources)) / 2)

    def triple(self, heads: Tensor, tails: Tensor) -> Tensor:
        """score(h, r, t)."""
        return self.formula.paired(self.formula.asked(heads, self.relation), tails)


class TransE(Relation):
    """-‖h + r - t‖ (Bordes et al., NeurIPS 2013); the bias is its margin."""

    formula = TransEVectors


class DistMult(Relation):
    """Σ h r t (Yang et al., ICLR 2015): symmetric, on directed graphs too."""

    formula = DistMultVectors
    is_symmetric = True


class ComplEx(Relation):
    """Re Σ h r t̄ over complex vectors, stored as real and imaginary halves (Trouillon et al., ICML 2016).

    The mean over both directions is Σ Re(r) Re(h t̄): the imaginary part of r matters on directed graphs only.
    """

    formula = ComplexVectors

    def __init__(self, size: int, *, directed: bool) -> None:
        if size % 2:
            raise SettingsError(f"encoder.hidden_size: complex vectors need an even width (got {size})")
        super().__init__(size, directed=directed)


def _trained(kind: type[Relation], task: Task) -> Outcome:
    """A vector for each node and one relation of this kind."""

    def build(settings: Settings, graph: Graph) -> Model:
        size = settings.encoder.hidden_size
        return Model(Table(unit_rows(graph.num_nodes, size)), kind(size, directed=graph.directed))

    own = {"training": {"weight_decay": 2.0}}  # ours without features
    fixed = {"encoder": {"inputs": "embeddings", "num_steps": 0, "num_negatives": 0}}
    return trained(task, build, own, fixed=fixed)


transe = functools.partial(_trained, TransE)
distmult = functools.partial(_trained, DistMult)
complex_ = functools.partial(_trained, ComplEx)
