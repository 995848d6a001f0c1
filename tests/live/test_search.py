from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from yinyan.graph.ids import Ids
from yinyan.live.search import Search

IDS = Ids.from_values(["alpha", "alphabet", "beta", "Gamma", "delta"])
LABELS = ["Neural networks", None, "Graph neural networks", "Straße", "belief propagation"]


def names(found: list[int]) -> list[str]:
    return [str(IDS[row]) for row in found]


def test_prefixes_come_first_and_equal_ones_before_longer() -> None:
    search = Search(IDS, None)
    assert names(search.find("alpha", 5))[:2] == ["alpha", "alphabet"]
    assert names(search.find("ALPHAB", 1)) == ["alphabet"]
    assert names(search.find("gam", 1)) == ["Gamma"]


def test_labels_are_searched_with_ids() -> None:
    search = Search(IDS, LABELS)
    assert names(search.find("neural", 5))[:2] == ["alpha", "beta"]  # a prefix, then within
    assert names(search.find("STRASSE", 5))[0] == "Gamma"
    assert names(search.find("beleif propagatoin", 5))[0] == "delta"


def test_misspelt_ids_are_found() -> None:
    search = Search(IDS, None)
    assert names(search.find("alphabte", 3))[0] == "alphabet"
    assert search.find("zzzzzz", 3) == []


def test_newer_nodes_are_found_at_once() -> None:
    search = Search(IDS, None)
    newer = [(5, "epsilon", None), (6, 12, "A new paper")]
    assert search.find("eps", 3, newer) == [5]
    assert search.find("epsilno", 3, newer) == [5]
    assert search.find("a new", 3, newer)[0] == 6
    assert search.find("12", 3, newer)[0] == 6


def test_no_nodes_and_empty_queries() -> None:
    assert Search(Ids.from_values([]), None).find("a", 3) == []
    assert len(Search(IDS, LABELS).find("", 3)) == 3


@given(st.text(max_size=12), st.integers(1, 6))
def test_any_text_is_answered(query: str, limit: int) -> None:
    found = Search(IDS, LABELS).find(query, limit)
    assert len(found) <= limit and len(set(found)) == len(found)


def test_many_nodes_are_searched_in_milliseconds() -> None:
    search = Search(Ids.from_values([f"paper-{i:06d}" for i in range(50_000)]), None)
    started = time.perf_counter()
    assert search.find("paper-012345", 5)[0] == 12345
    assert 12345 in search.find("papr-012345", 20)
    assert time.perf_counter() - started < 1.0
