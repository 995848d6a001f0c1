"""The degree column through all that a model is asked: the settings of large graphs on a small one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from contracts import planted_graph
from yinyan.errors import SettingsError
from yinyan.live.embeddings import LiveEmbeddings
from yinyan.model.sketches import DEGREE_OFFSET
from yinyan.model.tensors import message_graph
from yinyan.predictor import LinkPredictor
from yinyan.retrieval.queries import is_linear


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(
        seed=0,
        encoder={"degree_column": True, "sketch_size": 0, "hidden_size": 8, "embedding_size": 8},
        decoder={"kind": "dot"},
        training={"loss": "infonce", "loss_sampler": "shared", "loss_negatives": 16, "epochs": 3, "batch_size": 30},
    ).fit(planted_graph())


def test_the_last_column_is_the_degree(model: LinkPredictor) -> None:
    degrees = np.bincount(model.graph_.edges.ravel(), minlength=40)
    assert model.embeddings_.shape == (40, 9)
    np.testing.assert_allclose(model.embeddings_[:, -1], DEGREE_OFFSET + np.log1p(degrees), rtol=1e-6)


@pytest.mark.parametrize("kind", ["exact", "mips", "flashlight"])
def test_every_search_finds_what_scoring_all_finds(model: LinkPredictor, kind: str) -> None:
    near = model.graph_.edges[(model.graph_.edges == 3).any(axis=1)]
    known = set(near.ravel().tolist())
    others = [node for node in range(40) if node not in known]
    scores = model.score([(3, node) for node in others])
    wanted = [others[place] for place in np.argsort(-scores, kind="stable")[:5]]
    found = model.index(kind, k=5, recall=0.5).recommend(3, k=5)  # type: ignore[arg-type]
    assert list(found.targets) == wanted
    np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:5], rtol=1e-5)


def test_one_query_says_all(model: LinkPredictor) -> None:
    assert is_linear(model.fitted_.model.decoder)


def test_similar_nodes_are_so_by_their_embeddings(model: LinkPredictor) -> None:
    y = torch.nn.functional.normalize(torch.from_numpy(model.embeddings_[:, :8].copy()).double(), dim=1)
    cosines = (y @ y[0]).numpy()
    cosines[0] = -2
    assert model.similar(0, k=3).targets == tuple(np.argsort(-cosines)[:3].tolist())


def test_it_survives_saving(model: LinkPredictor, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = LinkPredictor.load(tmp_path / "model")
    assert again.recommend(1, k=4).targets == model.recommend(1, k=4).targets
    np.testing.assert_array_equal(again.embeddings_, model.embeddings_)


def test_explanations_add_up(model: LinkPredictor) -> None:
    why = model.explain(0, 1)
    total = why.score_alone + sum(c.amount for c in why.contributions) + why.residue
    assert total == pytest.approx(why.score, abs=1e-4)
    assert why.score == pytest.approx(model.score((0, 1)), abs=1e-4)


def test_a_live_graph_follows_the_degrees(model: LinkPredictor) -> None:
    fitted = model.fitted_
    device = torch.device("cpu")
    live = LiveEmbeddings(fitted.encoder, None, message_graph(fitted.graph, fitted.message_edges, device), seed=0)
    np.testing.assert_allclose(live.embeddings.numpy(), model.embeddings_, atol=1e-5)
    before = live.embeddings[:, -1].clone()
    edge = model.graph_.edges[:1]
    live.remove_links(edge)
    changed = (live.embeddings[:, -1] != before).nonzero()[:, 0].tolist()
    assert changed == sorted(edge[0].tolist())


def test_new_nodes_have_a_degree(model: LinkPredictor) -> None:
    vector = model.embed_new(["new"], None, [("new", 0), ("new", 3)])
    assert vector[0, -1] == pytest.approx(DEGREE_OFFSET + np.log(3))


def test_other_decoders_refuse_it() -> None:
    refused = LinkPredictor(
        encoder={"degree_column": True, "sketch_size": 0}, decoder={"kind": "hadamard"}, training={"epochs": 1}
    )
    with pytest.raises(SettingsError, match="needs the dot decoder"):
        refused.fit(planted_graph())
