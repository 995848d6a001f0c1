"""Milliseconds until a changed link is in the embeddings, beside those of embedding all nodes again.

python benchmarks/speed/live_updates.py                    # 200,000 nodes, 2 million edges, 64 dimensions
python benchmarks/speed/live_updates.py --json --picture live-updates.png
python benchmarks/speed/live_updates.py --tolerance 1e-4   # as in the service: rows_reached moved by more

Random new links are added one at a time to yinyan.live.embeddings.LiveEmbeddings, which computes the rows that a change
reaches; the median and the slowest tenth of 40 are set against yinyan.model.inference.embed_all in the same run, with
expected and with sampled negatives, for two and three layers.
"""

from __future__ import annotations

import statistics

import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from yinyan.live.embeddings import LiveEmbeddings
from yinyan.model.encoder import Encoder
from yinyan.model.inference import embed_all
from yinyan.model.messages import MessageGraph
from yinyan.sampling import distinct_pairs
from yinyan.settings import EncoderSettings

CHANGES, WHOLE = 40, 3


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=64, help="dimensions")
    parser.add_argument("--tolerance", type=float, default=0.0, help="follow a change no further than it moves rows by")
    options = common.parsed(parser, nodes=300, links=1_500, size=8)
    messages = MessageGraph.from_pairs(synthetic(options.nodes, options.links, 0), options.nodes)
    features = torch.randn(options.nodes, options.size, generator=torch.Generator().manual_seed(0))
    rows = [
        measure(messages, features, num_steps, options.tolerance, expected=expected)
        for num_steps in (2, 3)
        for expected in (True, False)
    ]
    if options.picture:
        ratios = {f"{row['negatives']}, {row['layers']} layers": row["change_over_whole"] for row in rows}
        common.bars(options.picture, ratios, title="One new link", label="its time over that of all nodes")
    common.report(options, {"rows": rows} | common.machine(), lambda: show(rows))


def show(rows: list[dict[str, object]]) -> None:
    common.print_machine(common.machine())
    common.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows])


def measure(
    messages: MessageGraph, features: torch.Tensor, num_steps: int, tolerance: float, *, expected: bool
) -> dict[str, object]:
    settings = EncoderSettings(
        inputs="features", hidden_size=features.shape[1], num_steps=num_steps, expected_negatives=expected
    )
    encoder = Encoder(settings, messages.num_nodes, features.shape[1])
    times = common.Times()
    whole = {"whole": lambda: embed_all(encoder, features, messages, negatives=torch.Generator().manual_seed(0))}
    with torch.no_grad():
        times.run(whole, WHOLE)  # type: ignore[arg-type]
    live = LiveEmbeddings(encoder, features, messages, tolerance=tolerance)
    reached = []
    for pair in distinct_pairs(messages.known, CHANGES, torch.Generator().manual_seed(1)).tolist():
        times.once("change", lambda pair=pair: reached.append(live.add_links([pair]).size))  # type: ignore[misc]
    spent = sorted(times.seconds["change"])
    return {
        "negatives": "expected" if expected else "sampled",
        "layers": num_steps,
        "whole_ms": 1e3 * times.least("whole"),
        "change_ms": 1e3 * statistics.median(spent),
        "slowest_tenth_ms": 1e3 * spent[int(0.9 * len(spent))],
        "rows_reached": int(statistics.median(reached)),
        "change_over_whole": statistics.median(spent) / times.least("whole"),
    }


if __name__ == "__main__":
    main()
