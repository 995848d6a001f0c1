"""Requests per second, p50 and p99 of the service at rising concurrency, beside a bare FastAPI route.

python benchmarks/speed/service.py                       # 200,000 nodes: exact and flashlight index against the floor
python benchmarks/speed/service.py --quick --json        # 5,000 nodes, short rounds
python benchmarks/speed/service.py --soak 10             # ten minutes of mixed reads and writes at saturation

Everything runs on this machine over loopback: the service (`yinyan serve`, one process), the floor (a FastAPI route
that answers a constant, under the same server) and the load generator, each in a process of its own. The generator
keeps `concurrency` connections open and sends the next request over each as soon as the last is answered. Floor and
service take turns. The model's weights are learned for some steps on a part of the graph; see trained_model below.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import drawn
from yinyan import Graph, LinkPredictor
from yinyan.model.fitted import build_model, embed_graph
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.store import save_model

SIZE, DEGREE, LEARNED_ON = 128, 21, 20_000
LIB = Path(__file__).parents[1] / "lib"


def main() -> None:
    parser = common.parser(__doc__, quick="5,000 nodes and rounds of one second", picture=False)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--index", default="exact,flashlight", help="kinds, with commas")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="only mixed reads and writes for so long")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "yinyan-service-benchmark")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16, 48], help="open connections")
    parser.add_argument("--overload", type=int, default=256, help="open connections of the overload")
    options = common.parsed(parser, nodes=300, seconds=0.2, index="exact", concurrency=[2], overload=4)
    if options.quick and not options.smoke:
        options.nodes, options.seconds = 5_000, 1.0
    with tempfile.TemporaryDirectory() as folder:
        result = measured(options, Path(folder) if options.smoke else options.cache)
    common.report(options, result | common.machine(), lambda: show(result))


def measured(options: Any, cache: Path) -> dict[str, Any]:
    model = trained_model(options.nodes, cache)
    result: dict[str, Any] = {"nodes": options.nodes}
    if options.soak:
        kind = options.index.split(",")[-1]
        result["soak"] = soak(model, options.nodes, kind, options.soak)
    else:
        result["rows"] = [row for kind in options.index.split(",") for row in measure(model, kind, options)]
    return result


def show(result: dict[str, Any]) -> None:
    common.print_machine(common.machine())
    for rows in (result.get("rows"), result.get("soak", {}).get("minutes")):
        if rows:
            common.print_table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    if "soak" in result:
        print({name: value for name, value in result["soak"].items() if name != "minutes"})


def trained_model(num_nodes: int, cache: Path) -> Path:
    """A saved model of a synthetic graph: features of its communities, weights learned on up to 20,000 of its kind."""
    folder = cache / f"model-{num_nodes}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    small = _graph(min(num_nodes, LEARNED_ON))
    predictor = LinkPredictor(
        encoder={"inputs": "features", "hidden_size": SIZE, "num_steps": 3},
        decoder={"width": SIZE},
        training={"epochs": 3},
        device="cpu",
    ).fit(small)
    fitted, graph = predictor.fitted_, _graph(num_nodes)
    model = build_model(fitted.settings, graph, 0)
    model.load_state_dict(fitted.model.state_dict())
    messages = np.arange(graph.num_edges)
    cpu = torch.device("cpu")
    y = embed_graph(
        model, feature_tensor(graph.features, cpu), message_graph(graph, messages, cpu), fitted.settings, fitted.seed
    )
    whole = replace(fitted, graph=graph, message_edges=messages, model=model, embeddings=y)
    save_model(folder, whole, predictor.get_params(deep=False))
    return folder


def _graph(num_nodes: int) -> Graph:
    made = drawn(num_nodes, num_nodes * DEGREE // 2, 0)
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(int(made.communities.max()) + 1, SIZE)).astype(np.float32)
    features = centres[made.communities.numpy()] + rng.normal(size=(num_nodes, SIZE)).astype(np.float32)
    ids = [f"n{row}" for row in range(num_nodes)]
    return Graph.from_arrays(made.pairs.numpy(), ids=ids, features=features)


# -- servers --------------------------------------------------------------------------------------------------


@contextmanager
def running(*command: str, port: int, path: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a process of its own, ended at the end."""
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 600
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} did not start")
            try:
                with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                    break
            except OSError:
                time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def served(model: Path, kind: str, port: int) -> Any:
    for old in model.parent.glob(f"{model.name}.changes.sqlite*"):
        old.unlink()
    command = (sys.executable, "-m", "yinyan", "serve", str(model), "--port", str(port), "--index", kind)
    return running(*command, "--access-log", os.devnull, port=port, path="/readyz")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- load -----------------------------------------------------------------------------------------------------


