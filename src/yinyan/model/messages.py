"""The graph that messages pass over, some of its links hidden, and the energy it gives rise to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from yinyan.model.energy import EnergyTerms, Laplacian
from yinyan.model.expected_negatives import Population, expected_adjacency, expected_degrees, expected_rates
from yinyan.model.operators import (
    EdgeStructure,
    Halo,
    SymmetricOperator,
    inverse_or_zero,
    inverse_root_or_zero,
    on_device,
)
from yinyan.model.recency import rescaled
from yinyan.sampling import KnownPairs, draw_block_pairs, draw_pairs
from yinyan.settings import EncoderSettings

__all__ = ["MessageGraph"]


@dataclass(frozen=True)
class MessageGraph:
    """Undirected message links with weights, ready to be masked and turned into energy terms."""

    pairs: Tensor  # (m, 2)
    weights: Tensor  # (m,) scaled to mean 1, so that a unit of weight does not set the balance with f
    structure: EdgeStructure
    known: KnownPairs
    weighted: bool = True  # whether any weight is not one
    ages: Tensor | None = None  # (m,) by how much a link is older than the latest one, where links have times
    features: Tensor | None = None  # (m, c) from which weights are learned
    decays: Tensor | None = None  # (m,) what each link counts for in sketches, from 0 to 1; none where all count alike

    @classmethod
    def from_pairs(
        cls,
        message_edges: Tensor,
        num_nodes: int,
        *,
        weights: Tensor | None = None,
        ages: Tensor | None = None,
        num_left: int | None = None,
        features: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> MessageGraph:
        """From distinct undirected (m, 2) pairs."""
        m = message_edges.shape[0]
        w = torch.ones(m, dtype=dtype, device=message_edges.device) if weights is None else weights.to(dtype)
        return cls(
            message_edges,
            w / w.mean() if m else w,
            EdgeStructure.from_pairs(message_edges, num_nodes),
            KnownPairs.from_pairs(message_edges, num_nodes, num_left),
            weights is not None,
            ages,
            features,
        )

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, with links or without."""
        return self.structure.num_nodes

    def visible(self, hidden: Tensor | None) -> Tensor:
        """(·, 2) pairs that `hidden` (m,) does not mark."""
        return self.pairs if hidden is None else self.pairs[~hidden]

    @property
    def halo(self) -> Halo | None:
        """The rows that other processes hold, if this graph is a part of one."""
        return None

    @property
    def numbers(self) -> Tensor | None:
        """(n,) the numbers of the rows in the whole graph; None if they are 0, 1, ..."""
        return None

    def population(self) -> Population:
        """The nodes that negatives are drawn from."""
        return Population.of_rows(self.num_nodes, self.known.num_left, self.pairs.device)

    def weighed(self, factors: Tensor, hidden: Tensor | None = None, counts: Tensor | None = None) -> MessageGraph:
        """The same links with weights times (m,) factors, differentiable in these, and a mean of 1.

        In sketches each link counts for `counts` from 0 to 1, the factors unless given.
        """
        weights = rescaled(self.weights * factors, hidden)
        decays = (factors if counts is None else counts).detach()
        return replace(self, weights=weights, weighted=True, decays=decays)

    def num_visible(self, hidden: Tensor | None) -> int:
        """How many links `hidden` (m,) does not mark."""
        count = self.pairs.shape[0]
        return count if hidden is None else int(count - hidden.count_nonzero())

    def scaled(self, scale: Tensor, hidden: Tensor | None = None, *, plain: bool = False) -> SymmetricOperator:
        """diag(scale) A diag(scale) over the visible links; if `plain` without their weights."""
        weights = self.weights if self.weighted and not plain else None
        return self.structure.scaled(weights, scale, hidden)

    def adjacency(self, hidden: Tensor | None = None, *, self_loops: bool = True) -> tuple[SymmetricOperator, Tensor]:
        """D^-1/2 A D^-1/2 over the visible links, and (n, 1) the weight of each node's self loop in it."""
        degrees = self._degrees(hidden) + float(self_loops)
        scale = inverse_or_zero(degrees)
        return self.scaled(scale.sqrt(), hidden), (scale * float(self_loops))[:, None]

    def _degrees(self, hidden: Tensor | None) -> Tensor:
        """(n,) D over the visible links."""
        weights = self.weights if self.weighted else None
        return self.structure.degrees(weights, hidden).to(self.weights.dtype)

    def terms(
        self,
        settings: EncoderSettings,
        repulsion: Tensor,
        generator: torch.Generator | None,
        *,
        hidden: Tensor | None = None,
    ) -> EnergyTerms:
        """The energy over the links that `hidden` (m,) does not mark, with fresh negatives from `generator`."""
        plain = self._degrees(hidden)
        degrees = plain + 1 if settings.self_loops else plain
        visible = self.num_visible(hidden)
        links = Laplacian(
            (plain * inverse_or_zero(degrees))[:, None],  # a self loop cancels in D - A and stays in D
            self.scaled(inverse_root_or_zero(degrees), hidden),
        )
        counts = None if self.weighted else plain
        negative_graphs, repelled = self._negatives(settings, repulsion, generator, hidden, visible, counts)
        return EnergyTerms(
            links=links,
            negatives=negative_graphs,
            anchor=inverse_or_zero(degrees + repelled)[:, None],
            num_links=float(visible),
            anchoring=settings.anchoring,
            attraction=settings.attraction,
            repulsion=repulsion[: len(negative_graphs)],
            margin=settings.margin,
            summed=None if self.halo is None else self.halo.summed,
        )

    def _negatives(
        self,
        settings: EncoderSettings,
        repulsion: Tensor,
        generator: torch.Generator | None,
        hidden: Tensor | None,
        num_visible: int,
        counts: Tensor | None = None,
    ) -> tuple[tuple[Laplacian, ...], Tensor]:
        """The Laplacians L̃⁻_k and the degrees D⁻ of all negative graphs together; `counts` (n,) of visible links."""
        count = settings.num_negatives
        if count == 0 or num_visible == 0:
            return (), self.weights.new_zeros(self.num_nodes)
        if settings.expected_negatives:
            counts = self.structure.degrees(None, hidden).to(self.weights.dtype) if counts is None else counts
            return self._expected(settings, counts)
        if generator is None:
            raise ValueError("sampled negatives need a generator")
        sampled = [self._sample(settings, num_visible, generator, hidden) for _ in range(count)]
        if repulsion.numel() == 1:  # one weight for all: K graphs act as one
            sampled = [torch.cat(sampled)]
        structures = [EdgeStructure.from_pairs(pairs, self.num_nodes, weighted=False) for pairs in sampled]
        degrees = [structure.degrees().to(self.weights.dtype) for structure in structures]
        total = degrees[0] if len(degrees) == 1 else torch.stack(degrees).sum(0)
        # a graph that stands for all K carries their factor 1/K
        scale = inverse_or_zero(total) * (1.0 / count if len(sampled) == 1 else 1.0)
        laplacians = tuple(
            Laplacian((own * scale)[:, None], structure.scaled(None, scale.sqrt()))
            for structure, own in zip(structures, degrees, strict=True)
        )
        return laplacians, total

    def _expected(self, settings: EncoderSettings, counts: Tensor) -> tuple[tuple[Laplacian, ...], Tensor]:
        """The mean negative graph, given (n,) how many visible links each node has."""
        nodes = self.population()
        rates = expected_rates(counts, settings.sampler, nodes)
        degrees = expected_degrees(rates, nodes)
        share = 1.0 / settings.num_negatives
        scale = inverse_or_zero(degrees)
        # L̃⁻_k is normalised by the degrees of all K graphs, hence the share in both of its parts
        mean = expected_adjacency(rates, (share * scale).sqrt(), nodes)
        return (Laplacian((share * degrees * scale)[:, None], mean),), degrees * settings.num_negatives

    def _sample(
        self, settings: EncoderSettings, count: int, generator: torch.Generator, hidden: Tensor | None
    ) -> Tensor:
        """One non-link for each of `count` visible links."""
        if settings.sampler == "blocks":
            return draw_block_pairs(self.known, count, generator, hidden=hidden)
        sources = None
        if settings.sampler == "source":
            end = torch.randint(2, (count, 1), generator=generator, device=generator.device).to(self.pairs.device)
            sources = self.visible(hidden).gather(1, end)[:, 0]
        return draw_pairs(self.known, count, generator, sources=sources, hidden=hidden)

    def to(self, device: torch.device) -> MessageGraph:
        """The same graph on a device."""
        return on_device(self, device)
