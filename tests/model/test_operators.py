"""The sparse products, against the dense matrices they stand for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from yinyan.model import operators
from yinyan.model.operators import (
    EdgeStructure,
    LowRankOperator,
    SparseMatrix,
    SymmetricOperator,
    _bag_product,
    _scatter_product,
    _sparse_product,
    csr_product,
    inverse_or_zero,
)

NUM_NODES = 6  # nodes 4 and 5 have no edge
PAIRS = torch.tensor([[0, 1], [1, 2], [2, 0], [3, 1], [1, 0]])  # the first and the last are one pair, twice
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 3.0, 4.0], dtype=torch.float64)


def dense_adjacency(pairs: Tensor, weights: Tensor, num_nodes: int) -> Tensor:
    matrix = torch.zeros(num_nodes, num_nodes, dtype=weights.dtype)
    for (i, j), weight in zip(pairs.tolist(), weights, strict=True):
        matrix[i, j] += weight
        matrix[j, i] += weight
    return matrix


def as_dense(operator: SymmetricOperator | LowRankOperator, num_nodes: int = NUM_NODES) -> Tensor:
    return operator.product(torch.eye(num_nodes, dtype=torch.float64))


def normal(*shape: int, grad: bool = False) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


def normalised(weights: Tensor = WEIGHTS) -> SymmetricOperator:
    structure = EdgeStructure.from_pairs(PAIRS, NUM_NODES)
    return structure.scaled(weights, inverse_or_zero(structure.degrees(weights)).sqrt())


def low_rank(num_nodes: int = NUM_NODES) -> LowRankOperator:
    core = normal(3, 3)
    return LowRankOperator(normal(num_nodes), normal(num_nodes, 3), core + core.T)


class TestInverseOrZero:
    def test_inverts_and_keeps_zero(self) -> None:
        assert inverse_or_zero(torch.tensor([2.0, 0.0, 0.25])).tolist() == [0.5, 0.0, 4.0]

    def test_gradient_is_finite_at_zero(self) -> None:
        x = torch.tensor([2.0, 0.0], requires_grad=True)
        inverse_or_zero(x).sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


class TestEdgeStructure:
    def test_repeated_pairs_add_up(self) -> None:
        structure = EdgeStructure.from_pairs(PAIRS, NUM_NODES)
        plain = as_dense(structure.scaled(WEIGHTS, torch.ones(NUM_NODES, dtype=torch.float64)))
        assert plain[0, 1] == plain[1, 0] == 5.0
        torch.testing.assert_close(plain, dense_adjacency(PAIRS, WEIGHTS, NUM_NODES), rtol=0, atol=0)

    def test_degrees_are_row_sums(self) -> None:
        structure = EdgeStructure.from_pairs(PAIRS, NUM_NODES)
        assert structure.degrees(WEIGHTS).tolist() == [5.5, 10.0, 2.5, 3.0, 0.0, 0.0]

    def test_normalised_equals_dense(self) -> None:
        adjacency = dense_adjacency(PAIRS, WEIGHTS, NUM_NODES)
        degrees = adjacency.sum(1)
        scale = torch.where(degrees > 0, degrees.rsqrt(), 0.0)
        torch.testing.assert_close(as_dense(normalised()), scale[:, None] * adjacency * scale)

    def test_isolated_nodes_have_zero_rows(self) -> None:
        matrix = as_dense(normalised())
        assert matrix.isfinite().all()
        assert not matrix[4:].any()
        assert not matrix[:, 4:].any()

    def test_zero_weights_remove_pairs(self) -> None:
        masked = torch.where(torch.tensor([False, True, False, True, False]), 0.0, WEIGHTS)
        kept = torch.tensor([0, 2, 4])
        structure = EdgeStructure.from_pairs(PAIRS[kept], NUM_NODES)
        alone = structure.scaled(WEIGHTS[kept], inverse_or_zero(structure.degrees(WEIGHTS[kept])).sqrt())
        torch.testing.assert_close(as_dense(normalised(masked)), as_dense(alone))
        assert not as_dense(normalised(masked))[3].any()  # node 3 lost its only edge

    def test_no_pairs_at_all(self) -> None:
        structure = EdgeStructure.from_pairs(torch.empty(0, 2, dtype=torch.long), 3)
        none = torch.empty(0, dtype=torch.float64)
        assert structure.degrees(none).tolist() == [0.0, 0.0, 0.0]
        assert not structure.scaled(none, torch.ones(3, dtype=torch.float64)).product(normal(3, 2)).any()

    def test_to_keeps_everything(self) -> None:
        structure = EdgeStructure.from_pairs(PAIRS, NUM_NODES)
        moved = structure.to(torch.device("cpu"))
        ones = torch.ones(NUM_NODES, dtype=torch.float64)
        torch.testing.assert_close(
            as_dense(moved.scaled(WEIGHTS, ones)), as_dense(structure.scaled(WEIGHTS, ones)), rtol=0, atol=0
        )

    @given(
        st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2))))
    )
    def test_any_graph_equals_dense(self, case: tuple[int, list[tuple[int, int]]]) -> None:
        num_nodes, listed = case
        pairs = torch.tensor([p for p in listed if p[0] != p[1]], dtype=torch.long).reshape(-1, 2)
        weights = torch.arange(1, len(pairs) + 1, dtype=torch.float64)
        structure = EdgeStructure.from_pairs(pairs, num_nodes)
        scale = torch.linspace(0.5, 2, num_nodes, dtype=torch.float64)
        wanted = scale[:, None] * dense_adjacency(pairs, weights, num_nodes) * scale
        torch.testing.assert_close(as_dense(structure.scaled(weights, scale), num_nodes), wanted)


class TestOperators:
    @pytest.fixture(params=["symmetric", "low rank"])
    def operator(self, request: pytest.FixtureRequest) -> SymmetricOperator | LowRankOperator:
        return normalised() if request.param == "symmetric" else low_rank()

    def test_is_symmetric(self, operator: SymmetricOperator | LowRankOperator) -> None:
        matrix = as_dense(operator)
        assert matrix.any()
        torch.testing.assert_close(matrix, matrix.T)

    def test_product_equals_dense(self, operator: SymmetricOperator | LowRankOperator) -> None:
        y = normal(NUM_NODES, 4)
        torch.testing.assert_close(operator.product(y), as_dense(operator) @ y)

    def test_product_of_a_view(self, operator: SymmetricOperator | LowRankOperator) -> None:
        y = normal(4, NUM_NODES).T  # not contiguous
        torch.testing.assert_close(operator.product(y), as_dense(operator) @ y)

    def test_gradient(self, operator: SymmetricOperator | LowRankOperator) -> None:
        assert gradcheck(operator.product, normal(NUM_NODES, 3, grad=True))


@pytest.mark.parametrize("rows", [1, 4, 100])
@pytest.mark.parametrize("learned", [False, True])
def test_trace_equals_dense(rows: int, learned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_ROWS", rows)
    operator, y = normalised(), normal(NUM_NODES, 3, grad=learned)
    found = operator.trace(y)
    torch.testing.assert_close(found, torch.trace(y.T @ as_dense(operator) @ y))
    assert found.requires_grad is learned


def test_low_rank_equals_its_parts() -> None:
    operator = low_rank()
    wanted = operator.diagonal.diag() + operator.factors @ operator.core @ operator.factors.T
    torch.testing.assert_close(as_dense(operator), wanted)


class TestSparseMatrix:
    @pytest.fixture
    def dense(self) -> Tensor:
        matrix = normal(5, 4)
        matrix[torch.rand(5, 4) < 0.5] = 0
        matrix[2] = 0  # an empty row
        matrix[:, 1] = 0  # an empty column
        return matrix

    @pytest.fixture
    def sparse(self, dense: Tensor) -> SparseMatrix:
        indptr = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
        return SparseMatrix.from_csr(indptr, dense.nonzero()[:, 1], dense[dense != 0], 4)

    def test_product_and_gradient_equal_dense(self, sparse: SparseMatrix, dense: Tensor) -> None:
        weight, toward = normal(4, 3, grad=True), normal(5, 3)
        torch.testing.assert_close(sparse.product(weight), dense @ weight)
        (got,) = torch.autograd.grad(sparse.product(weight), weight, toward)
        torch.testing.assert_close(got, dense.T @ toward)

    def test_gradcheck(self, sparse: SparseMatrix) -> None:
        assert gradcheck(sparse.product, normal(4, 2, grad=True))

    def test_other_values_in_the_same_places(self, sparse: SparseMatrix, dense: Tensor) -> None:
        weight, toward = normal(4, 3, grad=True), normal(5, 3)
        got = sparse.product(weight, 3 * sparse.values)
        torch.testing.assert_close(got, 3 * dense @ weight)
        torch.testing.assert_close(torch.autograd.grad(got, weight, toward)[0], 3 * dense.T @ toward)

    def test_shape_and_device(self, sparse: SparseMatrix, dense: Tensor) -> None:
        assert sparse.shape == (5, 4)
        weight = normal(4, 2)
        torch.testing.assert_close(sparse.to(torch.device("cpu")).product(weight), dense @ weight)

    def test_takes_the_precision_of_the_weights(self, sparse: SparseMatrix) -> None:
        assert sparse.product(torch.randn(4, 2)).dtype == torch.float32


def test_csr_product_of_a_rectangle() -> None:
    indptr, columns, values = torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.tensor([2.0, 1.0, 3.0])
    y = torch.tensor([[1.0], [10.0], [100.0]])
    assert csr_product(indptr, columns, values, y).tolist() == [[20.0], [301.0]]


class TestKernels:
    """Every device's kernel gives the same product, so that the CPU's tests speak for all."""

    @pytest.mark.parametrize("kernel", [_bag_product, _sparse_product, _scatter_product])
    def test_equals_dense(self, kernel: Callable[..., Tensor]) -> None:
        generator = torch.Generator().manual_seed(0)
        dense = torch.randn(7, 5, dtype=torch.float64, generator=generator)
        dense[torch.rand(7, 5, generator=generator) < 0.6] = 0
        dense[2] = 0  # an empty row
        compressed = dense.to_sparse_csr()
        y = torch.randn(5, 3, dtype=torch.float64, generator=generator)
        parts = compressed.crow_indices(), compressed.col_indices(), compressed.values()
        torch.testing.assert_close(kernel(*parts, y), dense @ y)
