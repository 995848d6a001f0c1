"""What a layer, a forward pass and a training step cost beside memory's speed, PyTorch Geometric and plain torch.

python benchmarks/speed/propagation.py --quick                 # 200,000 nodes, 2.5 million edges, 128 dimensions
python benchmarks/speed/propagation.py --quick --json
python benchmarks/speed/propagation.py --picture layers.png    # more rounds, and other widths and sizes too

All parts take turns in one process, round after round, and ratios are those of the fastest calls; "median" is the
median of the ratios within the rounds. All is float32 unless said. The graph is that of graphs.py: hubs, communities,
shuffled node numbers. Our side, and plain torch, work on it in the local order that training gives it at this size
(`order_seconds`, once a run); PyG is given it as it came, and in forward_over_ordered_gcn in our order too. Non-links
are drawn by blocks, in ..._global uniformly. Each ratio is named after what stands above and below. In a quick run slow
parts are called once after the others; then their ratios count one call of the other side too.

layer_over_stream    One layer C1 Y + C2 f + c3 S Y - c4 S⁻ Y without gradients, against the time in which as many
    bytes would be copied. Bytes: 4 for the column, 4 for the value and 4 d for the gathered row of each stored entry of
    both matrices; three rows (Y, f, out) and four numbers (own, base, two row pointers) for each node. A gathered
    row counts once an entry, as if no cache held any, so that a cache that does can bring the ratio below 1. The copy
    is torch's, over arrays of 1 GiB each, read and written bytes counted, the fastest of six.
layer_over_compulsory    The same where each distinct byte counts once: what an endless cache would leave.
forward_over_gcn    Our encoder's forward pass as in a training step (a tenth of the links hidden, degrees and values
    computed anew, non-links drawn and built, one linear layer, T = 2 layers; no gradients) against two GCN layers with
    a relu between, in the fastest of five ways to feed PyG: those within a factor of 1.5 of the best on a graph of a
    fiftieth of the size, by one thread, enter the rounds, and the fastest there counts. PyG hides nothing and is given
    the normalised matrix. Neither side has dropout or normalised outputs. ..._without_sampling has our terms given,
    forward_global_over_gcn has global non-links, forward_expected_over_gcn expected negatives in the place of sampled.
step_over_gcn    The same with the backward pass of a fixed random cotangent, up to all weights. Ours learns its
    repulsion, which is the default and keeps the layers' inputs. GCNConv turns its matrix at each backward pass;
    step_over_rewritten_gcn is against its equation written anew with EdgeIndex.matmul, which need not.
expected_over_none    Our forward pass with expected negatives against the one without negatives.
sampling_over_layer    Drawing one non-link a link, rejecting known ones, building and normalising the matrix, against
    one layer.
step_over_plain    Forward and backward of T = 2 layers from f, their terms given and constant, against
    own*y + base*f + pull*(A@y) - push*(N@y) with torch's CSR matrices (64-bit places) and torch's autograd, which
    spends most of its time on the transpose. step_over_symmetric is against the same products in a hand-written
    autograd function that knows of the symmetry, step_over_scatter against gathering and index_add, on the small graph.
half_over_layer, embedding_bag_over_layer    The layer on bfloat16 rows, and by two F.embedding_bag, against the layer.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import _path  # noqa: F401
from lib import common
from lib.common import Times
from lib.layer_cases import (
    NUM_STEPS,
    STEP_SIZE,
    Case,
    demand_equal,
    forward_and_backward,
    settings,
    without_gradients,
)
from lib.pyg import MATMUL, gcn_finalists, gcn_tasks, ordered_gcn_tasks
from yinyan.model.descent import descend
from yinyan.model.encoder import Encoder
from yinyan.model.layer import Layer
from yinyan.native.allocation import held_memory
from yinyan.settings import EncoderSettings

HEADLINES = (
    "layer_over_stream",
    "forward_over_gcn",
    "step_over_gcn",
    "expected_over_none",
    "sampling_over_layer",
    "step_over_plain",
)
RATIOS = {  # ours over theirs, by the names of the measured parts
    "forward_over_gcn": ("forward", "gcnconv_forward"),
    "forward_over_gcn_without_sampling": ("forward_given_terms", "gcnconv_forward"),
    "forward_expected_over_gcn": ("forward_expected", "gcnconv_forward"),
    "forward_global_over_gcn": ("forward_global", "gcnconv_forward"),
    "forward_over_ordered_gcn": ("forward", "ordered_gcnconv_forward"),
    "step_over_gcn": ("step", "gcnconv_step"),
    "step_over_rewritten_gcn": ("step", "gcn_step"),
    "expected_over_none": ("forward_expected", "forward_none"),
    "expected_over_none_step": ("step_expected", "step_none"),
    "sampling_over_layer": ("sampling", "layer"),
    "sampling_over_layer_global": ("sampling_global", "layer_global"),
    "step_over_plain": ("step_given_terms", "plain_step"),
    "step_over_symmetric": ("step_given_terms", "symmetric_step"),
    "step_over_scatter": ("step_given_terms", "scatter_step"),
    "half_over_layer": ("layer_half", "layer"),
    "embedding_bag_over_layer": ("layer_embedding_bag", "layer"),
}
ON_SMALL = ("step_over_scatter",)
SMALLER = 50
ONCE_IF_QUICK = (
    "plain_step",
    "symmetric_step",
    "step_expected",
    "step_none",
    "plain_layer",
    "layer_embedding_bag",
    "layer_half",
    "layer_global",
    "sampling_global",
    "forward_global",
    "forward_given_terms",
)
QUICK_SECONDS = 50  # no round begins that would end later
ALSO_DRAWN = ("forward_over_ordered_gcn", "forward_expected_over_gcn", "step_over_rewritten_gcn", "half_over_layer")
STREAM_BYTES, SMOKE_BYTES = 2**30, 2**20


# ours


def our_layers(case: Case) -> dict[str, common.Task]:
    layer = case.layer()
    half_f, half_y = case.f.bfloat16(), case.y.bfloat16()
    generator = torch.Generator().manual_seed(1)
    repulsion = torch.tensor([0.3])
    uniform = settings(case.size, sampler="global")
    drawn_uniformly = Layer.of(case.messages.terms(uniform, repulsion, generator), STEP_SIZE)

    def sampling(chosen: EncoderSettings) -> common.Task:
        return without_gradients(lambda: case.messages._negatives(chosen, repulsion, generator, None, len(case.hidden)))

    def step() -> Tensor | None:
        f = case.f.detach().requires_grad_()
        descend(f, layer, NUM_STEPS).backward(case.cotangent)
        return f.grad

    return {
        "layer": without_gradients(lambda: descend(case.f, layer, 1, start=case.y)),
        "layer_half": without_gradients(lambda: descend(half_f, layer, 1, start=half_y)),
        "layer_global": without_gradients(lambda: descend(case.f, drawn_uniformly, 1, start=case.y)),
        "sampling": sampling(settings(case.size)),
        "sampling_global": sampling(uniform),
        "step_given_terms": step,
    }


def our_encoders(case: Case) -> dict[str, common.Task]:
    tasks: dict[str, common.Task] = {}
    generator = torch.Generator().manual_seed(2)
    changes: dict[str, dict[str, Any]] = {
        "": {},
        "_global": {"sampler": "global"},
        "_expected": {"expected_negatives": True},
        "_none": {"num_negatives": 0},
    }
    for name, change in changes.items():
        torch.manual_seed(0)
        encoder = Encoder(settings(case.size, **change), case.messages.num_nodes, case.size)
        embed = functools.partial(encoder, case.features, case.messages, negatives=generator, hidden=case.hidden)
        tasks[f"forward{name}"] = without_gradients(embed)
        if name != "_global":
            tasks[f"step{name}"] = forward_and_backward(encoder, embed, case.cotangent)
        if not name:
            tasks["forward_given_terms"] = without_gradients(functools.partial(_given_terms, encoder, case))
    return tasks


def _given_terms(encoder: Encoder, case: Case) -> Tensor:
    return descend(encoder.base(case.features, case.terms), case.layer(), NUM_STEPS)


# plain torch


def plain_layer(case: Case, multiply: Callable[[int, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The layer as an equation, given the products with the links' and the non-links' matrix."""
    layer = case.layer()
    pull, push = layer.factors[0], -layer.factors[1]
    own, base = layer.own, layer.base
    return lambda y, f: own * y + base * f + pull * multiply(0, y) - push * multiply(1, y)


