"""Conditions on links: what can be written, what it means, and that search never finds fewer than there are."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import planted_graph, tiny
from yinyan import ConditionError, Graph, InputError, LinkPredictor
from yinyan.retrieval import probing
from yinyan.retrieval.candidates import candidates_of
from yinyan.retrieval.condition_syntax import MOST_CHARACTERS, MOST_DEPTH, parsed_condition
from yinyan.retrieval.conditions import Condition, GraphColumns
from yinyan.retrieval.efforts import Effort, Efforts
from yinyan.retrieval.index import Index

N = 40
YEARS = [None if i % 7 == 3 else 1990 + i for i in range(N)]
COUNTRIES = [None if i % 11 == 5 else ("DE", "FR", "IT")[i % 3] for i in range(N)]
OPEN = [None if i % 13 == 4 else i % 2 == 0 for i in range(N)]
COUNTRIES_OF_ALL = ["DE", "FR", "IT"]
NAMES = [f"Node {i}" for i in range(N)]
SINCE = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i) for i in range(N)]
TABLE = {
    "name": NAMES,
    "year": YEARS,
    "country": COUNTRIES,
    "open": OPEN,
    "since": SINCE,
    "other name": NAMES[::-1],
}


def with_attributes(graph: Graph) -> Graph:
    return graph.with_attributes({"id": graph.ids.take(range(graph.num_nodes)), **TABLE})


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return LinkPredictor(**tiny(training={"epochs": 2})).fit(with_attributes(planted_graph()))


@pytest.fixture(scope="module")
def state(model: LinkPredictor) -> Any:
    return model._questions.state


Meaning = Callable[[int, int], bool]
MEANINGS: list[tuple[str, Meaning]] = [
    ("candidate.year >= 2010", lambda s, c: YEARS[c] is not None and YEARS[c] >= 2010),
    ("2010 <= candidate.year", lambda s, c: YEARS[c] is not None and YEARS[c] >= 2010),
    ("candidate.year < 1.9955e3", lambda s, c: YEARS[c] is not None and YEARS[c] < 1995.5),
    ("candidate.country = 'DE'", lambda s, c: COUNTRIES[c] == "DE"),
    ('candidate.country == "DE"', lambda s, c: COUNTRIES[c] == "DE"),
    ("candidate.country != 'DE'", lambda s, c: COUNTRIES[c] not in (None, "DE")),
    ("candidate.country <> 'DE'", lambda s, c: COUNTRIES[c] not in (None, "DE")),
    ("not candidate.country = 'DE'", lambda s, c: COUNTRIES[c] != "DE"),
    ("candidate.country > 'DE'", lambda s, c: COUNTRIES[c] in ("FR", "IT")),
    ("candidate.country in ('DE', 'IT')", lambda s, c: COUNTRIES[c] in ("DE", "IT")),
    ("candidate.country not in ('DE', 'IT')", lambda s, c: COUNTRIES[c] not in ("DE", "IT")),
    ("candidate.year in (1990, 1991)", lambda s, c: c < 2),
    ("candidate.country is null", lambda s, c: COUNTRIES[c] is None),
    ("candidate.country = null", lambda s, c: COUNTRIES[c] is None),
    ("candidate.country is not null", lambda s, c: COUNTRIES[c] is not None),
    ("candidate.country != null", lambda s, c: COUNTRIES[c] is not None),
    ("candidate.open", lambda s, c: OPEN[c] is True),
    ("not candidate.open", lambda s, c: OPEN[c] is not True),
    ("candidate.open = false", lambda s, c: OPEN[c] is False),
    ("candidate.name contains '3'", lambda s, c: "3" in NAMES[c]),
    ("candidate.name not contains '3'", lambda s, c: "3" not in NAMES[c]),
    ("candidate.name startswith 'Node 3'", lambda s, c: NAMES[c].startswith("Node 3")),
    ("source.name contains '3'", lambda s, c: "3" in NAMES[s]),
    ("candidate.name startswith source.name", lambda s, c: NAMES[c].startswith(NAMES[s])),
    ("'Node 3' startswith source.name", lambda s, c: s == 3),
    ("candidate.`other name` = candidate.name", lambda s, c: False),
    ("candidate.`other name` < candidate.name", lambda s, c: NAMES[N - 1 - c] < NAMES[c]),
    ("candidate.since >= '2020-02-01'", lambda s, c: c >= 31),
    ("candidate.since < '2020-01-03 12:00'", lambda s, c: c < 3),
    ("candidate.since = source.since", lambda s, c: s == c),
    ("candidate.country = source.country", lambda s, c: COUNTRIES[s] is not None and COUNTRIES[c] == COUNTRIES[s]),
    ("country = source.country", lambda s, c: COUNTRIES[s] is not None and COUNTRIES[c] == COUNTRIES[s]),
    ("`other name` = source.name or not open", lambda s, c: NAMES[N - 1 - c] == NAMES[s] or OPEN[c] is not True),
    ("source.country = candidate.country", lambda s, c: COUNTRIES[s] is not None and COUNTRIES[c] == COUNTRIES[s]),
    ("source.year < candidate.year", lambda s, c: None not in (YEARS[s], YEARS[c]) and YEARS[s] < YEARS[c]),
    ("source.open", lambda s, c: OPEN[s] is True),
    ("source.year is null", lambda s, c: YEARS[s] is None),
    ("source.year = source.year", lambda s, c: YEARS[s] is not None),
    ("candidate.id > source.id", lambda s, c: c > s),
    ("candidate.label = 'Node 4'", lambda s, c: c == 4),
    ("true", lambda s, c: True),
    ("1 > 2 or 'a' < 'b'", lambda s, c: True),
    (
        "candidate.year >= 2010 AND (candidate.country = 'DE' Or NOT source.open)",
        lambda s, c: YEARS[c] is not None and YEARS[c] >= 2010 and (COUNTRIES[c] == "DE" or OPEN[s] is not True),
    ),
    (
        "candidate.open or candidate.year > 2020 and candidate.country = 'FR'",
        lambda s, c: OPEN[c] is True or (YEARS[c] is not None and YEARS[c] > 2020 and COUNTRIES[c] == "FR"),
    ),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_what_a_condition_means(state: Any, text: str, meaning: Meaning) -> None:
    condition = Condition(text, state)
    groups = condition.groups(np.arange(N))
    first: dict[int, np.ndarray[Any, Any]] = {}
    for source in range(N):
        mask = condition.mask(source)
        assert mask.tolist() == [meaning(source, candidate) for candidate in range(N)]
        assert np.array_equal(first.setdefault(int(groups[source]), mask), mask), "a group shares its candidates"
    if "source" not in text:
        assert len(first) == 1


def test_degree_is_that_of_the_graph(model: LinkPredictor, state: Any) -> None:
    degrees = model.graph_.degrees
    assert np.array_equal(Condition("candidate.degree >= 4", state).mask(0), degrees >= 4)


def test_id_label_and_degree_are_always_there() -> None:
    plain = LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())
    found = plain.recommend(0, k=5, where="candidate.label is null and candidate.degree > 0 and candidate.id != 7")
    assert len(found) == 5 and 7 not in found.targets
    with pytest.raises(ConditionError, match=r"there are id, label, degree\)"):
        plain.recommend(0, where="candidate.year > 3")


@pytest.mark.parametrize(
    ("text", "words", "place"),
    [
        ("", "it is empty", 0),
        ("candidate.yeer > 3", r"no attribute 'yeer' .*nearest: year", 0),
        ("candidate.year > '3'", r"candidate.year \(a number\) is compared with '3' \(text\)", 17),
        ("candidate.year in (1, 'x')", "is compared with 'x'", 22),
        ("yeer > 3", r"no attribute 'yeer' .*nearest: year", 0),
        ("country = DE", "begins with candidate. or source.: write candidate.DE or 'DE'", 10),
        ("candidate.year > year", "begins with candidate. or source.: write candidate.year or 'year'", 17),
        ("candidate > 3", "begins with candidate. or source.", 0),
        ("candidate. > 3", "expected the name of an attribute", 11),
        ("candidate.year >", r"expected a value.*\(got the end\)", 16),
        ("candidate.year > and", r"expected a value.*\(got 'and'\)", 17),
        ("(candidate.year > 3", r"expected '\)'", 19),
        ("candidate.year > 3)", r"expected and, or, or the end \(got '\)'\)", 18),
        ("candidate.year 3", "expected a comparison", 15),
        ("candidate.year not 3", "expected in, contains or startswith", 19),
        ("candidate.name contains 3", "is compared with 3", 24),
        ("candidate.year contains 3", "'contains' is for text", 15),
        ("source.name contains candidate.name", "after 'contains' stands a text", 21),
        ("candidate.open > true", "'>' is for numbers, times and text", 15),
        ("candidate.name = 'x", "a quote is opened and never closed", 17),
        ("candidate.name = $x", "unexpected '\\$'", 17),
        ("candidate.country", "a comparison is missing", 0),
        ("candidate.year in ()", "expected a value", 19),
        ("candidate.year in (null)", "a list holds texts", 19),
        ("candidate.year in (candidate.id)", "a list holds texts", 19),
        ("candidate.year < null", "is compared with null", 17),
        ("candidate.since > 'yesterday'", "is no time", 18),
        ("candidate.since > 2020", "is compared with 2020", 18),
        ("candidate.year is 3", "expected 'null'", 18),
        ("__import__('os')", "expected a comparison", 10),
        ("__import__ = 'os'", "no attribute '__import__'", 0),
        ("other.year > 3", "begins with candidate. or source.", 0),
        ("candidate.__class__ = 'x'", "no attribute '__class__'", 0),
        ("(" * (MOST_DEPTH + 1), "nested deeper", MOST_DEPTH),
        ("not " * (MOST_DEPTH + 1) + "true", "nested deeper", 4 * MOST_DEPTH),
    ],
)
def test_what_is_refused_and_where(state: Any, text: str, words: str, place: int) -> None:
    with pytest.raises(ConditionError, match=words) as caught:
        Condition(text, state)
    lines = str(caught.value).splitlines()
    shown, caret = lines[-2], lines[-1]
    assert caret.strip() == "^"
    at = caret.index("^")
    assert shown[at : at + 5] == text[place : place + 5] or (place == len(text) and at == len(shown))


def test_long_conditions_are_refused_and_shown_in_part(state: Any) -> None:
    with pytest.raises(ConditionError, match=f"{MOST_CHARACTERS:,} characters"):
        Condition("x" * (MOST_CHARACTERS + 1), state)
    long = "candidate.year > 1 and " * 50 + "candidate.yeer > 1" + " and candidate.year > 1" * 10
    with pytest.raises(ConditionError) as caught:
        Condition(long, state)
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 160 and shown[caret.index("^") :].startswith("candidate.yeer")
    assert shown.strip().startswith("…") and shown.endswith("…")
    Condition("candidate.year > 1 and " * 80 + "true", state)


@given(st.text(alphabet="candidte.sourcyr ()'\"`=<>!,0123notinul", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConditionError):
        parsed_condition(text)


# -- search --------------------------------------------------------------------------------------------------

CONDITION = "candidate.country = source.country and candidate.year >= 1995"


def meant(source: int, candidate: int) -> bool:
    year = YEARS[candidate]
    return COUNTRIES[source] is not None and COUNTRIES[candidate] == COUNTRIES[source] and bool(year and year >= 1995)


@pytest.mark.parametrize("k", [2, 50])
@pytest.mark.parametrize("exclude_known", [True, False])
def test_recommend_under_a_condition_is_brute_force(model: LinkPredictor, k: int, exclude_known: bool) -> None:
    graph = model.graph_
    found = model.recommend(range(N), k, where=CONDITION, exclude_known=exclude_known)  # type: ignore[arg-type]
    assert found.recall == 1.0
    place = 0
    for source in range(N):
        near = set(graph.neighbours(source).tolist()) if exclude_known else set()
        allowed = [c for c in range(N) if c != source and c not in near and meant(source, c)]
        scores = model.score([(source, c) for c in allowed]) if allowed else np.empty(0)
        wanted = sorted(zip(-scores, allowed, strict=True))[:k]
        part = found[place : place + len(wanted)]
        assert part.targets == tuple(c for _, c in wanted) and set(part.sources) <= {source}
        place += len(wanted)
    assert place == len(found)


def test_a_text_a_function_of_two_and_one_and_a_mask_agree(model: LinkPredictor) -> None:
    by_text = model.recommend([0, 4, 5], 5, where=CONDITION)
    assert list(model.recommend([0, 4, 5], 5, where=lambda s, c: meant(s, c))) == list(by_text)
    old = model.recommend(0, 5, where="candidate.year >= 2000")
    assert list(model.recommend(0, 5, where=lambda c: (YEARS[c] or 0) >= 2000)) == list(old)
    assert list(model.recommend(0, 5, where=lambda c, least=2000: (YEARS[c] or 0) >= least)) == list(old)
    mask = np.array([(year or 0) >= 2000 for year in YEARS])
    assert list(model.recommend(0, 5, where=mask)) == list(old)
    assert list(model.recommend(0, 5, where="candidate.id in (7, 9)", among=[7, 8])) == list(
        model.recommend(0, 5, among=[7])
    )
    with pytest.raises(InputError, match="a condition in text, a function of one id or two, or 40 booleans"):
        model.recommend(0, where=[True])


@pytest.mark.parametrize("text", [CONDITION, "candidate.year > source.year", "candidate.open and not source.open"])
@pytest.mark.parametrize("k", [3, 2_000])
def test_best_links_under_a_condition_are_brute_force(model: LinkPredictor, state: Any, text: str, k: int) -> None:
    graph, condition = model.graph_, Condition(text, state)
    masks = np.stack([condition.mask(s) for s in range(N)])
    pairs = [(a, b) for a in range(N) for b in range(a + 1, N) if masks[a, b] or masks[b, a]]
    pairs = [pair for pair, known in zip(pairs, graph.has_edges(pairs).tolist(), strict=True) if not known]
    scores = model.score(pairs)
    best = np.lexsort((np.array(pairs)[:, 1], np.array(pairs)[:, 0], -scores))[:k]
    found = model.best_links(k, where=text)
    assert {frozenset(pair) for pair in zip(found.sources, found.targets, strict=True)} == {
        frozenset(pairs[place]) for place in best
    }
    np.testing.assert_allclose(found.scores, scores[best], rtol=1e-5)
    assert all(masks[s, t] for s, t in zip(found.sources, found.targets, strict=True)), "listed from its source"
    some = model.best_links(k, where=text, nodes=[0, 4])
    assert set(some.sources) <= {0, 4} and all(masks[s, t] for s, t in zip(some.sources, some.targets, strict=True))


def test_sides_of_a_bipartite_graph() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.stack([rng.integers(0, 15, 150), rng.integers(15, 40, 150)], axis=1), axis=0)
    graph = with_attributes(Graph.from_arrays(pairs, num_nodes=40, sides=np.repeat([0, 1], [15, 25])))
    model = LinkPredictor(**tiny(training={"epochs": 1})).fit(graph)
    found = model.best_links(1_000, where="candidate.country = source.country")
    assert found.sources and all(s < 15 <= t and COUNTRIES[s] == COUNTRIES[t] for s, t, *_ in found)
    one = model.recommend(20, 100, where="candidate.country = 'DE'")
    assert one.targets and all(t < 15 and COUNTRIES[t] == "DE" for t in one.targets)


def with_lists(model: LinkPredictor) -> Index:
    """An index that looks into one cell only, so that most answers are short at first."""
    index = model.index("flashlight", recall=None, k=5)
    assert isinstance(index.search, probing.Probing)
    index._state = replace(index._state, search=index.search.with_efforts(Efforts({5: Effort(1, 10)})))
    return index


@pytest.fixture(scope="module")
def larger() -> LinkPredictor:
    """Enough nodes for several cells; node 0 is linked to most."""
    rng, n = np.random.default_rng(0), 400
    hub = np.stack([np.zeros(350, np.int64), np.arange(1, 351)], axis=1)
    table = {"year": np.arange(n) % 40, "country": np.array(COUNTRIES_OF_ALL)[np.arange(n) % 3]}
    graph = Graph.from_arrays(np.concatenate([hub, rng.integers(1, n, (800, 2))]), num_nodes=n, attributes=table)
    return LinkPredictor(**tiny(training={"epochs": 1})).fit(graph)


@pytest.mark.parametrize("text", ["candidate.country = source.country", "candidate.year >= 30", "candidate.id < 60"])
@pytest.mark.parametrize("k", [5, 45])
def test_an_index_finds_as_many_as_there_are(
    larger: LinkPredictor, text: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_FEW", 0)  # never a scan of a small pool
    index, nodes = with_lists(larger), list(range(0, 400, 13))
    exact, found = larger.recommend(nodes, k, where=text), index.recommend(nodes, k, where=text)
    assert found.sources == exact.sources and found.ranks.tolist() == exact.ranks.tolist()
    assert found.recall is None and exact.recall == 1.0
    condition = Condition(text, larger._questions.state)
    rows = larger.graph_.rows_of(found.targets)
    assert all(condition.mask(int(s))[t] for s, t in zip(found.sources, rows.tolist(), strict=True))
    best = larger.best_links(20, where=text, index=index)
    assert len(best) == 20 and best.recall is None and best.probabilities is not None
    assert all(condition.mask(int(s))[int(t)] for s, t, *_ in best)
    assert len(index.best_links(20, where=text)) == 20


def test_a_chosen_index_takes_conditions(model: LinkPredictor) -> None:
    found = model.recommend([3], 50, where=CONDITION, search="index")
    assert list(found) == list(model.recommend([3], 50, where=CONDITION))
    assert list(model.best_links(9, where=CONDITION, search="index")) == list(model.best_links(9, where=CONDITION))


def test_known_partners_outside_the_candidates_hide_none(
    larger: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index gave up too early where many excluded nodes were no candidates anyway."""
    monkeypatch.setattr(probing, "_FEW", 0)
    assert len(with_lists(larger).recommend(0, 30, among=range(351, 400))) == 30


def test_candidates_of_nothing() -> None:
    plain = LinkPredictor(**tiny(training={"epochs": 1})).fit(planted_graph())
    assert candidates_of(plain._questions.state, None, None) is None
    assert len(plain.recommend(0, where="false")) == 0 == len(plain.best_links(5, where="candidate.id > 1000"))


def test_no_candidate_is_looked_at_by_python() -> None:
    """A mask over all nodes takes much less time than the shortest loop over them."""
    n = 300_000
    names = np.array(COUNTRIES_OF_ALL)[np.arange(n) % 3]
    graph = Graph.from_arrays([(0, 1)], num_nodes=n, attributes={"country": names, "year": np.arange(n) % 50})
    condition = Condition("candidate.country = source.country and candidate.year >= 25", GraphColumns(graph))
    condition.mask(0)
    started = time.perf_counter()
    for source in range(1, 6):
        condition.mask(source)
    taken = (time.perf_counter() - started) / 5
    started = time.perf_counter()
    looped = [year >= 25 for year in range(n)]
    assert taken < time.perf_counter() - started and len(looped) == n
