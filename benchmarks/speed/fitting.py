"""A whole fit with default settings: its time, its memory and its quality, against an older revision and against ALS.

    YINYAN_DATA=/data python benchmarks/speed/fitting.py --json            # all cases but the large one
    YINYAN_DATA=/data python benchmarks/speed/fitting.py --large --json    # also 3 M nodes and 30 M edges
    YINYAN_DATA=/data python benchmarks/speed/fitting.py --cases large --few-steps --against '' --json  # extrapolated
    YINYAN_DATA=/data python benchmarks/speed/fitting.py --cases small,cora --against ''
    YINYAN_DATA=/data python benchmarks/speed/fitting.py --cases ml-1m --curves FOLDER
    python benchmarks/speed/fitting.py --smoke --json

Each fit has a process of its own. `seconds` are those from its start to the saved model: imports, reading the table,
`LinkPredictor(seed=0).fit(graph)` and `save`. A tiny fit before all others compiles the kernels. The older revision
(--against) is the same script with the package of that commit; both take turns, and with several rounds the least
counts. Where the older one would take more than --old-minutes, a few of its steps are timed and its seconds are
extrapolated: fixed costs as measured, plus steps and validations of all its epochs. That is an upper bound where
patience would have ended it earlier, and it is marked.

small          300 nodes, 2,400 edges in communities, a CSV file
gowalla-size   29,858 users, 40,981 items, 810,128 edges in communities, a CSV file
large          3,000,000 nodes, 30,000,000 edges in communities, a CSV file; with --large
cora, pubmed   by their names
citeulike, amazon-beauty, ml-1m   the files of YINYAN_DATA/recommender. The fit learns from the training interactions
               and chooses by a tenth of them. Afterwards all items are ranked for the users of the test interactions:
               for all, or for as many as --ranking-minutes allow, in random order. implicit's ALS (128 factors,
               15 iterations) does the same for the same users, if it is installed.

Keys of the JSON, for each case: `_seconds`, `_old_seconds`, `_seconds_over_old` (0.2 is five times as fast),
`_cpu_seconds_over_old` (of all threads, for a busy machine), `_old_extrapolated`, `_seconds_over_als`,
`_recall_at_20`, `_ndcg_at_20`, the same with `_als`, `_time_announced_over_taken` (what `fit` printed before the first
epoch over the seconds of `fit`), and `_memory_announced_over_measured` (over the peak above what the process held
before `fit`). What could not be measured is null, and `notes` has the reason. --curves draws the validation figures of
each epoch over seconds, with those of ALS and of LightGCN on the same held-out edges.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import _path  # noqa: F401
from lib import common, fit_cases, fit_curves, fit_runs
from lib.fit_cases import CASES
from lib.fit_runs import RunError

OLD = "647f649"
_FEW = 10_000  # edges: below, a fit is never extrapolated, and repeated
_ROUNDS = 3  # of such fits
_SMOKE_EPOCHS = {"epochs": 2, "evaluate_every": 1}

Run = dict[str, Any]


class Bench:
    """The runs of all cases."""

    def __init__(self, options: argparse.Namespace, folder: Path, old: Path | None) -> None:
        self._options, self._folder, self._old = options, folder, old
        self._threads: int = options.threads
        self.runs: dict[str, dict[str, list[Run]]] = {}
        self.notes: list[str] = []
        self.failed = False

    def run(self, name: str) -> None:
        """Old, ours and ALS in turn; then what only the curves need."""
        options, case = self._options, CASES[name]
        job = fit_cases.prepared(name, self._folder, smoke=options.smoke)
        recommends = case.kind == "interactions"
        ours = job | {"quality": recommends, "ranking_minutes": options.ranking_minutes}
        if options.smoke and name != "small":
            ours |= {"training": _SMOKE_EPOCHS}
        old = self._old if name == "small" or not options.smoke else None
        rounds = options.rounds or (_ROUNDS if case.edges <= _FEW else 1)
        whole = old is not None and self._old_is_short(name, job, old)
        for _ in range(rounds):
            if old is not None and whole:
                self._kept(name, "old", lambda: fit_runs.fit(job, source=old, threads=self._threads))
            do = "short" if options.few_steps else "fit"
            found = self._kept(name, "ours", lambda do=do: fit_runs.fit(ours, threads=self._threads, do=do)) or {}
            if recommends and fit_runs.has_als():
                given = job | {"most_users": found.get("test_users")}
                self._kept(name, "als", functools.partial(fit_runs.als, given, threads=self._threads))
            if found.get("test_users", 0) < found.get("of_test_users", 0):
                ranked, ended = found["test_users"], f"in {options.ranking_minutes:g} minutes"
                self.notes.append(f"{name}: {ranked:,} of {found['of_test_users']:,} test users were ranked {ended}")
        if recommends and not fit_runs.has_als():
            self.notes.append(f"{name}: no ALS (pip install implicit scipy)")
        if options.curves:
            self._run_peers(name, job, recommends)

    def _old_is_short(self, name: str, job: Run, old: Path) -> bool:
        """Whether the old fit is run whole; if not, its extrapolated seconds are kept in its place."""
        if CASES[name].edges <= _FEW and self._options.old_minutes >= 1:  # surely within its minutes
            return True
        found = self._kept(name, "old short", lambda: fit_runs.fit(job, source=old, threads=self._threads, do="short"))
        if found is None:
            return False
        if found["seconds"] <= 60 * self._options.old_minutes:
            return True
        self.notes.append(
            f"{name}: old seconds are extrapolated from {found['steps_measured']} steps of {found['step_seconds']:.2f} "
            f"s: {found['most_epochs']} epochs of {found['steps_per_epoch']:,} steps, and {found['fixed_seconds']:.0f} "
            "s of fixed costs"
        )
        return False

    def _run_peers(self, name: str, job: Run, recommends: bool) -> None:
        peer = job | {"peer": "lightgcn"}
        self._kept(name, "lightgcn", lambda: fit_runs.fit(peer, threads=self._threads, do="peer"))
        if recommends and fit_runs.has_als():
            held = {"out": str(self._folder / f"{name}-held-out.npz")}
            self._kept(name, "split", lambda: fit_runs.fit(job | held, threads=self._threads, do="split"))
            given = job | {"held_out": held["out"]}
            self._kept(name, "als curve", lambda: fit_runs.als(given, threads=self._threads))

    def _kept(self, name: str, what: str, run: Any) -> Run | None:
        """A run with the load of the machine before it; a failure becomes a note."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        print(f"{name}: {what}", file=sys.stderr, flush=True)
        try:
            found: Run = run()
        except RunError as error:
            self.notes.append(f"{name}: {what} failed: {error}")
            self.failed |= what == "ours"
            return None
        self.runs.setdefault(name, {}).setdefault(what, []).append(found | {"load_before": load})
        return found


