"""Matrix factorisation, and the table of rows that it shares with others."""

from __future__ import annotations

import torch
from peer_contract import PeerContract

from yinyan.model.messages import MessageGraph
from yinyan.peers.factorisation import Table


class TestFactorisation(PeerContract):
    name = "mf"
    epochs = 60  # nothing but links to learn from


def test_a_table_is_learned_or_frozen() -> None:
    messages = MessageGraph.from_pairs(torch.tensor([[0, 1]]), 4)
    rows = torch.randn(4, 3)
    learned, frozen = Table(rows), Table(rows, learned=False)
    assert [p.shape for p in learned.parameters()] == [(4, 3)] and not list(frozen.parameters())
    assert torch.equal(learned(None, messages), rows) and torch.equal(frozen(None, messages), rows)
    assert set(learned.state_dict()) == set(frozen.state_dict()) == {"rows"}
