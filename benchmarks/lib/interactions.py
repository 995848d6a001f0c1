"""Users and items: the files of the recommendation data sets, and the quality of a full ranking.

It imports numpy alone, so that a process that times another package does not pay for ours.
"""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Pairs = NDArray[np.int64]
Recommend = Callable[[NDArray[np.int64]], NDArray[np.int64]]  # users -> (users, K) items, -1 where there are fewer

K = 20
_BLOCK = 256  # users ranked at a time


class Interactions(NamedTuple):
    """(user, item) pairs by role, each pair once; users and items are numbered from 0 each."""

    users: int
    items: int
    train: Pairs
    test: Pairs  # without pairs of the training

    def edges(self) -> Pairs:
        """The training as edges of one graph: items follow the users."""
        return self.train + np.array([0, self.users])


def read(folder: Path) -> Interactions:
    """train.txt.gz and test.txt.gz, and the sizes of these and of valid.txt.gz if it is there."""
    train, test = (_pairs(folder / f"{part}.txt.gz") for part in ("train", "test"))
    others = [_pairs(file)] if (file := folder / "valid.txt.gz").exists() else []
    users, items = (np.concatenate([train, test, *others]).max(axis=0) + 1).tolist()
    test_keys, train_keys = (np.unique(pairs @ np.array([items, 1])) for pairs in (test, train))
    fresh = np.setdiff1d(test_keys, train_keys, assume_unique=True)
    return Interactions(users, items, _of_keys(train_keys, items), _of_keys(fresh, items))


def write(folder: Path, *, train: Pairs, test: Pairs) -> None:
    """Files of a user and its items per line, as ml-1m has them."""
    folder.mkdir(parents=True)
    for part, pairs in (("train", train), ("test", test)):
        with gzip.open(folder / f"{part}.txt.gz", "wt") as file:
            for user in np.unique(pairs[:, 0]):
                file.write(" ".join(map(str, [user, *pairs[pairs[:, 0] == user, 1]])) + "\n")


def quality(
    recommend: Recommend, relevant: Pairs, *, most_users: int | None = None, minutes: float = math.inf
) -> dict[str, Any]:
    """Recall@20 and NDCG@20 of a full ranking, as means over the users of the `relevant` pairs.

    Users are ranked in a random order that is the same for every method. It ends after so many users, or with the
    block of users in which the minutes are over; `test_users` tells how many were ranked.
    """
    relevant = relevant[np.argsort(relevant[:, 0], kind="stable")]
    users, starts = np.unique(relevant[:, 0], return_index=True)
    items = np.split(relevant[:, 1], starts[1:])
    order = np.random.default_rng(0).permutation(users.size)[:most_users]
    discounts = 1 / np.log2(np.arange(2, K + 2))
    ideal = np.cumsum(discounts)
    recalls, gains = [], []
    ends = time.monotonic() + 60 * minutes
    for start in range(0, order.size, _BLOCK):
        block = np.sort(order[start : start + _BLOCK])
        for ranked, place in zip(recommend(users[block]), block, strict=True):
            hits = np.isin(ranked, items[place])
            recalls.append(hits.sum() / items[place].size)
            gains.append((hits * discounts).sum() / ideal[min(K, items[place].size) - 1])
        if time.monotonic() > ends:
            break
    error = float(np.std(gains) / len(gains) ** 0.5)
    found = {"recall_at_20": float(np.mean(recalls)), "ndcg_at_20": float(np.mean(gains)), "ndcg_standard_error": error}
    return found | {"test_users": len(gains), "of_test_users": users.size}


def _pairs(file: Path) -> Pairs:
    """Lines 'user item 1' in files of three columns whose last is 1, else a user and the items."""
    with gzip.open(file, "rt") as lines:
        rows = [np.array(line.split(), dtype=np.int64) for line in lines]
    if all(row.size == 3 and row[2] == 1 for row in rows):
        return np.stack(rows)[:, :2]
    return np.concatenate(list(_spread(rows)))


def _spread(rows: list[NDArray[np.int64]]) -> Iterator[Pairs]:
    for row in rows:
        if row.size > 1:
            yield np.stack([np.full(row.size - 1, row[0]), row[1:]], axis=1)


def _of_keys(keys: NDArray[np.int64], items: int) -> Pairs:
    return np.stack([keys // items, keys % items], axis=1)
