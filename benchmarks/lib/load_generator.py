"""Load generator: sends requests over open connections and prints their times; python load_generator.py PLAN."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import numpy as np

CHANGED = 500  # edges that writes add and remove


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


if __name__ == "__main__":
    print(json.dumps(asyncio.run(generate(json.loads(sys.argv[1])))))
