"""The fixed split of a data set: shapes and types are checked, rows are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from data_set_files import pairs
from yinyan.errors import InputError
from yinyan.splits import Parts

TRAIN, VALID, TEST = pairs((3, 1), (0, 2)), pairs((2, 1)), pairs((4, 0), (0, 4))


def test_rows_keep_their_order_and_their_ends() -> None:
    parts = Parts(TRAIN, VALID, TEST, train_negatives=pairs((1, 0)), valid_negatives=pairs((4, 4)))
    assert parts.train.tolist() == [[3, 1], [0, 2]] and parts.test_negatives is None
    assert repr(parts) == "Parts(train=2, valid=1, test=2, negatives=none)"


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_negatives_may_be_each_positives_own(kind: type) -> None:
    own = np.zeros((2, 5, 2), dtype=kind)
    parts = Parts(TRAIN, VALID, TEST, test_negatives=own)
    assert parts.test_negatives is own  # and not a copy: there can be many
    assert "5 per positive" in repr(parts)
    assert "1 shared" in repr(Parts(TRAIN, VALID, TEST, test_negatives=pairs((0, 1))))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train": TRAIN.astype(np.int32)}, r"'train' needs to be an int64 array of shape \(pairs, 2\) \(got int32"),
        ({"valid": TRAIN.T.repeat(2, axis=1)}, r"'valid' .* \(got int64, shape \(2, 4\)\)"),
        ({"test": None}, r"'test' .* \(got NoneType\)"),
        ({"test": [[0, 1]]}, r"'test' .* \(got list\)"),
        ({"train_negatives": np.zeros((2, 3, 2), dtype=np.int64)}, "'train_negatives'"),
        ({"valid_negatives": pairs((0, 1)).astype(np.int32)}, "'valid_negatives' needs to be an int64"),
        (
            {"test_negatives": np.zeros((3, 4, 2), dtype=np.int64)},
            r"shape \(2, negatives, 2\), a row for each positive",
        ),
        ({"test_negatives": np.zeros((2, 4, 3), dtype=np.int64)}, r"\(got int64, shape \(2, 4, 3\)\)"),
        ({"test_negatives": np.zeros((2, 4, 2))}, r"\(got float64"),
        ({"train": pairs((0, -1))}, r"'train' needs rows of 0 or more \(got -1\)"),
        ({"test_negatives": np.full((2, 1, 2), -3, dtype=np.int32)}, r"'test_negatives' needs rows of 0 or more"),
    ],
)
def test_other_shapes_and_types_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Parts(**{"train": TRAIN, "valid": VALID, "test": TEST, **wrong})
