"""Whether a model learns more from models than from links: teachers, their mean, and a student of their probabilities.

YINYAN_DATA=/data python benchmarks/distilling.py --data cora --seeds 2 --teachers 3 --weight 0.5

Protocol clean, splits of seeds 100, 101, …; the suggested settings with sketches of 64. A step's links are hidden from
teachers too. The student's loss is the paper's, with labels that are to `--weight` the mean teacher's probability. One
teacher makes it self-distillation. A figure is Hits@10% plus AUC on validation links, as in levers.py; test links are
never scored.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from yinyan.batches import Pairs
from yinyan.datasets import load
from yinyan.defaults import ground
from yinyan.fitting import Fitted, Hooks, build_model, fit_model
from yinyan.graph import Graph
from yinyan.messages import MessageGraph
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.protocol import make_split
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.tensors import feature_tensor
from yinyan.training import Model

CPU = torch.device("cpu")
APART = 1000  # between the seeds of teachers


class Student(Model):
    """Our model, whose labels are partly what its teachers say."""

    def __init__(self, own: Model, teachers: Sequence[Model], weight: float, graph: Graph) -> None:
        super().__init__(own.encoder, own.decoder)
        self.taught = (
            tuple(teachers),
            weight,
            feature_tensor(graph.features, CPU),
        )  # in a tuple: not learned

    def loss(
        self,
        pairs: Pairs,
        messages: MessageGraph,
        kind: str,
        *,
        hidden: Tensor | None = None,
        drops: torch.Generator | None = None,
    ) -> Tensor:
        """Cross-entropy of links, and of non-links, each with labels between 0 or 1 and what the teachers say."""
        teachers, weight, features = self.taught
        with torch.no_grad():
            rows = [teacher.encoder(features, messages, hidden=hidden) for teacher in teachers]
        total = pairs.rows.new_zeros(())
        for some, label in ((pairs.links, 1.0), (pairs.non_links, 0.0)):
            with torch.no_grad():
                said = [teacher.decoder.of_pairs(y, some) for teacher, y in zip(teachers, rows, strict=True)]
                labels = torch.stack(said).mean(0).sigmoid().mul_(weight).add_((1 - weight) * label)
            logits = self.logits(pairs.rows, some, messages, hidden=hidden, drops=drops)
            total = total + F.binary_cross_entropy_with_logits(logits, labels)
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--teachers", type=int, default=3)
    parser.add_argument("--weight", type=float, default=0.5)
    given = parser.parse_args()
    data = load(given.data)
    for seed in range(100, 100 + given.seeds):
        split = make_split(data, "clean", seed)
        settings = ground(split.graph, len(split.train_targets)).settings.updated({"encoder": {"sketch_size": 64}})
        teachers = [fitted(split, settings, seed + APART * number) for number in range(given.teachers)]
        alone = [figure(*teacher.valid_scores) for teacher in teachers]
        together = figure(*(np.mean(scores, 0) for scores in zip(*(t.valid_scores for t in teachers), strict=True)))
        student = fitted(split, settings, seed, [teacher.model for teacher in teachers], given.weight)
        print(
            f"seed {seed}: teachers {statistics.mean(alone):.4f} ({', '.join(f'{one:.4f}' for one in alone)}), "
            f"their mean {together:.4f}, student {figure(*student.valid_scores):.4f}",
            flush=True,
        )


def fitted(split: Split, settings: Settings, seed: int, teachers: Sequence[Model] = (), weight: float = 0.0) -> Fitted:
    def student(settings: Settings, graph: Graph) -> Model:
        return Student(build_model(settings, graph, seed), teachers, weight, graph)

    build = student if teachers else None
    return fit_model(split, settings, seed=seed, device=CPU, calibration="platt", hooks=Hooks(), build=build)


def figure(links: np.ndarray, others: np.ndarray) -> float:
    return hits_at_rate(links, others, 0.1) + roc_auc(links, others)


if __name__ == "__main__":
    main()