def figures(name: str, runs: dict[str, list[Run]], *, was_smoked: bool) -> dict[str, Any]:
    """The keys of one case."""
    ours, als = (min(runs.get(what, []), key=lambda run: run["seconds"], default=None) for what in ("ours", "als"))
    old = min(runs.get("old") or runs.get("old short", []), key=lambda run: run["seconds"], default=None)
    found: dict[str, Any] = {
        "seconds": ours and ours["seconds"],
        "old_seconds": old and old["seconds"],
        "seconds_over_old": _ratio(ours, old, "seconds"),
        "cpu_seconds_over_old": _ratio(ours, old, "cpu_seconds") if "old" in runs else None,
        "old_extrapolated": old and "old" not in runs,
        "peak_mebibytes": ours and ours["peak_bytes"] and ours["peak_bytes"] / 2**20,
        "time_announced_over_taken": None,
        "memory_announced_over_measured": None,
    }
    if ours is not None and "fit_seconds" not in ours:  # a few steps: what they announce is not what they take
        size = fit_cases.announced_bytes(ours["lines"])
        found |= {"extrapolated": True, "memory_announced_over_measured": size and size / ours["peak_bytes"]}
    elif ours is not None:
        seconds, size = fit_cases.announced_seconds(ours["lines"]), fit_cases.announced_bytes(ours["lines"])
        found["time_announced_over_taken"] = seconds and seconds / ours["fit_seconds"]
        found["memory_announced_over_measured"] = size and ours["peak_bytes"] and size / ours["peak_bytes"]
    if was_smoked and name != "small":  # two epochs: nothing to announce or to compare
        found = {"seconds": found["seconds"]}
    if CASES[name].kind == "interactions":
        found |= {"als_seconds": als and als["seconds"], "seconds_over_als": _ratio(ours, als, "seconds")}
        for metric in ("recall_at_20", "ndcg_at_20", "ndcg_standard_error", "test_users"):
            found |= {metric: ours and ours[metric], f"als_{metric}": als and als[metric]}
    return {f"{name.replace('-', '_')}_{key}": value for key, value in found.items()}


