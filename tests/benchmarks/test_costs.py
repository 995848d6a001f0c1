"""Costs: untrained models are those of the methods, extrapolations are the sums they claim, labels do not overlap."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lib import labelled_dots
from lib.inference_costs import BLOCK, Scored, cost_of, scored
from lib.labelled_dots import Dot, draw
from lib.large_cases import SMOKE, Case
from lib.untrained import split_of_size, untrained
from yinyan import random_split
from yinyan.peers.elph import CountModel
from yinyan.reproduce.stand_ins import stand_in


def test_untrained_models_have_the_settings_of_their_size() -> None:
    few, many = (untrained("buddy", split_of_size(nodes, 50, 0)) for nodes in (100, 60_000))
    assert isinstance(few.model, CountModel)
    assert (few.settings.encoder.hidden_size, many.settings.encoder.hidden_size) == (256, 192)
    assert (
        untrained("ncn", split_of_size(100, 50, 0), {"encoder": {"hidden_size": 8}}).settings.encoder.hidden_size == 8
    )


def test_untrained_weights_follow_from_the_seed() -> None:
    split = random_split(stand_in("cora").graph, seed=0)
    first, second = (untrained("mlp", split).model.state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_method_without_training_has_no_untrained_model() -> None:
    with pytest.raises(ValueError, match="'cn' trains no model"):
        untrained("cn", random_split(stand_in("cora").graph, seed=0))


def test_test_pairs_have_the_share_of_edges_and_sources(tmp_path: Path) -> None:
    case = Case(SMOKE._replace(per_source=True, edges=100, negatives=300), tmp_path)
    pairs = case.draw(4_000)
    edges = {tuple(pair) for pair in case.held_out.tolist()}
    assert 0.2 < sum(tuple(pair) in edges for pair in pairs.tolist()) / len(pairs) < 0.3
    assert set(pairs[:, 0].tolist()) <= set(case.held_out[:, 0].tolist())
    assert not {tuple(pair) for pair in case.messages.pairs.tolist()} & edges


def test_pairs_are_extrapolated_by_pair_and_by_block() -> None:
    times = Scored(first=5.0, call=1.0, pair=0.01, pairs_timed=100, seconds=2.0)
    total = 2 * BLOCK
    plain = cost_of("ncn", times, total, nodes=10, embed=3.0)
    assert plain.pairs == pytest.approx(0.01 * total + 2 * 1.0)
    assert (plain.prepare, plain.embed, plain.extrapolated) == (0.0, 3.0, ["pairs"])
    assert plain.pair * total == pytest.approx(plain.pairs)
    sketched = cost_of("buddy", times, total, nodes=10, embed=3.0, factors=(4.0, 4.0, 1.0))
    assert (sketched.prepare, sketched.embed, sketched.extrapolated) == (16.0, 12.0, ["pairs", "prepare", "embed"])
    kept = cost_of("nbfnet", times, total, nodes=10, kept_calls=True, factors=(2.0, 2.0, 2.0))
    assert (kept.prepare, kept.pairs) == (2.0, pytest.approx(0.02 * total))


def test_a_finished_set_is_not_extrapolated() -> None:
    asked: list[int] = []
    times = scored(lambda pairs: asked.append(len(pairs)), lambda count: torch.zeros(count, 2), 1_000, 60.0)
    assert times.pairs_timed == 1_000 <= sum(asked)
    assert cost_of("mlp", times, 1_000, nodes=10).extrapolated == []
    assert cost_of("mlp", times, 1_000, nodes=10).pairs == times.seconds


def test_labels_do_not_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    dots = [Dot(f"method {k}", 10 + k, 85 + 0.1 * k, ("node-wise", "edge-wise")[k % 2], k == 3) for k in range(12)]
    draw(tmp_path / "dots.png", [*dots, Dot("far", 10_000, 30, "heuristic", False)])
    assert (tmp_path / "dots.png").stat().st_size > 10_000
    monkeypatch.setattr(labelled_dots, "_FURTHEST", 1)
    with pytest.raises(ValueError, match="no free place"):
        draw(tmp_path / "dots.png", dots)
