"""The soak in small: a real service under load, killed and started again, loses and doubles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_service_that_is_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--smoke", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["broken_bars"] == []
    load = found["load"]["features"]
    assert load["kills"]["service"] >= 1 and load["comparisons"] >= 1
    assert load["requests"] > 50 and load["acknowledged"] > 5
    assert (load["lost"], load["doubled"], load["unexpected_errors"]) == (0, 0, 0), load
    assert load["seconds_until_workers_ended"]["most"] < 2
    assert {"recommend", "score", "node", "add edge", "odd"} <= set(load["milliseconds"])
    assert 0 < load["top10_overlap"]["worst_moment"] <= 1
    assert set(found["flipped_bits"]) == {"model", "index", "log", "write-ahead log"}
    assert set(found["flipped_bits"]["model"]) <= {"refused", "exact"}
    assert found["loads_during_saves"]["loads"] >= 1
    assert found["killed_commands"]["recommend --out"]["broken"] == []
    assert list(tmp_path.iterdir()) == [], "a smoke run keeps nothing"
