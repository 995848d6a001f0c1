"""One fit in a process of its own: reads a graph, fits, saves, and prints what it measured as a line of JSON.

    python -m lib.fit_child '{"case": "small", "kind": "csv", ...}'

It runs with the `src` of any revision since 647f649 on PYTHONPATH, so it uses only what all of them have. What differs
is in `_suggested` and `_split`. Seconds count from the moment at which the parent started the process ("began", on the
monotonic clock), so that imports count.

"fit"     the whole fit with default settings, except for those of "training"
"short"   a few steps of it, from which its seconds are extrapolated; fixed costs are measured whole
"split"   no fit: the held-out edges that "fit" chooses by, for peers that are not ours
"peer"    the fit of one of our `peers` on the same held-out edges
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lib import interactions, resident

_STEPS, _FEW_STEPS = 12, 4  # of each of the two epochs of a short run, and from how many edges they are few
_MANY = 2_000_000
_FIGURES = ("hits", "mrr", "auc", "ndcg")  # of a record, where it has them


class Course:
    """The hooks of a fit: lines that it prints, and when steps and epochs ended."""

    def __init__(self, began: float) -> None:
        self._began = began
        self.lines: list[str] = []
        self.epochs: list[dict[str, float]] = []
        self.steps: list[float] = []
        self.most_epochs = 0
        self._parent = os.getppid()

    def now(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self._began

    def hooks(self) -> Any:
        """Hooks that note everything."""
        from yinyan import Hooks

        return Hooks(
            tell=self.lines.append, on_start=self._on_start, on_epoch=self._on_epoch, should_stop=self._on_step
        )

    def _on_start(self, epochs: int, done: int) -> None:
        self.most_epochs = epochs

    def _on_epoch(self, record: Any) -> None:
        figures = {name: getattr(record, name, None) for name in _FIGURES}
        known = {name: float(value) for name, value in figures.items() if value is not None}
        self.epochs.append({"seconds": self.now(), **known})

    def _on_step(self) -> bool:
        self.steps.append(self.now())
        return os.getppid() != self._parent  # a fit whose benchmark was killed ends too


def main() -> None:
    job = json.loads(sys.argv[1])
    course = Course(job["began"])
    import torch

    import yinyan

    if not Path(yinyan.__file__).is_relative_to(job["source"]):
        sys.exit(f"'yinyan' was imported from '{yinyan.__file__}' in place of '{job['source']}'")
    torch.set_num_threads(job["threads"])
    imported = course.now()
    graph, data = _read(job)
    found = {"nodes": graph.num_nodes, "edges": graph.num_edges, "import_seconds": imported, "read": course.now()}
    print(json.dumps(found | _JOBS[job["do"]](job, course, graph, data)))


def _read(job: dict[str, Any]) -> tuple[Any, interactions.Interactions | None]:
    """The graph of the case, and its test interactions if it has any."""
    from yinyan import Graph

    if job["kind"] == "data set":
        from yinyan.datasets import load

        return load(job["case"]).graph, None
    if job["kind"] == "csv":
        return Graph.from_table(job["path"], bipartite=job["bipartite"]), None
    data = interactions.read(Path(job["path"]))
    nodes = data.users + data.items
    return Graph.from_arrays(data.edges(), num_nodes=nodes, sides=np.arange(nodes) >= data.users), data


def _fit(job: dict[str, Any], course: Course, graph: Any, data: interactions.Interactions | None) -> dict[str, Any]:
    from yinyan import LinkPredictor

    model = LinkPredictor(training=job.get("training"), seed=0)
    found = _timed(course, lambda hooks: model.fit(graph, hooks=hooks), model)
    settings = model.fitted_.settings
    found |= {"dimensions": settings.encoder.hidden_size, "lines": course.lines, "epochs": course.epochs}
    if data is not None and job["quality"]:
        before = time.monotonic()
        found |= interactions.quality(
            lambda users: _ranked(model, users, data.users), data.test, minutes=job["ranking_minutes"]
        )
        found["ranking_seconds"] = time.monotonic() - before
    return found | {"most_epochs": course.most_epochs}


def _timed(course: Course, fit: Callable[[Any], object], model: Any) -> dict[str, Any]:
    """Seconds to the end of the fit and of the save, and the peak of memory above what was held before the fit."""
    held = resident.fresh_peak()
    started = course.now()
    fit(course.hooks())
    fitted = course.now()
    peak = None if held is None else resident.peak() - held
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        saved, cpu = course.now(), time.process_time()
    return {"seconds": saved, "cpu_seconds": cpu, "fit_seconds": fitted - started, "peak_bytes": peak}


def _ranked(model: Any, users: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """The best items of each user, training items left out: nodes of the graph are named by their numbers."""
    found = model.recommend(users.tolist(), k=interactions.K)
    ranked = np.full((users.size, interactions.K), -1, np.int64)
    rows = np.searchsorted(users, np.asarray(found.sources, np.int64))
    ranked[rows, np.asarray(found.ranks) - 1] = np.asarray(found.targets, np.int64) - offset
    return ranked


def _short(job: dict[str, Any], course: Course, graph: Any, data: interactions.Interactions | None) -> dict[str, Any]:
    """What a whole fit would take: two epochs of a few steps each with the settings of the whole graph."""
    from yinyan import LinkPredictor

    split = _split(graph)
    settings, targets = _suggested(graph, len(split.train_targets)), len(split.train_targets)
    batch = min(settings.training.batch_size or targets, targets)
    count = _STEPS if graph.num_edges < _MANY else _FEW_STEPS
    cut = dataclasses.replace(split, train_targets=split.train_targets[: count * batch])
    training = dataclasses.replace(settings.training, epochs=2, evaluate_every=1)
    model = LinkPredictor(encoder=settings.encoder, decoder=settings.decoder, training=training, seed=0)
    found = _timed(course, lambda hooks: model.fit(graph, split=cut, hooks=hooks), model)
    ends, steps = [epoch["seconds"] for epoch in course.epochs], course.steps
    per_epoch = len(steps) // 2
    if per_epoch < 2:
        sys.exit(f"an epoch of {per_epoch} step is too short to extrapolate from (run it whole: --old-minutes)")
    between = np.diff(steps[per_epoch:])  # of the second epoch: the first one warms up
    step = float(np.median(between))
    validation = ends[1] - steps[-1]
    epochs, each = settings.training.epochs, math.ceil(targets / batch)
    training_seconds = epochs * each * step + epochs // settings.training.evaluate_every * validation
    fixed = found["seconds"] - (ends[-1] - steps[0]) - step  # all but steps and validations
    return {
        "seconds": fixed + training_seconds,
        "fixed_seconds": fixed,
        "step_seconds": step,
        "validation_seconds": validation,
        "steps_per_epoch": each,
        "most_epochs": epochs,
        "steps_measured": len(between),
        "peak_bytes": found["peak_bytes"],
        "lines": course.lines,
    }


def _held_out(
    job: dict[str, Any], course: Course, graph: Any, data: interactions.Interactions | None
) -> dict[str, Any]:
    """Write the training edges, the validation edges and the negatives, as (user, item) pairs."""
    split = _split(graph)
    shift = np.array([0, 0 if data is None else data.users])
    negatives = split.valid_negatives.reshape(-1, 2)
    parts = {"train": split.train_targets, "valid": split.valid_targets, "negatives": negatives}
    np.savez(job["out"], **{name: np.sort(pairs, axis=1) - shift for name, pairs in parts.items()})
    return {}


def _peer(job: dict[str, Any], course: Course, graph: Any, data: interactions.Interactions | None) -> dict[str, Any]:
    from yinyan import peers

    peers.method(job["peer"])(peers.Task(_split(graph), seed=0, hooks=course.hooks()))
    return {"seconds": course.now(), "epochs": course.epochs}


def _split(graph: Any) -> Any:
    """The held-out tenth that `fit` makes by itself."""
    from yinyan.splits import holdout_split

    training = _suggested(graph, graph.num_edges).training
    share, negatives = (
        getattr(training, new) if hasattr(training, new) else getattr(training, old)
        for new, old in (("valid_share", "validation_share"), ("valid_negatives", "validation_negatives"))
    )
    return holdout_split(graph, seed=0, valid_share=share, valid_negatives=negatives)


def _suggested(graph: Any, num_targets: int) -> Any:
    """The default settings for the graph."""
    try:
        from yinyan.training.defaults import suggest
    except ImportError:  # 'training' was a module at 647f649
        from yinyan.defaults import suggest
    return suggest(graph, num_targets).settings


_JOBS: dict[str, Callable[..., dict[str, Any]]] = {"fit": _fit, "short": _short, "split": _held_out, "peer": _peer}

if __name__ == "__main__":
    main()
