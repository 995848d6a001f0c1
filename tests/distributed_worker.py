"""One process of a group that trains on a prepared folder and writes down what came of it; run by the tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

from yinyan.distributed.fit import Job, fit_prepared
from yinyan.distributed.group import Group
from yinyan.training.hooks import Hooks


def main(given: str) -> None:
    """Train as a JSON text says: folder, overrides, out."""
    asked = json.loads(given)
    torch.set_num_threads(1)
    group = Group("cpu")
    job = Job(Path(asked["folder"]), asked["overrides"], seed=asked.get("seed", 0))
    fitted = fit_prepared(group, job, Hooks())
    if fitted is not None:
        np.savez(
            asked["out"],
            losses=[record.loss for record in fitted.history],
            scores=[record.score for record in fitted.history if record.score is not None],
            embeddings=fitted.embeddings.numpy(),
            ids=np.array(list(map(str, fitted.graph.ids.take(range(fitted.graph.num_nodes))))),
            metrics=list(fitted.metrics.values()),
        )
    group.leave()


if __name__ == "__main__":
    main(sys.argv[1])
