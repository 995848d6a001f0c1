"""Filtered ranking of heads and tails: against a slow count, ties, chance, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan import ranking
from yinyan.errors import InputError

ENTITIES, RELATIONS = 12, 3


def triples(count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    rows = np.stack([draw.integers(ENTITIES, size=count), draw.integers(ENTITIES, size=count)], axis=1)
    return np.unique(np.column_stack([rows, draw.integers(RELATIONS, size=count)]), axis=0)


def scores(seed: int, levels: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).integers(levels, size=(RELATIONS, ENTITIES, ENTITIES)).astype(float)


@pytest.mark.parametrize("levels", [1000, 3, 1], ids=["distinct", "many ties", "constant"])
def test_against_a_slow_count(levels: int) -> None:
    table, wanted, known = scores(0, levels), triples(20, 1), triples(60, 2)
    found = ranking.filtered_ranking(
        lambda rows, r: table[r][rows], lambda rows, r: table[r].T[rows], wanted, known=known
    )
    all_known = {tuple(t) for t in np.concatenate([wanted, known]).tolist()}
    for place, (head, tail, r) in enumerate(wanted.tolist()):
        others = [t for t in range(ENTITIES) if (head, t, r) not in all_known]
        own = table[r, head, tail]
        expected = 1 + sum(table[r, head, t] > own for t in others) + sum(table[r, head, t] == own for t in others) / 2
        assert found.tails[place] == expected
        assert found.num_tails[place] == len(others) + 1
        others = [h for h in range(ENTITIES) if (h, tail, r) not in all_known]
        expected = 1 + sum(table[r, h, tail] > own for h in others) + sum(table[r, h, tail] == own for h in others) / 2
        assert found.heads[place] == expected


def test_a_constant_scorer_gets_the_chance_level() -> None:
    constant = lambda rows, r: np.full((len(rows), 101), 0.5)  # noqa: E731
    found = ranking.filtered_ranking(constant, constant, [(0, 1, 0), (5, 7, 0)])
    assert found.means == found.chance
    assert found.means["mr"] == 51.0
    assert found.means["hits@10"] == 0.0
    assert found.means["mrr"] == pytest.approx(1 / 51)


def test_a_perfect_scorer_ranks_first() -> None:
    wanted = triples(20, 1)
    right = np.zeros((RELATIONS, ENTITIES, ENTITIES))
    right[wanted[:, 2], wanted[:, 0], wanted[:, 1]] = 1.0
    found = ranking.filtered_ranking(lambda rows, r: right[r][rows], lambda rows, r: right[r].T[rows], wanted)
    assert found.means["mrr"] == 1.0
    assert set(found.by_relation()) == set(wanted[:, 2].tolist())


def test_candidates_of_a_relation() -> None:
    """Tails are products, rows 4 to 6, in the order of the scores."""
    found = ranking.filtered_ranking(
        lambda rows, r: np.tile([0.3, 0.2, 0.1], (len(rows), 1)),
        lambda rows, r: np.tile([0.1, 0.2, 0.3, 0.4], (len(rows), 1)),
        [(0, 5, 0)],
        heads_of=[np.arange(4)],
        tails_of=[np.arange(4, 7)],
    )
    assert found.tails.tolist() == [2.0]
    assert found.heads.tolist() == [4.0]
    assert (found.num_heads.tolist(), found.num_tails.tolist()) == ([4], [3])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"triples": []}, "at least one triple"),
        ({"triples": [(0, 1)]}, r"\(t, 3\)"),
        ({"triples": [(0, 99, 0)]}, "no candidate"),
        ({"triples": [(0, 1, 0)], "ks": [0]}, "positive integers"),
        ({"triples": [(0, 1, 0)], "tails_of": [np.arange(3)]}, "3 columns"),
    ],
)
def test_what_is_refused(given: dict[str, object], words: str) -> None:
    same = lambda rows, r: np.zeros((len(rows), ENTITIES))  # noqa: E731
    with pytest.raises(InputError, match=words):
        ranking.filtered_ranking(same, same, **given)  # type: ignore[arg-type]
    nan = lambda rows, r: np.full((len(rows), ENTITIES), np.nan)  # noqa: E731
    with pytest.raises(InputError, match="NaN"):
        ranking.filtered_ranking(nan, nan, [(0, 1, 0)])
