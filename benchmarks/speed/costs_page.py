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
import textwrap
from pathlib import Path
from typing import Any

import _path  # noqa: F401
from decoding_table import KEPT, wrapped
from lib.large_costs import OURS
from yinyan.peers import METHODS
from yinyan.text import counted

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
NAMES = {
    "yinyan-as-suggested": "YinYanGNN, ours with default settings",
    **{"mlp": "MLP", "gcn": "GCN", "sage": "GraphSAGE", "ncn": "NCN", "ncnc": "NCNC", "gdgnn": "GDGNN"},
    **{"neo-gnn": "Neo-GNN", "ocn": "OCN", "seal": "SEAL", "buddy": "BUDDY", "elph": "ELPH", "surel": "SUREL"},
    **{"surel+": "SUREL+", "lpformer": "LPFormer", "nbfnet": "NBFNet"},
}
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
    "nodes. Hubs of a smaller graph have fewer neighbours, so that its times err on the low side. Each part was timed "
    "once on a busy machine, and samples of slow methods are small (`pairs_timed` in the kept results): take the "
    "figures of slow methods as orders of magnitude. *GiB* is the peak of memory, the graph included; 10 were meant as "
    "the limit, and the table shows which methods exceed it."
)
PAPER_WORDS = (
    "The paper's seconds are of a GPU, and of the released code of each method: their ratios can be compared with "
    "ours, not the seconds."
)
TRAINING = (
    "Both methods in the same loop, with the settings that the library chooses for that size. The time of a step is "
    "measured ({steps}); epochs and whole trainings are extrapolated from it, and early stopping would end either "
    "sooner. An epoch passes all training edges once. Every step passes messages over the whole graph: ours hides a "
    "twelfth of the edges in each, BUDDY {buddy_batch:,} edges. BUDDY takes {step:.1f} times as long per step, and has "
    "{count:,.0f} times as many steps. That number is one of settings: the peers' common ones were never chosen for a "
    "graph of this size, and what accuracy either training ends with is not measured here. So compare steps, not whole "
    "trainings. The paper has 12.5 minutes for YinYanGNN and 3 hours for BUDDY, on a GPU."
)
NEGATIVES = (
    "Milliseconds of the encoder's part of a training step (forward and backward) and of an embedding pass. *Mean* is "
    "the mean of all negative graphs, our default. Accuracy against K is on the page of the [recipe](negatives-k.md)."
)


def number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.3g}" if value < 999.5 else f"{value:,.0f}"


def seconds(value: float, *, extrapolated: bool) -> str:
    """Seconds, or days where they are many."""
    if value < 1e-3:
        return "–"
    text = number(value) if value < 3 * 86_400 else f"{number(value / 86_400)} days"
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
        name = NAMES[row["method"]]
        kind = "edge-wise" if METHODS[row["method"]].family == "edge-wise" else "node-wise"
        cells = [name, kind, f"{row['nodes']:,}", *parts, number(1e6 * row["pair"])]
        cells += [seconds(row["pairs"], extrapolated="pairs" in marked)]
        cells += [seconds(row["seconds"], extrapolated=bool(marked))]
        cells += ["–" if row["peak_gigabytes"] is None else f"{row['peak_gigabytes']:.1f}"]
        lines.append("| " + " | ".join([*cells, "" if paper is None else f"{paper:,g}"]) + " |")
        notes += [f"- {name}: {row['note']}."] if row["note"] else []
    return [*lines, "", *(textwrap.fill(note, 100, subsequent_indent="  ", break_on_hyphens=False) for note in notes)]


def training_table(run: dict[str, Any]) -> list[str]:
    head = ("method", "edges per step", "steps per epoch", "epochs", "before the steps, s", "s per step", "s per epoch")
    head = (*head, "whole training, h")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in run["methods"]:
        name = NAMES[row["method"]]
        cells = [name, *(f"{row[key]:,}" for key in ("batch_size", "steps_per_epoch", "epochs"))]
        cells += [f"{number(row['prepare'])} e", number(row["seconds_per_step"])]
        cells += [f"{number(value)} e" for value in (row["seconds_per_epoch"], row["seconds"] / 3600)]
        lines.append("| " + " | ".join(cells) + " |")
    ours, buddy = (next(row for row in run["methods"] if row["method"] == name) for name in (OURS, "buddy"))
    count = [row["steps_per_epoch"] * row["epochs"] for row in (ours, buddy)]
    told = TRAINING.format(
        buddy_batch=buddy["batch_size"],
        steps=counted(ours["steps_timed"], "step"),
        step=buddy["seconds_per_step"] / ours["seconds_per_step"],
        count=count[1] / count[0],
    )
    return [wrapped(told), "", *lines]


def negatives_table(run: dict[str, Any]) -> list[str]:
    names = list(run["graphs"])
    sizes = [f"{name}, {run['sizes'][name][0]:,} nodes" for name in names]
    head = ["negative graphs", *(f"{size}: {part}" for size in sizes for part in ("step, ms", "embedding, ms"))]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for rows in zip(*(run["graphs"][name] for name in names), strict=True):
        times = [number(row[part]) for row in rows for part in ("step_ms", "embed_ms")]
        lines.append("| " + " | ".join([rows[0]["negatives"], *times]) + " |")
    return lines


def page(folder: Path) -> str:
    """Markdown."""
    runs = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("inference-ppa", "inference-citation2", "training-costs", "negative-graphs")
    }
    machine = f"Times are processor seconds of one thread ({runs['inference-ppa']['processor']})."
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
