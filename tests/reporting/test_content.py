"""What a report tells."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.reporting import ReportContent


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": [[0.0, 1.0, 2.0]]}, r"'points' needs finite numbers of shape \(n, 2\)"),
        ({"points": [[0.0, np.nan]]}, "'points' needs finite"),
        ({"points": [[0.0, 1.0]], "links": [[0, 1]]}, "'links' needs pairs of rows"),
        ({"points": [[0.0, 1.0]], "predicted": [[-1, 0]]}, "'predicted' needs pairs of rows"),
        ({"points": [[0.0, 1.0]], "point_labels": [1, 2]}, "'point_labels' needs 1 label"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        ReportContent("t", **fields)


def test_content_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ReportContent("t").title = "u"
