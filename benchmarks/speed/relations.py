"""What relations cost: a training step over r relations, against one relation with the same edges.

python benchmarks/speed/relations.py            # 20,000 nodes, 200,000 edges, 1, 10 and 50 relations
python benchmarks/speed/relations.py --json

Default settings of such a graph. A step hides and predicts a twelfth of the edges, and includes its negatives, loss,
gradients and the update. Steps take turns; the fastest of each counts. Where one relation is predicted of several, the
others are messages only, and a step predicts at most half of its edges.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from yinyan.graph.ids import Ids
from yinyan.graph.typed_graph import NodeType, Relation, TypedGraph
from yinyan.model.typed_fitted import build_typed_model
from yinyan.native.allocation import held_memory
from yinyan.randomness import Streams
from yinyan.splits.typed_split import typed_holdout
from yinyan.training.loop import TrainingState, build_optimizer, one_step
from yinyan.training.typed_course import TypedCourse
from yinyan.training.typed_data import typed_data
from yinyan.training.typed_defaults import suggest_typed

REPEATS = 12


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--relations", type=int, nargs="+", default=[1, 10, 50])
    options = common.parsed(parser, nodes=300, edges=2_000, relations=[1, 3])
    with held_memory():
        rows = measure(options.nodes, options.edges, options.relations)
    if options.picture:
        bars = {f"{row['relations']} relations, {row['predicted']} predicted": row["ratio"] for row in rows}
        common.bars(options.picture, bars, title="Training step", label="ratio to one relation")
    common.report(options, {"rows": rows} | common.machine(), lambda: show(rows))


def show(rows: list[dict[str, Any]]) -> None:
    common.print_machine(common.machine())
    common.print_table(("relations", "predicted", "step, ms", "ratio"), [tuple(row.values()) for row in rows])


def measure(num_nodes: int, num_edges: int, counts: list[int]) -> list[dict[str, Any]]:
    tasks: dict[str, common.Task] = {}
    names = []
    for count in counts:
        graph = divided(num_nodes, num_edges, count)
        for predicted in (count, 1) if count > 1 else (1,):
            names.append((count, predicted))
            tasks[f"{count} {predicted}"] = stepping(graph, list(graph.relations)[:predicted])
    times = common.Times()
    times.run(tasks, REPEATS)
    least = [1e3 * times.least(name) for name in tasks]
    return [
        {"relations": count, "predicted": predicted, "step_ms": value, "ratio": value / least[0]}
        for (count, predicted), value in zip(names, least, strict=True)
    ]


def divided(num_nodes: int, num_edges: int, count: int) -> TypedGraph:
    """The same edges in so many relations, drawn at random."""
    pairs = np.unique(np.sort(synthetic(num_nodes, num_edges, 0).numpy(), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    number = np.random.default_rng(0).integers(count, size=len(pairs))
    relations = {f"r{r}": Relation(f"r{r}", "node", "node", pairs[number == r]) for r in range(count)}
    return TypedGraph({"node": NodeType(Ids.integers(num_nodes))}, relations)


def stepping(graph: TypedGraph, predict: list[str]) -> common.Task:
    """A training step. It takes as many targets as one relation would, or half of those that are predicted."""
    split = typed_holdout(graph, predict, seed=0, valid_share=0.1, valid_negatives=1_000)
    settings = suggest_typed(graph, split.predicted, graph.num_edges, {}).settings
    targets = sum(len(part.train_targets) for part in split.parts.values())
    batch = min(settings.training.batch_size, targets // 2)
    settings = settings.updated({"training": {"batch_size": batch}})
    model = build_typed_model(settings, graph, split.predicted, 0)
    data = typed_data(split, torch.device("cpu"), ranked=False)
    course = TypedCourse(model, data, settings.training, Streams(0, torch.device("cpu")))
    optimizer = build_optimizer(model, settings.training)
    state = TrainingState()
    course.begin(state)

    def step(state: TrainingState) -> None:
        state.position = 0
        one_step(course, state, settings.training, optimizer, 0.001)

    return functools.partial(step, state)


if __name__ == "__main__":
    main()
