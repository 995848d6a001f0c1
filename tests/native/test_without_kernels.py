"""Without any library the answers are the same: torch does the work."""

from __future__ import annotations

import numpy as np
import pytest

from contracts import planted_graph
from yinyan import Explanation, LinkPredictor, Recommendations
from yinyan.native import graph_kernels

# a random start: eigenvectors of equal eigenvalues turn with the last digit
SMALL = {
    "encoder": {"hidden_size": 24, "embedding_size": 24, "sketch_size": 16, "embedding_start": "random"},
    "decoder": {"width": 40},
    "training": {"epochs": 3},
}


def fitted() -> LinkPredictor:
    return LinkPredictor(seed=0, **SMALL).fit(planted_graph())


def answers(model: LinkPredictor) -> tuple[Recommendations, np.ndarray, np.ndarray, Explanation]:
    links = model.recommend(model.graph_.ids.take(range(20)), k=5)
    pairs = [(row.source, row.target) for row in links]
    return links, model.score(pairs), model.predict_proba(pairs), model.explain(*pairs[0])


@pytest.mark.skipif(graph_kernels.library() is None, reason=f"no compiled kernels: {graph_kernels.why_not()}")
def test_fits_and_answers_are_those_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = fitted()
    theirs = answers(compiled)
    graph_kernels._load.cache_clear()
    monkeypatch.setenv("YINYAN_NATIVE", "0")
    try:
        assert graph_kernels.library() is None
        plain, again = answers(compiled), answers(fitted())
    finally:
        monkeypatch.undo()
        graph_kernels._load.cache_clear()
    for links, scores, chances, explanation in (plain, again):  # of the same weights, and of weights fitted by torch
        assert [(row.source, row.target) for row in links] == [(row.source, row.target) for row in theirs[0]]
        np.testing.assert_allclose(scores, theirs[1], rtol=5e-3, atol=5e-3)
        np.testing.assert_allclose(chances, theirs[2], rtol=5e-3, atol=5e-3)
        assert explanation.score == pytest.approx(theirs[3].score, abs=1e-2)
    np.testing.assert_allclose(plain[1], theirs[1], rtol=1e-4, atol=1e-4)
