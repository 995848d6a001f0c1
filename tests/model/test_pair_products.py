"""Products of pairs: the compiled kernel against plain torch, values and gradients."""

from __future__ import annotations

import pytest
import torch

from yinyan.model import pair_products as module
from yinyan.model.pair_products import ends, pair_products
from yinyan.native import graph_kernels


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.randn(40, 29, generator=torch.Generator().manual_seed(0), requires_grad=True)


@pytest.mark.parametrize("size", [1, 16, 29])
@pytest.mark.parametrize("shape", [(70,), (20, 3), (0,)])
def test_products_and_gradients_are_those_of_plain_torch(rows: torch.Tensor, size: int, shape: tuple[int, ...]) -> None:
    pairs = torch.randint(0, 40, (*shape, 2), generator=torch.Generator().manual_seed(1))
    if pairs.numel():
        pairs[0] = 3  # a pair of a node with itself counts twice
    slopes = torch.randn(*shape, size, generator=torch.Generator().manual_seed(2))
    found = pair_products(rows, size, pairs)
    first, second = ends(rows[:, :size], pairs)
    assert found.shape == (*shape, size)
    assert torch.equal(found, first * second)
    (ours,) = torch.autograd.grad((found * slopes).sum(), rows)
    (plain,) = torch.autograd.grad((first * second * slopes).sum(), rows)
    assert torch.allclose(ours, plain, atol=1e-5)
    assert not ours[:, size:].any()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rows = torch.randn(3_000, 64, requires_grad=True)
    pairs, before, found = torch.randint(0, 3_000, (60_000, 2)), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            (gradient,) = torch.autograd.grad(pair_products(rows, 64, pairs).sin().sum(), rows)
            found.append(gradient)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_without_compiled_kernels_the_same(rows: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = torch.randint(0, 40, (50, 2))
    compiled = pair_products(rows, 20, pairs)
    monkeypatch.setattr(module.graph_kernels, "library", lambda: None)
    assert torch.equal(pair_products(rows, 20, pairs), compiled)


def test_the_kernel_is_used_where_it_can_be(rows: torch.Tensor) -> None:
    if graph_kernels.library() is None:
        pytest.skip(f"no compiled kernels: {graph_kernels.why_not()}")
    products = pair_products(rows, 20, torch.zeros(2, 2, dtype=torch.long))
    assert type(products.grad_fn.next_functions[0][0]).__name__ == "_PairProductsBackward"
