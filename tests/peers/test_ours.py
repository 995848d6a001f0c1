"""Our own model through the contract of its peers: the same figures as by its own door."""

from __future__ import annotations

import numpy as np
import pytest
from peer_contract import PeerContract, communities, every_pair, small, split_of

from yinyan.evaluation import make_split
from yinyan.model.fitted import Fitted
from yinyan.peers import Task, contract, method
from yinyan.predictor import LinkPredictor
from yinyan.retrieval import ranks, reranking
from yinyan.sampling import draw_pairs
from yinyan.training.fit import fit_model


class TestYinYan(PeerContract):
    name = "yinyan"


class TestYinYanWithoutNegatives(PeerContract):
    name = "yinyan-without-negatives"


@pytest.mark.parametrize("name", ["yinyan", "yinyan-as-suggested"])
@pytest.mark.parametrize("seed", [0, 5])
def test_equals_the_predictor(seed: int, name: str) -> None:
    """Users get the reranked scores of the suggested settings; the method of the paper has none."""
    split = split_of(communities())
    own = {"rerank": name == "yinyan-as-suggested"}
    settings = small(encoder={"num_negatives": 2, "expected_negatives": False, "sketch_size": 0}, decoder=own)
    outcome = method(name)(Task(split, seed, settings, "cpu"))
    model = LinkPredictor(**settings, seed=seed, device="cpu").fit(split.graph, split=split)  # type: ignore[arg-type]
    assert (model.fitted_.reranking is not None) == (own["rerank"] and seed == 0)
    assert np.array_equal(outcome.score(every_pair(split)), model.score_rows(every_pair(split)))
    assert outcome.validation == max(r.score for r in model.fitted_.history if r.score is not None)


def test_validation_is_that_of_the_weights_that_are_kept() -> None:
    split = split_of(communities())
    spoilt = {"epochs": 8, "learning_rate": 0.3, "schedule": "constant", "patience": 0}
    found = []
    for keep in ("best", "last"):
        settings = small(training={**spoilt, "keep": keep})
        model = LinkPredictor(**settings, device="cpu").fit(split.graph, split=split)  # type: ignore[arg-type]
        outcome = method("yinyan")(Task(split, 0, settings, "cpu"))
        assert outcome.validation == model.fitted_.history[model.fitted_.best_epoch - 1].score
        found.append(outcome.validation)
    assert found[0] is not None and found[1] is not None and found[0] > found[1]


def test_without_negatives_none_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of(communities())
    settings = small(encoder={"num_negatives": 2, "expected_negatives": False})
    drawn: list[int] = []
    monkeypatch.setattr("yinyan.model.messages.draw_pairs", lambda *a, **k: drawn.append(1) or draw_pairs(*a, **k))
    without = method("yinyan-without-negatives")(Task(split, 0, settings, "cpu")).score(every_pair(split))
    assert not drawn
    with_them = method("yinyan")(Task(split, 0, settings, "cpu")).score(every_pair(split))
    assert drawn and not np.allclose(without, with_them)
    none = {**settings, "encoder": {**settings["encoder"], "num_negatives": 0}}
    assert np.array_equal(method("yinyan")(Task(split, 0, none, "cpu")).score(every_pair(split)), without)


class TestOneTrainingForTwoProtocols:
    """Messages at test time differ, what training sees does not."""

    settings = small(encoder={"num_negatives": 2, "expected_negatives": False, "sketch_size": 8})

    def test_scores_are_those_of_a_training_of_its_own(self) -> None:
        graph = communities()
        fits: dict[str, Fitted] = {}
        splits = [make_split(graph, protocol, 3) for protocol in ("clean", "clean+val")]
        shared = [method("yinyan")(Task(split, 3, self.settings, "cpu", fits=fits)) for split in splits]
        for split, outcome in zip(splits, shared, strict=True):
            alone = method("yinyan")(Task(split, 3, self.settings, "cpu"))
            assert np.array_equal(outcome.score(every_pair(split)), alone.score(every_pair(split)))
            assert outcome.validation == alone.validation
        assert shared[0].spared == 0 < shared[1].spared
        first, second = (outcome.score(every_pair(splits[0])) for outcome in shared)
        assert not np.allclose(first, second)

    def test_it_is_trained_once_and_again_if_anything_differs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trained: list[int] = []
        monkeypatch.setattr(contract, "fit_model", lambda *a, **k: trained.append(1) or fit_model(*a, **k))
        graph = communities()
        fits: dict[str, Fitted] = {}

        def run(protocol: str, seed: int, settings: object, who: str = "yinyan") -> int:
            method(who)(Task(make_split(graph, protocol, seed), seed, settings, "cpu", fits=fits))  # type: ignore[arg-type]
            return len(trained)

        other = small(encoder={"num_negatives": 1, "expected_negatives": False, "sketch_size": 8})
        assert run("clean", 3, self.settings) == 1
        assert run("clean+val", 3, self.settings) == 1
        assert run("clean", 4, self.settings) == 2
        assert run("clean", 3, self.settings) == 3  # one is kept at a time
        assert run("clean", 3, other) == 4
        assert run("clean", 3, other, "gcn") == run("clean", 3, other, "gcn") - 1
        assert len(fits) == 1


def test_targets_are_ranked_as_users_see_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortlist by the decoder's score first, in the reranked order; then the others."""
    monkeypatch.setattr(ranks, "SHORTLIST", 10)
    monkeypatch.setattr(reranking, "SHORTLIST", 10)
    split = split_of(communities())
    settings = small(encoder={"num_negatives": 2, "expected_negatives": False, "sketch_size": 0})
    outcome = method("yinyan-as-suggested")(Task(split, 0, settings, "cpu"))
    model = LinkPredictor(**settings, seed=0, device="cpu").fit(split.graph, split=split)  # type: ignore[arg-type]
    assert model.fitted_.reranking is not None and outcome.best is None and outcome.ranks is not None
    known = split.graph.find_edges(np.concatenate([split.train_targets, split.valid_targets]))
    own = model.fitted_.model.decoder
    for source in range(split.graph.num_nodes):
        linked = split.graph.with_edges(known).neighbours(source)
        new = np.setdiff1d(np.arange(split.graph.num_nodes), [*linked, source])
        shown = model.graph_.rows_of(model.recommend(model.graph_.ids[source], k=2).targets).tolist()
        y = model.fitted_.embeddings
        plain = own(y[[source]].expand(new.size, -1), y[new]).detach().numpy()
        listed = new[np.argsort(-plain, kind="stable")[:10]]
        behind = new[np.argsort(-plain, kind="stable")[10:]]
        barred = [linked]
        for rank, row in enumerate(shown, start=1):
            assert outcome.ranks(np.array([source]), [np.array([row])], barred, None)[0].tolist() == [rank]
        each = [int(outcome.ranks(np.array([source]), [np.array([row])], barred, None)[0][0]) for row in new.tolist()]
        places = dict(zip(new.tolist(), each, strict=True))
        assert {places[row] for row in listed.tolist()} == set(range(1, 11)), "no ties here"
        assert [places[row] for row in behind.tolist()] == list(range(11, new.size + 1))
