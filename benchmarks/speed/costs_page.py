"""The page of costs from finished runs: inference, training, and the number of negative graphs.

python benchmarks/speed/inference.py ppa --json > docs/performance/inference-ppa.json
python benchmarks/speed/inference.py citation2 --json > docs/performance/inference-citation2.json
python benchmarks/speed/training_costs.py --json > docs/performance/training-costs.json
python benchmarks/speed/negative_graphs.py --json > docs/performance/negative-graphs.json
python benchmarks/speed/costs_page.py > docs/results/inference.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import _path  # noqa: F401
from decoding_table import KEPT, wrapped
from yinyan.peers import METHODS

# seconds on the test set, on the authors' GPU
PAPER = {
    "yinyan-as-suggested": (2, 3),
    "gcn": (1.7, 2.5),
    "neo-gnn": (19, 63),
    "buddy": (178, 385),
    "surel+": (299, 1516),
    "surel": (None, 11_367),
    "gdgnn": (None, 1680),
    "ncn": (None, 116),
    "seal": (4500, 48_000),
}
NAMES = {"yinyan-as-suggested": "YinYanGNN, ours with default settings"}
TITLES = {"ppa": "ogbl-ppa's size", "citation2": "ogbl-citation2's size"}
INTRODUCTION = (
    "Seconds that each method takes for the test pairs of a graph of the size of ogbl-ppa and of ogbl-citation2. The "
    "graphs are synthetic, with heavy-tailed degrees, communities, and the mean degrees of the two data sets. Weights "
    "are untrained: time does not depend on them. Settings are those that the library has for each method at that "
    "size; ours are those of `LinkPredictor` without any setting."
)
PARTS = (
    "*Per graph* is work that is done once: sketches, walks, PageRanks, sums over walks. *Embedding* is the pass over "
    "all nodes. *Pairs* are all test pairs. An `e` marks what is extrapolated: pairs from a sample of them, other "
    "parts from a smaller graph with the same mean degree (its number of nodes is in the table) or from a sample of "
    "nodes. Hubs of a smaller graph have fewer neighbours, so that its times err on the low side."
)
PAPER_WORDS = (
    "The paper's seconds are of a GPU, and of the released code of each method: their ratios can be compared with "
    "ours, not the seconds. Its SEAL, SUREL, GDGNN and NCN figures are as cited there."
)
TRAINING = (
    "Both methods in the same loop, with the settings that the library chooses for that size: ours in {ours:,} steps "
    "of {ours_batch:,} edges, BUDDY in {buddy:,} steps of {buddy_batch:,} edges. Everything is extrapolated from "
    "{steps} steps. Early stopping would end either sooner. Part of the difference is the choice of steps: with as few "
    "steps as ours, BUDDY would take {same:,.1f} h if the time of a step grew in proportion to its edges. The paper "
    "has 12.5 minutes for YinYanGNN and 3 hours for BUDDY, on a GPU."
)
NEGATIVES = (
    "Milliseconds of the encoder's part of a training step (forward and backward) and of an embedding pass. *Mean* is "
    "the mean of all negative graphs, our default. Accuracy against K is on the page of the [recipe](negatives-k.md)."
)


def seconds(value: float, *, extrapolated: bool) -> str:
    """Three digits, or days where hours are many."""
    if value < 1e-3:
        return "–"
    text = f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    if value > 3 * 86_400:
        text = f"{value / 86_400:,.0f} days"
    return text + (" e" if extrapolated else "")


def inference_table(run: dict[str, Any], place: int) -> list[str]:
    """One line per method, the fastest first."""
    head = ("method", "kind", "nodes timed", "per graph, s", "embedding, s", "µs per pair", "pairs, s", "total, s")
    head = (*head, "GiB", "the paper, s")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    notes = []
    for row in sorted(run["methods"], key=lambda row: float(row["seconds"])):
        marked = row["extrapolated"]
        parts = [seconds(row[part], extrapolated=part in marked) for part in ("prepare", "embed")]
        paper = PAPER.get(row["method"], (None, None))[place]
        name = NAMES.get(row["method"], f"`{row['method']}`")
        kind = "edge-wise" if METHODS[row["method"]].family == "edge-wise" else "node-wise"
        cells = [name, kind, f"{row['nodes']:,}", *parts, f"{1e6 * row['pair']:,.3g}"]
        cells += [seconds(row["pairs"], extrapolated="pairs" in marked)]
        cells += [seconds(row["seconds"], extrapolated=bool(marked))]
        cells += ["–" if row["peak_gigabytes"] is None else f"{row['peak_gigabytes']:.1f}"]
        lines.append("| " + " | ".join([*cells, "" if paper is None else f"{paper:,g}"]) + " |")
        notes += [f"- `{row['method']}`: {row['note']}."] if row["note"] else []
    return [*lines, "", *map(wrapped, notes)]


def training_table(run: dict[str, Any]) -> list[str]:
    head = ("method", "edges per step", "steps per epoch", "epochs", "s per step", "before the steps, s", "whole, h")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in run["methods"]:
        name = NAMES.get(row["method"], f"`{row['method']}`")
        cells = [name, *(f"{row[key]:,}" for key in ("batch_size", "steps_per_epoch", "epochs"))]
        cells += [f"{row['seconds_per_step']:.3g}", f"{row['prepare']:.3g} e", f"{row['seconds'] / 3600:,.3g} e"]
        lines.append("| " + " | ".join(cells) + " |")
    ours, buddy = (next(r for r in run["methods"] if (r["method"] == "buddy") == theirs) for theirs in (False, True))
    steps = {row["method"]: row["steps_per_epoch"] * row["epochs"] for row in (ours, buddy)}
    larger = ours["batch_size"] / buddy["batch_size"]
    same = (buddy["prepare"] + steps[ours["method"]] * buddy["seconds_per_step"] * larger) / 3600
    told = TRAINING.format(
        ours=steps[ours["method"]],
        buddy=steps["buddy"],
        ours_batch=ours["batch_size"],
        buddy_batch=buddy["batch_size"],
        steps=ours["steps_timed"],
        same=same,
    )
    return [wrapped(told), "", *lines]


def negatives_table(run: dict[str, Any]) -> list[str]:
    names = list(run["graphs"])
    sizes = [f"{name}, {run['sizes'][name][0]:,} nodes" for name in names]
    head = ["negative graphs", *(f"{size}: {part}" for size in sizes for part in ("step, ms", "embedding, ms"))]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for rows in zip(*(run["graphs"][name] for name in names), strict=True):
        times = [f"{row[part]:.3g}" for row in rows for part in ("step_ms", "embed_ms")]
        lines.append("| " + " | ".join([rows[0]["negatives"], *times]) + " |")
    return lines


def page(folder: Path) -> str:
    """Markdown."""
    runs = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("inference-ppa", "inference-citation2", "training-costs", "negative-graphs")
    }
    machine = f"{runs['inference-ppa']['processor']}, {runs['inference-ppa']['threads']} threads."
    lines = [
        "# Costs: inference, training, negative graphs",
        "",
        wrapped(INTRODUCTION),
        "",
        wrapped(PARTS),
        "",
        machine,
    ]
    for place, (name, title) in enumerate(TITLES.items()):
        size = runs[f"inference-{name}"]["size"]
        pairs = size["edges"] + size["negatives"]
        shape = f"{size['nodes']:,} nodes, {size['train']:,} training edges, {pairs:,} test pairs"
        features = f"{size['features']} feature columns" if size["features"] else "no features"
        lines += ["", f"## Inference at {title}", "", f"{shape}, {features}.", ""]
        lines += inference_table(runs[f"inference-{name}"], place)
    lines += ["", wrapped(PAPER_WORDS), "", "## Training at ogbl-ppa's size", ""]
    lines += [*training_table(runs["training-costs"]), "", "## Number of negative graphs", "", wrapped(NEGATIVES), ""]
    lines += [*negatives_table(runs["negative-graphs"]), "", "## Commands", "", "```"]
    lines += [*(__doc__ or "").strip().splitlines()[2:], "```"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=KEPT, help="of the results")
    parser.add_argument("--smoke", action="store_true", help="the same: it measures nothing")
    print(page(parser.parse_args().folder))


if __name__ == "__main__":
    main()
