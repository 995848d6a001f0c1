"""Structure in stored rows: inner products of two nodes' sketches count, in expectation, what the nodes share.

Every node has a row r of random signs over √F, so that <r_u, r_v> is 1 for u = v and 0 ± 1/√F else. Then for the
neighbours' sums A r the product <(A r)_i, (A r)_j> is the number of common neighbours, with an error of about
√(deg_i deg_j / F); weighted sums give resource allocation, sums of sums count walks (MPLP: Dong et al., NeurIPS 2024).
A pair costs O(F), and nothing is looked up around it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator, csr_product, inverse_or_zero
from yinyan.native import graph_kernels
from yinyan.randomness import hashed_at

__all__ = ["DEGREE_OFFSET", "NUM_ESTIMATES", "GatedSketches", "SharedStructure", "Sketches"]

_SEED = 20_240_817  # of the signs: fixed, so that a stored sketch can be continued
_BLOCKS = 3  # neighbours, neighbours that have few others, walks of two steps
_ROWS = 65_536  # whose signs are made at a time
_PAIRS = 8192  # whose sketches are gathered at a time

NUM_ESTIMATES = 6  # of a pair: see `SharedStructure`
# added to the logarithm of a degree that stands alone (F = 0): the product of two such columns is then nearly linear
# in either, so that an inner product can add what the degrees alone say of a pair
DEGREE_OFFSET = 20.0


class Sketches:
    """(n, 3F + 1) rows beside the embeddings: A r, A D^-1/2 r, A A r - D r, and the logarithm of 1 + the degree.

    With F = 0 the last column stands alone, and is larger by `DEGREE_OFFSET`.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._signs = torch.empty(0, size)

    @torch.no_grad()
    def of(self, messages: MessageGraph, hidden: Tensor | None = None) -> Tensor:
        """The sketches over the links that `hidden` (m,) does not mark.

        Each counts once, whatever its weight, or as much as its age says where there is a half-life.
        """
        if not self.size:
            return self.of_degrees(_degrees(messages, messages.decays, hidden))[:, None]
        degrees, links, r = self._parts(messages, hidden)
        squares = degrees if messages.decays is None else _degrees(messages, messages.decays.square(), hidden)
        return _rows(links.product, degrees, squares, r)

    def of_degrees(self, degrees: Tensor) -> Tensor:
        """What the last column holds for nodes of these degrees."""
        return degrees.log1p() if self.size else degrees.log1p() + DEGREE_OFFSET

    def gated(self, messages: MessageGraph, ends: Tensor, rows: Tensor, columns: Tensor) -> GatedSketches:
        """The sketches of some nodes, as a function of how far the gates of given entries of A are open."""
        signs = self.signs(messages.num_nodes, ends.device).to(messages.weights.dtype)
        return GatedSketches(self, messages, signs, ends, rows, columns)

    def _parts(self, messages: MessageGraph, hidden: Tensor | None) -> tuple[Tensor, SymmetricOperator, Tensor]:
        """Degrees, A and r."""
        degrees = _degrees(messages, messages.decays, hidden)
        ones = torch.ones_like(degrees)
        if messages.decays is None:
            links = messages.scaled(ones, hidden, plain=True)
        else:
            links = messages.structure.scaled(messages.decays, ones, hidden)
        numbers = messages.numbers
        signs = self.signs(messages.num_nodes, degrees.device) if numbers is None else self.signs_of(numbers)
        return degrees, links, signs.to(degrees.dtype)

    def signs(self, num_nodes: int, device: torch.device) -> Tensor:
        """(n, F) r; a node's signs follow from its row number, so that more nodes change none of them."""
        if not self.size:
            return torch.empty(num_nodes, 0, device=device)
        if self._signs.device != device:
            self._signs = torch.empty(0, self.size, device=device)
        have = self._signs.shape[0]
        if have < num_nodes:
            more = max(num_nodes, have + have // 4)  # nodes that come one by one find room
            self._signs = torch.cat([self._signs, self.signs_of(torch.arange(have, more, device=device))])
        return self._signs[:num_nodes]

    def signs_of(self, numbers: Tensor) -> Tensor:
        """(·, F) the signs of nodes by their row numbers in the whole graph."""
        return torch.cat([self._made(some) for some in numbers.split(_ROWS)])

    def _made(self, numbers: Tensor) -> Tensor:
        words, scale = -(-self.size // 64), 1 / math.sqrt(self.size)
        places = numbers[:, None] * words + torch.arange(words, device=numbers.device)
        bits = hashed_at(_SEED, places)[:, :, None]
        ones = (bits >> torch.arange(64, device=numbers.device) & 1).flatten(1)[:, : self.size]
        return ones.float().mul_(2 * scale).sub_(scale)


class GatedSketches:
    """(len(ends), 3F + 1) sketches where entries (row, column) of A count as much as their gates say; differentiable.

    Sketches of a node follow from its neighbours and from theirs: nothing else is looked at.
    """

    def __init__(
        self,
        sketches: Sketches,
        messages: MessageGraph,
        signs: Tensor,
        ends: Tensor,
        rows: Tensor,
        columns: Tensor,
    ) -> None:
        self._of_degrees, structure = sketches.of_degrees, messages.structure
        indptr, near = structure.of_rows(ends)
        self._around = torch.cat([ends, near]).unique()  # the ends and their neighbours
        self._ends, self._near = self._places(ends), self._places(near)
        self._row_of_near = torch.repeat_interleave(indptr.diff())
        indptr, far = structure.of_rows(self._around)
        row_of_far, values = torch.repeat_interleave(indptr.diff()), signs.new_ones(far.numel())
        self._near_values = signs.new_ones(near.numel())
        if messages.decays is not None:
            slots = replace(structure, columns=messages.decays[structure.pair_of_slot])
            values, self._near_values = (slots.of_rows(some)[1].to(signs) for some in (self._around, ends))
        counts = signs.new_zeros(self._around.numel())
        self._degrees, self._signs = counts.index_add(0, row_of_far, values), signs[self._around]
        self._squares = counts.index_add(0, row_of_far, values.square())
        # A r, all gates open
        self._sums = csr_product(indptr, far, values, signs) if sketches.size else signs[self._around]
        self._chosen = torch.isin(rows, self._around)
        self._rows, self._columns = self._places(rows[self._chosen]), signs[columns[self._chosen]]
        self._values = _looked_up(row_of_far, far, values, self._rows, columns[self._chosen])
        end_of = torch.full_like(self._around, -1)
        end_of[self._ends] = torch.arange(ends.numel(), device=ends.device)
        place = end_of[self._rows]
        self._at_end = place >= 0  # the gated entries of the ends' own rows
        self._end = place[self._at_end]
        self._other = self._places(columns[self._chosen][self._at_end])

    def __call__(self, gates: Tensor) -> Tensor:
        """Given (entries,) gates."""
        withheld = (gates[self._chosen] - 1) * self._values
        degrees = self._degrees.index_add(0, self._rows, withheld).clamp(min=0)
        near = self._sums.index_add(0, self._rows, withheld[:, None] * self._columns)

        def product(x: Tensor) -> Tensor:
            messages = self._near_values[:, None] * x[self._near]
            out = x.new_zeros(self._ends.numel(), x.shape[1]).index_add(0, self._row_of_near, messages)
            return out.index_add(0, self._end, withheld[self._at_end, None] * x[self._other])

        own = degrees[self._ends]
        squares = self._squares.index_add(0, self._rows, withheld * self._values).clamp(min=0)[self._ends]
        far = product(near) - squares[:, None] * self._signs[self._ends]
        scarce, degree = product(_scarce(self._signs, degrees)), self._of_degrees(own)[:, None]
        return torch.cat([near[self._ends], scarce, far, degree], dim=1)

    def _places(self, rows: Tensor) -> Tensor:
        return torch.searchsorted(self._around, rows.long())


def _degrees(messages: MessageGraph, weights: Tensor | None, hidden: Tensor | None) -> Tensor:
    """(n,) sums of some weights of each node's links, or how many it has."""
    return messages.structure.degrees(weights, hidden).to(messages.weights.dtype)


def _looked_up(rows: Tensor, columns: Tensor, values: Tensor, wanted_rows: Tensor, wanted_columns: Tensor) -> Tensor:
    """The values of some entries of a sparse matrix."""
    width = int(max(columns.max(), wanted_columns.max())) + 1 if columns.numel() and wanted_columns.numel() else 1
    keys, order = (rows * width + columns).sort()
    found = torch.searchsorted(keys, wanted_rows * width + wanted_columns)
    return values[order[found]] if keys.numel() else values.new_ones(wanted_rows.numel())


def _rows(product: Callable[[Tensor], Tensor], degrees: Tensor, squares: Tensor, r: Tensor) -> Tensor:
    """The sketches by products with A, given its row sums and those of its squared entries."""
    near = product(r)
    far = product(near) - squares[:, None] * r  # a walk there and back shares nothing
    return torch.cat([near, product(_scarce(r, degrees)), far, degrees.log1p()[:, None]], dim=1)


def _scarce(r: Tensor, degrees: Tensor) -> Tensor:
    """r over √D: degrees are 0 or at least 1, but where gates are shut; then a node is in nobody's sum."""
    return r * inverse_or_zero(degrees).clamp(max=1).sqrt()[:, None]


class SharedStructure(nn.Module):
    """What two sketches say of a pair, as `width` numbers that a decoder adds to its own.

    Estimated are common neighbours, resource allocation, walks of three and of four steps between the ends; beside them
    stand the sum and the product of the logarithms of the degrees. All are compressed by a signed logarithm.
    """

    def __init__(self, size: int, hidden: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.layers = nn.Sequential(nn.Linear(NUM_ESTIMATES, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """(..., 3F + 1) and (..., 3F + 1) to (..., width)."""
        return self.layers(self.estimates(first, second))  # type: ignore[no-any-return]

    @torch.no_grad()
    def times(self, weights: Tensor) -> SharedStructure:
        """A copy whose numbers are multiplied by (other width, width) weights."""
        made = copy.deepcopy(self)
        last: nn.Linear = made.layers[2]  # type: ignore[assignment]
        last.weight, last.bias = nn.Parameter(weights @ last.weight), nn.Parameter(weights @ last.bias)
        last.out_features = len(weights)
        return made

    @torch.no_grad()
    def of_pairs(self, rows: Tensor, pairs: Tensor) -> Tensor:
        """(p, 6) estimates of (p, 2) places of (n, 3F + 1) rows, by the compiled kernel where it can be."""
        plain = type(self).estimates is SharedStructure.estimates  # a subclass may know more of a pair
        on_cpu = rows.device.type == pairs.device.type == "cpu" and rows.dtype == torch.float32
        if plain and on_cpu and rows.stride(1) == 1 and rows.shape[0] and graph_kernels.library() is not None:
            return graph_kernels.estimate_pairs(rows, self.size, pairs)
        found = []
        for block in pairs.split(_PAIRS):
            ends = rows.index_select(0, block.reshape(-1)).view(-1, 2, rows.shape[1])
            found.append(self.estimates(ends[:, 0], ends[:, 1]))
        return torch.cat(found)

    def estimates(self, first: Tensor, second: Tensor) -> Tensor:
        """(..., 6) estimates of the pairs."""
        near_i, scarce_i, far_i, degree_i = first.split([self.size] * _BLOCKS + [1], dim=-1)
        near_j, scarce_j, far_j, degree_j = second.split([self.size] * _BLOCKS + [1], dim=-1)
        counts = [
            (near_i * near_j).sum(-1),
            (scarce_i * scarce_j).sum(-1),
            (near_i * far_j + far_i * near_j).sum(-1),
            (far_i * far_j).sum(-1),
        ]
        return _compressed(counts, degree_i[..., 0], degree_j[..., 0])

    def block_estimates(self, first: Tensor, second: Tensor) -> Tensor:
        """(b, c, 6) the same for all pairs of (b, 3F + 1) and (c, 3F + 1), by products of matrices."""
        near_i, scarce_i, far_i, degree_i = first.split([self.size] * _BLOCKS + [1], dim=1)
        near_j, scarce_j, far_j, degree_j = second.split([self.size] * _BLOCKS + [1], dim=1)
        counts = [
            near_i @ near_j.T,
            scarce_i @ scarce_j.T,
            (near_i @ far_j.T).addmm_(far_i, near_j.T),
            far_i @ far_j.T,
        ]
        return _compressed(counts, degree_i, degree_j.T)


def _compressed(counts: list[Tensor], degree_i: Tensor, degree_j: Tensor) -> Tensor:
    """(..., 6) of counts and logarithms of degrees."""
    together = torch.stack(counts, dim=-1)
    together = together.sign() * together.abs().log1p_()
    degrees = torch.stack(torch.broadcast_tensors(degree_i + degree_j, degree_i * degree_j), dim=-1)
    return torch.cat([together, degrees], dim=-1)
