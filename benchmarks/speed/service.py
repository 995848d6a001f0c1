"""Requests a second, p50 and p99 of the service at rising concurrency, beside a bare FastAPI route.

python benchmarks/service.py                       # 200,000 nodes: exact and flashlight index against the floor
python benchmarks/service.py --quick --json        # 5,000 nodes, short rounds
python benchmarks/service.py --soak 10             # ten minutes of mixed reads and writes at saturation

Everything runs on this machine over loopback: the service (`yinyan serve`, one process), the floor (a FastAPI route
that answers a constant, under the same server) and the load generator, each in a process of its own. The generator
keeps `concurrency` connections open and sends the next request over each as soon as the last is answered. Floor and
service take turns. The model's weights are learned for some steps on a part of the graph; see trained_model below.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
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

import common
from graphs import drawn
from yinyan import Graph, LinkPredictor
from yinyan.fitting import build_model, embed_graph
from yinyan.store import save_model
from yinyan.tensors import feature_tensor, message_graph

SIZE, DEGREE, LEARNED_ON = 128, 21, 20_000
CONCURRENCY = (1, 4, 16, 48)
CHANGED = 500  # links that writes add and remove
OVERLOAD = 256


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "generate":
        print(json.dumps(asyncio.run(generate(json.loads(sys.argv[2])))))
        return
    if len(sys.argv) > 1 and sys.argv[1] == "floor":
        floor(int(sys.argv[2]))
        return
    parser = common.parser(__doc__, quick="5,000 nodes and rounds of one second")
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--index", default="exact,flashlight", help="kinds, with commas")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="only mixed reads and writes for so long")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "yinyan-service-benchmark")
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.seconds = 5_000, 1.0
    model = trained_model(options.nodes, options.cache)
    result: dict[str, Any] = {"nodes": options.nodes}
    if options.soak:
        kind = options.index.split(",")[-1]
        result["soak"] = soak(model, options.nodes, kind, options.soak)
    else:
        result["rows"] = [row for kind in options.index.split(",") for row in measure(model, kind, options)]
    if options.json:
        common.print_json(result | common.machine())
        return
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


def floor(port: int) -> None:
    """A bare FastAPI route."""
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/floor")
    async def constant() -> dict[str, str]:
        return {"status": "ok"}

    uvicorn.run(app, port=port, log_level="warning", access_log=False, ws="none")


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
    command = [sys.executable, __file__, "generate", json.dumps(plan)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


async def generate(plan: dict[str, Any]) -> dict[str, Any]:
    stop = time.perf_counter() + plan["seconds"]
    seen: list[tuple[int, float, str]] = []
    errors: list[str] = []

    async def connection(number: int) -> None:
        chance = random.Random(plan["seed"] * 10_007 + number)
        reader, writer = await asyncio.open_connection("127.0.0.1", plan["port"])
        try:
            while time.perf_counter() < stop:
                what, request = _request(plan["kind"], plan["nodes"], chance)
                started = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                seen.append((int(head[9:12]), time.perf_counter() - started, what))
        except (OSError, asyncio.IncompleteReadError, IndexError) as error:
            errors.append(repr(error))
        finally:
            writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(connection(number) for number in range(plan["concurrency"])))
    spent = time.perf_counter() - began
    return {"spent": spent, "errors": errors[:3], "num_errors": len(errors), **_summary(seen, spent)}


def _summary(seen: list[tuple[int, float, str]], spent: float) -> dict[str, Any]:
    def quantiles(times: list[float]) -> dict[str, float | None]:
        if not times:
            return {"p50": None, "p99": None}
        return {f"p{q}": round(1e3 * float(np.percentile(times, q)), 3) for q in (50, 99)}

    good = [t for status, t, _ in seen if status == 200]
    refused = [t for status, t, _ in seen if status == 503]
    statuses = {str(status): sum(s == status for s, _, _ in seen) for status in sorted({s for s, _, _ in seen})}
    by_kind = {what: quantiles([t for s, t, w in seen if w == what and s == 200]) for what in {w for _, _, w in seen}}
    return {
        "requests_per_second": round(len(good) / spent, 1),
        **quantiles(good),
        "statuses": statuses,
        "refused": quantiles(refused),
        "by_kind": by_kind,
    }


def _request(kind: str, nodes: int, chance: random.Random) -> tuple[str, bytes]:
    def node() -> str:
        return f"n{chance.randrange(nodes)}"

    what = kind
    if kind == "mixed":
        what = chance.choices(("recommend", "score", "node", "write", "search"), (70, 12, 8, 5, 5))[0]
    if what == "floor":
        return what, b"GET /floor HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    if what == "node":
        return what, f"GET /v1/nodes/{node()}?limit=20 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    if what == "search":
        return what, f"GET /v1/nodes?query={node()[:-1]} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    changed = chance.randrange(CHANGED)  # links that come and go, so that removals find something
    link = [f"n{changed}", f"n{nodes - 1 - changed}"]
    bodies: dict[str, tuple[str, str, Any]] = {
        "recommend": ("POST", "recommend", {"nodes": [node()], "k": 10}),
        "score": ("POST", "score", {"pairs": [[node(), node()] for _ in range(10)]}),
        "write": (chance.choice(("POST", "DELETE")), "edges", {"edges": [link]}),
    }
    method, route, content = bodies[what]
    body = json.dumps(content).encode()
    head = f"{method} /v1/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return what, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# -- measurements ---------------------------------------------------------------------------------------------


def measure(model: Path, kind: str, options: Any) -> list[dict[str, Any]]:
    ports = free_port(), free_port()
    rows = []
    with (
        running(sys.executable, __file__, "floor", str(ports[0]), port=ports[0], path="/floor"),
        served(model, kind, ports[1]) as process,
    ):
        load(ports[1], "recommend", 2, 1.0, options.nodes)  # warm
        for concurrency in CONCURRENCY:
            least = load(ports[0], "floor", concurrency, options.seconds, options.nodes)
            ours = load(ports[1], "recommend", concurrency, options.seconds, options.nodes, concurrency)
            rows.append(_row(kind, "top-10", concurrency, ours, least))
        over = load(ports[1], "recommend", OVERLOAD, options.seconds, options.nodes, 7)
        rows.append(_row(kind, "overload", OVERLOAD, over, None))
        write = load(ports[1], "write", 1, options.seconds, options.nodes, 9)
        rows.append(_row(kind, "write", 1, write, None))
        after = load(ports[1], "recommend", CONCURRENCY[1], options.seconds, options.nodes, 11)
        rows.append(_row(kind, "top-10 after writes", CONCURRENCY[1], after, None))
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
