"""Models of the retrieval benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lib.trained import SIZE, settings_of, trained

MANY = 1_400  # nodes with 14,700 edges: for so many yinyan suggests another encoder and decoder than Settings()


@pytest.mark.parametrize("kind", ["hadamard", "dot"])
def test_a_model_is_built_as_it_was_trained(kind: str, tmp_path: Path) -> None:
    """The suggested settings changed, and the weights no longer fitted: "Missing key(s) in state_dict: norm.weight"."""
    found = trained(MANY, kind, tmp_path, epochs=1)
    assert found.embeddings.shape == (MANY, SIZE) and bool(found.embeddings.isfinite().all())
    again = trained(MANY, kind, tmp_path, epochs=1)
    torch.testing.assert_close(again.embeddings, found.embeddings)
    pairs = found.pairs[:50]
    scores = found.decoder.of_pairs(found.embeddings, pairs)
    torch.testing.assert_close(again.decoder.of_pairs(again.embeddings, pairs), scores)


def test_settings_of_the_model_do_not_follow_suggestions() -> None:
    """The documented figures are of a decoder with two layers over normalised rows."""
    settings = settings_of("hadamard", 1_000, 4, 0)
    assert (settings.encoder.output_norm, settings.decoder.depth, settings.decoder.norm) == (True, 2, False)
    assert settings.training.batch_size == 36 and settings.training.epochs == 4
