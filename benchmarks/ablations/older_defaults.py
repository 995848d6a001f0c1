"""Test figures of default settings against those of an older revision, the same splits for both.

    python benchmarks/ablations/older_defaults.py --data lastfm-friends --seeds 0-8 --json
    python benchmarks/ablations/older_defaults.py --smoke

Both revisions fit and score the same clean splits, each in a process of its own. The seeds are given before the first
run, and nothing is chosen by what comes out. `difference` is ours minus the older revision's, the mean over the seeds,
in per cent of the data set's first metric; `standard_error` is that of this mean, paired by seed. --keep FILE keeps
finished runs as lines of JSON and reuses them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
from pathlib import Path
from typing import Any

import _path  # noqa: F401
from lib import common, fit_runs

OLD = "647f649"


def measured(options: argparse.Namespace, old: Path) -> list[dict[str, Any]]:
    """A run per revision and seed."""
    kept = _read(options.keep)
    runs = []
    for seed in options.seeds:
        for which, source in ((options.against, old), ("ours", fit_runs.SOURCE)):
            key = {"data": options.data, "revision": which, "seed": seed}
            found = next((run for run in kept if all(run[name] == value for name, value in key.items())), None)
            if found is None:
                training = {"epochs": 2, "evaluate_every": 1} if options.smoke else {}
                job = {"data": options.data, "seed": seed, "training": training}
                found = key | fit_runs.evaluated(job, threads=options.threads, source=source)
                _keep(options.keep, found)
            runs.append(found)
    return runs


def summary(runs: list[dict[str, Any]], against: str) -> dict[str, Any]:
    """Means of both, and the paired difference with its standard error."""
    metric = next(iter(runs[0]["metrics"]))  # the first that `evaluate` prints for this data set
    ours, old = (
        {run["seed"]: 100 * run["metrics"][metric] for run in runs if run["revision"] == name}
        for name in ("ours", against)
    )
    differences = [ours[seed] - old[seed] for seed in ours]
    spread = statistics.stdev(differences) if len(differences) > 1 else math.nan
    return {
        "metric": metric,
        "old_revision": against,
        "seeds": len(ours),
        "ours": statistics.fmean(ours.values()),
        "old": statistics.fmean(old.values()),
        "difference": statistics.fmean(differences),
        "standard_error": spread / math.sqrt(len(differences)),
        "runs": runs,
    }


def _read(path: Path | None) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def _keep(path: Path | None, run: dict[str, Any]) -> None:
    if path:
        with path.open("a") as file:
            file.write(json.dumps(run) + "\n")


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _options() -> argparse.Namespace:
    parser = common.parser(__doc__)
    parser.add_argument("--data", default="lastfm-friends", help="a data set by its name (lastfm-friends)")
    parser.add_argument("--seeds", type=_seeds, default=_seeds("0-8"), metavar="A-B", help="seeds (0-8)")
    parser.add_argument("--against", default=OLD, metavar="REV", help=f"older revision ({OLD})")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="file of finished runs")
    return common.parsed(parser, data="smoke", seeds=[0, 1])


def main() -> None:
    options = _options()
    with contextlib.ExitStack() as stack:
        old = fit_runs.SOURCE if options.smoke else stack.enter_context(fit_runs.revision(options.against))
        result = summary(measured(options, old), options.against) | {"data": options.data} | common.machine()
    common.report(options, result, lambda: _show(result))


def _show(result: dict[str, Any]) -> None:
    print(f"{result['data']}: {result['metric']} in per cent, {result['seeds']} seeds")
    print(f"ours {result['ours']:.2f}, {result['old_revision']} {result['old']:.2f}")
    print(f"difference {result['difference']:+.2f}, standard error {result['standard_error']:.2f}")


if __name__ == "__main__":
    main()
