"""One question layer: what it keeps between questions, and what it answers."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph, tiny
from yinyan import Graph, LinkPredictor
from yinyan.errors import InputError, UnknownNodeError
from yinyan.native import retrieval_kernels
from yinyan.retrieval import exact
from yinyan.retrieval.recommend import Wish, partners_together
from yinyan.retrieval.screening import Screen


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(encoder={"sketch_size": 16}, training={"epochs": 2})).fit(planted_graph())


@pytest.fixture
def screens(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of each screen that is made; small graphs get one too, from the second node asked on."""
    made: list[int] = []
    make = Screen.of
    monkeypatch.setattr(retrieval_kernels, "screens_quickly", lambda: True)
    monkeypatch.setattr(exact, "_SCREENED", 2)
    monkeypatch.setattr(exact, "_SCREENED_ROWS", 1)
    monkeypatch.setattr(exact.Screen, "of", lambda y, size: made.append(len(y)) or make(y, size))
    return made


def screened_model(screens: list[int]) -> LinkPredictor:
    """A fitted model; what its calibration screened does not count."""
    plain = {"residual": False, "norm": False, "depth": 2}
    model = LinkPredictor(**tiny(decoder=plain, training={"epochs": 1})).fit(planted_graph())
    if not exact.ExactSearch(model.fitted_.model.decoder).scorer.can_be_screened(model.fitted_.embeddings):
        pytest.skip("no compiled kernels: nothing is screened")
    screens.clear()
    return model


def test_the_screen_survives_a_question(screens: list[int]) -> None:
    """`recommend` made an ExactSearch per call, so that its screen never survived."""
    model = screened_model(screens)
    first = model.recommend([0, 1, 2], k=3)
    assert screens == [40]
    assert list(model.recommend([0, 1, 2], k=3)) == list(first)
    model.best_links(3)
    assert screens == [40]


def test_the_screen_goes_with_the_embeddings(screens: list[int]) -> None:
    model = screened_model(screens)
    model.recommend([0, 1, 2])
    y = model.fitted_.embeddings
    model.fitted_ = replace(model.fitted_, embeddings=y.flip(0).contiguous())
    other = model.recommend([0, 1, 2])
    assert screens == [40, 40]
    model.fitted_ = replace(model.fitted_, embeddings=y.clone())
    model.recommend([0, 1, 2])
    with torch.no_grad():
        model.fitted_.embeddings.copy_(y.flip(0))  # in place
    assert list(model.recommend([0, 1, 2])) == list(other)
    assert len(screens) == 4


def test_threads_share_one_search(screens: list[int]) -> None:
    model = screened_model(screens)
    wanted = list(model.recommend([0, 1, 2], k=5))
    found: list[bool] = []

    def ask() -> None:
        found.append(all(list(model.recommend([0, 1, 2], k=5)) == wanted for _ in range(10)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4 and screens == [40]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_that_was_asked_can_be_copied(model: LinkPredictor, copied: Any) -> None:
    wanted = model.recommend([0, 1])
    model.explain(0, 1)
    other = copied(model)
    assert list(other.recommend([0, 1])) == list(wanted)
    assert other.get_params() == model.get_params()


def test_explanations_share_the_message_graph(model: LinkPredictor) -> None:
    model.explain(0, 1)
    kept = model._questions.evidence()
    model.explain(2, 3)
    assert model._questions.evidence() is kept


def test_requests_together_are_answered_as_alone(model: LinkPredictor) -> None:
    state = model._questions.state
    wishes = [
        *(Wish([0, 5, 0], 4), Wish([7], 4), Wish([3], 2, exclude_known=False), Wish([], 3)),
        *(Wish(["nobody"], 3), Wish([1], 3, among=[5, 9, 11]), Wish([2], 9, where=lambda node: node > 30)),
    ]
    together = partners_together(state, wishes)
    assert isinstance(together[4], UnknownNodeError)
    for wish, found in zip(wishes, together, strict=True):
        if not isinstance(found, Exception):
            (alone,) = partners_together(state, [wish])
            for one, other in zip(alone.tops, found.tops, strict=True):  # type: ignore[union-attr]
                assert np.array_equal(one.rows, other.rows) and np.array_equal(one.scores, other.scores)


# -- similar -------------------------------------------------------------------------------------------------


def cosines(model: LinkPredictor) -> np.ndarray[Any, Any]:
    size = model.settings_.encoder.hidden_size
    y = model.embeddings_[:, :size].astype(np.float64)
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    return y @ y.T


@pytest.mark.parametrize("k", [1, 5, 100])
def test_similar_nodes_are_the_nearest_without_sketches(model: LinkPredictor, k: int) -> None:
    assert model.embeddings_.shape[1] > model.settings_.encoder.hidden_size
    truth = cosines(model)
    found = model.similar([4, 30], k)
    place = 0
    for node in (4, 30):
        order = [row for row in np.argsort(-truth[node], kind="stable") if row != node][:k]
        part = found[place : place + len(order)]
        assert set(part.sources) == {node} and node not in part.targets
        np.testing.assert_allclose(part.scores, truth[node, order], atol=1e-6)
        assert part.ranks.tolist() == list(range(1, len(order) + 1))
        place += len(order)
    assert place == len(found)
    assert list(model.similar(4, k)) == list(found[: min(k, 39)])


def test_similar_nodes_are_of_the_same_side() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(0, 15, 150), rng.integers(15, 40, 150)], axis=1), axis=0)
    graph = Graph.from_arrays(pairs, num_nodes=40, sides=np.repeat([0, 1], [15, 25]))
    model = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph)
    assert set(model.similar(0, 100).targets) == set(range(1, 15))
    assert set(model.similar(20, 100).targets) == set(range(15, 40)) - {20}
    assert model.similar([20, 0], 2).sources == (20, 20, 0, 0)


def test_similar_is_the_same_in_blocks_and_batches(model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = model.similar(range(40), 6)  # type: ignore[arg-type]
    monkeypatch.setattr("yinyan.retrieval.similar._BLOCK", 7)
    monkeypatch.setattr("yinyan.retrieval.similar._TOGETHER", 3)
    assert list(model.similar(range(40), 6)) == list(wanted)  # type: ignore[arg-type]


def test_a_node_without_an_embedding_is_similar_to_none() -> None:
    model = LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())
    with torch.no_grad():
        model.fitted_.embeddings[3] = 0
    assert set(model.similar(3, 5).scores.tolist()) == {0.0}


def test_similar_refuses_what_recommend_refuses(model: LinkPredictor) -> None:
    with pytest.raises(UnknownNodeError):
        model.similar("nobody")
    with pytest.raises(InputError, match="'k' needs to be a positive integer"):
        model.similar(0, 0)
    assert len(model.similar([])) == 0


# -- settings and reasons ------------------------------------------------------------------------------------


def test_settings_and_reasons(model: LinkPredictor) -> None:
    assert model.settings_.encoder.sketch_size == 16
    assert model.settings_ == model.fitted_.settings
    assert model.reasons_ == model.fitted_.reasons and all(isinstance(reason, str) for reason in model.reasons_)


@pytest.mark.parametrize("pairs", [[[0, 999]], [[-1, 0]], [[0, 1, 2]], [[0.5, 1.0]]])
def test_rows_out_of_range_are_refused(model: LinkPredictor, pairs: Any) -> None:
    with pytest.raises(InputError, match=r"row .* is not among the|needs to be integers of the shape \(m, 2\)"):
        model.score_rows(np.array(pairs))
