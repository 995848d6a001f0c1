"""Figures of a soak: how they are summed up, which bars they break, and how they are printed."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import numpy as np

from lib import common

LEAST_OVERLAP, MOST_GROWTH = 0.98, 1.5


def quantiles(times: Sequence[float]) -> dict[str, float]:
    return {"p50": _ms(times, 50), "p99": _ms(times, 99), "requests": len(times)}


def _ms(times: Sequence[float], quantile: int) -> float:
    return round(1e3 * float(np.percentile(times, quantile)), 2)


def mean(values: Sequence[float], digits: int = 1) -> float | None:
    return round(float(np.mean(values)), digits) if values else None


def most(memory: Sequence[tuple[float, float]]) -> float | None:
    return round(max(size for _, size in memory), 1) if memory else None


def spread(values: Sequence[float]) -> dict[str, float] | None:
    return {"median": round(float(np.median(values)), 2), "most": round(max(values), 2)} if values else None


def broken_bars(result: dict[str, Any]) -> list[str]:
    """What must not be, in words."""
    found = []
    for name, load in result["load"].items():
        if load["exit_code"] not in (0, -signal.SIGTERM):
            found.append(f"{name}: the service ended with {load['exit_code']}")
        for what in ("unexpected_errors", "lost", "doubled", "versions_went_back"):
            if load[what]:
                found.append(f"{name}: {what} is {load[what]}")
        if load["top10_overlap"]["worst_moment"] < LEAST_OVERLAP:
            found.append(f"{name}: overlap with a fresh pass is {load['top10_overlap']['worst_moment']} at one moment")
        early, late = load["memory_mb"]["first_third"], load["memory_mb"]["last_third"]
        if early and late and late > MOST_GROWTH * early:
            found.append(f"{name}: memory grew from {early} to {late} MB")
    for kind, outcomes in result["flipped_bits"].items():
        for how, count in outcomes.items():
            if how not in ("refused", "exact"):
                found.append(f"flipped bits of the {kind}: {count} ended as '{how}'")
    for what in ("mixed", "failed"):
        if result["loads_during_saves"][what]:
            found.append(f"loads during saves: {result['loads_during_saves'][what]} {what}")
    for name, killed in result["killed_commands"].items():
        found += [f"{name} killed: {words}" for words in killed["broken"]]
    return found


def show(result: dict[str, Any]) -> None:
    common.print_machine(common.machine())
    loads = result["load"]
    rows: list[tuple[object, ...]] = []
    for name in next(iter(loads.values())):
        values = [load[name] for load in loads.values()]
        if name == "milliseconds":
            for kind in values[0]:
                cells = [f"{v[kind]['p50']} / {v[kind]['p99']}" if kind in v else "" for v in values]
                rows.append((f"{kind}, p50 / p99 in ms", *cells))
        else:
            rows.append((name.replace("_", " "), *(_cell(value) for value in values)))
    common.print_table(("under load", *loads), rows)
    print()
    common.print_table(("flipped bits", "outcomes"), [(k, _cell(v)) for k, v in result["flipped_bits"].items()])
    print()
    commands = {name: f"{k['kills']} of {k['steps']} steps" for name, k in result["killed_commands"].items()}
    common.print_table(("killed command", "kills"), list(commands.items()))
    print(f"\nloads during saves: {_cell(result['loads_during_saves'])}")
    print("\n".join(result["broken_bars"]) or "no bar is broken")


def _cell(value: Any) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {part}" for name, part in value.items())
    return "; ".join(value) if isinstance(value, list) else value
