"""Knowledge distillation: teachers, the mean of their scores, and a student of their probabilities.

YINYAN_DATA=/data python benchmarks/ablations/distillation.py --data cora --seeds 2 --teachers 3 --weight 0.5

Protocol clean, splits of seeds 100, 101, …; the suggested settings with sketches of 64. A step's links are hidden from
teachers too. The student's loss is the paper's, with labels that are to `--weight` the mean teacher's probability. One
teacher makes it self-distillation. A figure is Hits@10% plus AUC on validation links, as in hyperparameters.py; test
links are never scored. The MLP students of the literature are peers: src/yinyan/peers/distillation.py.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import _path  # noqa: F401
from lib import common
from yinyan.evaluation import make_split
from yinyan.graph import Graph
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.model.fitted import Fitted, build_model
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.model.tensors import feature_tensor
from yinyan.peers.distillation import Teacher
from yinyan.settings import Settings
from yinyan.splits import Split
from yinyan.training.defaults import ground
from yinyan.training.fit import fit_model
from yinyan.training.hooks import Hooks

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
            said = [Teacher(t.encoder(features, messages, hidden=hidden), t.decoder) for t in teachers]
        total = pairs.rows.new_zeros(())
        for some, label in ((pairs.links, 1.0), (pairs.non_links, 0.0)):
            wanted = torch.stack([teacher.logits(some) for teacher in said]).mean(0)
            labels = wanted.sigmoid().mul_(weight).add_((1 - weight) * label)
            logits = self.logits(pairs.rows, some, messages, hidden=hidden, drops=drops)
            total = total + F.binary_cross_entropy_with_logits(logits, labels)
        return total


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--teachers", type=int, default=3)
    parser.add_argument("--weight", type=float, default=0.5)
    given = common.parsed(parser, teachers=2)
    data, rows = common.load_data(given.data, smoke=given.smoke), []
    for seed in range(100, 100 + given.seeds):
        split = make_split(data, "clean", seed)
        settings = ground(split.graph, len(split.train_targets)).settings.updated({"encoder": {"sketch_size": 64}})
        settings = settings.updated(common.SMALL) if given.smoke else settings
        teachers = [fitted(split, settings, seed + APART * number) for number in range(given.teachers)]
        alone = [figure(*teacher.valid_scores) for teacher in teachers]
        together = figure(*(np.mean(scores, 0) for scores in zip(*(t.valid_scores for t in teachers), strict=True)))
        student = fitted(split, settings, seed, [teacher.model for teacher in teachers], given.weight)
        row = {"seed": seed, "teachers": statistics.mean(alone), "mean_of_scores": together}
        rows.append(row | {"student": figure(*student.valid_scores), "each_teacher": alone})
        print(f"seed {seed} ...", file=sys.stderr, flush=True)
    header = ("seed", "teachers", "mean of their scores", "student")
    common.report(given, rows, lambda: common.print_table(header, [tuple(row.values())[:4] for row in rows]))


def fitted(split: Split, settings: Settings, seed: int, teachers: Sequence[Model] = (), weight: float = 0.0) -> Fitted:
    def student(settings: Settings, graph: Graph) -> Model:
        return Student(build_model(settings, graph, seed), teachers, weight, graph)

    build = student if teachers else None
    return fit_model(split, settings, seed=seed, device=CPU, calibration="platt", hooks=Hooks(), build=build)


def figure(links: np.ndarray, others: np.ndarray) -> float:
    return hits_at_rate(links, others, 0.1) + roc_auc(links, others)


if __name__ == "__main__":
    main()
