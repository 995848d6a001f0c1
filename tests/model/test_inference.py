"""Streaming equals the encoder: the same embeddings in less memory."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from yinyan.errors import SettingsError
from yinyan.model.encoder import Encoder, NodeEncoder
from yinyan.model.inference import embed_all, is_finite
from yinyan.model.messages import MessageGraph
from yinyan.model.operators import SparseMatrix
from yinyan.native import graph_kernels
from yinyan.settings import EncoderSettings

NODES, LEFT, FEATURES = 61, 25, 7  # a hub, and three nodes without a link

SETTINGS: dict[str, Any] = {
    "inputs": "both", "hidden_size": 21, "embedding_size": 5, "num_layers": 1, "base_norm": False, "sign_hops": 0,
    "num_steps": 3, "step_size": 0.4, "anchoring": 0.5, "attraction": 1.0, "repulsion": 0.3,
    "learn_repulsion": "softplus", "num_negatives": 2, "sampler": "global", "expected_negatives": False,
    "margin": None, "self_loops": False, "feature_dropout": 0.5, "dropout": 0.5, "output_norm": True,
    "storage": "float32", "recompute": False,
}  # fmt: skip


def graph(*, weighted: bool = False, bipartite: bool = False) -> MessageGraph:
    generator = torch.Generator().manual_seed(3)
    first = torch.randint(0, LEFT, (150,), generator=generator)
    second = torch.randint(LEFT, NODES - 3, (150,), generator=generator)
    pairs = torch.stack([first, second], dim=1)
    hub = torch.stack([torch.zeros(30, dtype=torch.long), torch.arange(LEFT, LEFT + 30)], dim=1)
    pairs = torch.unique(torch.cat([pairs, hub]), dim=0)
    if not bipartite:
        pairs = torch.cat([pairs, torch.tensor([[1, 2], [0, 4], [30, 31]])])
    weights = torch.rand(len(pairs), generator=generator) + 0.1 if weighted else None
    return MessageGraph.from_pairs(pairs, NODES, weights=weights, num_left=LEFT if bipartite else None)


def features() -> Tensor:
    made = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(1))
    made[made.abs() < 0.5] = 0
    return made


def sparse(dense: Tensor) -> SparseMatrix:
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
    return SparseMatrix.from_csr(indptr, dense.nonzero()[:, 1], dense[dense != 0], dense.shape[1])


def build(**options: Any) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder(EncoderSettings(**{**SETTINGS, **options}), NODES, FEATURES)
    encoder.base.bias.data.normal_()
    return encoder


def both(encoder: NodeEncoder, x: Any, messages: MessageGraph, **options: Any) -> tuple[Tensor, Tensor]:
    """Streamed, and as the encoder gives them, from the same negatives."""
    ours = embed_all(encoder, x, messages, negatives=torch.Generator().manual_seed(5), **options)
    with torch.no_grad():
        theirs = encoder(x, messages, negatives=torch.Generator().manual_seed(5))
    return ours, theirs


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_negatives": 0},
        {"expected_negatives": True},
        {"expected_negatives": True, "sampler": "source"},
        {"learn_repulsion": "no", "step_size": "safe"},
        {"self_loops": True},
        {"output_norm": False},
        {"num_layers": 3},
        {"num_layers": 3, "base_norm": True},
        {"base_norm": True},
        {"sign_hops": 2},
        {"inputs": "embeddings"},
        {"inputs": "random"},
        {"inputs": "features"},
        {"margin": 0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_equals_the_encoder(kernels: str, options: dict[str, Any], steps: int) -> None:
    encoder = build(num_steps=steps, **options)
    for hold in (None, False, True):
        close(*both(encoder, features(), graph(), block_rows=16, hold_f=hold))


@pytest.mark.parametrize("bipartite", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("expected", [False, True])
def test_on_every_kind_of_graph(kernels: str, bipartite: bool, weighted: bool, expected: bool) -> None:
    messages = graph(weighted=weighted, bipartite=bipartite)
    for self_loops in (False, True):
        encoder = build(expected_negatives=expected, self_loops=self_loops)
        close(*both(encoder, features(), messages, block_rows=7, hold_f=False))


@pytest.mark.parametrize("inputs", ["features", "both", "embeddings"])
@pytest.mark.parametrize("block_rows", [1, 20, 61, 1_000])
def test_sparse_features(kernels: str, inputs: str, block_rows: int) -> None:
    encoder = build(inputs=inputs)
    ours, theirs = both(encoder, sparse(features()), graph(), block_rows=block_rows, hold_f=False)
    close(ours, theirs)
    close(ours, both(encoder, features(), graph())[0])


def test_a_graph_without_links(kernels: str) -> None:
    messages = MessageGraph.from_pairs(torch.empty(0, 2, dtype=torch.long), NODES)
    close(*both(build(), features(), messages))


@pytest.mark.parametrize("steps", [0, 1, 2, 4])
@pytest.mark.parametrize("hold_f", [False, True])
def test_half_precision_storage(kernels: str, steps: int, hold_f: bool) -> None:
    ours, theirs = both(build(storage="bfloat16", num_steps=steps), features(), graph(), block_rows=9, hold_f=hold_f)
    assert ours.dtype == torch.float32
    # where a row of f is summed in another order it may round to the next bfloat16
    torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=2**-6)
    assert (ours - theirs).abs().mean() < 2**-10


@pytest.mark.parametrize("storage", ["float32", "bfloat16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_type_of_the_output(kernels: str, storage: str, dtype: torch.dtype) -> None:
    encoder = build(storage=storage)
    ours, theirs = both(encoder, features(), graph(), block_rows=9, dtype=dtype)
    assert ours.dtype == dtype and ours.is_contiguous()
    assert ours.untyped_storage().nbytes() == ours.numel() * ours.element_size()
    exact = dtype.itemsize >= 4 and storage == "float32"
    torch.testing.assert_close(ours.float(), theirs, rtol=1e-5 if exact else 2**-6, atol=1e-5 if exact else 2**-6)


def test_double_precision_runs_as_ever(kernels: str) -> None:
    encoder = build().double()
    messages = MessageGraph.from_pairs(graph().pairs, NODES, dtype=torch.float64)
    ours, theirs = both(encoder, features().double(), messages, dtype=torch.float64)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_another_encoder_runs_as_ever() -> None:
    class Counting(NodeEncoder):
        def forward(self, *args: Any, **options: Any) -> Tensor:
            return torch.arange(6.0).view(3, 2)

    ours, theirs = both(Counting(), None, graph())
    assert torch.equal(ours, theirs)


def test_an_encoder_made_of_ours_runs_as_it_is_written(kernels: str) -> None:
    class Doubled(Encoder):
        def finish(self, y: Tensor) -> Tensor:
            return 2 * super().finish(y)

    plain = build()
    doubled = Doubled(plain.settings, NODES, features().shape[1])
    doubled.load_state_dict(plain.state_dict())
    ours, theirs = both(doubled, features(), graph())
    close(ours, theirs)
    close(ours, 2 * both(plain, features(), graph())[0])


def test_nothing_is_learned_from_it_and_nothing_is_changed() -> None:
    encoder, x = build(), features()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    assert not both(encoder, x, graph(), block_rows=9)[0].requires_grad
    assert torch.equal(x, features())
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(SettingsError, match=r"'dtype' needs to be a floating-point type \(got torch.int64\)"):
        both(build(), features(), graph(), dtype=torch.int64)
    with pytest.raises(SettingsError, match=r"'block_rows' needs to be a positive integer \(got 0\)"):
        both(build(), features(), graph(), block_rows=0)


def test_missing_features_are_told_of(kernels: str) -> None:
    with pytest.raises(ValueError, match="built for features"):
        both(build(), None, graph())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_bad_entry_is_found(bad: float) -> None:
    y = torch.zeros(10, 3)
    assert is_finite(y, 4)
    y[9, 2] = bad
    assert not is_finite(y, 4)


_MEMORY = """
import sys, torch
from pathlib import Path
from yinyan.model.inference import embed_all
from yinyan.model.encoder import Encoder
from yinyan.model.messages import MessageGraph
from yinyan.settings import EncoderSettings