def _ratio(ours: Run | None, theirs: Run | None, key: str) -> float | None:
    return None if ours is None or theirs is None else float(ours[key] / theirs[key])


def curves(name: str, runs: dict[str, list[Run]], folder: Path) -> None:
    """One picture of what was recorded after each epoch."""
    labels = {"ours": "ours", "old": "old", "lightgcn": "lightgcn", "als curve": "als (implicit)"}
    lines = {label: runs[what][0]["epochs"] for what, label in labels.items() if what in runs}
    fit_curves.draw(folder / f"{name}.png", f"{name}: validation while it learns", lines)


def show(result: dict[str, Any]) -> None:
    common.print_machine(result)
    print()
    columns = ("seconds", "old_seconds", "seconds_over_old", "seconds_over_als", "ndcg_at_20", "als_ndcg_at_20")
    columns += ("peak_mebibytes", "time_announced_over_taken", "memory_announced_over_measured")
    header = ("case", "seconds", "old", "over old", "over ALS", "NDCG@20", "of ALS", "MiB", "time ann.", "mem. ann.")
    rows = []
    for name in result["runs"]:
        key = name.replace("-", "_")
        row = [result.get(f"{key}_{column}") for column in columns]
        mark = " (old extrapolated)" if result.get(f"{key}_old_extrapolated") else ""
        rows.append((name + mark, *row))
    common.print_table(header, rows)
    print("\nSeconds of whole processes. Announced time and memory stand over those taken.")
    for note in result["notes"]:
        print(note)


def main() -> None:
    options = _options()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        old, notes = None, []
        if options.against:
            try:
                old = stack.enter_context(fit_runs.revision(options.against))
            except RunError as error:
                notes.append(f"nothing is compared with the older revision: {error}")
        for source in filter(None, (old, fit_runs.SOURCE)):
            fit_runs.warm(source, folder, threads=options.threads)
        bench = Bench(options, folder, old)
        for name in options.cases:
            bench.run(name)
        result: dict[str, Any] = {"old_revision": options.against if old else None}
        for name in options.cases:
            runs = bench.runs.setdefault(name, {})
            result |= figures(name, runs, was_smoked=options.smoke)
            if options.curves and runs:
                options.curves.mkdir(parents=True, exist_ok=True)
                curves(name, runs, options.curves)
    result |= {"notes": notes + bench.notes, **common.machine(), "runs": bench.runs}
    common.report(options, result, lambda: show(result))
    if bench.failed:
        sys.exit("a fit of ours failed: see the notes")


def _options() -> argparse.Namespace:
    parser = common.parser(__doc__, picture=False, threads=min(2, torch.get_num_threads()))
    parser.add_argument("--cases", help=f"names with commas between: {', '.join(CASES)} (all but large)")
    parser.add_argument("--large", action="store_true", help="also 3 million nodes and 30 million edges")
    parser.add_argument("--against", default=OLD, metavar="REV", help=f"older revision ({OLD}); '' for none")
    parser.add_argument("--old-minutes", type=float, default=10, help="longest fit of the older revision (10)")
    parser.add_argument("--ranking-minutes", type=float, default=10, help="longest ranking for test users (10)")
    parser.add_argument(
        "--few-steps", action="store_true", help="time some steps of ours and extrapolate, as of the old"
    )
    parser.add_argument("--rounds", type=int, help=f"fits of each ({_ROUNDS} up to {_FEW:,} edges, else 1)")
    parser.add_argument("--curves", type=Path, metavar="FOLDER", help="draw learning curves (needs matplotlib)")
    options = common.parsed(parser, rounds=1)
    names = options.cases.split(",") if options.cases else None
    options.cases = names or [*(fit_cases.SMOKE if options.smoke else (name for name in CASES if name != "large"))]
    options.cases += ["large"] if options.large and "large" not in options.cases else []
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"--cases: there is no case {unknown[0]!r} (there are {', '.join(CASES)})")
    return options


if __name__ == "__main__":
    main()