def load(port: int, kind: str, concurrency: int, seconds: float, nodes: int, seed: int = 0) -> dict[str, Any]:
    """What a generator in a process of its own measures."""
    plan = {"port": port, "kind": kind, "concurrency": concurrency, "seconds": seconds, "nodes": nodes, "seed": seed}
    command = [sys.executable, str(LIB / "load_generator.py"), json.dumps(plan)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


# -- measurements ---------------------------------------------------------------------------------------------


def measure(model: Path, kind: str, options: Any) -> list[dict[str, Any]]:
    ports = free_port(), free_port()
    rows = []
    with (
        running(sys.executable, str(LIB / "bare_service.py"), str(ports[0]), port=ports[0], path="/floor"),
        served(model, kind, ports[1]) as process,
    ):
        load(ports[1], "recommend", 2, min(1.0, options.seconds), options.nodes)  # warm
        for concurrency in options.concurrency:
            least = load(ports[0], "floor", concurrency, options.seconds, options.nodes)
            ours = load(ports[1], "recommend", concurrency, options.seconds, options.nodes, concurrency)
            rows.append(_row(kind, "top-10", concurrency, ours, least))
        over = load(ports[1], "recommend", options.overload, options.seconds, options.nodes, 7)
        rows.append(_row(kind, "overload", options.overload, over, None))
        write = load(ports[1], "write", 1, options.seconds, options.nodes, 9)
        rows.append(_row(kind, "write", 1, write, None))
        usual = options.concurrency[min(1, len(options.concurrency) - 1)]
        after = load(ports[1], "recommend", usual, options.seconds, options.nodes, 11)
        rows.append(_row(kind, "top-10 after writes", usual, after, None))
        rows[-1]["rss_mb"] = resident(process.pid)
    return rows


def _row(kind: str, what: str, concurrency: int, ours: dict[str, Any], least: dict[str, Any] | None) -> dict[str, Any]:
    failed = sum(n for status, n in ours["statuses"].items() if status not in ("200", "503")) + ours["num_errors"]
    return {
        "index": kind,
        "what": what,
        "concurrency": concurrency,
        "per_second": ours["requests_per_second"],
        "p50_ms": ours["p50"],
        "p99_ms": ours["p99"],
        "floor_per_second": None if least is None else least["requests_per_second"],
        "floor_p99_ms": None if least is None else least["p99"],
        "p99_over_floor": None if least is None else round(ours["p99"] / least["p99"], 2),
        "refused": ours["statuses"].get("503", 0),
        "refused_p99_ms": ours["refused"]["p99"],
        "errors": failed,
        "rss_mb": None,
    }


def soak(model: Path, nodes: int, kind: str, minutes: float) -> dict[str, Any]:
    """Mixed reads and writes at saturation, with the memory of the service."""
    port, rows = free_port(), []
    with served(model, kind, port) as process:
        load(port, "recommend", 2, 2.0, nodes)
        before = resident(process.pid)
        deadline = time.monotonic() + 60 * minutes
        number = 0
        while time.monotonic() < deadline:
            number += 1
            found = load(port, "mixed", 16, min(60.0, max(1.0, deadline - time.monotonic())), nodes, number)
            failed = sum(n for status, n in found["statuses"].items() if status not in ("200", "503"))
            rows.append(
                {
                    "minute": number,
                    "per_second": found["requests_per_second"],
                    "p50_ms": found["p50"],
                    "p99_ms": found["p99"],
                    "write_p99_ms": found["by_kind"].get("write", {}).get("p99"),
                    "refused": found["statuses"].get("503", 0),
                    "errors": failed + found["num_errors"],
                    "rss_mb": resident(process.pid),
                }
            )
        with urlopen(f"http://127.0.0.1:{port}/v1/model", timeout=20) as response:
            live = json.load(response)["live"]
    return {"index": kind, "rss_mb_before": before, "live": live, "minutes": rows}


def resident(pid: int) -> float:
    """Megabytes of memory a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0


if __name__ == "__main__":
    main()