n, d = 200_000, 64
torch.set_num_threads(1)
how, storage, dtype = sys.argv[1:]
generator = torch.Generator().manual_seed(0)
settings = EncoderSettings(inputs="features", hidden_size=d, num_steps=4, expected_negatives=True, storage=storage)
encoder = Encoder(settings, n, 8)
pairs = torch.stack([torch.arange(n - 1), torch.arange(1, n)], dim=1)
messages, x = MessageGraph.from_pairs(pairs, n), torch.randn(n, 8, generator=generator)
small = MessageGraph.from_pairs(pairs[:50], 51)

def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

def run(x, messages):
    if how == "streamed":
        return embed_all(encoder, x, messages, negatives=None, dtype=getattr(torch, dtype), hold_f=False)
    with torch.no_grad():
        return encoder(x, messages).to(getattr(torch, dtype))

run(x[:51], small)  # what is loaded on first use
graph = messages.terms(settings, encoder.repulsion(), None)
messages.known.keys  # the peak of sorting the pairs is the graph's
before = peak()
y = run(x, messages)
print((peak() - before) * 1024 / (n * d * 4))
"""


def growth(*options: str) -> float:
    """How far the peak of resident memory grows, in buffers of n × d float32."""
    done = subprocess.run([sys.executable, "-c", _MEMORY, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.skipif(graph_kernels.library() is None, reason="streaming needs the compiled kernels")
@pytest.mark.parametrize(
    ("storage", "dtype", "most"),
    [("float32", "float32", 2.6), ("float32", "bfloat16", 2.6), ("bfloat16", "bfloat16", 1.9)],
)
def test_two_buffers_suffice(storage: str, dtype: str, most: float) -> None:
    plain, streamed = growth("plain", storage, dtype), growth("streamed", storage, dtype)
    assert streamed < most
    assert streamed < plain - 0.4
