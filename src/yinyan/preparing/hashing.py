"""Hashes that depend on a value alone, and the value at a rank among more numbers than memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Hashes", "id_hashes", "mixed", "pair_hashes", "ranked_value"]

Hashes = npt.NDArray[np.uint64]

_PRIME = 0x100000001B3
_BLOCK_BYTES = 1 << 20  # of text that is hashed at a time: its powers and products stay in the cache
_FEW = 1 << 20  # numbers that are sorted in memory to find the one at a rank
_DIGIT = 16  # bits that one pass over the numbers decides


def mixed(x: npt.NDArray[np.uint64] | npt.NDArray[np.int64], seed: int = 0) -> Hashes:
    """64 random bits for each 64-bit number (splitmix64): different numbers have different hashes."""
    z = x.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def id_hashes(ids: pa.Array) -> Hashes:
    """(n,) 64 bits for each id, the same in every file and on every machine; two ids may share them."""
    if pa.types.is_integer(ids.type):
        return mixed(ids.to_numpy(zero_copy_only=False))
    _, offsets, data = ids.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    found = np.empty(len(ids), dtype=np.uint64)
    for begin, end in _blocks(ends):
        found[begin:end] = _polynomials(text, ends[begin : end + 1])
    return mixed(found)


def pair_hashes(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], num_nodes: int, seed: int) -> Hashes:
    """(m,) 64 bits for each pair of rows: different pairs have different hashes."""
    return mixed(low * num_nodes + high, seed)


def ranked_value(blocks: Callable[[], Iterable[Hashes]], rank: int) -> int:
    """The number at a rank (1 is the smallest) among those of all blocks, which are read a few times."""
    prefix, shift = 0, 64
    while True:
        shift -= _DIGIT
        counts = np.zeros(1 << _DIGIT, dtype=np.int64)
        for values in _beginning_with(blocks(), prefix, shift + _DIGIT):
            digits = (values >> np.uint64(shift)) & np.uint64(len(counts) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=len(counts))
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank))
        rank -= int(below[digit - 1]) if digit else 0
        prefix = prefix << _DIGIT | digit
        if shift == 0:
            return prefix
        if counts[digit] <= _FEW:
            left = np.concatenate(list(_beginning_with(blocks(), prefix, shift)))
            return int(np.partition(left, rank - 1)[rank - 1])


def _beginning_with(blocks: Iterable[Hashes], prefix: int, shift: int) -> Iterator[Hashes]:
    """The numbers whose leading bits, all but `shift`, are the prefix."""
    for values in blocks:
        yield values if shift == 64 else values[values >> np.uint64(shift) == np.uint64(prefix)]


def _blocks(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of texts of about `_BLOCK_BYTES` together, one text at least."""
    begin, count = 0, len(ends) - 1
    while begin < count:
        end = int(np.searchsorted(ends, ends[begin] + _BLOCK_BYTES, side="right")) - 1
        end = min(count, max(end, begin + 1), begin + _BLOCK_BYTES)
        yield begin, end
        begin = end


def _polynomials(text: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> Hashes:
    """Σ_i (byte_i + 1) p^i modulo 2^64, for the text between each two ends; 0 for an empty one."""
    lengths = np.diff(ends)
    sums = np.zeros(len(lengths), dtype=np.uint64)
    full = lengths > 0
    if not full.any():
        return sums
    starts = ends[:-1][full] - ends[0]
    powers = np.full(int(lengths.max()), _PRIME, dtype=np.uint64)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    places = np.arange(ends[-1] - ends[0]) - np.repeat(starts, lengths[full])
    terms = powers[places]
    terms *= text[ends[0] : ends[-1]].astype(np.uint64) + np.uint64(1)
    sums[full] = np.add.reduceat(terms, starts)
    return sums
