"""LAYER is one map, however it is applied: all rows, blocks, some rows, gates; and it is what its definition says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from yinyan.model.descent import Gates, descend, gated_layer, one_layer
from yinyan.model.energy import EnergyTerms, Laplacian, layer
from yinyan.model.layer import Layer, rows_of_layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SymmetricOperator
from yinyan.native.graph_kernels import Csr
from yinyan.settings import EncoderSettings

NODES, LEFT, SIZE, STEP = 50, 20, 19, 0.4  # node 0 is a hub, the last three have no edge
KINDS: dict[str, dict[str, Any]] = {
    "edges alone": {"num_negatives": 0},
    "one sample": {"num_negatives": 1, "expected_negatives": False},
    "several samples": {"num_negatives": 3, "expected_negatives": False},
    "expected": {"expected_negatives": True},
    "expected from the source": {"expected_negatives": True, "sampler": "source", "num_negatives": 2},
    "self loops": {"expected_negatives": True, "self_loops": True},
}
MARGINS = [None, 0.05]


def make(kind: str, *, margin: float | None = None, dtype: torch.dtype = torch.float32, **graph: Any) -> EnergyTerms:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.stack([torch.randint(a, b, (120,), generator=generator) for a, b in ((0, LEFT), (LEFT, 47))], dim=1)
    hub = torch.stack([torch.zeros(20, dtype=torch.long), torch.arange(LEFT, LEFT + 20)], dim=1)
    pairs = torch.unique(torch.cat([drawn, hub]), dim=0)
    weights = torch.rand(len(pairs), generator=generator, dtype=dtype) + 0.1 if graph.get("weighted") else None
    left = LEFT if graph.get("bipartite") else None
    messages = MessageGraph.from_pairs(pairs, NODES, weights=weights, num_left=left, dtype=dtype)
    settings = EncoderSettings(**{"anchoring": 0.5, "attraction": 1.2, "margin": margin, **KINDS[kind]})
    count = 3 if kind == "several samples" else 1
    repulsion = torch.tensor([0.4, 0.1, 0.7], dtype=dtype)[:count]
    return messages.terms(settings, repulsion, generator)


def state(dtype: torch.dtype = torch.float32, size: int = SIZE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    y, f = (0.3 * torch.randn(NODES, size, generator=generator, dtype=dtype) for _ in range(2))
    return y, f


def close(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def all_rows(made: Layer, y: Tensor, f: Tensor) -> Tensor:
    out = torch.empty_like(y)
    made.forward(y, f, out, made.sums(y))
    return out


def taken(matrix: Csr, rows: Tensor) -> Csr:
    """Some rows of a matrix."""
    spans = [range(int(matrix.indptr[row]), int(matrix.indptr[row + 1])) for row in rows.tolist()]
    entries = torch.tensor([place for span in spans for place in span], dtype=torch.long)
    ends = torch.tensor([0, *(len(span) for span in spans)]).cumsum(0).int()
    return Csr(ends, matrix.columns[entries], matrix.values[entries], matrix.factor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", [{}, {"weighted": True}, {"bipartite": True}], ids=str)
class TestEveryForm:
    def test_all_rows_are_the_definition(self, kernels: str, kind: str, graph: dict[str, bool]) -> None:
        terms, (y, f) = make(kind, **graph), state()
        close(all_rows(Layer.of(terms, STEP), y, f), layer(y, f, terms, STEP))

    def test_blocks_of_rows_are_all_rows(self, kernels: str, kind: str, graph: dict[str, bool]) -> None:
        made, (y, f) = Layer.of(make(kind, **graph), STEP), state()
        out, sums = torch.empty_like(y), made.sums(y)
        for first in range(0, NODES, 7):
            made.forward(y, f[first : first + 7], out[first : first + 7], sums, first_row=first)
        close(out, all_rows(made, y, f))

    def test_some_rows_are_those_of_all(self, kernels: str, kind: str, graph: dict[str, bool]) -> None:
        made, (y, f) = Layer.of(make(kind, **graph), STEP), state()
        low_rank, wanted = made.turned(made.sums(y)), all_rows(made, y, f)
        for rows in (torch.arange(NODES), torch.tensor([49, 0, 7, 21]), torch.tensor([], dtype=torch.long)):
            left = None if low_rank is None else (low_rank[0][rows], low_rank[1])
            matrices = [taken(matrix, rows) for matrix in made.matrices]
            got = rows_of_layer(y, f[rows], rows, matrices, made.diagonal[rows], made.base[rows], left)
            close(got, wanted[rows])

    @pytest.mark.parametrize("margin", MARGINS)
    def test_autograd_gives_the_definition_with_its_gradients(
        self, kernels: str, kind: str, graph: dict[str, bool], margin: float | None
    ) -> None:
        def run(step: Any) -> tuple[Tensor, ...]:
            y, f = (part.requires_grad_() for part in state())
            out = step(y, f, make(kind, margin=margin, **graph), STEP)
            toward = torch.linspace(-1, 1, out.numel()).view_as(out)
            return out.detach(), *torch.autograd.grad(out, [y, f], toward)

        for ours, defined in zip(run(lambda *given: one_layer(*given)[0]), run(layer), strict=True):
            close(ours, defined)


def test_sums_are_handed_on_to_the_next_layer(kernels: str) -> None:
    made, (y, f) = Layer.of(make("expected"), STEP), state()
    out = torch.empty_like(y)
    ahead = made.forward(y, f, out, made.sums(y), ahead=True)
    after = made.sums(out)
    assert ahead is not None and after is not None
    close(ahead, after)
    assert Layer.of(make("one sample"), STEP).sums(y) is None


def test_bfloat16_is_stored_and_summed_in_float32(kernels: str) -> None:
    made, (y, f) = Layer.of(make("several samples"), STEP), (part.bfloat16() for part in state())
    wanted = all_rows(made, y.float(), f.float())
    assert torch.equal(all_rows(made, y, f), wanted.bfloat16())
    rows = torch.tensor([3, 48, 0])
    matrices = [taken(matrix, rows) for matrix in made.matrices]
    got = rows_of_layer(y, f[rows], rows, matrices, made.diagonal[rows], made.base[rows])
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted[rows], rtol=2**-7, atol=1e-5)


def entries_of(adjacency: Any, rows: list[int]) -> Gates:
    """A gate for each entry of some rows; one per row where the graph is of low rank."""
    index = torch.tensor(rows)
    if not isinstance(adjacency, SymmetricOperator):
        return Gates(index, None, None, torch.arange(len(rows)))
    part = taken(Csr(adjacency.indptr, adjacency.columns, adjacency.values), index)
    owners = torch.repeat_interleave(index, part.indptr.diff())
    return Gates(owners, part.columns.long(), part.values, torch.arange(owners.numel()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("margin", MARGINS)
class TestGates:
    ROWS = (0, 5, 48)

    def groups(self, terms: EnergyTerms) -> list[Gates]:
        return [entries_of(graph.adjacency, list(self.ROWS)) for graph in (terms.links, *terms.negatives)]

    def test_open_ones_change_nothing(self, kernels: str, kind: str, margin: float | None) -> None:
        terms, (y, f) = make(kind, margin=margin), state()
        gates = self.groups(terms)
        opened = [torch.ones(group.gate.numel()) for group in gates]
        assert torch.equal(gated_layer(y, f, terms, STEP, gates, opened), one_layer(y, f, terms, STEP)[0])

    def test_shut_ones_withhold_their_entries(self, kernels: str, kind: str, margin: float | None) -> None:
        """A row of S Y is missing, times its factor; all else, the factors too, is as it was."""
        terms, (y, f) = make(kind, margin=margin), state()
        gates = self.groups(terms)
        got = gated_layer(y, f, terms, STEP, gates, [torch.zeros(group.gate.numel()) for group in gates])
        wanted, factors = one_layer(y, f, terms, STEP)
        wanted = wanted.clone()
        for factor, graph in zip(factors, (terms.links, *terms.negatives), strict=True):
            for row in self.ROWS:
                wanted[row] -= factor * graph.adjacency.product(y)[row]
        close(got, wanted)

    def test_gradients_pass_a_numerical_check(self, kind: str, margin: float | None) -> None:
        terms, (y, f) = make(kind, margin=margin, dtype=torch.float64), state(torch.float64, size=2)
        gates = [entries_of(graph.adjacency, [5]) for graph in (terms.links, *terms.negatives)]
        opened = [torch.full((group.gate.numel(),), 0.6, dtype=torch.float64).requires_grad_() for group in gates]

        def through(y: Tensor, *opened: Tensor) -> Tensor:
            return gated_layer(y, f, terms, STEP, gates, opened)[:8]

        assert gradcheck(through, (y.requires_grad_(), *opened))


def test_one_gate_may_hold_several_entries() -> None:
    terms, (y, f) = make("edges alone"), state()
    here = entries_of(terms.links.adjacency, [0])
    one = here._replace(gate=torch.zeros_like(here.gate))
    half = torch.full((here.gate.numel(),), 0.5)
    close(gated_layer(y, f, terms, STEP, [one], [half[:1]]), gated_layer(y, f, terms, STEP, [here], [half]))


def test_t_layers_are_one_after_the_other(kernels: str) -> None:
    terms, (y, f) = make("expected"), state()
    for _ in range(3):
        y = layer(y, f, terms, STEP)
    close(descend(f, Layer.of(terms, STEP), 3, start=state()[0]), y)


def test_negatives_of_no_weight_are_none() -> None:
    terms, (y, f) = make("one sample"), state()
    none = EnergyTerms(
        Laplacian(terms.links.diagonal, terms.links.adjacency), (), terms.anchor, terms.num_links, terms.anchoring,
        terms.attraction, terms.repulsion[:0], None,
    )  # fmt: skip
    weightless = EnergyTerms(**{**vars(terms), "repulsion": torch.zeros(1)})
    close(all_rows(Layer.of(weightless, STEP), y, f), all_rows(Layer.of(none, STEP), y, f))
