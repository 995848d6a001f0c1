"""The paper's decoding table from finished runs: source nodes per second against all targets.

python benchmarks/speed/retrieval.py --json > retrieval.json
python benchmarks/speed/inference.py citation2 --json > inference.json
python benchmarks/speed/decoding_table.py retrieval.json inference.json > docs/results/decoding.md
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parents[2] / "docs" / "performance"
ROWS = {  # name: key of the milliseconds per node, and of the recall, if it is not all
    "HadamardMLP, a torch loop": ("flashlight_loop_ms", None),
    "HadamardMLP, everybody scored": ("unscreened_ms", None),
    "HadamardMLP, exact by bounds": ("flashlight_exact_ms", None),
    "HadamardMLP, Flashlight": ("flashlight_ms", "flashlight_recall"),
    "dot product, a torch loop": ("mips_loop_ms", None),
    "dot product, exact": ("mips_exact_ms", None),
    "dot product, PyG's flat index": ("pyg_flat_ms", None),
    "dot product, PyG's approximate index": ("pyg_ms", "pyg_recall"),
    "dot product, MIPS": ("mips_ms", "mips_recall"),
}
# the paper's table of decoding on ogbl-citation2, 2.9 million targets, on its authors' CPU: name, nodes per second, and
# what stands beside it here: a method that is timed by pairs, or keys as in ROWS
PAPER: tuple[tuple[str, float, str | tuple[str, str | None]], ...] = (
    ("SEAL", 0.00024, "seal"),
    ("BUDDY", 0.005, "buddy"),
    ("YinYanGNN", 0.6, ("unscreened_ms", None)),
    ("YinYanGNN, dot product", 1.3, ("mips_exact_ms", None)),
    ("YinYanGNN, dot product + MIPS", 25.0, ("mips_ms", "mips_recall")),
)
INTRODUCTION = (
    "The hundred best partners of a node among all, embeddings of 128 dimensions from trained models, two cores. The "
    "recall@100 is in brackets where it is below 1."
)
BESIDE = (
    "The paper's table, on ogbl-citation2 (2.9 million targets) and another processor, recall not stated. Ours are of "
    "synthetic graphs: {large:,} nodes, and {pairs:,} nodes for SEAL and BUDDY. These two are extrapolated from "
    "sampled pairs: one over the seconds per pair times the number of nodes, work per graph left out."
)
COMMANDS = (
    "Made by `python benchmarks/speed/retrieval.py --json > retrieval.json`, `python benchmarks/speed/inference.py "
    "citation2 --json > inference.json` and `python benchmarks/speed/decoding_table.py retrieval.json inference.json`."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=KEPT / "retrieval.json", help="of retrieval.py --json")
    default = KEPT / "inference-citation2.json"
    parser.add_argument("inference", type=Path, nargs="?", default=default, help="of inference.py citation2 --json")
    parser.add_argument("--smoke", action="store_true", help="the same: it measures nothing")
    options = parser.parse_args()
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in (options.run, options.inference)]
    print(page(runs[0]["sizes"], runs[1]))


def page(sizes: list[dict[str, Any]], inference: dict[str, Any]) -> str:
    """Markdown: ours at every size, then the paper's table with ours beside it."""
    nodes = inference["size"]["nodes"]
    largest = max(sizes, key=lambda size: int(size["nodes"]))
    by_pairs = {row["method"]: row["pair"] for row in inference["methods"]}
    lines = [
        *("# Decoding: nodes per second", "", wrapped(INTRODUCTION), ""),
        "| nodes | " + " | ".join(f"{size['nodes']:,}" for size in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    lines += [f"| {name} | " + " | ".join(entry(size, *keys) for size in sizes) + " |" for name, keys in ROWS.items()]
    lines += ["", wrapped(COMMANDS), "", wrapped(BESIDE.format(large=largest["nodes"], pairs=nodes)), ""]
    lines += ["| method | the paper | here |", "| --- | --- | --- |"]
    for name, rate, source in PAPER:
        if isinstance(source, str):
            here = f"{1 / (by_pairs[source] * nodes):.2g} (extrapolated)"
        else:
            here = entry(largest, *source)
        lines.append(f"| {name} | {rate:g} | {here} |")
    return "\n".join(lines)


def entry(size: dict[str, Any], milliseconds: str, recall: str | None) -> str:
    """Nodes per second in three digits, and the recall."""
    rate = f"{1e3 / size[milliseconds]:,.3g}" if size[milliseconds] > 1 else f"{1e3 / size[milliseconds]:,.0f}"
    return rate if recall is None else f"{rate} ({size[recall]:.3f})"


def wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False)


if __name__ == "__main__":
    main()
