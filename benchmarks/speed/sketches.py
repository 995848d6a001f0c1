"""What sketches cost at inference: embedding all nodes, scoring pairs, and bytes a node.

python benchmarks/speed/sketches.py            # 100,000 nodes, 1 million links, 256 dimensions
python benchmarks/speed/sketches.py --json --picture sketches.png

Parts take turns, the fastest of five calls counts; ratios are to the model without sketches in the same run. Scored are
200,000 random pairs of stored rows by a HadamardMLP of two layers.
"""

from __future__ import annotations

from typing import Any

import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import in_local_order, synthetic
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import Encoder
from yinyan.model.inference import embed_all
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import decode
from yinyan.native.allocation import held_memory
from yinyan.settings import DecoderSettings, EncoderSettings

SIZES = (0, 32, 64, 128, 256)
REPEATS = 5
PARTS = ("embed", "score", "bytes")


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=256, help="dimensions")
    parser.add_argument("--pairs", type=int, default=200_000)
    options = common.parsed(parser, nodes=300, links=1_500, size=16, pairs=500)
    with held_memory():
        rows = measure(options.nodes, options.links, options.size, options.pairs)
    if options.picture:
        bars = {
            f"{name}, sketch {row['sketch']}": row[f"{name}_ratio"] for name in PARTS for row in rows if row["sketch"]
        }
        common.bars(options.picture, bars, title="With sketches", label="ratio to the model without")
    common.report(options, {"rows": rows} | common.machine(), lambda: show(rows))


def show(rows: list[dict[str, Any]]) -> None:
    common.print_machine(common.machine())
    names = ("sketch", "embed, ms", "ratio", "score, ms", "ratio", "bytes per node", "ratio")
    common.print_table(names, [tuple(row.values()) for row in rows])


def measure(num_nodes: int, num_links: int, size: int, num_pairs: int) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    pairs = in_local_order(synthetic(num_nodes, num_links, 0), num_nodes)
    messages = MessageGraph.from_pairs(pairs, num_nodes)
    x = torch.randn(num_nodes, size, generator=generator)
    asked = torch.randint(num_nodes, (num_pairs, 2), generator=generator)
    tasks: dict[str, common.Task] = {}
    widths = {}
    for sketch in SIZES:
        encoder = Encoder(EncoderSettings(inputs="features", hidden_size=size, sketch_size=sketch), num_nodes, size)
        decoder = build_decoder(DecoderSettings(width=size), size, directed=False, sketch_size=sketch)
        y = embed_all(encoder, x, messages, negatives=None)
        widths[sketch] = y.shape[1] * y.element_size()
        tasks[f"embed {sketch}"] = lambda encoder=encoder: embed_all(encoder, x, messages, negatives=None)
        tasks[f"score {sketch}"] = lambda decoder=decoder, y=y: decode(decoder, y, asked)
    times = common.Times()
    times.run(tasks, REPEATS)
    least = {name: 1e3 * times.least(name) for name in tasks}
    return [
        {
            "sketch": sketch,
            "embed_ms": least[f"embed {sketch}"],
            "embed_ratio": least[f"embed {sketch}"] / least["embed 0"],
            "score_ms": least[f"score {sketch}"],
            "score_ratio": least[f"score {sketch}"] / least["score 0"],
            "bytes": widths[sketch],
            "bytes_ratio": widths[sketch] / widths[0],
        }
        for sketch in SIZES
    ]


if __name__ == "__main__":
    main()
