"""What every encoder with graph layers must do, beside what every peer must."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peer_contract import PeerContract, communities, small
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.messages import MessageGraph
from yinyan.peers.layered import Layered, builder
from yinyan.settings import Settings

LINKS = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [0, 2], [4, 5], [5, 6], [6, 4], [3, 4], [7, 1]])
HIDDEN = torch.tensor([0, 1, 0, 0, 1, 0, 0, 0, 1, 1]).bool()  # node 7 loses its only link; 8 has none


class LayeredContract(PeerContract):
    """Layers over the visible links and no others; dropout from the generator and from nothing else."""

    needs_geometric = True
    kind: type[Layered]
    layers = 2

    @classmethod
    def encoder(cls, num_nodes: int = 9, **changes: Any) -> Layered:
        torch.manual_seed(0)
        chosen = {"inputs": "embeddings", "num_steps": cls.layers, "num_negatives": 0, "dropout": 0.5, **changes}
        settings = Settings().updated(small(encoder=chosen)).encoder
        return cls.kind(settings, num_nodes, 0)

    @staticmethod
    def messages(links: Tensor = LINKS) -> MessageGraph:
        return MessageGraph.from_pairs(links, 9)

    def test_hidden_links_are_as_good_as_absent(self) -> None:
        encoder = self.encoder()
        masked = encoder(None, self.messages(), hidden=HIDDEN)
        absent = encoder(None, self.messages(LINKS[~HIDDEN]))
        torch.testing.assert_close(masked, absent)
        assert not torch.allclose(masked, encoder(None, self.messages()), atol=1e-3)

    def test_gradients_of_hidden_links_are_as_good_as_absent(self) -> None:
        grads = []
        for messages, hidden in ((self.messages(), HIDDEN), (self.messages(LINKS[~HIDDEN]), None)):
            encoder = self.encoder()
            encoder(None, messages, hidden=hidden)[:, :3].square().sum().backward()
            table = encoder.base.table
            assert table is not None and table.grad is not None
            grads.append(table.grad)
        torch.testing.assert_close(*grads)

    def test_only_linked_nodes_hear_each_other(self) -> None:
        """0-1-2-3 and 4-5-6 with the links between them hidden are two worlds."""
        encoder = self.encoder()
        rows = encoder.base(None, None).detach().requires_grad_()
        y = encoder.stacked(rows, encoder.links(self.messages(), HIDDEN, None), None)
        y[4].square().sum().backward()
        assert rows.grad is not None
        heard = rows.grad.abs().sum(1) > 0
        assert heard.tolist() == [row in (4, 5, 6) for row in range(9)]

    def test_dropout_comes_from_the_generator_only(self) -> None:
        encoder, messages = self.encoder(), self.messages()
        still = [encoder(None, messages) for _ in range(2)]
        assert torch.equal(*still)
        first, again, other = (encoder(None, messages, drops=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
        assert torch.equal(first, again) and not torch.equal(first, other)
        before = torch.random.get_rng_state()
        encoder(None, messages, drops=torch.Generator().manual_seed(1))
        assert torch.equal(before, torch.random.get_rng_state())

    def test_a_graph_without_links_is_no_trouble(self) -> None:
        y = self.encoder()(None, self.messages(LINKS[:0]))
        assert y.shape == (9, 16) and y.isfinite().all()

    def test_two_threads_give_what_they_gave_before(self) -> None:
        """Enough links for both threads to have work, so that sums in an accidental order would show."""
        links = torch.randint(0, 300, (6000, 2), generator=torch.Generator().manual_seed(0))
        messages = MessageGraph.from_pairs(links[links[:, 0] != links[:, 1]], 300)
        encoder = self.encoder(300, hidden_size=32)
        torch.set_num_threads(2)
        try:
            results = [self.gradients(encoder, messages) for _ in range(3)]
        finally:
            torch.set_num_threads(1)
        assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))

    @staticmethod
    def gradients(encoder: Layered, messages: MessageGraph) -> list[Tensor]:
        encoder.zero_grad()
        y = encoder(None, messages)
        (y * torch.arange(y.numel()).view_as(y).cos()).sum().backward()
        return [y.detach(), *(p.grad.clone() for p in encoder.parameters() if p.grad is not None)]

    def test_one_layer_more_reaches_one_hop_further(self) -> None:
        path = torch.tensor([[i, i + 1] for i in range(8)])
        encoder = self.encoder(output_norm=False)
        rows = encoder.base(None, None).detach().requires_grad_()
        y = encoder.stacked(rows, encoder.links(self.messages(path), None, None), None)
        y[0].square().sum().backward()
        assert rows.grad is not None
        reached = torch.nonzero(rows.grad.abs().sum(1)).flatten()
        assert int(reached.max()) == min(self.layers, 8)

    def test_no_layer_is_the_input_layer_alone(self) -> None:
        encoder = self.encoder(num_steps=0)
        assert torch.equal(encoder(None, self.messages()), encoder(None, self.messages(LINKS[:2])))

    def test_neighbourhood_powers_are_refused(self) -> None:
        with pytest.raises(SettingsError, match="sign_hops"):
            self.encoder(sign_hops=1)(None, self.messages())

    def test_the_builder_follows_the_settings(self) -> None:
        settings = Settings().updated(small(encoder={"num_steps": 1, "inputs": "both"}))
        model = builder(self.kind)(settings, communities())
        assert len(model.encoder.layers) == 1  # type: ignore[arg-type]
        assert model.encoder.base.feature_weight.shape == (1, 12, 16)  # type: ignore[union-attr]
