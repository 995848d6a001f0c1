"""The paper's decoding table from a finished run of retrieval.py: source nodes a second against all targets.

python benchmarks/speed/retrieval.py --json > retrieval.json
python benchmarks/speed/decoding_table.py retrieval.json > docs/results/decoding.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parents[2] / "docs" / "performance" / "retrieval.json"
PAPER = {  # its table of decoding on ogbl-citation2, 2.9 million targets, on its authors' CPU
    "SEAL": 0.00024,
    "BUDDY": 0.005,
    "YinYanGNN": 0.6,
    "YinYanGNN, dot product": 1.3,
    "YinYanGNN, dot product + MIPS": 25.0,
}
ROWS = {  # name: key of the milliseconds a node, and of the recall, if it is not all
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?", default=KEPT, help="what retrieval.py --json printed")
    parser.add_argument("--smoke", action="store_true", help="the same: it measures nothing")
    print(page(json.loads(parser.parse_args().run.read_text(encoding="utf-8"))["sizes"]))


def page(sizes: list[dict[str, Any]]) -> str:
    """Markdown: ours at every size, then what the paper has."""
    lines = [
        "# Decoding: nodes a second",
        "",
        "The hundred best partners of a node among all, embeddings of 128 dimensions from trained models, two cores; "
        "in brackets the recall@100, where it is not everything.",
        "",
        "| nodes | " + " | ".join(f"{size['nodes']:,}" for size in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    lines += [f"| {name} | " + " | ".join(entry(size, *keys) for size in sizes) + " |" for name, keys in ROWS.items()]
    lines += [
        "",
        "Made by `python benchmarks/speed/retrieval.py --json > retrieval.json` and `python "
        "benchmarks/speed/decoding_table.py retrieval.json`.",
        "",
        "What the paper has, on ogbl-citation2 (2.9 million targets) and another processor, recall not stated; not to "
        "be compared line by line:",
        "",
        "| the paper | nodes a second |",
        "| --- | --- |",
        *(f"| {name} | {rate:g} |" for name, rate in PAPER.items()),
    ]
    return "\n".join(lines)


def entry(size: dict[str, Any], milliseconds: str, recall: str | None) -> str:
    """Nodes a second in three digits, and the recall."""
    rate = f"{1e3 / size[milliseconds]:,.3g}" if size[milliseconds] > 1 else f"{1e3 / size[milliseconds]:,.0f}"
    return rate if recall is None else f"{rate} ({size[recall]:.3f})"


if __name__ == "__main__":
    main()
