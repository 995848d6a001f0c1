"""A process that makes training steps on a prepared folder, alone or as one of several; run by distributed.py."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from resident import fresh_peak, peak

from yinyan import read_prepared
from yinyan.distributed.course import SharedCourse
from yinyan.distributed.fit import facts_of
from yinyan.distributed.group import Group
from yinyan.distributed.model import sharded_model, start_sharded
from yinyan.distributed.prepared import read_manifest, read_part
from yinyan.distributed.shard import Nodes
from yinyan.model.fitted import build_model
from yinyan.native.allocation import held_memory
from yinyan.randomness import Streams
from yinyan.settings import Settings
from yinyan.training.data import training_data
from yinyan.training.defaults import suggest
from yinyan.training.loop import TrainingState, build_optimizer, one_step, whole_course


def main(given: str) -> None:
    """Make steps as a JSON text says, and print figures as one more."""
    asked = json.loads(given)
    torch.set_num_threads(asked["threads"])
    before = fresh_peak()
    with held_memory():
        found = _alone(asked) if asked["alone"] else _as_rank(asked)
    found["resident_before"], found["peak"] = before, peak()
    sys.stdout.write(json.dumps(found) + "\n")


def _settings(folder: Path) -> Settings:
    manifest = read_manifest(folder)
    return suggest(facts_of(manifest, manifest.num_nodes), int(0.9 * manifest.num_edges)).settings


def _alone(asked: dict[str, Any]) -> dict[str, Any]:
    """The training of one process, without a group."""
    folder = Path(asked["folder"])
    settings = _settings(folder)
    graph, split = read_prepared(folder)
    model = build_model(settings, graph, 0)
    data = training_data(graph, split, torch.device("cpu"))
    course = whole_course(model, data, settings.training, Streams(0, torch.device("cpu")))
    return _timed(model, course, settings, asked["steps"])


def _as_rank(asked: dict[str, Any]) -> dict[str, Any]:
    """The same as one of several processes, and what is exchanged."""
    group, folder = Group("cpu"), Path(asked["folder"])
    manifest, settings = read_manifest(folder), _settings(folder)
    part = read_part(manifest, manifest.parts_of(group.rank, group.size))
    nodes = Nodes(group, manifest, part.left)
    model = sharded_model(settings, facts_of(manifest, 1), nodes, 0)
    course = SharedCourse(model, nodes, part, settings.training, 0)
    del part
    start_sharded(model, settings, course.messages, 0)
    timed = _timed(model, course, settings, asked["steps"])
    halo = course.messages.exchange
    rows = torch.zeros(halo.num_own, settings.encoder.hidden_size)
    sent = group.bytes_sent
    halo.extended(rows)
    facts = torch.tensor([group.bytes_sent - sent, len(halo.rows)], dtype=torch.long)
    bytes_of_layer, boundary = group.summed(facts).tolist()
    group.leave()
    return {**timed, "bytes_of_layer": bytes_of_layer, "boundary_rows": boundary, "size": rows.shape[1]}


def _timed(model: Any, course: Any, settings: Settings, steps: int) -> dict[str, float]:
    """The median seconds of steps after the first, and of the processor's seconds in them."""
    state, optimizer = TrainingState(), build_optimizer(model, settings.training)
    spent: list[tuple[float, float]] = []
    course.begin(state)
    for step in range(steps):
        state.position = step % (course.length // course.stride) * course.stride
        began = time.perf_counter(), time.process_time()
        one_step(course, state, settings.training, optimizer, 1e-3)
        spent.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    seconds, of_processor = (statistics.median(kind) for kind in zip(*(spent[1:] or spent), strict=True))
    return {"seconds": seconds, "cpu_seconds": of_processor}


if __name__ == "__main__":
    main(sys.argv[1])
