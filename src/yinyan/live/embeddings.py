"""Embeddings that follow changes of the graph, by computing again only the rows that a change reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from yinyan.errors import InputError, SettingsError
from yinyan.live.mean_negatives import MeanNegatives
from yinyan.live.new_nodes import new_table_rows
from yinyan.live.row_lists import RowLists, grown, grown_array
from yinyan.live.rows import csr_of, moved, negative_degrees, renew, row_blocks
from yinyan.model.encoder import Encoder
from yinyan.model.layer import Layer, diagonals, rows_of_layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix, inverse_or_zero
from yinyan.native.allocation import held_memory
from yinyan.randomness import Streams
from yinyan.retrieval.row_numbers import checked_rows

__all__ = ["LiveEmbeddings"]

Rows = NDArray[np.int64]


class LiveEmbeddings:
    """Embeddings of a graph whose links, features and nodes change.

    All Y(t) are kept, so a change costs as much as the rows it reaches: a link (i, j) changes the degrees of i and j,
    and with them layer 1 at i, j and their neighbours; each further layer adds a hop. Features start with the node.

    The negative part is frozen as it was built: new negatives for one new link would move every row a little, and
    change none of them by much. Of sampled negatives, the sample and its degrees stay, and changes travel over it as
    over links; a new node has none. Of expected negatives, the sums Uᵀ Y(t) and the mean rate stay, which one link
    moves by O(1/n); a new node has them as every other one, and with the sampler 'source' they follow its degree. A
    step size 'safe' and the scale of the weights stay too. A large `drift` calls for `rebuild`.

    Every change is made whole or, with an error, not at all, and returns the sorted rows of `embeddings` it changed.

    Parameters
    ----------
    encoder
        The encoder of a fitted model, on the CPU, without margin, sign_hops and base_norm.
    features
        (n, c) node features, or None.
    messages
        The message graph, of all edges that pass messages.
    seed
        Draws the negatives as for a fitted model.
    storage
        Number type of the Y(t): 'float32' or 'bfloat16'; the encoder's unless given.
    mean_weight
        The weights of new links are divided by it, as those of `messages` have been.
    tolerance
        Rows that a change moves by less than this share of their length pass it on no further. On a large graph a
        change reaches half of all rows in three hops, and moves a few dozen of them by a ten-thousandth.

    Raises
    ------
    SettingsError
        If the encoder does not suit, or `tolerance` does not lie between 0 and 1.

    Examples
    --------
    >>> changed = live.remove_links(graph.edges[:1])
    >>> live.embeddings.shape[0] == live.num_nodes, len(changed) > 0
    (True, True)
    """

    def __init__(
        self,
        encoder: Encoder,
        features: Tensor | SparseMatrix | None,
        messages: MessageGraph,
        *,
        seed: int = 0,
        storage: Literal["float32", "bfloat16"] | None = None,
        mean_weight: float = 1.0,
        tolerance: float = 0.0,
    ) -> None:
        if not 0 <= tolerance < 1:
            raise SettingsError(f"'tolerance' needs to lie between 0 and 1 (got {tolerance})")
        self._tolerance = tolerance
        if encoder.settings.margin is not None or not encoder.base.is_row_wise:
            raise SettingsError("live embeddings need an encoder without margin, sign_hops and base_norm")
        if encoder.settings.half_life is not None:
            raise SettingsError("live embeddings need an encoder without half_life")
        if encoder.edge_weights is not None:
            raise SettingsError("live embeddings need a model without edge features")
        device = encoder.base.a_weight.device
        if device.type != "cpu":
            raise SettingsError(f"live embeddings are kept on the CPU (the encoder is on {device})")
        self._encoder, self._seed, self._mean_weight = encoder, seed, mean_weight
        self._dtype = encoder.base.a_weight.dtype
        self._stored = torch.bfloat16 if (storage or encoder.settings.storage) == "bfloat16" else self._dtype
        self._table = None if encoder.base.table is None else encoder.base.table.detach()
        self.num_nodes = messages.num_nodes
        with torch.no_grad(), held_memory():
            self._layers = [encoder.base(features, None).to(self._stored)]  # Y(0) = f
            self._build(messages)

    @property
    def embeddings(self) -> Tensor:
        """(n, d) embeddings of now; changes are made in place, and a view is outgrown by new nodes."""
        return self._embeddings[: self.num_nodes]

    @property
    def num_links(self) -> int:
        """The number of links there are now."""
        return self._links.num_entries // 2

    @property
    def table(self) -> Tensor | None:
        """(n, ·) learned or random inputs of now, if the encoder has any."""
        return None if self._table is None else self._table[: self.num_nodes]

    def has_link(self, a: int, b: int) -> bool:
        """Whether messages pass between two rows.

        Parameters
        ----------
        a, b
            Two rows.

        Returns
        -------
        bool
            Whether there is a link.

        Examples
        --------
        >>> a, b = graph.edges[0]
        >>> live.has_link(a, b)
        True
        """
        return self._links.has(a, b)

    def drift(self) -> float:
        """Links that were added or removed since the build, as a share of the links at the build.

        Returns
        -------
        float
            The share.

        Examples
        --------
        >>> live.drift()
        0.0
        """
        return len(self._moved) / max(1, self._links_at_build)

    @torch.no_grad()
    def rebuild(self) -> None:
        """Start over from the links of now: new negatives, weights of mean 1, all rows computed again.

        Examples
        --------
        >>> changed = live.remove_links(graph.edges[:1])
        >>> live.rebuild()
        >>> live.drift()
        0.0
        """
        pairs, weights = self._links.pairs(self.num_nodes)
        self._mean_weight *= float(weights.mean()) if weights.size else 1.0
        messages = MessageGraph.from_pairs(
            torch.from_numpy(pairs), self.num_nodes, weights=torch.from_numpy(weights), num_left=self._num_left,
            dtype=self._dtype,
        )  # fmt: skip
        with held_memory():
            self._layers = [self._layers[0][: self.num_nodes]]
            self._build(messages)

    @torch.no_grad()
    def add_links(self, pairs: Any, *, weights: Any = None) -> Rows:
        """Add undirected links between rows.

        Parameters
        ----------
        pairs
            (m, 2) rows.
        weights
            A weight for each link, in the units of the graph; the mean weight unless given.

        Returns
        -------
        numpy.ndarray
            Sorted rows of `embeddings` that changed.

        Raises
        ------
        InputError
            If a row is out of range, or a link is there already, is named twice, is a self loop or joins one side.

        Examples
        --------
        >>> changed = live.remove_links(graph.edges[:1])
        >>> live.add_links(graph.edges[:1]).size > 0
        True
        """
        checked = self._checked(pairs, self.num_nodes, present=False)
        scaled = self._scaled_weights(weights, len(checked))
        return self._change(added=checked, weights=scaled)

    @torch.no_grad()
    def remove_links(self, pairs: Any) -> Rows:
        """Remove undirected links between rows.

        Parameters
        ----------
        pairs
            (m, 2) rows.

        Returns
        -------
        numpy.ndarray
            Sorted rows of `embeddings` that changed.

        Raises
        ------
        InputError
            If a row is out of range, or a link is not there or is named twice.

        Examples
        --------
        >>> changed = live.remove_links(graph.edges[:1])
        >>> live.num_links == graph.num_edges - 1
        True
        """
        return self._change(removed=self._checked(pairs, self.num_nodes, present=True))

    @torch.no_grad()
    def set_features(self, rows: Any, values: Tensor | SparseMatrix) -> Rows:
        """Replace the features of some nodes.

        Parameters
        ----------
        rows
            (m,) rows.
        values
            (m, c) features.

        Returns
        -------
        numpy.ndarray
            Sorted rows of `embeddings` that changed.

        Raises
        ------
        InputError
            If the encoder uses no features, a row is out of range or named twice, or the shape does not fit.

        Examples
        --------
        >>> import torch
        >>> 0 in live.set_features([0], torch.zeros(1, 4))
        True
        """
        chosen = checked_rows(rows, self.num_nodes, distinct=True)
        if self._encoder.base.feature_weight is None:
            raise InputError("this encoder reads no features, so there are none to change")
        table = None if self._table is None else self._table[chosen]
        self._layers[0][chosen] = self._base(values, table, chosen.size).to(self._stored)
        return self._change(features_of=np.sort(chosen))

    @torch.no_grad()
    def add_nodes(
        self, features: Tensor | SparseMatrix | None, *, neighbours: Sequence[Sequence[int]] | None = None
    ) -> Rows:
        """Append nodes, with features, by their neighbours, or both.

        A learned table gives a new node the mean of its neighbours there are already, or zeros; a random one draws.
        In a bipartite graph new nodes are of the second side.

        Parameters
        ----------
        features
            (m, c) features, or None for an encoder without features.
        neighbours
            For each new node the rows that it is linked to.

        Returns
        -------
        numpy.ndarray
            Sorted rows of `embeddings` that are new or changed.

        Raises
        ------
        InputError
            If there are neither features nor neighbours, or their number or shape does not fit.

        Examples
        --------
        >>> import torch
        >>> 40 in live.add_nodes(torch.ones(1, 4), neighbours=[[0, 3]])
        True
        """
        if features is None and neighbours is None:
            raise InputError("new nodes need features or neighbours (an empty list for one that has none)")
        count = len(neighbours) if features is None else features.shape[0]  # type: ignore[arg-type]
        near = [checked_rows(rows, None, "neighbours") for rows in neighbours or [[]] * count]
        if len(near) != count:
            raise InputError(f"'neighbours' needs a list for each new node: {count} (got {len(near)})")
        n = self.num_nodes
        pairs = np.array([(n + j, row) for j, rows in enumerate(near) for row in rows], dtype=np.int64).reshape(-1, 2)
        checked = self._checked(pairs, n + count, present=False)
        table = self.table
        if table is not None:
            table = new_table_rows(table, near, self._encoder.settings.inputs, self._seed)
        f = self._base(features, table, count).to(self._stored)
        self._grow(n + count)
        self._layers[0][n : n + count] = f
        if self._table is not None and table is not None:
            self._table[n : n + count] = table
        ones = np.ones(len(checked), dtype=np.float64)
        return self._change(added=checked, weights=ones, features_of=np.arange(n, n + count))

    # -- checks --------------------------------------------------------------------------------------------

    def _checked(self, pairs: Any, num_nodes: int, *, present: bool) -> Rows:
        """(m, 2) rows of links that are there, or are not, none named twice."""
        found = checked_rows(pairs, num_nodes, "pairs", pairs=True)
        for a, b in found:
            if a == b:
                raise InputError(f"row {a} cannot be linked to itself")
            if self._num_left is not None and (a < self._num_left) == (b < self._num_left):
                raise InputError(f"rows {a} and {b} are on one side of a bipartite graph")
            if self._links.has(a, b) != present:
                raise InputError(f"there is {'no' if present else 'already a'} link between rows {a} and {b}")
        if len({(min(a, b), max(a, b)) for a, b in found.tolist()}) != len(found):
            raise InputError("'pairs' names a link twice")
        return found

    def _scaled_weights(self, weights: Any, count: int) -> NDArray[np.float64]:
        if weights is None:
            return np.ones(count)
        scaled = np.asarray(weights, dtype=np.float64) / self._mean_weight
        if scaled.shape != (count,) or not (np.isfinite(scaled) & (scaled > 0)).all():
            raise InputError(f"'weights' needs a positive number for each of the {count} links")
        return scaled

    def _base(self, features: Tensor | SparseMatrix | None, table: Tensor | None, count: int) -> Tensor:
        """f of `count` rows."""
        weight = self._encoder.base.feature_weight
        if weight is None:
            return self._encoder.base.of_rows(None, table)
        got = None if features is None else tuple(features.shape)
        if got != (count, weight.shape[1]):
            raise InputError(f"features need the shape {(count, weight.shape[1])} (got {got})")
        return self._encoder.base.of_rows(features.to(weight) if isinstance(features, Tensor) else features, table)

    # -- the state -----------------------------------------------------------------------------------------

    def _build(self, messages: MessageGraph) -> None:
        """Everything but f."""
        settings, n = self._encoder.settings, self.num_nodes
        kind = np.float64 if self._dtype == torch.float64 else np.float32
        generator = Streams.fresh(self._seed, "inference/0", torch.device("cpu"))
        terms = messages.terms(settings, self._encoder.repulsion(), generator)
        self._num_left, self._moved = messages.known.num_left, set[tuple[int, int]]()
        weights = messages.weights[messages.structure.pair_of_slot]
        self._links = RowLists(messages.structure.indptr, messages.structure.columns, weights)
        self._links.pack(0)
        self._links_at_build = self.num_links
        self._step = self._encoder.step_size(terms.anchor, terms.anchor, terms)  # without a margin, whatever Y is
        layer = Layer.of(terms, self._step)
        lists = [self._links, *(RowLists(*matrix[:3]) for matrix in layer.matrices[1:])]
        self._matrices = [(rows, matrix.factor) for rows, matrix in zip(lists, layer.matrices, strict=True)]
        self._left = layer.scaled_left
        own, _ = diagonals(terms.links.diagonal, terms.anchor, settings.anchoring, settings.attraction, self._step)
        self._frozen_own = (layer.diagonal - own)[:, 0].double().numpy()  # the negatives' share of C1
        self._repelled = negative_degrees(terms)
        counts = messages.structure.degrees()
        self._mean = MeanNegatives.of(settings, terms, counts, self._num_left, self._step) if counts.numel() else None
        self._scale, self._own, self._anchor = (np.zeros(n, dtype=kind) for _ in range(3))
        everyone = np.arange(n)
        self._weigh(everyone)
        self._sums: list[Tensor] = []
        for t in range(settings.num_steps):
            low_rank = layer.turned(layer.sums(self._layers[t]))
            if low_rank is not None:
                self._sums.append(low_rank[1])
            self._layers.append(torch.empty_like(self._layers[0]))
            self._compute(t, everyone)
        width = settings.hidden_size + settings.structure_columns
        self._embeddings = torch.empty(n, width, dtype=self._dtype)
        self._finish(everyone)
        self._renew_sketches(everyone, everyone)

    def _grow(self, n: int) -> None:
        """Room for n nodes; new ones have no link."""
        before, self.num_nodes = self.num_nodes, n
        self._layers = [grown(y, n) for y in self._layers]
        self._embeddings = grown(self._embeddings, n)
        self._table = None if self._table is None else grown(self._table, n)
        self._left = None if self._left is None else grown(self._left, n)
        for name in ("_repelled", "_frozen_own", "_scale", "_own", "_anchor"):
            setattr(self, name, grown_array(getattr(self, name), n))
        for lists, _ in self._matrices:
            lists.grow(n)
        self._repel(np.arange(before, n))
        self._weigh(np.arange(before, n))

    def _repel(self, rows: Rows) -> None:
        """Expected negatives of some rows, by their degrees of now and the other rows as they were built."""
        if self._mean is None or self._left is None or not rows.size:
            return
        negatives = self._mean.rows(rows, self._links.length[rows])
        self._left[torch.from_numpy(rows)] = negatives.left.to(self._left.dtype)
        self._repelled[rows], self._frozen_own[rows] = negatives.degrees.numpy(), negatives.own.numpy()

    def _weigh(self, rows: Rows) -> None:
        """What the degrees of some rows enter: D^-1/2, C1 and C2."""
        settings = self._encoder.settings
        plain = self._links.sums(rows)
        degrees = plain + float(settings.self_loops)
        inverse = _inverse(degrees)
        anchor = _inverse(degrees + self._repelled[rows])
        # a self loop cancels in D - A and stays in D
        own, base = diagonals(plain * inverse, anchor, settings.anchoring, settings.attraction, self._step)
        self._scale[rows], self._own[rows], self._anchor[rows] = np.sqrt(inverse), own + self._frozen_own[rows], base

    # -- changes -------------------------------------------------------------------------------------------

    def _change(
        self,
        *,
        added: Rows | None = None,
        weights: NDArray[np.float64] | None = None,
        removed: Rows | None = None,
        features_of: Rows | None = None,
    ) -> Rows:
        """Apply what was checked, and compute again what it reaches."""
        none = np.empty(0, dtype=np.int64)
        for place, (a, b) in enumerate([] if added is None else added.tolist()):
            self._links.add(a, b, 1.0 if weights is None else weights[place])
            self._moved ^= {(min(a, b), max(a, b))}
        for a, b in [] if removed is None else removed.tolist():
            self._links.remove(a, b)
            self._moved ^= {(min(a, b), max(a, b))}
        ends = self._union(*(none if part is None else part.ravel() for part in (added, removed)))
        if self._mean is not None and self._mean.by_degree:
            self._repel(ends)
        self._weigh(ends)
        near = self._union(ends, self._links.columns_of(ends))  # whose row of the layers' matrix has changed
        rows = none if features_of is None else features_of
        for t in range(self._encoder.settings.num_steps):
            around = [lists.columns_of(rows) for lists, _ in self._matrices]
            rows = self._compute(t, self._union(near, rows, *around))
        rows = rows if features_of is None else self._union(rows, features_of)  # a new node is news in any case
        self._finish(rows)
        if self._encoder.sketches is None:
            return rows
        changed = self._union(near, none if features_of is None else features_of)  # new nodes begin with a sketch
        self._renew_sketches(ends, changed)
        return self._union(rows, changed)

    def _union(self, *parts: NDArray[Any]) -> Rows:
        """Sorted rows that are in any part, in the time of the parts' size."""
        if 8 * sum(part.size for part in parts) < self.num_nodes:
            return np.unique(np.concatenate(parts)).astype(np.int64)
        marked = np.zeros(self.num_nodes, dtype=bool)
        for part in parts:
            marked[part] = True
        return np.flatnonzero(marked)

    def _compute(self, t: int, rows: Rows) -> Rows:
        """Rows of Y(t+1) from Y(t); returns those that it moved."""
        found = []
        for block in row_blocks(rows):
            y, index = self._next(t, block), torch.from_numpy(block)
            found.append(moved(self._layers[t + 1][index], y, block, self._tolerance) if self._tolerance else block)
            self._layers[t + 1][index] = y
        return np.concatenate(found) if found else rows

    def _next(self, t: int, rows: Rows) -> Tensor:
        """LAYER at some rows: their links as they are now, their negatives and the sums as they were built."""
        matrices, index = [], torch.from_numpy(rows)
        for lists, factor in self._matrices:
            indptr, slots = lists.entries(rows)
            columns, values = lists.columns.take(slots), lists.values.take(slots)
            if lists is self._links:
                values *= self._scale.take(columns)
                values *= np.repeat(self._scale[rows], np.diff(indptr))
            matrices.append(csr_of(indptr, columns, values, factor))
        own, base = (torch.from_numpy(part[rows])[:, None] for part in (self._own, self._anchor))
        low_rank = None if self._left is None else (self._left[index], self._sums[t])
        return rows_of_layer(self._layers[t], self._layers[0][index], index, matrices, own, base, low_rank)

    def _finish(self, rows: Rows) -> None:
        """Rows of what is shown, from Y(T)."""
        size = self._encoder.settings.hidden_size
        for block in map(torch.from_numpy, row_blocks(rows)):
            self._embeddings[block, :size] = self._encoder.finish(self._layers[-1][block].to(self._dtype))

    def _renew_sketches(self, ends: Rows, rows: Rows) -> None:
        """Sketches of some rows, where no nodes but `ends` have other neighbours than before."""
        if self._encoder.sketches is not None:
            stored = self.embeddings[:, self._encoder.settings.hidden_size :]
            renew(self._encoder.sketches, stored, self._links, ends, rows)


def _inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return inverse_or_zero(torch.from_numpy(x)).numpy()
