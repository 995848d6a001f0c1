"""Every kind of index keeps one contract, for every decoder that it covers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts import IndexContract, clustered_rows
from yinyan.errors import SettingsError
from yinyan.graph import Graph
from yinyan.model.decoder import Decoder, build_decoder
from yinyan.native import retrieval_kernels
from yinyan.retrieval import building, efforts, exact
from yinyan.retrieval.budgets import Budget
from yinyan.retrieval.building import build_index
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index_store import load_index
from yinyan.settings import DecoderSettings


class TestExact(IndexContract):
    kind = "exact"


class TestExactByBounds(IndexContract):
    kind = "exact"

    @pytest.fixture(autouse=True)
    def everywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exact, "_SCREENED_ROWS", 1)
        monkeypatch.setattr(exact, "_SCREENED", 0)
        monkeypatch.setattr(retrieval_kernels, "screens_quickly", lambda: retrieval_kernels.library() is not None)


class TestFlashlight(IndexContract):
    kind = "flashlight"


class TestFlashlightOfADeepDecoder(IndexContract):
    kind = "flashlight"
    options = {"depth": 3, "residual": True, "norm": True, "width": 16}  # noqa: RUF012


class TestFlashlightWithSketches(IndexContract):
    kind = "flashlight"
    sketch_size = 4


class TestMipsOfDot(IndexContract):
    kind, decoder_kind = "mips", "dot"


class TestMipsOfOneHead(IndexContract):
    kind, decoder_kind = "mips", "multi-dot"
    options = {"heads": 1}  # noqa: RUF012


class TestFlashlightOfHeads(IndexContract):
    kind, decoder_kind = "flashlight", "multi-dot"


class TestMipsOfDistance(IndexContract):
    kind, decoder_kind = "mips", "distance"


class Cosine(Decoder):
    """A decoder that we do not know from within."""

    def pair_logits(self, sources: Tensor, targets: Tensor, generator: Any, shared: Any) -> Tensor:
        return torch.cosine_similarity(sources, targets, dim=-1)


def nodes(count: int) -> Graph:
    return Graph.from_arrays(np.empty((0, 2), np.int64), num_nodes=count)


class TestKinds:
    @pytest.mark.parametrize(
        ("decoder", "options", "sketch", "auto"),
        [
            ("hadamard", {}, 0, "flashlight"),
            ("hadamard", {"depth": 1}, 0, "mips"),
            ("hadamard", {"depth": 1}, 4, "flashlight"),
            ("dot", {}, 0, "mips"),
            ("dot", {}, 4, "flashlight"),
            ("multi-dot", {"heads": 1}, 0, "mips"),
            ("multi-dot", {"heads": 2}, 0, "flashlight"),
            ("multi-dot", {"heads": 1}, 4, "flashlight"),
            ("distance", {}, 0, "mips"),
            ("distance", {}, 4, "flashlight"),
        ],
    )
    def test_what_is_covered(self, decoder: str, options: dict[str, Any], sketch: int, auto: str) -> None:
        made = build_decoder(DecoderSettings(kind=decoder, **options), 6, directed=False, sketch_size=sketch)  # type: ignore[arg-type]
        from yinyan.retrieval.building import _chosen_kind

        assert _chosen_kind("auto", made, 20_000) == auto
        assert _chosen_kind("auto", made, 19_999) == "exact"
        assert _chosen_kind("flashlight", made, 10) == "flashlight"
        if auto == "flashlight":
            with pytest.raises(SettingsError, match="kind 'mips' covers decoders that are one inner product"):
                _chosen_kind("mips", made, 10)

    def test_what_is_not(self) -> None:
        decoder, y = Cosine(6, directed=False), clustered_rows(300, 6)
        decoder.scale = torch.nn.Parameter(torch.ones(()))
        for kind in ("mips", "flashlight"):
            with pytest.raises(SettingsError, match=r"got Cosine\).*kind 'exact'"):
                build_index(nodes(300), decoder, y, kind=kind)
        index = build_index(nodes(300), decoder, y)
        assert index.metadata.kind == "exact"
        cosines = torch.cosine_similarity(y[4:5], y).detach()
        cosines[4] = -2
        assert index.top_k([4], 1)[0].rows[0] == int(cosines.argmax())

    def test_an_unknown_kind(self) -> None:
        decoder = build_decoder(DecoderSettings(kind="dot"), 6, directed=False)
        with pytest.raises(SettingsError, match="needs to be one of auto, exact, mips, flashlight"):
            build_index(nodes(9), decoder, clustered_rows(9, 6), kind="hnsw")


class TestBudgets:
    decoder = build_decoder(DecoderSettings(kind="dot"), 16, directed=False).requires_grad_(False)
    y = clustered_rows(3000, 16)

    def build(self, kind: str = "mips", said: list[str] | None = None, **budget: Any) -> Any:
        tell = (lambda text: None) if said is None else said.append
        return build_index(
            nodes(3000), self.decoder, self.y, kind=kind, budget=Budget(**{"k": 10, **budget}), sample=32, tell=tell
        )

    def test_more_recall_takes_more_effort(self) -> None:
        said: list[str] = []
        little, much = self.build(recall=0.3, said=said), self.build(recall=1.0)
        assert little.metadata.effort["probes"] < much.metadata.effort["probes"]
        assert much.metadata.recall >= 0.99
        assert said[-1] == str(little.metadata) and "recall@10" in said[-1]
        assert little.metadata.bytes == little.search.lists.num_bytes

    def test_time_and_size_at_most(self) -> None:
        assert self.build(recall=None, milliseconds=1e4).metadata.recall >= 0.99
        with pytest.raises(
            SettingsError, match="no effort reaches a recall of 1 at k = 10 and takes 1e-06 ms per source"
        ):
            self.build(recall=1.0, milliseconds=1e-6)
        with pytest.raises(SettingsError, match="raise 'megabytes'"):
            self.build(megabytes=0.01)
        with pytest.raises(SettingsError, match="an exact search takes"):
            self.build("exact", milliseconds=1e-6)

    @pytest.fixture
    def little(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`auto` builds lists of small graphs too, and no effort that it tries finds much."""
        monkeypatch.setattr(building, "EXACT_BELOW", 100)
        monkeypatch.setattr(efforts, "_MOST_CANDIDATES", 50)

    @pytest.mark.usefixtures("little")
    def test_auto_is_exact_where_no_effort_reaches_the_recall(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(
            SettingsError, match=r"no effort reaches a recall of 1 at k = 10: .* 0\.\d+, at .* or use kind 'exact'"
        ):
            self.build("mips", recall=1.0)
        monkeypatch.setattr(building, "_EXACT_WORTH", 1e9)
        said: list[str] = []
        index = self.build("auto", said=said, recall=1.0)
        assert index.metadata.kind == "exact" and index.metadata.recall == 1 and isinstance(index.search, ExactSearch)
        assert said[-1] == str(index.metadata)
        assert re.search(r"\([\d.e+-]+ ms per node\); search is exact, because no effort reaches", said[-1])
        index.rebuild()
        assert index.metadata.kind == "exact"

    @pytest.mark.usefixtures("little")
    def test_auto_takes_the_best_index_where_exact_is_too_slow(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(building, "_EXACT_WORTH", 0)
        index = self.build("auto", recall=1.0)
        assert index.metadata.kind == "mips" and 0 < index.metadata.recall < 1
        assert "; no effort reaches a recall of 1 at k = 10: " in str(index.metadata)
        assert index.metadata.promised_recall is None and index.advice is None
        assert len(index.top_k([5], 10)[0].rows) == 10
        index.save(tmp_path)
        assert load_index(tmp_path, nodes(3000), self.decoder, self.y).metadata == index.metadata
        index.rebuild()  # with nothing promised it takes the best again, and is no error
        assert index.metadata.kind == "mips"

    @pytest.mark.usefixtures("little")
    def test_auto_never_fails_for_want_of_time_or_size(self) -> None:
        hurried = self.build("auto", milliseconds=1e-6)
        assert hurried.metadata.kind == "mips" and "takes 1e-06 ms per source or less" in str(hurried.metadata)
        small = self.build("auto", megabytes=0.01)
        assert small.metadata.kind == "exact" and "0.01 asked for" in str(small.metadata)
        assert self.build("auto", recall=1.0, milliseconds=1e6).metadata.kind == "exact"  # fits the time that was given

    def test_auto_of_a_small_graph_is_exact_in_any_time(self) -> None:
        index = self.build("auto", milliseconds=1e-6)
        assert index.metadata.kind == "exact" and "over the 1e-06 asked for" in str(index.metadata)

    @pytest.mark.parametrize(
        "wrong", [{"recall": 0}, {"recall": 1.1}, {"milliseconds": 0}, {"megabytes": -1}, {"k": 0}]
    )
    def test_impossible_budgets(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            Budget(**wrong)

    def test_without_compiled_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        index = self.build(recall=0.9)
        compiled = index.top_k(np.arange(20), 10)
        monkeypatch.setenv("YINYAN_NATIVE", "0")
        for top, other in zip(compiled, index.top_k(np.arange(20), 10), strict=True):
            assert np.array_equal(top.rows, other.rows)
            np.testing.assert_allclose(top.scores, other.scores, rtol=1e-5)
