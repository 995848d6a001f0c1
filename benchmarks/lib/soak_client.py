"""A client of the soak: mixed requests over open connections, and a record of what was acknowledged.

python soak_client.py PLAN prints the record as JSON. Each connection changes pairs and nodes of its own, so that the
last acknowledged change of each decides what the graph has to hold in the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIX = {
    "recommend": 40,
    "score": 15,
    "node": 12,
    "search": 4,
    "explain": 1,
    "add edge": 8,
    "remove edge": 6,
    "add node": 4,
    "reject": 3,
    "take back": 2,
    "odd": 5,
}
WRITES = {"add edge", "remove edge", "add node", "reject", "take back"}
OWN_PAIRS = 40  # of a connection, of each kind
PATIENCE = 30.0  # seconds for an answer
POISON = 1e20  # a feature that overflows in the encoder: to be clipped, or refused with 422

Answer = tuple[int, Any]


class Lane:
    """One connection, what it owns, and what was acknowledged to it."""

    def __init__(self, plan: dict[str, Any], number: int) -> None:
        self.plan, self.number = plan, number
        self.chance = random.Random(plan["seed"] * 10_007 + number)
        mine, step = plan["lane"] + number, plan["all_lanes"]
        nodes = plan["nodes"]
        # the lower node of a pair belongs to one lane alone, so that no pair is of two lanes
        firsts = [self.chance.randrange(mine, nodes - 1, step) for _ in range(OWN_PAIRS)]
        self.pairs = [(f"n{a}", f"n{self.chance.randrange(a + 1, nodes)}") for a in firsts]
        self.edges: dict[tuple[str, str], bool | None] = {}  # what was acknowledged last; None: nobody knows
        self.rejected: dict[tuple[str, str], bool | None] = {}
        self.added: dict[str, list[str]] = {}
        self.retry: dict[str, Any] | None = None  # a node whose answer never came
        self.times: dict[str, list[float]] = {}
        self.refused = 0  # with 503: too many at once
        self.requests = 0
        self.broken: list[tuple[float, str]] = []  # connections, with the time of day
        self.wrong: list[str] = []  # answers that must not be
        self.contradictions: list[str] = []  # answers that contradict what was acknowledged
        self.version = self.went_back = self.acknowledged = self.poison_refused = 0
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, stop: float) -> None:
        """Requests until a time of day, one after another."""
        parent = os.getppid()  # a soak that is killed cannot say stop
        while time.time() < stop and os.getppid() == parent and not Path(self.plan["stop"]).exists():
            if self.requests >= self.plan["most"]:
                break
            kind = self.chance.choices(list(MIX), list(MIX.values()))[0]
            if kind in WRITES and Path(self.plan["pause"]).exists():
                kind = "recommend"
            try:
                await self._one(kind)
            except (OSError, EOFError, asyncio.TimeoutError, ValueError) as error:
                self.broken.append((time.time(), f"{kind}: {error!r}"))
                self._close()
                await asyncio.sleep(0.05)
        self._close()

    def record(self) -> dict[str, Any]:
        """All that the soak needs to know."""
        names = ("times", "refused", "requests", "broken", "wrong", "contradictions", "went_back", "acknowledged")
        return {
            **{name: getattr(self, name) for name in names},
            "added": self.added,
            "unsure": [] if self.retry is None else [self.retry["id"]],
            "edges": [[*pair, state] for pair, state in self.edges.items()],
            "rejected": [[*pair, state] for pair, state in self.rejected.items()],
        }

    async def _one(self, kind: str) -> None:
        if kind in ("add edge", "remove edge"):
            await self._pair(kind, "edges", "edges", self.edges, "added" if kind == "add edge" else "removed")
        elif kind in ("reject", "take back"):
            await self._pair(kind, "rejections", "pairs", self.rejected, "rejected")
        elif kind == "add node":
            await self._node()
        elif kind == "odd":
            await self._odd()
        else:
            method, path, body = self._question(kind)
            status, answer = await self._asked(kind, method, path, body)
            if status == 200:
                self._seen(answer)
            elif status != 503:
                self.wrong.append(f"{kind}: {status} {str(answer)[:200]}")

    def _name(self) -> str:
        return f"n{self.chance.randrange(self.plan['nodes'])}"

    def _question(self, kind: str) -> tuple[str, str, Any]:
        others = self._name(), self._name()
        questions: dict[str, Callable[[], tuple[str, str, Any]]] = {
            "recommend": lambda: ("POST", "/v1/recommend", {"nodes": [self._name()], "k": 10}),
            "score": lambda: ("POST", "/v1/score", {"pairs": [[self._name(), self._name()] for _ in range(10)]}),
            "node": lambda: ("GET", f"/v1/nodes/{self._name()}?limit=20", None),
            "search": lambda: ("GET", f"/v1/nodes?query={self._name()[:-1]}", None),
            "explain": lambda: ("POST", "/v1/explain", {"pairs": [others if others[0] != others[1] else ("n0", "n1")]}),
        }
        return questions[kind]()

    async def _pair(self, kind: str, route: str, name: str, states: dict[Any, bool | None], counted: str) -> None:
        """Add or remove a pair of our own; the count in the answer has to fit what was acknowledged before."""
        pair, wanted = self.chance.choice(self.pairs), kind in ("add edge", "reject")
        before, states[pair] = states.get(pair), None
        status, answer = await self._asked(kind, "POST" if wanted else "DELETE", f"/v1/{route}", {name: [pair]})
        if status == 503:
            states[pair] = before
        elif status == 200:
            states[pair] = wanted
            self._made(answer)
            if before is not None and answer[counted] != int(before != wanted):
                self.contradictions.append(f"{kind} {pair}: {answer} although it was {before}")
        else:
            self.wrong.append(f"{kind}: {status} {str(answer)[:200]}")

    async def _node(self) -> None:
        again = self.retry
        node = again or self._new_node()
        self.retry = node
        status, answer = await self._asked("add node", "POST", "/v1/nodes", {"nodes": [node]})
        if status == 503:
            return
        self.retry = None
        if status == 200 or (status == 409 and again is not None):  # sent twice: the first one counts
            self.added[node["id"]] = node["neighbours"]
            if status == 200:
                self._made(answer)
        elif status == 422 and max(node.get("features") or [0.0]) >= POISON:
            self.poison_refused += 1
        elif status == 409:
            self.contradictions.append(f"node {node['id']} is there, and was never sent")
        else:
            self.wrong.append(f"add node: {status} {str(answer)[:200]}")

    def _new_node(self) -> dict[str, Any]:
        number, width = len(self.added), self.plan["features"]
        near = sorted({self._name() for _ in range(self.chance.randint(1, 3))})
        node = {"id": f"s{self.plan['lane'] + self.number}-{number}", "neighbours": near, "label": f"Node {number}"}
        features = [self.chance.gauss(0, 1) for _ in range(width)]
        if width and self.chance.random() < 0.1:
            features[0] = POISON
        return {**node, "features": features} if width else node

    async def _odd(self) -> None:
        """A request that has to be refused, by a status that says why."""
        width = self.plan["features"]
        wrong_features: Any = [1.0] * (width + 1) if width else {"colour": ["red"]}
        odd: list[tuple[str, str, Any, set[int]]] = [
            ("GET", "/v1/nodes/nobody", None, {404}),
            ("POST", "/v1/recommend", {"nodes": ["nobody"]}, {404}),
            ("POST", "/v1/recommend", {"nodes": ["n0"], "k": 0}, {400, 422}),
            ("POST", "/v1/recommend", {"nodes": ["n0"], "k": 10**6}, {413, 422}),
            ("POST", "/v1/edges", {"edges": [["n0", "n0"]]}, {422}),
            ("POST", "/v1/edges", {"edges": [["n0"]]}, {400, 422}),
            ("POST", "/v1/edges", b'{"edges": [["n0", "n1"]', {400}),
            ("POST", "/v1/score", b"[" * 5_000, {400, 422}),
            ("POST", "/v1/nodes", {"nodes": [{"id": "n0", "neighbours": []}]}, {409, 422}),
            ("PUT", "/v1/edges", {"edges": []}, {405}),
        ]
        if width:
            odd.append(("POST", "/v1/nodes", {"nodes": [{"id": "odd", "features": ["text"]}]}, {422}))
            odd.append(("POST", "/v1/nodes", {"nodes": [{"id": "odd", "features": wrong_features}]}, {422}))
        method, path, body, allowed = self.chance.choice(odd)
        status, answer = await self._asked("odd", method, path, body)
        if status not in allowed | {503}:
            self.wrong.append(f"odd: {method} {path} {str(body)[:80]}: {status} {str(answer)[:200]}")

    async def _asked(self, kind: str, method: str, path: str, body: Any) -> Answer:
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Yinyan-Version: {self.version}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        if self.chance.random() < 0.05:  # a new connection may reach another process
            self._close()
        started = time.perf_counter()
        status, answer = await asyncio.wait_for(self._sent(head.encode() + b"\r\n" + content), PATIENCE)
        self.requests += 1
        if status == 503:
            self.refused += 1
        else:
            self.times.setdefault(kind, []).append(round(time.perf_counter() - started, 5))
        return status, answer

    async def _sent(self, request: bytes) -> Answer:
        if self._stream is None:
            self._stream = await asyncio.open_connection("127.0.0.1", self.plan["port"])
        reader, writer = self._stream
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        content = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        if b"connection: close" in head:
            self._close()
        return int(head[9:12]), json.loads(content)

    def _seen(self, answer: Any) -> None:
        version = answer.get("version", self.version)
        self.went_back += version < self.version
        self.version = max(self.version, version)

    def _made(self, answer: Any) -> None:
        self.acknowledged += 1
        self._seen(answer)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None


async def drive(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All connections of this client."""
    lanes = [Lane(plan, number) for number in range(plan["lanes"])]
    await asyncio.gather(*(lane.run(plan["until"]) for lane in lanes))
    return [lane.record() for lane in lanes]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(drive(json.loads(sys.argv[1])))))
