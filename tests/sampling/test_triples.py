"""Negatives of relations: of the right types, unknown, and where there are none."""

from __future__ import annotations

import pytest
import torch

from yinyan.native import graph_kernels
from yinyan.sampling import KnownTriples, Space, draw_triples

# rows 0 to 4 are people, 5 to 7 products; three relations
SPACES = (
    Space(0, 5, 5, 3, directed=False),  # people to products
    Space(0, 5, 0, 5, directed=True),
    Space(0, 5, 0, 5, directed=False),
)
KNOWN = torch.tensor([[0, 5, 0], [1, 6, 0], [0, 1, 1], [1, 2, 1], [0, 1, 2], [2, 3, 2]])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("keep_end", [False, True])
def test_negatives_are_unknown_and_of_the_right_types(keep_end: bool) -> None:
    known = KnownTriples.of(8, SPACES, KNOWN)
    drawn, lacking = draw_triples(known, KNOWN, 200, generator(), keep_end=keep_end)
    assert lacking is None
    assert drawn.shape == (6, 200, 3)
    flat = drawn.view(-1, 3)
    assert not known.contains(flat).any()
    assert (flat[:, 0] != flat[:, 1]).all()
    for number, space in enumerate(SPACES):
        own = flat[flat[:, 2] == number]
        assert set(own[:, 0].tolist()) <= set(range(space.first_source, space.first_source + space.num_sources))
        assert set(own[:, 1].tolist()) <= set(range(space.first_target, space.first_target + space.num_targets))
    assert (drawn[..., 2] == KNOWN[:, None, 2]).all()
    if keep_end:
        kept = (drawn[..., :2] == KNOWN[:, None, :2]).any(-1)
        assert kept.float().mean() > 0.95


def test_the_order_of_the_ends_counts_where_there_is_a_direction() -> None:
    known = KnownTriples.of(8, SPACES, KNOWN)
    found = known.contains(torch.tensor([[1, 0, 1], [1, 0, 2], [0, 1, 1], [0, 1, 0]]))
    assert found.tolist() == [False, True, True, False]


def test_a_relation_that_links_every_pair_has_no_negatives() -> None:
    full = torch.tensor([[i, j, 0] for i in range(5) for j in range(5, 8)])
    known = KnownTriples.of(8, SPACES, torch.cat([full, KNOWN[2:]]))
    drawn, lacking = draw_triples(known, torch.tensor([[0, 5, 0], [0, 1, 1]]), 4, generator(), keep_end=False)
    assert lacking is not None
    assert lacking.tolist() == [[True] * 4, [False] * 4]
    assert not known.contains(drawn[1]).any()


def test_a_node_that_is_linked_to_all_others_gets_other_ends() -> None:
    star = torch.tensor([[0, j, 1] for j in range(1, 5)] + [[j, 0, 1] for j in range(1, 5)])
    known = KnownTriples.of(8, SPACES, star)
    drawn, lacking = draw_triples(known, star[:1], 50, generator(), keep_end=True)
    assert lacking is None
    assert not known.contains(drawn.view(-1, 3)).any()


def test_a_quick_test_finds_what_a_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many triples, marks of pairs (relation n + first, second) single out the suspects."""
    draw = torch.Generator().manual_seed(1)
    spaces = (
        Space(0, 500, 500, 300, directed=False),
        Space(0, 500, 0, 500, directed=True),
        Space(0, 500, 0, 500, directed=False),
    )
    triples = torch.stack(
        [
            torch.randint(500, (30_000,), generator=draw),
            torch.randint(500, (30_000,), generator=draw),
            torch.randint(1, 3, (30_000,), generator=draw),
        ],
        dim=1,
    )
    known = KnownTriples.of(800, spaces, triples[triples[:, 0] != triples[:, 1]])
    asked = torch.cat([triples[:500], triples[:500].flip(1)[:, [1, 2, 0]], torch.randint(2, (500, 3), generator=draw)])
    expected = ((asked[:, 0] == asked[:, 1]) | known.contains(asked)).nonzero()[:, 0]
    assert known._marks is not None or graph_kernels.library() is None
    assert torch.equal(known.clashes(asked), expected)
    plain = KnownTriples.of(800, spaces, known.triples)
    monkeypatch.setattr(graph_kernels, "library", lambda: None)
    assert plain._marks is None
    assert torch.equal(plain.clashes(asked), expected)


def test_no_known_triples() -> None:
    known = KnownTriples.of(8, SPACES, torch.empty(0, 3, dtype=torch.long))
    assert not known.contains(KNOWN).any()
