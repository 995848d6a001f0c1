"""PyTorch Geometric's GCN beside us: every way to feed it an undirected graph, and which of them are fast."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib import common
from lib.common import Times
from lib.layer_cases import Case, demand_equal, forward_and_backward, without_gradients

MATMUL = "EdgeIndex.matmul"


class Gcn(nn.Module):
    """Two graph convolutions with a relu between; `inputs` is what they are fed besides X."""

    def __init__(self, make: Callable[[], nn.Module], inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.first, self.second = make(), make()
        self.inputs = inputs

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x, *self.inputs).relu(), *self.inputs)


class MatmulConv(nn.Module):
    """GCNConv through `EdgeIndex.matmul`, the one product of PyG that need not turn an undirected graph."""

    def __init__(self, size: int) -> None:
        super().__init__()
        from torch_geometric.nn import Linear

        self.lin = Linear(size, size, bias=False, weight_initializer="glorot")
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor, index: Any, scale: Tensor) -> Tensor:
        return scale * index.matmul(scale * self.lin(x)) + self.bias


def gcn_variants(case: Case, names: Collection[str] | None = None, *, ordered: bool = False) -> dict[str, Gcn]:
    """The named ways to feed PyG an undirected graph, all with the same weights; what it refuses is left out."""
    from torch_geometric import EdgeIndex
    from torch_geometric.nn import GCNConv
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    n, d, pairs = case.messages.num_nodes, case.size, case.messages.pairs if ordered else case.pairs
    both = torch.cat([pairs, pairs.flip(1)]).T.contiguous()
    weighted, weights = gcn_norm(both, num_nodes=n)
    order = torch.argsort(weighted[0] * n + weighted[1])
    (rows, columns), values = weighted[:, order], weights[order]
    degrees = torch.bincount(rows, minlength=n)
    indptr = F.pad(degrees.cumsum(0), (1, 0))
    normalised = functools.partial(GCNConv, d, d, normalize=False)

    def csr(kind: torch.dtype) -> Gcn:
        return Gcn(normalised, (torch.sparse_csr_tensor(indptr.to(kind), columns.to(kind), values, (n, n)),))

    def index(order: str) -> Any:
        ends = torch.stack([columns, rows] if order == "col" else [rows, columns])
        return EdgeIndex(ends, sparse_size=(n, n), sort_order=order, is_undirected=True).fill_cache_()

    scale = degrees.float().rsqrt()[:, None]
    makers: dict[str, Callable[[], Gcn]] = {
        "edge_index, cached": lambda: Gcn(lambda: GCNConv(d, d, cached=True), (both,)),
        "sparse csr, 64-bit": lambda: csr(torch.int64),
        "sparse csr, 32-bit": lambda: csr(torch.int32),
        "EdgeIndex": lambda: Gcn(normalised, (index("col"), values)),
        MATMUL: lambda: Gcn(lambda: MatmulConv(d), (index("row"), scale)),
    }
    made: dict[str, Gcn] = {}
    for name, make in makers.items():
        if names is not None and name not in names:
            continue
        torch.manual_seed(0)
        try:
            made[name] = make()
        except (RuntimeError, ValueError, NotImplementedError) as error:
            print(f"left out: PyG refuses '{name}' ({error})", file=sys.stderr)
            continue
        made[name].load_state_dict(next(iter(made.values())).state_dict())
    return made


def gcn_tasks(case: Case, names: Sequence[str] | None = None) -> dict[str, common.Task]:
    """The forward pass and the step of each variant."""
    tasks: dict[str, common.Task] = {}
    wanted = None if names is None else {name.split(": ")[1] for name in names}
    for name, model in gcn_variants(case, wanted).items():
        embed = functools.partial(model, case.features)
        tasks[f"gcn_forward: {name}"] = without_gradients(embed)
        tasks[f"gcn_step: {name}"] = forward_and_backward(model, embed, case.cotangent)
    return tasks if names is None else {name: tasks[name] for name in names}


def ordered_gcn_tasks(case: Case, names: Sequence[str]) -> dict[str, common.Task]:
    """The named forward passes of PyG's own layers, on the graph in our order."""
    wanted = {name.split(": ")[1] for name in names if name.startswith("gcn_forward") and MATMUL not in name}
    variants = gcn_variants(case, wanted, ordered=True)
    return {
        f"ordered_gcn_forward: {name}": without_gradients(functools.partial(model, case.features))
        for name, model in variants.items()
    }


def gcn_finalists(small: Case) -> tuple[list[str], Times]:
    """Which variants come near the best on a small graph, passes and steps apart.

    By one thread: on a busy machine the threads of OpenMP wait for each other, and which variant is struck is chance.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tasks, times = gcn_tasks(small), Times()
    results = {}
    for name, task in list(tasks.items()):
        try:
            results[name] = task()  # normalises, and fills caches
        except (RuntimeError, NotImplementedError) as error:
            print(f"left out: '{name}' fails ({error})", file=sys.stderr)
            tasks.pop(name)
    times.run(tasks, 1, warm_up=0)
    chosen = []
    for kind in ("gcn_forward", "gcn_step"):
        names = [name for name in tasks if name.startswith(kind)]
        demand_equal(*(results[name] for name in names), what="PyG's variants")
        near = _within(times, names, 4)
        times.run({name: tasks[name] for name in near}, 4, warm_up=0)
        chosen += _within(times, near, 1.5)
        layers_of_pyg = [name for name in names if MATMUL not in name]
        chosen += [name for name in _within(times, layers_of_pyg, 1.0) if name not in chosen]
    torch.set_num_threads(threads)
    return chosen, times


def _within(times: Times, names: Sequence[str], factor: float) -> list[str]:
    best = min(times.least(name) for name in names)
    return [name for name in names if times.least(name) <= factor * best]
