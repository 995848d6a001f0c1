"""Negatives of the loss that keep either end, and lists of similar nodes."""

from __future__ import annotations

import numpy as np
import torch

from contracts import planted_graph
from lib import variants
from lib.chosen_negatives import ChosenNegatives, similar_nodes
from yinyan.model.messages import MessageGraph
from yinyan.model.scoring import Model, Pairs
from yinyan.settings import Settings

GRAPH = planted_graph()
KNOWN = torch.from_numpy(GRAPH.edges[::2].copy())  # the other edges are held out
MESSAGES = MessageGraph.from_pairs(KNOWN, GRAPH.num_nodes)


def made(name: str) -> ChosenNegatives:
    torch.manual_seed(0)
    model = variants.VARIANTS[name](Settings().updated({"encoder": {"inputs": "embeddings"}}), GRAPH)
    assert isinstance(model, ChosenNegatives)
    return model


def test_both_ends_are_kept_in_turn_and_no_negative_is_a_training_edge() -> None:
    for name in ("either end kept in the loss", "half of the loss negatives similar"):
        drawn = made(name).drawn(KNOWN, 4, MESSAGES, torch.Generator().manual_seed(0))
        assert torch.equal(drawn[:, ::2, 0], KNOWN[:, :1].expand(-1, 2))
        assert torch.equal(drawn[:, 1::2, 0], KNOWN[:, 1:].expand(-1, 2))
        assert not MESSAGES.known.contains(drawn.view(-1, 2)).any()
        assert (drawn[..., 0] != drawn[..., 1]).all()


def test_similar_nodes_are_ranked_by_training_edges_alone() -> None:
    """A held-out edge must not show: neither by a node that is missing nor by a path through it."""
    lists = similar_nodes(GRAPH, MESSAGES, 5)
    alone = GRAPH.with_edges(np.sort(GRAPH.find_edges(KNOWN.numpy())))
    assert torch.equal(lists, similar_nodes(alone, MESSAGES, 5))
    assert lists.shape == (GRAPH.num_nodes, 5)


def test_the_share_of_similar_nodes_is_as_set() -> None:
    links, few = KNOWN[:1].expand(4000, 2), 3
    for name, share in (
        ("an eighth of the loss negatives similar", 0.125),
        ("half of the loss negatives similar", 0.5),
    ):
        model = made(name)
        model._lists = torch.full((GRAPH.num_nodes, few), GRAPH.num_nodes)  # no draw gives this number
        drawn = model.drawn(links, 1, MESSAGES, torch.Generator().manual_seed(0))
        assert abs(float((drawn[..., 1] == GRAPH.num_nodes).float().mean()) - share) < 0.03


def test_the_loss_is_the_plain_one_of_what_was_drawn() -> None:
    model = made("either end kept in the loss")
    y = model.encoder(None, MESSAGES)
    given = Pairs(y, KNOWN, KNOWN[:, None].expand(-1, 4, 2))  # their number matters, they do not
    found = model.loss(given, MESSAGES, "infonce", drops=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(1)
    drawn = model.drawn(KNOWN, 4, MESSAGES, generator)
    plain = Model(model.encoder, model.decoder)
    expected = plain.loss(given._replace(non_links=drawn), MESSAGES, "infonce", drops=generator)
    torch.testing.assert_close(found, expected)
