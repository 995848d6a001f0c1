"""Tuned against default settings: validation edges choose, test edges are scored once.

YINYAN_DATA=/data python benchmarks/ablations/tuned_settings.py --json           # two held-out graphs, some hours
YINYAN_DATA=/data python benchmarks/ablations/tuned_settings.py --data usair --minutes 1 --json   # minutes

Protocol clean. For each data set and seed, the search sees the graph without the test edges, within its budget; the
settings that it returns and the defaults are then fitted on the split of the seed, and both are scored on its test
edges. `gain` is the mean over the seeds of tuned minus default, `±` its standard deviation over the seeds. Where a
search keeps the defaults, both are one fit and the gain is 0. The budget is in minutes, so that a faster machine tries
more settings.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

import _path  # noqa: F401
from lib import common
from yinyan import LinkPredictor
from yinyan.evaluation import evaluate_seed, make_split
from yinyan.graph import Graph
from yinyan.tuning.outcome import in_words
from yinyan.tuning.search import tune

FIGURES = ("mrr", "auc")


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--data", nargs="+", default=["collegemsg", "lastfm-friends"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=20.0, help="budget of each search")
    parser.add_argument("--trials", type=int, help="maximum number of trials of each search")
    options = common.parsed(parser, data=["usair"], seeds=1, trials=2)
    runs = []
    for name in options.data:
        graph = common.load_data(name, smoke=options.smoke).graph
        runs += [compared(name, graph, seed, options) for seed in range(options.seeds)]
    result = {"machine": common.machine(), "minutes": options.minutes, "runs": runs, "gains": gains(runs)}
    common.report(options, result, lambda: show(result))


def compared(name: str, graph: Graph, seed: int, options: Any) -> dict[str, Any]:
    """A search without the test edges of a seed, and both settings on them."""
    given = common.SMALL if options.smoke else {}
    found = tune(
        make_split(graph, "clean", seed).graph_without_test(),
        minutes=options.minutes,
        given=given,
        seed=seed,
        seeds=2 if options.smoke else 3,
        device=torch.device("cpu"),
        trials=options.trials,
    )
    default = figures(graph, seed, given)
    tuned = figures(graph, seed, found.overrides) if found.chosen else default
    states = [trial.state for trial in found.trials]
    return {
        "data": name,
        "seed": seed,
        "trials": len(states),
        "pruned": states.count("pruned"),
        "search_seconds": round(found.seconds, 1),
        "validation_gain": found.chosen.gain if found.chosen else 0.0,
        "changes": in_words(found.chosen.values if found.chosen else {}),
        "default": default,
        "tuned": tuned,
    }


def figures(graph: Graph, seed: int, settings: dict[str, Any]) -> dict[str, float]:
    """Test figures of one fit."""
    model = LinkPredictor(**settings, device="cpu")
    measured = evaluate_seed(graph, protocol="clean", seed=seed, peers=(), model=model).metrics
    return {figure: measured[figure] for figure in FIGURES}


def gains(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each data set, the mean and the spread of tuned minus default."""
    found = []
    for name in dict.fromkeys(run["data"] for run in runs):
        own = [run for run in runs if run["data"] == name]
        for figure in own[0]["default"]:
            differences = [run["tuned"][figure] - run["default"][figure] for run in own]
            found.append(
                {
                    "data": name,
                    "figure": figure,
                    "default": statistics.fmean(run["default"][figure] for run in own),
                    "tuned": statistics.fmean(run["tuned"][figure] for run in own),
                    "gain": statistics.fmean(differences),
                    "spread": statistics.stdev(differences) if len(differences) > 1 else 0.0,
                }
            )
    return found


def show(result: dict[str, Any]) -> None:
    """Two tables: means over the seeds, and the searches."""
    header = ("data", "figure", "default", "tuned", "gain", "±")
    common.print_table(header, [tuple(row.values()) for row in result["gains"]])
    print()
    names = ("data", "seed", "trials", "pruned", "search_seconds", "validation_gain", "changes")
    common.print_table(names, [tuple(run[name] for name in names) for run in result["runs"]])


if __name__ == "__main__":
    main()
