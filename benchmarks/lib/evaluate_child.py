"""One evaluation of default settings, in a process of its own, by whichever revision is on the path."""

from __future__ import annotations

import json
import sys
import time

import torch

import yinyan


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    data = yinyan.datasets.load(job["data"]) if job["data"] != "smoke" else _ring()
    began = time.perf_counter()
    model = yinyan.LinkPredictor(training=job["training"]) if job["training"] else None
    found = yinyan.evaluate(data, seeds=[job["seed"]], peers=["cn"], model=model).to_dict()
    print(json.dumps({"metrics": found["metrics"], "seconds": time.perf_counter() - began}))


def _ring() -> yinyan.Graph:
    """A small graph for --smoke."""
    return yinyan.Graph.from_arrays([(i, (i + hop) % 60) for i in range(60) for hop in (1, 2, 5)])


if __name__ == "__main__":
    main()
