"""What layers of the decoder cost at inference: scoring given pairs, and finding the best partners among all.

python benchmarks/speed/decoder_depth.py             # 20,000 nodes, 256 dimensions, sketches of 64
python benchmarks/speed/decoder_depth.py --json --picture depths.png

Parts take turns, the fastest of five calls counts; ratios are to two layers in the same run, which is what graphs with
features and few links get. Layers from the third on are normalised and residual, as in what is suggested without
features. Scored are 200,000 random pairs of stored rows; partners are found by scoring everybody, since random rows
cannot be screened well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from yinyan.model.decoder import build_decoder
from yinyan.model.scoring import decode
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings, EncoderSettings

DEPTHS = (1, 2, 3, 4)
REPEATS = 5
SOURCES = 8  # whose partners are sought at a time


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=256, help="dimensions")
    parser.add_argument("--sketch", type=int, default=64, help="dimensions of sketches")
    parser.add_argument("--pairs", type=int, default=200_000)
    options = common.parsed(parser, nodes=300, size=16, sketch=8, pairs=500)
    rows = measure(options.nodes, options.size, options.sketch, options.pairs)
    if options.picture:
        bars = {f"{part}, depth {row['depth']}": row[f"{part}_ratio"] for part in ("pairs", "partners") for row in rows}
        common.bars(options.picture, bars, title="Layers of the decoder", label="ratio to two layers")
    common.report(options, {"rows": rows} | common.machine(), lambda: show(rows))


def show(rows: list[dict[str, Any]]) -> None:
    common.print_machine(common.machine())
    common.print_table(("layers", "pairs, ms", "ratio", "partners, ms", "ratio"), [tuple(row.values()) for row in rows])


def measure(num_nodes: int, size: int, sketch: int, num_pairs: int) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(num_nodes, size + EncoderSettings(sketch_size=sketch).structure_columns, generator=generator)
    y[:, -1].abs_()  # the logarithm of a degree
    asked = torch.randint(num_nodes, (num_pairs, 2), generator=generator)
    rows, sources = Snapshot.of(y), np.arange(SOURCES)
    tasks: dict[str, common.Task] = {}
    for depth in DEPTHS:
        settings = DecoderSettings(depth=depth, width=size, norm=depth > 2, residual=depth > 2)
        decoder = build_decoder(settings, size, directed=False, sketch_size=sketch)
        tasks[f"pairs {depth}"] = lambda decoder=decoder: decode(decoder, y, asked)
        search = ExactSearch(decoder, screen=False)
        tasks[f"partners {depth}"] = lambda search=search: search.top_k(rows, sources, 100)
    times = common.Times()
    times.run(tasks, REPEATS)
    least = {name: 1e3 * times.least(name) for name in tasks}
    return [
        {
            "depth": depth,
            "pairs_ms": least[f"pairs {depth}"],
            "pairs_ratio": least[f"pairs {depth}"] / least["pairs 2"],
            "partners_ms": least[f"partners {depth}"],
            "partners_ratio": least[f"partners {depth}"] / least["partners 2"],
        }
        for depth in DEPTHS
    ]


if __name__ == "__main__":
    main()
