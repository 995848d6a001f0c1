"""Bundled data: the graph that the documentation speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.datasets import bundled_cora
from yinyan.errors import MissingExtraError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures


@pytest.fixture(scope="module")
def cora() -> Graph:
    try:
        return bundled_cora()
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_cora_has_its_known_size(cora: Graph) -> None:
    assert (cora.num_nodes, cora.num_edges) == (2_708, 5_278)
    assert not cora.directed and cora.sides is None
    assert cora.features is not None and cora.features.shape == (2_708, 1_433)
    assert (cora.degrees > 0).all()


def test_subjects_are_not_features(cora: Graph) -> None:
    """Words are 0 or 1, and every feature is one of them."""
    assert isinstance(cora.features, SparseFeatures)
    assert np.array_equal(np.unique(cora.features.values), [1.0])
    assert cora.feature_encoder is not None
    assert [plan.name for plan in cora.feature_encoder.plans] == ["features"]


def test_the_extra_is_named_where_it_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yinyan.datasets.dataset.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[demo\]'"):
        bundled_cora()
    with pytest.raises(ImportError):
        bundled_cora()
