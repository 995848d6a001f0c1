"""Accuracy over inference time per pair on Cora: a page and a picture from finished runs.

python benchmarks/speed/inference.py cora --json > docs/performance/inference-cora.json
python benchmarks/speed/accuracy_time.py --picture docs/results/accuracy-time.png > docs/results/accuracy-time.md

Hits@100 are those of the kept runs of the recipes (docs/results/cells) under the clean protocol. A method without such
a run has no dot. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import _path  # noqa: F401
from decoding_table import KEPT, wrapped
from lib.cora_costs import RECIPES, sources
from lib.labelled_dots import Dot, draw
from yinyan.peers import METHODS
from yinyan.reproduce import Job, kept_results, read_recipe

RESULTS = KEPT.parent / "results"
NAMES = {  # rows whose names are longer than a dot's label may be
    "yinyan-as-suggested": "YinYanGNN (ours, default)",
    "yinyan": "YinYanGNN (ours, plain)",
}
KINDS = {"edge-wise": "edge-wise", "heuristic": "heuristic"}  # of families; of all others it is node-wise
INTRODUCTION = (
    "Cora, clean protocol: Hits@100 of the test edges against microseconds per test pair. The time is that of all "
    "{pairs:,} test pairs over their number: work per graph (sketches, walks, PageRanks), the embedding pass and the "
    "pairs themselves. Work per graph and the embedding pass weigh more here than on a set with more pairs. Node-wise "
    "methods score two stored vectors; edge-wise methods and heuristics look at the graph around each pair."
)
CAVEATS = (
    "Times: processor time of one thread ({processor}), the fastest of three passes, untrained weights, which cost the "
    "same as trained ones. Ours with default settings is trained, as validation edges decide what is added to its "
    "scores ({ours}). Settings are those of the recipe in the table, but for times with a star: the "
    "method's own. Times at larger sizes are on the page of [costs](inference.md)."
)
EFFORT = (
    "The methods were not tuned alike. Rows of `peers` have the best of four candidates by validation edges; rows of "
    "`gnns` and `non-gnn` share settings; our defaults were developed on Cora's validation edges over many more trials "
    "([accuracy](../research/accuracy.md)). Seeds differ too, and one seed is little: the order of methods that are a "
    "point or two apart is not settled by this page."
)
COMMANDS = (
    "Made by `python benchmarks/speed/inference.py cora --json > docs/performance/inference-cora.json` and `python "
    "benchmarks/speed/accuracy_time.py --picture docs/results/accuracy-time.png > docs/results/accuracy-time.md`, "
    "after `yinyan reproduce` of the recipes {recipes}."
)


class Point(NamedTuple):
    """A method in the plane."""

    method: str
    name: str
    kind: str
    recipe: str
    hits: list[float]  # per cent, one per seed
    row: dict[str, Any]  # of inference.py
    otherwise: bool  # whether it was timed with other settings than the recipe's

    @property
    def microseconds(self) -> float:
        """Per pair."""
        return 1e6 * float(self.row["pair"])


def points(rows: list[dict[str, Any]], folder: Path) -> list[Point]:
    """The methods that have both a time and an accuracy, the most accurate first."""
    found = []
    timed = {row["method"]: row for row in rows}
    for source in sources():
        if not source.recipe or source.method not in timed:
            continue
        wanted = [
            cell
            for cell in read_recipe(source.recipe).cells()
            if (cell.method, cell.row, cell.data, cell.protocol) == (source.method, source.label, "cora", "clean")
        ]
        hits = [result.figure for result in kept_results(wanted, Job(folder)) if result.figure is not None]
        if hits:
            name = NAMES.get(source.method, source.label)
            kind, row = KINDS.get(METHODS[source.method].family, "node-wise"), timed[source.method]
            other = row["settings"] != source.settings
            found.append(Point(source.method, name, kind, source.recipe, hits, row, other))
    return sorted(found, key=lambda point: -mean(point.hits))


def page(run: dict[str, Any], found: list[Point]) -> str:
    """Markdown: what is shown, the table, the commands."""
    pairs = max(row["pairs_timed"] for row in run["methods"])
    ours = next((row["note"] for row in run["methods"] if row["method"] == "yinyan-as-suggested"), "not timed")
    named = ", ".join(f"`{name}`" for name in RECIPES if any(point.recipe == name for point in found))
    head = (
        "method",
        "kind",
        "Hits@100",
        "seeds",
        "recipe",
        "µs per pair",
        "per graph, ms",
        "embedding, ms",
        "pairs, ms",
    )
    lines = ["# Accuracy over inference time", "", "![Hits@100 over microseconds per pair](accuracy-time.png)", ""]
    lines += [wrapped(INTRODUCTION.format(pairs=pairs)), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for point in found:
        spread = f" ± {stdev(point.hits):.2f}" if len(point.hits) > 1 else ""
        parts = [f"{1e3 * point.row[part]:.3g}" for part in ("prepare", "embed", "pairs")]
        cells = [point.name, point.kind, f"{mean(point.hits):.2f}{spread}", str(len(point.hits)), f"`{point.recipe}`"]
        lines.append("| " + " | ".join([*cells, f"{point.microseconds:,.3g}{' *' * point.otherwise}", *parts]) + " |")
    told = CAVEATS.format(processor=run["processor"], ours=ours)
    without = [row["method"] for row in run["methods"] if row["method"] not in {point.method for point in found}]
    lines += ["", wrapped(told), "", wrapped(EFFORT)]
    if without:
        lines += ["", wrapped(f"Timed, but without a kept run on Cora: {', '.join(without)}.")]
    return "\n".join([*lines, "", wrapped(COMMANDS.format(recipes=named))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = KEPT / "inference-cora.json"
    parser.add_argument("run", type=Path, nargs="?", default=default, help="of inference.py cora --json")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the kept runs")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw it (needs matplotlib)")
    parser.add_argument("--smoke", action="store_true", help="the same: it measures nothing")
    options = parser.parse_args()
    run = json.loads(options.run.read_text(encoding="utf-8"))
    found = points(run["methods"], options.results)
    if options.picture:
        dots = [
            Dot(point.name, point.microseconds, mean(point.hits), point.kind, point.method.startswith("yinyan"))
            for point in found
        ]
        draw(options.picture, dots)
    print(page(run, found))


if __name__ == "__main__":
    main()
