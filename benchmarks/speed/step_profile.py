"""Where the time of a training step's encoder goes: every part of it alone, at the size of propagation.py.

python benchmarks/speed/step_profile.py                 # 200,000 nodes, 2.5 million links, 128 dimensions, T = 2
python benchmarks/speed/step_profile.py --json --picture parts.png

Parts take turns, and the fastest of seven calls counts. "A step" is a forward and a backward pass of the encoder with
non-links drawn by blocks and a learned repulsion, a tenth of the links hidden, on nodes in local order; "rest" is what
its parts leave of it. Last come what a layer's links cost in the order given, and its non-links if drawn globally.
"""

from __future__ import annotations

import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import in_local_order, synthetic
from yinyan.model.encoder import Encoder
from yinyan.model.layer import Layer
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import EdgeStructure
from yinyan.native import graph_kernels
from yinyan.native.allocation import held_memory
from yinyan.sampling import draw_pairs
from yinyan.sampling.blocks import _Plan, draw_block_pairs
from yinyan.settings import EncoderSettings

REPEATS = 7


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_500_000)
    parser.add_argument("--size", type=int, default=128, help="dimensions")
    options = common.parsed(parser, nodes=300, links=1_500, size=8)
    with held_memory():
        times = measure(options.nodes, options.links, options.size)
    parts = {name: 1e3 * times.least(name) for name in times.seconds}
    within = [name for name in parts if name.startswith("  ")]
    parts["  rest"] = parts["a step"] - sum(parts[name] * (2 if "layer" in name else 1) for name in within)
    if options.picture:
        drawn = {name.strip(): value for name, value in parts.items() if name != "a step"}
        common.bars(options.picture, drawn, title="Parts of a step", label="milliseconds", line=None)
    common.report(options, {"milliseconds": parts} | common.machine(), lambda: show(parts))


def show(parts: dict[str, float]) -> None:
    common.print_machine(common.machine())
    common.print_table(("part", "ms"), list(parts.items()))


def measure(num_nodes: int, num_links: int, size: int) -> common.Times:
    generator = torch.Generator().manual_seed(0)
    pairs = synthetic(num_nodes, num_links, 0)
    messages = MessageGraph.from_pairs(in_local_order(pairs, num_nodes), num_nodes)
    settings = EncoderSettings(
        inputs="features", hidden_size=size, num_steps=2, expected_negatives=False, sampler="blocks",
        feature_dropout=0.0, dropout=0.0, output_norm=False,
    )  # fmt: skip
    encoder = Encoder(settings, num_nodes, size)
    x, f, cotangent = (torch.randn(num_nodes, size, generator=generator) for _ in range(3))
    hidden = torch.rand(num_links, generator=generator) < 0.1
    terms = messages.terms(settings, encoder.repulsion().detach(), generator, hidden=hidden)
    layer = Layer.of(terms, 0.3)
    matrices = layer.matrices
    drawn = draw_block_pairs(messages.known, num_links, generator)
    uniform = draw_pairs(messages.known, num_links, generator)
    non_links = EdgeStructure.from_pairs(drawn, num_nodes, weighted=False)
    scale, out = torch.rand(num_nodes), torch.empty_like(f)
    plan = _Plan.drawn(num_nodes, generator, torch.device("cpu"))

    def unweighted(given: torch.Tensor) -> graph_kernels.Csr:
        made = EdgeStructure.from_pairs(given, num_nodes, weighted=False).scaled(None, scale)
        return graph_kernels.Csr(made.indptr, made.columns, made.values)

    as_given, strewn = unweighted(pairs), unweighted(uniform)

    def step() -> None:
        encoder.zero_grad(set_to_none=True)
        encoder(x, messages, negatives=generator, hidden=hidden).backward(cotangent)

    def without_gradients(task: common.Task) -> common.Task:
        return torch.no_grad()(task)

    times = common.Times()
    backward = graph_kernels.Beside(layer.own, layer.base, gathered=cotangent, gathering="store", other=x)
    tasks = {
        "a step": step,
        "  degrees and values of the links": lambda: messages.terms(
            EncoderSettings(num_negatives=0), layer.factors[:0], None, hidden=hidden
        ),
        "  drawing non-links": lambda: plan.pairs(0, num_links, None),
        "  rejecting known pairs": lambda: messages.known.clashes(drawn),
        "  building their matrix": lambda: EdgeStructure.from_pairs(drawn, num_nodes, weighted=False),
        "  its values": lambda: non_links.scaled(None, scale),
        "  the linear layer of f": lambda: encoder.base(x, None),
        "  a layer's links, forward": lambda: graph_kernels.layer(f, out, matrices[:1]),
        "  a layer's non-links, forward": lambda: graph_kernels.layer(f, out, matrices[1:]),
        "  a layer, backward": lambda: graph_kernels.layer(f, out, matrices, backward),
        "a layer's links in the order given": lambda: graph_kernels.layer(f, out, [as_given]),
        "a layer's non-links drawn globally": lambda: graph_kernels.layer(f, out, [strewn]),
    }
    times.run({"a step": step}, REPEATS)
    times.run({name: without_gradients(task) for name, task in tasks.items() if name != "a step"}, REPEATS)
    return times


if __name__ == "__main__":
    main()