class _Symmetric(torch.autograd.Function):
    """torch's CSR product, told that the matrix is its own transpose."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, y: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # type: ignore[override]
        return None, ctx.matrix @ grad


def plain_tasks(case: Case) -> dict[str, common.Task]:
    n, graphs = case.messages.num_nodes, case.layer().graphs
    matrices = [
        torch.sparse_csr_tensor(g.indptr.long(), g.columns.long(), g.values, (n, n))  # type: ignore[attr-defined]
        for g in graphs
    ]
    rows = [torch.repeat_interleave(m.crow_indices().diff()) for m in matrices]
    csr = plain_layer(case, lambda k, y: matrices[k] @ y)
    bag = plain_layer(
        case,
        lambda k, y: F.embedding_bag(
            graphs[k].columns, y, graphs[k].indptr, mode="sum", per_sample_weights=graphs[k].values,  # type: ignore[attr-defined]
            include_last_offset=True,
        ),
    )  # fmt: skip

    def scattered(k: int, y: Tensor) -> Tensor:
        gathered = y[matrices[k].col_indices()] * matrices[k].values()[:, None]
        return torch.zeros_like(y).index_add(0, rows[k], gathered)

    def step(layer: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor | None]:
        def run() -> Tensor | None:
            f = case.f.detach().requires_grad_()
            y = f
            for _ in range(NUM_STEPS):
                y = layer(y, f)
            y.backward(case.cotangent)
            return f.grad

        return run

    return {
        "plain_layer": without_gradients(lambda: csr(case.y, case.f)),
        "plain_step": step(csr),
        "symmetric_step": step(plain_layer(case, lambda k, y: _Symmetric.apply(matrices[k], y))),
        "layer_embedding_bag": without_gradients(lambda: bag(case.y, case.f)),
        "scatter_step": step(plain_layer(case, scattered)),
    }


# the run


def stream_gigabytes_a_second(repeats: int, num_bytes: int) -> float:
    """Read and written bytes of a copy, by all threads."""
    source = torch.ones(num_bytes // 4)
    target = torch.empty_like(source)
    times = Times()
    times.run({"copy": lambda: target.copy_(source)}, repeats)
    return 2 * num_bytes / times.least("copy") / 1e9


def measure(
    num_nodes: int,
    num_links: int,
    size: int,
    *,
    repeats: int,
    deadline: float = math.inf,
    stream_bytes: int = STREAM_BYTES,
) -> dict[str, Any]:
    """All parts on one graph; PyG's variants are compared, and what is slowest is timed, on a smaller one."""
    small = Case.make(max(100, num_nodes // SMALLER), max(500, num_links // SMALLER), size, seed=0)
    finalists, small_times = gcn_finalists(small)
    tasks = our_layers(small) | plain_tasks(small)
    demand_equal(tasks["layer"](), tasks["plain_layer"](), tasks["layer_embedding_bag"](), what="layers")
    demand_equal(tasks["step_given_terms"](), tasks["plain_step"](), tasks["symmetric_step"](), what="gradients")
    small_times.run({name: tasks[name] for name in ("step_given_terms", "scatter_step")}, 2, warm_up=0)

    case = Case.make(num_nodes, num_links, size, seed=0)
    bandwidth = [stream_gigabytes_a_second(3, stream_bytes)]
    tasks = our_layers(case) | our_encoders(case) | plain_tasks(case) | gcn_tasks(case, finalists)
    tasks.pop("scatter_step")
    tasks |= ordered_gcn_tasks(case, finalists)
    times, slow = Times(), {"plain_step": tasks.pop("plain_step")}
    if math.isfinite(deadline):  # a hurry
        steps = (name for name in finalists if name.startswith("gcn_step") and MATMUL not in name)
        slow |= {name: tasks.pop(name) for name in (*ONCE_IF_QUICK, *steps) if name in tasks}
        times.run(tasks, 1, deadline=deadline)
        times.run(slow, 1, warm_up=0)
        times.run(tasks, repeats - 1, warm_up=0, deadline=deadline)
    else:
        times.run(slow, 3, warm_up=0)
        times.run(tasks, repeats)
    bandwidth.append(stream_gigabytes_a_second(3, stream_bytes))
    return _summary(case, times, small, small_times, max(bandwidth))


def _summary(case: Case, times: Times, small: Case, small_times: Times, bandwidth: float) -> dict[str, Any]:
    n, d, entries = case.messages.num_nodes, case.size, case.entries()
    each_node = 3 * 4 * d + 4 * 4
    moved, compulsory = entries * (8 + 4 * d) + n * each_node, entries * 8 + n * each_node
    best = {}
    for kind in ("gcn_forward", "gcn_step", "gcnconv_forward", "gcnconv_step", "ordered_gcnconv_forward"):
        start, lone = kind.replace("conv", "") + ":", "conv" in kind
        names = [name for name in times.seconds if name.startswith(start) and not (lone and MATMUL in name)]
        best[kind] = min(names, key=times.least)
    for kind, name in best.items():
        times.seconds[kind] = times.seconds[name]
    seconds, middle = times.least("layer"), statistics.median(times.seconds["layer"])
    copied = {"layer_over_stream": moved / bandwidth / 1e9, "layer_over_compulsory": compulsory / bandwidth / 1e9}
    ratios = {name: seconds / least for name, least in copied.items()}
    medians = {name: middle / least for name, least in copied.items()}
    for name, parts in RATIOS.items():
        source = small_times if name in ON_SMALL else times
        ratios[name], medians[name] = source.ratio(*parts), source.median_ratio(*parts)
    return {
        **{name: ratios[name] for name in HEADLINES},
        **{name: value for name, value in ratios.items() if name not in HEADLINES},
        "median_ratios": {name: medians[name] for name in sorted(medians, key=lambda name: name not in HEADLINES)},
        "milliseconds": times.milliseconds(),
        "milliseconds_on_small": small_times.milliseconds(),
        "gcn_best": best,
        "stream_gigabytes_a_second": bandwidth,
        "order_seconds": case.order_seconds,
        "layer_bytes": {"moved": moved, "compulsory": compulsory},
        "sizes": sizes(case),
        "sizes_of_small": sizes(small),
    }


def sizes(case: Case) -> dict[str, int]:
    return {
        "nodes": case.messages.num_nodes,
        "links": case.messages.pairs.shape[0],
        "stored_entries": case.entries(),
        "dimensions": case.size,
        "layers": NUM_STEPS,
        "negatives": 1,
    }


def show(result: dict[str, Any]) -> None:
    shape, small = result["sizes"], result["sizes_of_small"]
    print(
        f"\n{shape['nodes']:,} nodes, {shape['links']:,} links, {shape['dimensions']} dimensions; "
        f"a copy moves {result['stream_gigabytes_a_second']:.1f} GB/s\n"
    )
    medians = result["median_ratios"]
    common.print_table(("ratio", "of minima", "median"), [(k, result[k], medians[k]) for k in medians])
    for title, key in (("part", "milliseconds"), (f"on {small['links']:,} links", "milliseconds_on_small")):
        print()
        rows = [(name, v["min"], v["median"], v["calls"]) for name, v in result[key].items()]
        common.print_table((title, "ms, least", "ms, median", "calls"), rows)


def main() -> None:
    parser = common.parser(__doc__, quick="one size, few rounds: at most a minute on two cores")
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_500_000)
    parser.add_argument("--size", type=int, default=128, help="dimensions")
    options = common.parsed(parser, nodes=400, links=2_000, size=8)
    warnings.filterwarnings("ignore", message="Sparse (CSR tensor support is in beta|invariant checks)")
    started = time.perf_counter()
    n, m, d = options.nodes, options.links, options.size
    deadline = started + QUICK_SECONDS if options.quick else math.inf
    others = []
    with held_memory():  # as in training, and for all alike
        repeats = 2 if options.smoke else 5 if options.quick else 9
        copied = SMOKE_BYTES if options.smoke else STREAM_BYTES
        result = measure(n, m, d, repeats=repeats, deadline=deadline, stream_bytes=copied)
        if not options.quick:
            shapes = [(n, m, d // 2), (n, m, 2 * d), (n // 10, m // 10, d)]
            others = [measure(*shape, repeats=min(5, repeats), stream_bytes=copied) for shape in shapes]
    result |= common.machine() | {"seconds": time.perf_counter() - started, "peak_gigabytes": common.peak_gigabytes()}
    if others:
        result["other_sizes"] = others
    if options.picture:
        ratios = {name: result[name] for name in (*HEADLINES, *ALSO_DRAWN)}
        title = f"{n:,} nodes, {m:,} links, {d} dimensions, {result['threads']} threads"
        common.bars(options.picture, ratios, title=title, label="time of the first over time of the second")
    common.report(options, result, lambda: show_all(result, others))


def show_all(result: dict[str, Any], others: list[dict[str, Any]]) -> None:
    common.print_machine(result)
    for each in (result, *others):
        show(each)
    print(f"\n{result['seconds']:.0f} seconds, {result['peak_gigabytes']:.1f} GiB at most")


if __name__ == "__main__":
    main()
