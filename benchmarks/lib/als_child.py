"""implicit's alternating least squares in a process of its own: reads the table, fits, saves, ranks.

    OPENBLAS_NUM_THREADS=1 python -m lib.als_child '{"path": "/data/recommender/ml-1m", ...}'

128 factors, 15 iterations, everything else as implicit has it. With "held_out" it learns from the training edges of
that file instead, and is scored on its validation edges after some iterations; the time of that does not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lib import interactions

_FACTORS, _ITERATIONS = 128, 15
_SCORED = (1, 2, 5, 10, 15)  # iterations


def main() -> None:
    job = json.loads(sys.argv[1])
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    data = interactions.read(Path(job["path"]))
    held = None if job.get("held_out") is None else np.load(job["held_out"])
    train = data.train if held is None else held["train"]
    ones = np.ones(len(train), np.float32)
    table = csr_matrix((ones, (train[:, 0], train[:, 1])), shape=(data.users, data.items))
    model = AlternatingLeastSquares(
        factors=_FACTORS, iterations=_ITERATIONS, num_threads=job["threads"], random_state=0
    )
    course, spent = [], 0.0

    def ranked(users: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = model.recommend(users, table[users], N=interactions.K)[0]
        return found

    def score(iteration: int, elapsed: float, loss: float | None) -> None:
        nonlocal spent
        reached = time.monotonic()
        if held is not None and iteration + 1 in _SCORED:
            figures = {"ndcg": interactions.quality(ranked, held["valid"])["ndcg_at_20"]}
            figures["hits"] = _hits(model, held["valid"], held["negatives"])
            course.append({"seconds": reached - job["began"] - spent, **figures})
        spent += time.monotonic() - reached

    started = time.monotonic()
    model.fit(table, show_progress=False, callback=score)
    fitted = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        model.save(str(Path(folder) / "model.npz"))
        saved = time.monotonic()
    found: dict[str, Any] = {"seconds": saved - job["began"] - spent, "fit_seconds": fitted - started - spent}
    if held is None:
        found |= interactions.quality(ranked, data.test, most_users=job.get("most_users"))
    print(json.dumps(found | {"epochs": course}))


def _hits(model: Any, valid: np.ndarray[Any, Any], negatives: np.ndarray[Any, Any]) -> float:
    """Share of validation edges above all but a tenth of the negatives, as our records have it."""
    edges, others = (
        np.einsum("pd,pd->p", model.user_factors[pairs[:, 0]], model.item_factors[pairs[:, 1]])
        for pairs in (valid, negatives)
    )
    return float((edges > np.quantile(others, 0.9)).mean())


if __name__ == "__main__":
    main()
