"""Knowledge graph embeddings: each equals its formula, either way round on undirected graphs."""

from __future__ import annotations

import pytest
import torch
from peer_contract import PeerContract

from yinyan.peers.knowledge import ComplEx, DistMult, Relation, TransE

KINDS = [TransE, DistMult, ComplEx]


class TestTransE(PeerContract):
    name = "transe"
    epochs = 60


class TestDistMult(PeerContract):
    name = "distmult"
    epochs = 60


class TestComplEx(PeerContract):
    name = "complex"
    epochs = 60


def some(kind: type[Relation], *, directed: bool) -> tuple[Relation, torch.Tensor, torch.Tensor]:
    decoder = kind(6, directed=directed)
    torch.nn.init.normal_(decoder.relation)
    torch.nn.init.constant_(decoder.bias, 0.5)
    return decoder, torch.randn(5, 6), torch.randn(5, 6)


def test_formulas() -> None:
    decoder, h, t = some(TransE, directed=True)
    torch.testing.assert_close(decoder(h, t), 0.5 - (h + decoder.relation - t).norm(dim=1))
    decoder, h, t = some(DistMult, directed=True)
    torch.testing.assert_close(decoder(h, t), 0.5 + torch.einsum("id,d,id->i", h, decoder.relation, t))
    decoder, h, t = some(ComplEx, directed=True)
    ch, cr, ct = (torch.complex(x[..., :3], x[..., 3:]) for x in (h, decoder.relation, t))
    torch.testing.assert_close(decoder(h, t), 0.5 + (ch * cr * ct.conj()).real.sum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_undirected_is_the_mean_of_both_directions(kind: type[Relation]) -> None:
    decoder, h, t = some(kind, directed=False)
    one_way = kind(6, directed=True)
    one_way.load_state_dict(decoder.state_dict())
    torch.testing.assert_close(decoder(h, t), (one_way(h, t) + one_way(t, h)) / 2)
    torch.testing.assert_close(decoder(h, t), decoder(t, h))
    assert decoder.is_symmetric


@pytest.mark.parametrize(("kind", "symmetric"), [(TransE, False), (DistMult, True), (ComplEx, False)])
def test_directions_matter_where_the_formula_has_them(kind: type[Relation], symmetric: bool) -> None:
    decoder, h, t = some(kind, directed=True)
    assert torch.allclose(decoder(h, t), decoder(t, h)) == symmetric == decoder.is_symmetric


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_broadcast(kind: type[Relation]) -> None:
    decoder, h, t = some(kind, directed=False)
    table = decoder(h[:, None], t[None])
    assert table.shape == (5, 5)
    torch.testing.assert_close(table.diagonal(), decoder(h, t))


def test_gradient_of_equal_vectors_is_finite() -> None:
    decoder = TransE(4, directed=True)
    torch.nn.init.zeros_(decoder.relation)
    h = torch.ones(2, 4, requires_grad=True)
    decoder(h, h).sum().backward()
    assert h.grad is not None and h.grad.isfinite().all()


def test_complex_numbers_need_an_even_width() -> None:
    with pytest.raises(ValueError, match="hidden_size"):
        ComplEx(5, directed=False)
