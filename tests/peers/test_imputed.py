"""YinYanGNN from imputed edges: a start that training refines, and that is kept if it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from peer_contract import PeerContract, every_pair, small, split_of

from contracts import planted_graph
from yinyan.model.decoder import build_decoder
from yinyan.model.encoder import BaseModel
from yinyan.model.fitted import Fitted
from yinyan.model.tensors import message_graph
from yinyan.peers import Task, contract, method
from yinyan.peers.completion import smoothed_factors
from yinyan.peers.imputed import start_from_factors
from yinyan.randomness import Streams
from yinyan.settings import DecoderSettings, EncoderSettings
from yinyan.splits import Split
from yinyan.training.fit import fit_model

CPU = torch.device("cpu")


class TestImputed(PeerContract):
    name = "yinyan-imputed"


def dense_split() -> Split:
    return split_of(planted_graph(4, 20, inside=0.7, across=0.0))


def still(**training: Any) -> dict[str, dict[str, Any]]:
    """Settings under which a score is the imputed entry, before any training."""
    return {
        "encoder": {"embedding_size": 8, "hidden_size": 8},
        "training": {"loss": "squared", "averaging": 0.0, "batch_size": 64, "valid_negatives": 200, **training},
    }


def fitted_by(monkeypatch: pytest.MonkeyPatch, **training: Any) -> tuple[Fitted, Split, Any]:
    kept: list[Fitted] = []
    monkeypatch.setattr(contract, "fit_model", lambda *a, **o: kept.append(fit_model(*a, **o)) or kept[-1])
    split = dense_split()
    outcome = method("yinyan-imputed")(Task(split, 3, still(**training), "cpu"))
    return kept[0], split, outcome


def test_a_score_before_training_is_the_imputed_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    _, split, outcome = fitted_by(monkeypatch, epochs=1, learning_rate=1e-9)
    messages = message_graph(split.graph, split.train_messages, CPU)
    rows, signs = smoothed_factors(messages, 8, generator=Streams.fresh(3, "spectrum", CPU))
    pairs = every_pair(split)
    expected = (rows[pairs[:, 0]] * signs * rows[pairs[:, 1]]).sum(1).numpy()
    np.testing.assert_allclose(outcome.score(pairs), expected, atol=1e-5)


def test_the_start_is_kept_if_training_makes_it_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, _, _ = fitted_by(
        monkeypatch, epochs=3, learning_rate=5.0, clip_norm=0.0, weight_decay=0.0, schedule="constant"
    )
    assert fitted.best_epoch == 0 and len(fitted.history) == 3
    assert fitted.best_score > max(record.score or 0.0 for record in fitted.history)


def test_training_goes_on_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, _, _ = fitted_by(monkeypatch, epochs=3, keep="last")
    assert fitted.best_epoch == 3 and fitted.best_score == fitted.history[-1].score


def test_a_training_from_elsewhere_is_not_taken_for_it() -> None:
    """The same settings train `yinyan` and this method: what is kept of one is not the other's."""
    split, fits = dense_split(), {}  # type: ignore[var-annotated]
    settings = small(encoder={"inputs": "embeddings", "num_steps": 0, "embedding_size": 8, "hidden_size": 8})
    plain = method("yinyan")(Task(split, 0, settings, "cpu", fits=fits))
    imputed = method("yinyan-imputed")(Task(split, 0, settings, "cpu", fits=fits))
    assert len(fits) == 1 and imputed.spared == 0
    assert not np.allclose(plain.score(every_pair(split)), imputed.score(every_pair(split)))


def test_before_the_first_step_a_score_is_the_approximated_entry() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(20, 6, dtype=torch.float64, generator=generator)
    signs = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    base = BaseModel(EncoderSettings(inputs="embeddings", embedding_size=6, hidden_size=6), 20, 0).double()
    decoder = build_decoder(DecoderSettings(depth=1), 6, directed=False).double()
    start_from_factors(base, decoder, rows, signs)
    with torch.no_grad():
        y = base(None, None)
        scores = decoder(y[:, None], y[None])
    torch.testing.assert_close(scores, (rows * signs) @ rows.T)


def test_there_has_to_be_a_table() -> None:
    base = BaseModel(EncoderSettings(inputs="features", hidden_size=6), 20, 5)
    decoder = build_decoder(DecoderSettings(depth=1), 6, directed=False)
    with pytest.raises(ValueError, match="there is no table to start from"):
        start_from_factors(base, decoder, torch.zeros(20, 6), torch.ones(6))
