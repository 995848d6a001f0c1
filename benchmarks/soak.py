"""A soak of the service: mixed load, kill -9, damaged files, and comparisons with a fresh pass over the graph.

python benchmarks/soak.py --minutes 10 --json            # as docs/performance/soak.json
python benchmarks/soak.py --minutes 1 --nodes 500        # a short one

`yinyan serve` runs with two workers on a trained model, first one with node features, then one without. Clients in
processes of their own send questions, changes and requests that must be refused, over 127.0.0.1 alone. The service, or
one of its workers, is killed with kill -9 every so often. At random moments writes pause, and the top ten links of
some nodes are compared with those of a fresh pass over the same graph. In the end every acknowledged change has to be
in the graph. Then bits are flipped in copies of model, index and change log, a model is loaded while it is being saved,
and commands that write are killed. Exits with 1 if one of the bars in `broken_bars` is broken.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lib import common, killed_commands
from lib.graphs import drawn
from lib.soak_checks import flips, fresh_lists, keep_log, loads_during_saves, lost_and_doubled, overlaps, read_room
from lib.soak_figures import broken_bars, mean, most, quantiles, show, spread
from lib.soak_service import Service
from yinyan import Graph, LinkPredictor
from yinyan.live.change_log import log_path

CLIENT = Path(__file__).parent / "lib" / "soak_client.py"
DEGREE, FEATURES = 8, 16
LOADED = 0.7  # share of the time under load; the rest is for damaged files and killed commands
SAMPLE = 40  # nodes whose lists are compared at a time


def main() -> None:
    parser = common.parser(__doc__, picture=False, threads=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="without training and the starts of the service")
    parser.add_argument("--nodes", type=int, default=3_000, help="of the graphs")
    parser.add_argument("--workers", type=int, default=2, help="processes of the service")
    parser.add_argument("--clients", type=int, default=2, help="processes that send requests")
    parser.add_argument("--connections", type=int, default=4, help="open connections per client")
    parser.add_argument("--kill-every", type=float, default=25.0, help="seconds between two kills, at most about")
    parser.add_argument("--compare-every", type=float, default=12.0, help="seconds between two comparisons")
    parser.add_argument("--flips", type=int, default=60, help="flipped bits per kind of file, at most")
    parser.add_argument("--requests", type=int, default=500_000, help="of all clients, at most")
    parser.add_argument("--seed", type=int, default=0)
    options = common.parsed(parser, minutes=0.06, nodes=120, workers=1, clients=1, flips=1)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        result = soaked(options, Path(folder))
    result["broken_bars"] = broken_bars(result)
    common.report(options, {**result, **common.machine()}, lambda: show(result))
    if result["broken_bars"] and not options.smoke:
        raise SystemExit(1)


def soaked(options: Any, folder: Path) -> dict[str, Any]:
    chance = random.Random(options.seed)
    began = time.monotonic()
    models = {name: trained(folder, name, options) for name in (["features"] if options.smoke else KINDS)}
    seconds = 60 * options.minutes * LOADED / len(models)
    rest = 60 * options.minutes * (1 - LOADED)
    loads = {name: Load(path, name, folder, options, chance).run(seconds) for name, path in models.items()}
    first = next(iter(models.values()))
    kept_log = folder / f"log-of-{first.name}"
    predictor = LinkPredictor.load(first, device="cpu")
    predictor.index("flashlight", recall=0.5, k=10).save(first)
    other = trained(folder, "other", options)
    return {
        "minutes": options.minutes,
        "nodes": options.nodes,
        "workers": options.workers,
        "connections": options.clients * options.connections,
        "load": loads,
        "flipped_bits": flips(first, kept_log, folder, options.flips, 0.1 * rest, chance),
        "loads_during_saves": loads_during_saves([first, other], folder, min(20.0, max(1.0, 0.12 * rest))),
        "killed_commands": killed_all(folder, 0.5 * rest, 1 if options.smoke else 1_000, chance, smoke=options.smoke),
        "seconds": round(time.monotonic() - began, 1),
    }


# -- models ---------------------------------------------------------------------------------------------------

KINDS = ["features", "no features"]


def trained(folder: Path, kind: str, options: Any) -> Path:
    """A saved model of a synthetic graph, with default settings but for size and epochs."""
    n, seed = options.nodes, 1 if kind == "other" else 0
    made, rng = drawn(n, n * DEGREE // 2, seed), np.random.default_rng(seed)
    community = made.communities.numpy()
    centres = rng.normal(size=(int(community.max()) + 1, FEATURES))
    features = (centres[community] + rng.normal(size=(n, FEATURES))).astype(np.float32)
    ids = [f"n{row}" for row in range(n)]
    graph = Graph.from_arrays(made.pairs.numpy(), ids=ids, features=None if kind == "no features" else features)
    size = 8 if options.smoke else 64
    encoder = {"hidden_size": size} if kind != "no features" else {"hidden_size": size, "embedding_size": size}
    training = {"epochs": 2 if options.smoke else 8}
    predictor = LinkPredictor(encoder=encoder, decoder={"width": size}, training=training, seed=seed, device="cpu")
    place = folder / kind.replace(" ", "-")
    predictor.fit(graph).save(place)
    return place


# -- load -----------------------------------------------------------------------------------------------------


class Load:
    """Clients, kills and comparisons, for so many seconds."""

    def __init__(self, model: Path, kind: str, folder: Path, options: Any, chance: random.Random) -> None:
        self.model, self.options, self.chance = model, options, chance
        self.pause, self.stop = folder / "pause", folder / "stop"
        self.features = FEATURES if kind != "no features" else 0
        self.service = Service(model, options.workers, folder)
        self.memory: list[tuple[float, float]] = []
        self.overlaps: list[list[float]] = []

    def run(self, seconds: float) -> dict[str, Any]:
        try:
            began = time.monotonic()
            clients = [self._client(number, seconds) for number in range(self.options.clients)]
            try:
                self._disturb(began, seconds)
            finally:
                self.stop.touch()
                records = [json.loads(client.communicate(timeout=120)[0]) for client in clients]
                self.stop.unlink()
            spent = time.monotonic() - began
            lanes = [lane for record in records for lane in record]
            self._compare()
            code = self.service.stop()
        finally:
            self.service.end()
        return self._summary(lanes, spent) | {"exit_code": code}

    def _client(self, number: int, seconds: float) -> subprocess.Popen[bytes]:
        lanes = self.options.connections
        plan = {
            "port": self.service.port,
            "nodes": self.options.nodes,
            "features": self.features,
            "lanes": lanes,
            "lane": number * lanes,
            "all_lanes": self.options.clients * lanes,
            "seed": self.options.seed + number,
            "until": time.time() + 2 * seconds + 600,  # should the soak itself end before it says stop
            "most": self.options.requests // (2 * self.options.clients * lanes),  # of each of the two models
            "pause": str(self.pause),
            "stop": str(self.stop),
        }
        return subprocess.Popen([sys.executable, str(CLIENT), json.dumps(plan)], stdout=subprocess.PIPE)

    def _disturb(self, began: float, seconds: float) -> None:
        """Kills and comparisons at random moments; memory all the time."""
        kill_every = min(self.options.kill_every, seconds / 4)  # in a short run too
        compare_every = min(self.options.compare_every, seconds / 5)
        killing, comparing = self._soon(kill_every), self._soon(compare_every)
        while (now := time.monotonic()) < began + seconds:
            if now > comparing:
                self._compare()
                comparing = self._soon(compare_every)
            elif now > killing:
                worker = self.options.workers > 1 and len(self.service.kills) % 2 == 1
                self.service.kill_worker(self.chance) if worker else self.service.kill_all()
                killing = self._soon(kill_every)
            else:
                self.memory.append((now - began, self.service.memory()))
                time.sleep(min(0.5, seconds / 20))

    def _soon(self, seconds: float) -> float:
        return time.monotonic() + seconds * self.chance.uniform(0.5, 1.5)

    def _compare(self) -> None:
        """Top ten of some nodes, old and new, against a fresh pass over the graph at the same change."""
        self.pause.touch()
        try:
            for _ in range(100):
                version = self.service.version()
                names = [f"n{self.chance.randrange(self.options.nodes)}" for _ in range(SAMPLE)] + self._new_nodes()
                answer = self.service.ask("/v1/recommend", {"nodes": names, "k": 10})
                if answer["version"] == version:
                    room = read_room(self.model)
                    state = room.now
                    room.close()
                    if state.version == version:
                        keep_log(self.model, self.pause.parent)
                        break
            else:
                raise RuntimeError("changes go on although writes pause")
        finally:
            self.pause.unlink()
        answered = [[found["target"] for found in one["recommendations"]] for one in answer["results"]]
        self.overlaps.append(overlaps(answered, fresh_lists(state, names)))

    def _new_nodes(self) -> list[str]:
        """Some nodes that were added: clients name them s1-0, s1-1, …"""
        lane = self.chance.randrange(self.options.clients * self.options.connections)
        found = self.service.ask(f"/v1/nodes?query=s{lane}-&limit=10")["nodes"]
        return [node["id"] for node in found if node["id"].startswith("s")]

    def _summary(self, lanes: Sequence[dict[str, Any]], spent: float) -> dict[str, Any]:
        room = read_room(self.model)
        lost, doubled = lost_and_doubled(room.now, lanes)
        changes = room.now.version
        room.close()
        times: dict[str, list[float]] = {}
        for lane in lanes:
            for kind, seconds in lane["times"].items():
                times.setdefault(kind, []).extend(seconds)
        windows = [(kill["from"] - 0.1, kill["until"] + 0.5) for kill in self.service.kills]
        cut = [(at, words) for lane in lanes for at, words in lane["broken"]]
        unexpected = [words for at, words in cut if not any(low <= at <= high for low, high in windows)]
        unexpected += [words for lane in lanes for words in lane["wrong"]]
        means = [float(np.mean(part)) for part in self.overlaps]
        third = spent / 3
        early = [size for at, size in self.memory if at < third]
        late = [size for at, size in self.memory if at > 2 * third]
        requests = sum(lane["requests"] for lane in lanes)
        return {
            "requests": requests,
            "requests_per_second": round(requests / spent, 1),
            "refused_with_503": sum(lane["refused"] for lane in lanes),
            "cut_off_by_kills": sum("ConnectionRefused" not in words for _, words in cut),
            "unexpected_errors": len(unexpected),
            "first_unexpected": unexpected[:5],
            "milliseconds": {kind: quantiles(times[kind]) for kind in sorted(times)},
            "memory_mb": {"first_third": mean(early), "last_third": mean(late), "most": most(self.memory)},
            "comparisons": len(means),
            "top10_overlap": {"mean": mean(means, 4), "worst_moment": round(min(means), 4)},
            "changes": changes,
            "acknowledged": sum(lane["acknowledged"] for lane in lanes),
            "lost": len(lost),
            "doubled": len(doubled),
            "first_lost_or_doubled": [*lost[:3], *doubled[:3]],
            "versions_went_back": sum(lane["went_back"] for lane in lanes),
            "kills": {what: sum(k["what"] == what for k in self.service.kills) for what in ("service", "worker")},
            "seconds_to_start": round(self.service.start_seconds, 2),
            "seconds_to_restart": spread([k["ready"] for k in self.service.kills if k["what"] == "service"]),
            "seconds_until_workers_ended": spread([k["ended"] for k in self.service.kills if "ended" in k]),
            "log_bytes": log_path(self.model).stat().st_size,
        }


def killed_all(folder: Path, seconds: float, kills: int, chance: random.Random, *, smoke: bool) -> dict[str, Any]:
    """Every command that writes, killed at steps of its writing, until the time is up."""
    start = folder / "before-commands"
    start.mkdir()
    killed_commands.prepared(start)
    chosen = {name: case for name, case in killed_commands.cases().items() if not smoke or name == "recommend --out"}
    each = seconds / len(chosen)
    return {
        name: killed_commands.killed(case, start, folder / "killed", chance, kills, time.monotonic() + each)
        for name, case in chosen.items()
    }


if __name__ == "__main__":
    main()
