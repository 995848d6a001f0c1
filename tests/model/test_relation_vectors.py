"""Vectors of relations: queries equal the formulas, pairs have one score, decoders score alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.relation_vectors import ComplexVectors, RelationVectors, complex_decoder
from yinyan.peers.triple_formulas import DistMultVectors, RotatEVectors, TransEVectors

SIZE = 6
KINDS = [ComplexVectors, DistMultVectors, TransEVectors, RotatEVectors]


def numbers(*values: int) -> Tensor:
    return torch.tensor(values)


def built(kind: type[RelationVectors], turned: list[bool]) -> RelationVectors:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(SIZE, turned)


def rows(count: int, seed: int = 1) -> Tensor:
    return torch.randn(count, SIZE, generator=torch.Generator().manual_seed(seed))


def test_formulas() -> None:
    h, t, r = rows(5), rows(5, 2), numbers(0, 1, 2, 1, 0)
    forwards = torch.zeros(5, dtype=torch.bool)
    found = {}
    for kind in KINDS:
        vectors = built(kind, [True] * 3)
        w = vectors.forth[r]
        found[kind] = vectors.paired(vectors.queries(h, r, forwards), t), w
    score, w = found[ComplexVectors]
    ch, cw, ct = (torch.complex(x[:, :3], x[:, 3:]) for x in (h, w, t))
    torch.testing.assert_close(score, (ch * cw * ct.conj()).real.sum(1))
    score, w = found[DistMultVectors]
    torch.testing.assert_close(score, (h * w * t).sum(1))
    score, w = found[TransEVectors]
    torch.testing.assert_close(score, -(h + w - t).norm(dim=1))
    score, w = found[RotatEVectors]
    turned = ch * torch.polar(torch.ones_like(w), w)
    torch.testing.assert_close(score, -(turned - ct).abs().square().sum(1).sqrt())


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_has_the_scores_of_its_pairs(kind: type[RelationVectors]) -> None:
    vectors, queries, far = built(kind, [True]), rows(4), rows(7, 2)
    block = vectors.block(queries, far)
    torch.testing.assert_close(block, vectors.paired(queries[:, None], far[None]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_the_mean_of_both_ways(kind: type[RelationVectors]) -> None:
    vectors, y = built(kind, [True, True]), rows(8)
    triples = torch.tensor([[0, 1, 0], [5, 3, 1], [2, 2, 1]])
    both = torch.zeros(3)
    for known, sought, back in ((0, 1, False), (1, 0, True)):
        way = torch.full((3,), back)
        queries = vectors.queries(y[triples[:, known]], triples[:, 2], way)
        both += vectors.paired(queries, y[triples[:, sought]]) / 2
    torch.testing.assert_close(vectors.logits(complex_decoder(SIZE), y, triples, None), both)
    torch.testing.assert_close(vectors.logits(complex_decoder(SIZE), y, triples[:, None], None), both[:, None])


def test_a_pair_of_a_relation_that_asks_for_targets_alone_has_their_score() -> None:
    vectors, y = ComplexVectors(SIZE, [True, True], one_way=[False, True]), rows(8)
    triples = torch.tensor([[0, 1, 1], [5, 3, 1]])
    queries = vectors.queries(y[triples[:, 0]], triples[:, 2], torch.zeros(2, dtype=torch.bool))
    found = vectors.logits(complex_decoder(SIZE), y, triples, None)
    torch.testing.assert_close(found, vectors.paired(queries, y[triples[:, 1]]))
    decoder = vectors.decoder_of(complex_decoder(SIZE), 1)
    torch.testing.assert_close(decoder(y[triples[:, 0]], y[triples[:, 1]]), found)


@pytest.mark.parametrize("turned", [[True, True, True], [True, False, True], [False, False, False]])
def test_a_plain_decoder_of_each_relation_scores_alike(turned: list[bool]) -> None:
    vectors, base, y = built(ComplexVectors, turned), complex_decoder(SIZE), rows(9)
    source, target = numbers(0, 3, 5, 8), numbers(1, 4, 2, 8)
    for relation in range(3):
        triples = torch.stack([source, target, torch.full_like(source, relation)], dim=1)
        expected = vectors.logits(base, y, triples, None)
        decoder = vectors.decoder_of(base, relation)
        torch.testing.assert_close(decoder(y[source], y[target]), expected)
        torch.testing.assert_close(decoder.of_block(y[source], y[target]).diagonal(), expected)
        turned_round = vectors.logits(base, y, triples[:, [1, 0, 2]], None)
        assert torch.allclose(expected, turned_round) == (not turned[relation])


def test_complex_numbers_need_an_even_width() -> None:
    for kind in (ComplexVectors, RotatEVectors):
        with pytest.raises(SettingsError, match=r"encoder\.hidden_size.*even.*got 5"):
            kind(5, [True])


def test_third_powers_of_moduli() -> None:
    x = rows(3)
    complex_x = torch.complex(x[:, :3], x[:, 3:])
    torch.testing.assert_close(built(ComplexVectors, [True]).cubes(x), complex_x.abs().pow(3).sum(1))
    torch.testing.assert_close(built(DistMultVectors, [True]).cubes(x), x.abs().pow(3).sum(1))
    zero = torch.zeros(1, SIZE, requires_grad=True)
    built(ComplexVectors, [True]).cubes(zero).sum().backward()
    assert zero.grad is not None and zero.grad.isfinite().all()
