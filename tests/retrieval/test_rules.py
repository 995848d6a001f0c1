"""Rules of an answer: allow and deny lists per source, and targets that are given once; in Python and over HTTP."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts import bipartite_graph, planted_graph, tiny
from yinyan import InputError, LinkPredictor, Rules, UnknownNodeError
from yinyan.retrieval import assignment
from yinyan.retrieval.assignment import assigned
from yinyan.retrieval.exact import TopK
from yinyan.retrieval.recommend import Wish, partners_together


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 2})).fit(planted_graph())


@pytest.fixture(scope="module")
def sided() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 2})).fit(bipartite_graph())


def of(found: Any) -> dict[Any, list[Any]]:
    lists: dict[Any, list[Any]] = {}
    for row in found:
        lists.setdefault(row.source, []).append(row.target)
    return lists


class TestLists:
    def test_allow_narrows_only_the_sources_that_it_names(self, model: LinkPredictor) -> None:
        plain = of(model.recommend([0, 1], k=50))
        few = plain[0][5:9]
        found = of(model.recommend([0, 1], k=50, rules=Rules(allow={0: few})))
        assert found == {0: few, 1: plain[1]}, "in the order of their scores"

    def test_deny_leaves_out(self, model: LinkPredictor) -> None:
        plain = of(model.recommend([0, 1], k=50))
        found = of(model.recommend([0, 1], k=3, rules=Rules(deny={0: plain[0][:2]})))
        assert found == {0: plain[0][2:5], 1: plain[1][:3]}

    def test_a_source_with_an_empty_list_is_given_nobody(self, model: LinkPredictor) -> None:
        assert set(of(model.recommend([0, 1], k=3, rules=Rules(allow={0: []})))) == {1}
        assert set(of(model.recommend([0, 1], k=3, rules=Rules(deny={0: []})))) == {0, 1}

    def test_all_at_once(self, model: LinkPredictor) -> None:
        """Rules, a condition and `among` admit what all of them admit."""
        rules = Rules(allow={0: range(10, 30)}, deny={0: [12, 13], 1: [20]})
        found = of(model.recommend([0, 1], k=50, among=range(11, 25), where="candidate.id != 15", rules=rules))
        known = {n: set(model.graph_.neighbours(n).tolist()) for n in (0, 1)}
        assert set(found[0]) == set(range(11, 25)) - {12, 13, 15} - known[0]
        assert set(found[1]) == set(range(11, 25)) - {15, 20} - known[1]

    def test_known_partners_may_be_allowed_again(self, model: LinkPredictor) -> None:
        partner = int(model.graph_.neighbours(0)[0])
        rules = Rules(allow={0: [partner]})
        assert of(model.recommend(0, rules=rules)) == {}
        assert of(model.recommend(0, rules=rules, exclude_known=False)) == {0: [partner]}

    def test_lists_are_written_in_several_ways(self, model: LinkPredictor) -> None:
        pandas = pytest.importorskip("pandas")
        wanted = of(model.recommend([0, 1], k=3, rules=Rules(deny={0: [10, 11], 1: [12]})))
        pairs = [(0, 10), (1, 12), (0, 11)]
        for given in (pairs, np.array(pairs), pandas.DataFrame(pairs, columns=["source", "target"])):
            assert of(model.recommend([0, 1], k=3, rules=Rules(deny=given))) == wanted

    def test_sides_stay_apart(self, sided: LinkPredictor) -> None:
        assert of(sided.recommend(0, k=50, exclude_known=False, rules=Rules(allow={0: [1, 2, 20]}))) == {0: [20]}

    def test_an_index_keeps_to_them(self, model: LinkPredictor) -> None:
        rules = Rules(allow={0: range(5, 30)}, deny={0: [6, 7, 8]}, once="target")
        exact = model.recommend([0, 1], k=4, rules=rules, search="exact")
        assert of(model.recommend([0, 1], k=4, rules=rules, index=model.index("exact", k=5))) == of(exact)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"deny": {0: 7}}, "'deny' needs a list of ids for each source"),
            ({"allow": [(0, 1, 2)]}, "pair 0 of 'allow' needs two ids"),
            ({"allow": 5}, "'allow' needs to be a mapping of ids"),
            ({"once": "source"}, "'once' needs to be 'target', 'node' or None"),
        ],
    )
    def test_other_rules_are_refused(self, given: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            Rules(**given)

    def test_unknown_ids_are_refused_by_name(self, model: LinkPredictor) -> None:
        with pytest.raises(UnknownNodeError, match="node 400 is not in the graph"):
            model.recommend(0, rules=Rules(deny={0: [400]}))

    def test_requests_with_rules_and_without_are_answered_together(self, model: LinkPredictor) -> None:
        wishes = [Wish([0, 1], 3), Wish([0, 1], 3, rules=Rules(deny={0: [10]})), Wish([0], 3, rules=Rules(once="node"))]
        state = model._questions.state
        together = partners_together(state, wishes)
        for wish, partners in zip(wishes, together, strict=True):
            (alone,) = partners_together(state, [wish])
            for a, b in zip(partners.tops, alone.tops, strict=True):  # type: ignore[union-attr]
                assert a.rows.tolist() == b.rows.tolist()


def greedy(scores: NDArray[np.float32], sources: list[int], k: int, once: str) -> list[list[int]]:
    """The definition: the best pair of all that is still allowed, again and again."""
    given: list[list[int]] = [[] for _ in sources]
    used: set[int] = set()
    order = sorted(
        itertools.product(range(len(sources)), range(scores.shape[1])),
        key=lambda pair: (-scores[pair], pair),
    )
    for place, target in order:
        if target == sources[place] or target in used or len(given[place]) == (1 if once == "node" else k):
            continue
        if once == "node" and sources[place] in used:
            continue
        given[place].append(target)
        used |= {target, sources[place]} if once == "node" else {target}
    return given


class TestOnce:
    @pytest.mark.parametrize("once", ["target", "node"])
    @pytest.mark.parametrize("ahead", [1, 4, 32])
    @pytest.mark.parametrize("seed", range(4))
    def test_the_best_pair_comes_first(self, once: Any, ahead: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assignment, "_AHEAD", ahead)
        rng = np.random.default_rng(seed)
        sources = rng.permutation(30)[:12]
        scores = rng.normal(size=(12, 30)).astype(np.float32) + rng.normal(size=30).astype(np.float32) * 2
        depths = []

        def search(places: NDArray[np.int64], depth: int, used: NDArray[np.int64]) -> list[TopK]:
            depths.append(depth)
            lists = []
            for place in places.tolist():
                rows = np.setdiff1d(np.arange(30), [*used.tolist(), sources[place]])
                rows = rows[np.argsort(-scores[place, rows], kind="stable")][:depth]
                lists.append(TopK(rows, scores[place, rows]))
            return lists

        found = assigned(search, sources, 2, once)
        assert [top.rows.tolist() for top in found] == greedy(scores, sources.tolist(), 2, once)
        assert (len(depths) > 1) == (ahead < 32), "short lists are searched again"

    def test_nobody_is_recommended_twice(self, model: LinkPredictor) -> None:
        nodes = list(range(12))
        found = model.recommend(nodes, k=3, rules=Rules(once="target"))
        assert len(set(found.targets)) == len(found) == 36
        plain = model.recommend(nodes, k=3)
        assert len(set(plain.targets)) < 36, "without the rule some are"
        best = max(plain, key=lambda row: row.score)
        assert (best.source, best.target) in {(row.source, row.target) for row in found}
        assert found.probabilities is not None and found.ranks[:3].tolist() == [1, 2, 3]

    def test_a_matching(self, model: LinkPredictor) -> None:
        found = model.recommend(list(range(40)), k=5, rules=Rules(once="node"))
        ends = [*found.sources, *found.targets]
        assert len(ends) == len(set(ends)) > 30

    def test_a_matching_of_two_sides(self, sided: LinkPredictor) -> None:
        found = sided.recommend(list(range(15)), rules=Rules(once="node"))
        assert len(found) == len(set(found.targets)) == len(set(found.sources)) == 15

    def test_fewer_targets_than_sources(self, model: LinkPredictor) -> None:
        found = model.recommend(list(range(10)), k=2, among=[20, 21], exclude_known=False, rules=Rules(once="target"))
        assert sorted(found.targets) == [20, 21]
