from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import yinyan
from serving_tools import free_port, served
from yinyan.errors import InputError, ServiceError, UnknownNodeError
from yinyan.service import sizes
from yinyan.service.keys import add_key
from yinyan.service.options import Limits


def test_the_client_answers_as_the_predictor_does(mixed: Path) -> None:
    predictor = yinyan.LinkPredictor.load(mixed, device="cpu")
    with served(mixed) as service:
        client = yinyan.Client(str(service.base_url))
        pairs = [(7, "7"), ("a/b", ""), (100, "ä?#")]
        np.testing.assert_allclose(client.score(pairs), predictor.score(pairs), rtol=1e-5)
        np.testing.assert_allclose(
            client.predict_proba(pairs, base_rate=0.2), predictor.predict_proba(pairs, base_rate=0.2), rtol=1e-5
        )
        found, wanted = client.recommend([7, "7"], 4), predictor.recommend([7, "7"], 4)
        assert (found.sources, found.targets) == (wanted.sources, wanted.targets)
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, rtol=1e-3)
        assert found.how_sure() == wanted.how_sure() != ""
        np.testing.assert_allclose(client.predict_proba(pairs), predictor.predict_proba(pairs), rtol=1e-5)
        assert found.to_pandas()["probability"].tolist() == found[:4].probabilities.tolist() + (
            found[4:].probabilities.tolist()
        )
        rules = yinyan.Rules(allow={"007": []}, deny={7: [110, "7"]}, once="target")
        ruled, wished = (who.recommend([7, "007", "7"], 3, rules=rules) for who in (client, predictor))
        assert (ruled.sources, ruled.targets) == (wished.sources, wished.targets) and "007" not in ruled.sources
        with pytest.raises(InputError, match="'once' holds within one request"):
            client.recommend([7] * 101, rules=rules)
        assert client.recommend("007", 2, among=[110, 111], exclude_known=False).targets == (
            predictor.recommend("007", 2, among=[110, 111], exclude_known=False).targets
        )
        near, truly = client.similar([7, "7"], 3), predictor.similar([7, "7"], 3)
        assert (near.sources, near.targets) == (truly.sources, truly.targets)
        assert near.probabilities is None  # a cosine is none
        np.testing.assert_allclose(client.embed([7]), predictor.embed([7]), rtol=1e-5)
        assert client.explain(7, "7").score == pytest.approx(predictor.explain(7, "7").score, abs=1e-5)
        assert [client.node(value)["id"] for value in (7, "7", "a/b", "ä?#", "")] == [7, "7", "a/b", "ä?#", ""]
        assert client.search("a/", limit=1)[0]["id"] == "a/b"


def test_the_client_changes_the_graph(mixed: Path) -> None:
    with served(mixed) as service:
        client = yinyan.Client(str(service.base_url))
        assert client.add_links([(7, 120), ("7", 120)]) == 2
        assert client.remove_links([(120, 7)]) == 1
        client.add_node("new", neighbours=[7], label="A label")
        assert client.node("new")["label"] == "A label"
        assert client.reject([("new", 101)]) == 1
        assert 101 not in client.recommend("new", 50).targets
        assert client.take_back([("new", 101)]) == 1
        assert 101 in client.recommend("new", 50).targets
        client.reload()
        assert client.model()["live"]["added_nodes"] == 1


def test_the_client_raises_the_librarys_errors(model: Path, tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "me")
    with served(model, keys=str(tmp_path / "keys")) as service:
        with pytest.raises(ServiceError, match="API key") as refused:
            yinyan.Client(str(service.base_url)).model()
        assert (refused.value.status, refused.value.title) == (401, "Unauthorized")
        assert refused.value.cure.startswith("pass a key") and refused.value.cure in str(refused.value)
        client = yinyan.Client(str(service.base_url), key=key)
        with pytest.raises(UnknownNodeError, match="node 'n0' is not in the graph") as unknown:
            client.score([("n0", "n01")])
        with pytest.raises(InputError, match="k: ") as invalid:
            client.recommend("n00", k=0)
        for told, status, title in ((unknown, 404, "Not Found"), (invalid, 422, "Unprocessable")):
            assert isinstance(told.value, ServiceError) and told.value.status == status
            assert told.value.title.startswith(title) and told.value.cure and told.value.detail in str(told.value)
        with pytest.raises(ServiceError, match="already in the graph") as conflict:
            client.add_node("n00")
        assert conflict.value.status == 409
    with pytest.raises(ServiceError, match="is 'yinyan serve' running") as silent:
        yinyan.Client(f"http://127.0.0.1:{free_port()}", timeout=1).model()
    assert (silent.value.status, silent.value.title) == (0, "No answer")


def test_an_error_of_the_service_is_public_and_survives_a_pickle() -> None:
    assert yinyan.ServiceError is ServiceError and issubclass(ServiceError, yinyan.YinYanError)
    error = pickle.loads(pickle.dumps(ServiceError("what", 503, title="Busy", cure="wait")))
    assert (error.detail, error.status, error.title, error.cure) == ("what", 503, "Busy", "wait")
    assert str(error) == "what (wait)" and str(ServiceError("what")) == "what"


def test_the_client_sends_long_lists_in_parts(model: Path) -> None:
    """Above 4 MiB the client reported "no answer", and above 10,000 pairs a refusal."""
    with served(model) as service:
        client = yinyan.Client(str(service.base_url))
        pairs = [("n00", f"n{1 + i % 39:02d}") for i in range(20_001)]
        scores = client.score(pairs)
        assert len(scores) == 20_001
        np.testing.assert_array_equal(scores[:39], scores[39:78])
        assert len(client.predict_proba(pairs[:10_001])) == 10_001
        assert client.embed(["n00"] * 1_001).shape[0] == 1_001
        assert len(client.recommend(["n00"] * 101, k=2)) == 202
        assert len(client.similar(["n00"] * 101, k=2)) == 202
        assert client.add_links([("n00", "n30")] * 10_001) == 1
        assert client.reject(pairs[:39] * 260) == 39
        assert client.score([]).shape == (0,)
        long = [f"{i:04d}" + "x" * 1_020 for i in range(3_000)]
        with pytest.raises(UnknownNodeError, match="is not in the graph"):
            client.score([(a, b) for a, b in zip(long, long[1:], strict=False)])  # 6 MB of ids
        for features, words in (([0.0] * 2_000_000, "4,194,304 bytes"), ([0.0] * 100_001, "100,000 features")):
            with pytest.raises((InputError, ServiceError), match=words):
                client.add_node("x", features=features)


def test_the_clients_sizes_are_the_services() -> None:
    limits = Limits()
    assert (limits.body_bytes, limits.pairs, limits.nodes) == (sizes.BODY_BYTES, sizes.PAIRS, sizes.NODES)
    assert limits.recommend_nodes == sizes.RECOMMEND_NODES
