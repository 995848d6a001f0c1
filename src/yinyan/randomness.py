"""Random generators named after their use, all grown from one seed."""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from yinyan.native import graph_kernels

__all__ = [
    "RowDraws",
    "Streams",
    "drawn_seed",
    "dropout",
    "hashed",
    "hashed_at",
    "named_seed",
    "normals_at",
    "shifted",
    "uniform_nodes",
    "uniforms_at",
]


def named_seed(seed: int, use: str) -> int:
    """A 63-bit seed for one use: another use, or another seed, gives an unrelated stream."""
    digest = hashlib.blake2b(f"{seed}/{use}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class Streams:
    """The generators of one run: `batches`, `dropout`, `loss_negatives`, `message_negatives`."""

    uses = ("batches", "dropout", "loss_negatives", "message_negatives")

    def __init__(self, seed: int, device: torch.device) -> None:
        self._generators = {use: self.fresh(seed, use, device) for use in self.uses}

    @staticmethod
    def fresh(seed: int, use: str, device: torch.device) -> torch.Generator:
        """A generator that no run shares or advances."""
        # MPS has no generator objects of its own for every operation; its random draws are made on the CPU
        place = device if device.type == "cuda" else torch.device("cpu")
        return torch.Generator(place).manual_seed(named_seed(seed, use))

    def __getitem__(self, use: str) -> torch.Generator:
        return self._generators[use]

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on from here."""
        return {use: generator.get_state() for use, generator in self._generators.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from where `state` was taken."""
        for use, generator in self._generators.items():
            generator.set_state(state[use])


def uniform_nodes(num_nodes: int, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """(count,) nodes drawn uniformly: one draw from the generator, and a hash of it and of each place.

    The same on every device and with any number of threads. A node's chance is off by 2^-31 at most.
    """
    seed = drawn_seed(generator)
    if device.type == "cpu" and graph_kernels.library() is not None:
        return graph_kernels.draw_nodes(seed, num_nodes, count)
    return torch.bitwise_right_shift(shifted(hashed(seed, count, device), 33) * num_nodes, 31)


def drawn_seed(generator: torch.Generator) -> int:
    """A seed for `hashed` numbers."""
    return int(torch.randint(2**62, (1,), generator=generator, device=generator.device))


def hashed(seed: int, count: int, device: torch.device, *, first: int = 0) -> Tensor:
    """(count,) 64 random bits each, of the seed and the place alone, from place `first` on (splitmix64)."""
    return hashed_at(seed, torch.arange(first, first + count, device=device))


def hashed_at(seed: int, places: Tensor) -> Tensor:
    """The same for any places."""
    z = seed + (places + 1) * _signed(0x9E3779B97F4A7C15)  # integers wrap
    z = (z ^ shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ shifted(z, 31)


def uniforms_at(seed: int, places: Tensor, count: int) -> Tensor:
    """Integers from 0 to count - 1 of the seed and the places alone; the chance of each is off by 2^-31 at most."""
    return torch.bitwise_right_shift(shifted(hashed_at(seed, places), 33) * count, 31)


def normals_at(seed: int, rows: Tensor, size: int) -> Tensor:
    """(·, size) normal numbers of the seed and the rows alone (Box and Muller)."""
    places = 2 * (rows[:, None] * size + torch.arange(size, device=rows.device))
    first, second = (shifted(hashed_at(seed, places + part), 11).double().add_(0.5).div_(2**53) for part in (0, 1))
    return first.log_().mul_(-2).sqrt_().mul_(second.mul_(2 * torch.pi).cos_()).float()


def shifted(x: Tensor, places: int) -> Tensor:
    """x moved to the right, zeros moving in."""
    return torch.bitwise_and(x >> places, 2 ** (64 - places) - 1)


def _signed(x: int) -> int:
    """The number with the same 64 bits as x."""
    return x - 2**64 if x >= 2**63 else x


class RowDraws(torch.Generator):
    """Draws that follow from a seed and the numbers of rows alone, whoever holds the rows and in whatever order.

    Each draw is another one, so that processes have to draw as often as each other.
    """

    def __new__(cls, seed: int, numbers: Tensor) -> RowDraws:
        """`numbers` (...) are of the first dimensions of what is drawn for."""
        return super().__new__(cls)

    def __init__(self, seed: int, numbers: Tensor) -> None:
        self._seed, self._numbers, self._draws = seed, numbers, 0

    def bytes_like(self, x: Tensor) -> Tensor:
        """A random byte for each entry of x."""
        self._draws += 1
        width = math.prod(x.shape[self._numbers.ndim :])
        words = -(-width // 8)
        places = self._numbers[..., None] * words + torch.arange(words, device=x.device)
        drawn = hashed_at(named_seed(self._seed, f"draw {self._draws}"), places).view(torch.uint8)
        return drawn[..., :width].reshape(x.shape).contiguous()


def dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Inverted dropout from a named generator; none without one, so no mode can be forgotten.

    Eight entries share one 64-bit draw, which spares random numbers; so the rate is rounded
    to a multiple of 1/256, and the kept entries are scaled by the rounded one.
    """
    dropped = round(rate * 256)
    if generator is None or dropped == 0:
        return x
    if isinstance(generator, RowDraws):
        return _Dropped.apply(x, generator.bytes_like(x), dropped)  # type: ignore[no-any-return]
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    chances = words.view(torch.uint8)[: x.numel()].view(x.shape).to(x.device)
    return _Dropped.apply(x, chances, dropped)  # type: ignore[no-any-return]


class _Dropped(torch.autograd.Function):
    """Keeps a byte an entry for the backward pass, not a number."""

    @staticmethod
    def forward(ctx, x, chances, dropped):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(chances)
        ctx.dropped = dropped
        return _kept(x, chances, dropped)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (chances,) = ctx.saved_tensors
        return _Dropped.apply(grad, chances, ctx.dropped), None, None


def _kept(x: Tensor, chances: Tensor, dropped: int) -> Tensor:
    scale = 256 / (256 - dropped)
    if x.dtype == torch.float32 and graph_kernels.suits(x):
        return graph_kernels.drop(x.contiguous(), chances, dropped, scale)
    return x * (chances >= dropped).to(x.dtype).mul_(scale)
