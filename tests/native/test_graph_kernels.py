"""The compiled kernels: that they are built and fall back, and that they compute what torch does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from yinyan.model.operators import EdgeStructure, csr_product
from yinyan.native import graph_kernels
from yinyan.native.graph_kernels import Beside

compiled = pytest.mark.skipif(graph_kernels.library() is None, reason=f"no compiled kernels: {graph_kernels.why_not()}")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """As in a new process with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("YINYAN_NATIVE", raising=False)
    graph_kernels._load.cache_clear()
    yield tmp_path
    graph_kernels._load.cache_clear()


class TestBuilding:
    @compiled
    def test_is_built_once_and_kept(self, fresh: Path) -> None:
        assert graph_kernels.library() is not None
        (made,) = (fresh / "yinyan" / "native").iterdir()
        when = made.stat().st_mtime_ns
        graph_kernels._load.cache_clear()
        assert graph_kernels.library() is not None
        assert made.stat().st_mtime_ns == when

    def test_can_be_switched_off(self, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("YINYAN_NATIVE", "0")
        assert graph_kernels.library() is None
        assert "YINYAN_NATIVE=0" in str(graph_kernels.why_not())

    def test_no_compiler(self, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(fresh))
        assert graph_kernels.library() is None
        assert "no C++ compiler" in str(graph_kernels.why_not())

    def test_a_compiler_that_fails_is_told_of(self, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = fresh / "c++"
        broken.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho out of order >&2\nexit 1\n')
        broken.chmod(0o755)
        monkeypatch.setenv("CXX", str(broken))
        assert graph_kernels.library() is None
        assert "out of order" in str(graph_kernels.why_not())
        y = torch.ones(2, 3)  # and all goes on without it
        indptr, columns = torch.tensor([0, 2], dtype=torch.int32), torch.tensor([0, 1], dtype=torch.int32)
        assert csr_product(indptr, columns, torch.ones(2), y).tolist() == [[2.0, 2.0, 2.0]]

    def test_a_compiler_that_miscompiles_is_found_out(self, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(graph_kernels, "_is_right", lambda built: False)
        assert graph_kernels.library() is None or "wrong sums" in str(graph_kernels.why_not())

    def test_a_cache_that_cannot_be_written(self, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (fresh / "yinyan").write_text("a file where a folder should be")
        assert graph_kernels.library() is None
        assert graph_kernels.why_not()


def random_pairs(num_nodes: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    pairs = torch.randint(num_nodes, (count, 2), generator=generator)
    return pairs[pairs[:, 0] != pairs[:, 1]]


@compiled
class TestKernels:
    @pytest.mark.parametrize(("num_nodes", "count"), [(1, 0), (5, 0), (7, 30), (300, 120_000)])
    def test_rows_equal_a_sort(self, monkeypatch: pytest.MonkeyPatch, num_nodes: int, count: int) -> None:
        pairs = random_pairs(num_nodes, count)
        ours = EdgeStructure.from_pairs(pairs, num_nodes)
        bare = EdgeStructure.from_pairs(pairs, num_nodes, weighted=False)
        monkeypatch.setattr(graph_kernels, "library", lambda: None)
        theirs = EdgeStructure.from_pairs(pairs, num_nodes)
        for name in ("indptr", "columns", "pair_of_slot"):
            assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
        assert torch.equal(bare.columns, theirs.columns) and bare.places is None

    @pytest.mark.parametrize("weighted", [True, False])
    @pytest.mark.parametrize("masked", [True, False])
    def test_values_and_degrees_equal_torch(
        self, monkeypatch: pytest.MonkeyPatch, weighted: bool, masked: bool
    ) -> None:
        pairs = random_pairs(200, 150_000)
        structure = EdgeStructure.from_pairs(pairs, 210)
        weights = torch.rand(len(pairs)) if weighted else None
        scale = torch.rand(210)
        hidden = torch.rand(len(pairs)) < 0.3 if masked else None
        ours = structure.degrees(weights, hidden), structure.scaled(weights, scale, hidden).values
        monkeypatch.setattr(graph_kernels, "library", lambda: None)
        theirs = structure.degrees(weights, hidden), structure.scaled(weights, scale, hidden).values
        for mine, plain in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, plain, rtol=1e-5, atol=1e-5)

    def test_the_number_of_threads_changes_no_bit(self) -> None:
        structure = EdgeStructure.from_pairs(random_pairs(3_000, 60_000), 3_000)
        y, other, left = torch.randn(3_000, 50), torch.randn(3_000, 50), torch.randn(3_000, 3)
        found = []
        before = torch.get_num_threads()
        try:
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                matrix = structure.scaled(torch.ones(len(structure.columns) // 2), torch.rand(3_000).fill_(0.3))
                out = torch.empty_like(y)
                csr = graph_kernels.Csr(matrix.indptr, matrix.columns, matrix.values)
                dots, sums = graph_kernels.layer(y, out, [csr], Beside(other=other, next_left=left))
                assert sums is not None
                torch.testing.assert_close(sums, left.T @ out, rtol=1e-4, atol=1e-3)
                found.append((out, dots, sums))
        finally:
            torch.set_num_threads(before)
        for other_found in found[1:]:
            assert all(torch.equal(a, b) for a, b in zip(other_found, found[0], strict=True))

    @pytest.mark.parametrize("size", [5, 40])
    def test_some_rows_equal_those_of_all(self, size: int) -> None:
        structure = EdgeStructure.from_pairs(random_pairs(3_000, 60_000), 3_000)
        scaled = structure.scaled(None, torch.rand(3_000))
        matrix = graph_kernels.Csr(scaled.indptr, scaled.columns, scaled.values, -0.7)
        y, f, own, base = torch.randn(3_000, size), torch.randn(3_000, size), torch.rand(3_000), torch.rand(3_000)
        whole, parts = torch.empty_like(y), torch.empty_like(y)
        graph_kernels.layer(y, whole, [matrix], Beside(own, base, f))
        for first, last in ((0, 100), (100, 2_999), (2_999, 3_000)):
            rows = slice(first, last)
            graph_kernels.layer(y, parts[rows], [matrix], Beside(own, base, f[rows], first_row=first))
        assert torch.equal(whole, parts)

    def test_a_view_is_refused(self) -> None:
        matrix = graph_kernels.Csr(torch.zeros(3, dtype=torch.int32), torch.zeros(0, dtype=torch.int32), torch.zeros(0))
        with pytest.raises(ValueError, match="contiguous"):
            graph_kernels.layer(torch.ones(4, 2).T, torch.ones(2, 4), [matrix])

    def test_works_after_a_fork(self) -> None:
        code = (
            "import os, torch\nfrom yinyan.model.operators import EdgeStructure\ntorch.set_num_threads(2)\n"
            "s = EdgeStructure.from_pairs(torch.randint(500, (60_000, 2)), 500)\n"
            "p = os.fork()\n"
            "if not p: EdgeStructure.from_pairs(torch.randint(500, (60_000, 2)), 500); os._exit(0)\n"
            "raise SystemExit(os.waitpid(p, 0)[1])\n"
        )
        assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
