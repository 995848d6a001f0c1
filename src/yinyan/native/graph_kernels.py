"""Compiled kernels for the CPU: layers, rows, draws and counts over a graph; torch does the same without them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from yinyan.native.compiling import NoKernelsError, pointers
from yinyan.native.loading import load_kernels
from yinyan.native.ranges import equal_parts, row_ranges, run_all, run_ranges, split_evenly

__all__ = [
    "Beside",
    "Csr",
    "Gathering",
    "Marks",
    "breadth_first",
    "communities",
    "count_shared",
    "degrees",
    "draw_block_pairs",
    "draw_nodes",
    "drop",
    "estimate_pairs",
    "layer",
    "library",
    "multiply_pairs",
    "origin",
    "pair_gradients",
    "project",
    "scaled_values",
    "suits",
    "symmetric_rows",
    "why_not",
]

_SOURCE = Path(__file__).with_name("graph_kernels.cpp")

_STORED = {torch.float32: "float32", torch.bfloat16: "bfloat16"}
Gathering = Literal["add", "store", "join"]
_GATHERING: tuple[Gathering, ...] = ("add", "store", "join")
_MOST_ENTRIES = 2**31 - 1  # places are 32 bits wide
_KEYS_A_LINE = 16  # marked in 512 bits
_LARGEST_BLOCK = 6  # log2 of nodes


class Csr(NamedTuple):
    """A matrix in compressed rows with 32-bit places, and a factor that all of it is multiplied by."""

    indptr: Tensor  # (rows + 1,) int32
    columns: Tensor  # (nnz,) int32
    values: Tensor  # (nnz,) float32
    factor: float = 1.0


class _Matrix(ctypes.Structure):
    _fields_ = (
        *pointers("indptr", "columns", "values"),
        ("factor", ctypes.c_float),
        ("last", ctypes.c_int32),
    )


class _Layer(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_int64),
        *pointers("x", "own", "base", "f", "gathered"),
        ("gathering", ctypes.c_int64),
        ("matrices", ctypes.POINTER(_Matrix)),
        ("num_matrices", ctypes.c_int64),
        *pointers("other", "left", "right"),
        ("rank", ctypes.c_int64),
        *pointers("out", "part", "row_dots", "next_left"),
        ("next_rank", ctypes.c_int64),
    )


def suits(x: Tensor, *matrices: Csr) -> bool:
    """Whether the compiled layer can multiply these."""
    return (
        x.device.type == "cpu"
        and x.dtype in _STORED
        and all(m.values.dtype == torch.float32 and m.columns.dtype == m.indptr.dtype == torch.int32 for m in matrices)
        and library() is not None
    )


class Beside(NamedTuple):
    """What a layer reads and writes besides x, the matrices and `out`, all of it optional.

    With `first_row`, `out`, `f`, `gathered`, `other` and `part` hold only the rows from there on; x, the matrices and
    the rest hold all. `f` and `out` may be the same rows.
    """

    own: Tensor | None = None
    base: Tensor | None = None
    f: Tensor | None = None
    gathered: Tensor | None = None  # has base x added, or stored, or is added with it to `out` (`gathering`)
    gathering: Gathering = "add"
    other: Tensor | None = None
    low_rank: tuple[Tensor, Tensor] | None = None  # U and V
    part: Tensor | None = None  # becomes S_K x of the last matrix
    row_dots: Tensor | None = None  # becomes <other_i, x_i>
    next_left: Tensor | None = None  # U of the next layer, (n, r)
    first_row: int = 0


_NOTHING = Beside()


def layer(x: Tensor, out: Tensor, matrices: Sequence[Csr], beside: Beside = _NOTHING) -> tuple[Tensor, Tensor | None]:
    """out = own x + base f + Σ_k factor_k S_k x + U V, in one pass over the rows of `out`.

    Returns (K,) <other, S_k x>, and (r, d) Uᵀ out for U = `next_left`, which the next layer may need.
    """
    own, base, f, gathered, gathering, other, low_rank, part, row_dots, next_left, first_row = beside
    tensors = [t for t in (x, out, own, base, f, gathered, other, part, *(low_rank or ())) if t is not None]
    if not all(t.is_contiguous() for t in tensors):
        raise ValueError("the compiled layer reads contiguous tensors only")
    parts = (_Matrix * max(1, len(matrices)))(
        *(_Matrix(*map(_at, m[:3]), m.factor, m.columns.numel() - 1) for m in matrices)
    )
    left, right = low_rank or (None, None)

    def rows(tensor: Tensor | None) -> int | None:  # where row 0 would stand
        return None if tensor is None else tensor.data_ptr() - first_row * tensor.shape[1] * tensor.element_size()

    task = _Layer(
        x.shape[1], *map(_at, (x, own, base)), rows(f), rows(gathered),
        _GATHERING.index(gathering), parts, len(matrices), rows(other), _at(left),
        _at(right), 0 if left is None else left.shape[1], rows(out), rows(part), _at(row_dots),
        _at(next_left), 0 if next_left is None else next_left.shape[1],
    )  # fmt: skip
    ranges = row_ranges(out.shape[0], [m.indptr for m in matrices], x.shape[1], first_row)
    wide = 0 if next_left is None else next_left.shape[1] * x.shape[1]
    dots = torch.zeros(len(ranges), max(1, len(matrices) + wide), dtype=torch.float64)
    function = getattr(_required(), f"layer_{_STORED[x.dtype]}")
    run_ranges(function, (ctypes.byref(task),), ranges, [row.data_ptr() for row in dots])
    summed = dots.sum(0)
    ahead = None if next_left is None else summed[len(matrices) :].float().view(-1, x.shape[1])
    return summed[: len(matrices)], ahead


def project(x: Tensor, left: Tensor) -> Tensor:
    """(r, d) Uᵀ x for U (n × r): one reading of x, in a fixed order."""
    (n, d), rank = x.shape, left.shape[1]
    ranges = row_ranges(n, [], d)
    sums = torch.zeros(len(ranges), rank, d, dtype=torch.float64)
    function = getattr(_required(), f"project_{_STORED[x.dtype]}")
    run_ranges(function, (_at(x), _at(left), rank, d), ranges, [part.data_ptr() for part in sums])
    return sums.sum(0).float()


def drop(x: Tensor, chances: Tensor, threshold: int, scale: float) -> Tensor:
    """x times the scale where a byte of `chances` reaches the threshold, else 0."""
    out, given = torch.empty_like(x), (_at(x), _at(chances), threshold, scale)
    run_ranges(_required().drop, given, equal_parts(x.numel(), 1), out.data_ptr())
    return out


def draw_nodes(seed: int, num_nodes: int, count: int) -> Tensor:
    """(count,) nodes drawn uniformly from a seed."""
    nodes = torch.empty(count, dtype=torch.long)
    run_ranges(_required().draw_nodes, (seed, num_nodes), equal_parts(count, 8), nodes.data_ptr())
    return nodes


def draw_block_pairs(
    seed: int, turn: int, starts: Tensor, partners: Tensor, count: int, places: Tensor | None = None
) -> Tensor:
    """(·, 2) pairs between blocks of nodes and their partners (choices, blocks), for all of `count` places or some."""
    number = count if places is None else places.numel()
    pairs = torch.empty(number, 2, dtype=torch.long)
    given = (seed, turn, _at(starts), _at(partners), *partners.shape, count, _at(places))
    run_ranges(_required().draw_block_pairs, given, equal_parts(number, 8), pairs.data_ptr())
    return pairs


class Marks(NamedTuple):
    """A set of pairs as two bits each: what is not marked is not in it, what is marked may be."""

    bits: Tensor  # (·, 64) uint8: lines of the cache
    block_shift: int  # pairs between the same two blocks of 2^block_shift nodes share a line
    line_shift: int  # of a 64-bit product, so that what is left names a line

    @classmethod
    def of(cls, keys: Tensor, num_nodes: int) -> Marks:
        """The marks of (m,) keys first * n + second: two in 32 to 64 bits are set."""
        width = max(1, (keys.numel() // _KEYS_A_LINE).bit_length())
        shift = _LARGEST_BLOCK
        while shift and (num_nodes >> shift) ** 2 < 8 << width:  # too few pairs of blocks to fill the lines evenly
            shift -= 1
        bits = torch.zeros(2**width, 64, dtype=torch.uint8)
        _required().mark_pairs(_at(keys), keys.numel(), num_nodes, shift, 64 - width, _at(bits))
        return cls(bits, shift, 64 - width)

    def suspects(self, pairs: Tensor, num_nodes: int, *, directed: bool) -> Tensor:
        """Places in (m, 2) pairs of self pairs and of those that may be in the set."""
        pairs, m = pairs.contiguous(), pairs.shape[0]
        found = torch.empty(m, dtype=torch.long)
        given = (_at(pairs), num_nodes, int(directed), self.block_shift, self.line_shift, _at(self.bits))
        ends = equal_parts(m, 8)
        counts = run_ranges(_required().suspect_pairs, given, ends, [found.data_ptr() + 8 * b for b, _ in ends])
        return torch.cat([found[b : b + count] for (b, _), count in zip(ends, counts, strict=True)])


def symmetric_rows(pairs: Tensor, num_nodes: int, *, places: bool = True) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compressed rows of the symmetric matrix of (m, 2) pairs, and the pair of each entry: a counting sort."""
    built, m = _required(), pairs.shape[0]
    if 2 * m > _MOST_ENTRIES:
        raise ValueError(f"{m:,} pairs are too many for 32-bit places")
    pairs = pairs.contiguous()
    ranges = split_evenly(m, torch.get_num_threads() if m > 50_000 else 1)
    counts = torch.empty(len(ranges), num_nodes, dtype=torch.int32)  # the parts follow the pairs: so do the rows
    run_all(
        [
            functools.partial(built.count_ends, _at(pairs), begin, end, num_nodes, _at(counts[place]))
            for place, (begin, end) in enumerate(ranges)
        ]
    )
    indptr = torch.zeros(num_nodes + 1, dtype=torch.int32)
    built.begin_rows(_at(counts), len(ranges), num_nodes, _at(indptr))
    columns = torch.empty(2 * m, dtype=torch.int32)
    pair_of_slot = torch.empty(2 * m, dtype=torch.int32) if places else None
    run_all(
        [
            functools.partial(built.place_ends, _at(pairs), b, e, _at(counts[place]), _at(columns), _at(pair_of_slot))
            for place, (b, e) in enumerate(ranges)
        ]
    )
    return indptr, columns, pair_of_slot


def symmetric_rows_of_blocks(blocks: Callable[[], Iterable[Tensor]], num_nodes: int) -> tuple[Tensor, Tensor]:
    """Compressed rows as of `symmetric_rows`, of (·, 2) pairs that come in blocks, and twice: 8 bytes per pair."""
    built, count = _required(), 0
    counts, one = torch.zeros(num_nodes, dtype=torch.int32), torch.ones(1, dtype=torch.int32)
    for pairs in blocks():
        counts.scatter_add_(0, pairs.reshape(-1), one.expand(pairs.numel()))
        count += pairs.numel()
    if count > _MOST_ENTRIES:
        raise ValueError(f"{count // 2:,} pairs are too many for 32-bit places")
    indptr, columns = torch.zeros(num_nodes + 1, dtype=torch.int32), torch.empty(count, dtype=torch.int32)
    built.begin_rows(_at(counts), 1, num_nodes, _at(indptr))
    for pairs in blocks():
        whole = pairs.contiguous()
        built.place_ends(_at(whole), 0, whole.shape[0], _at(counts), _at(columns), None)
    return indptr, columns


def breadth_first(indptr: Tensor, columns: Tensor) -> Tensor:
    """(n,) the nodes outwards from one of fewest links, ring by ring; nodes without a link come last."""
    built, degrees = _required(), indptr.diff()
    seeds = torch.argsort(torch.where(degrees > 0, degrees, _MOST_ENTRIES), stable=True)
    reached, order = torch.zeros(seeds.numel(), dtype=torch.uint8), torch.empty_like(seeds)
    built.breadth_first(_at(indptr), _at(columns), _at(seeds), seeds.numel(), _at(reached), _at(order))
    return order


def communities(indptr: Tensor, columns: Tensor, largest: int, rounds: int) -> Tensor:
    """(n,) the community of each node, by the votes of its neighbours: few links leave one, and none exceeds `largest`.

    Rounds end when hardly a label changes. One thread, so that the answer does not depend on their number.
    """
    built, n = _required(), indptr.numel() - 1
    labels, sizes = torch.arange(n, dtype=torch.int32), torch.ones(n, dtype=torch.int32)
    counts = torch.zeros_like(labels)
    met = torch.empty(max(1, int(indptr.diff().max())) if n else 1, dtype=torch.int32)
    for _ in range(rounds):
        given = (_at(indptr), _at(columns), n, largest, _at(labels), _at(sizes), _at(counts), _at(met))
        if built.spread_labels(*given) <= n // 100:
            break
    return labels


def degrees(indptr: Tensor, pair_of_slot: Tensor | None, weights: Tensor | None, hidden: Tensor | None) -> Tensor:
    """(n,) sums of the weights of each node's pairs that are not hidden; how many they are, without weights."""
    sums = torch.empty(indptr.numel() - 1)
    pointers = (_at(indptr), _at(pair_of_slot), _at(weights), _at(hidden))
    run_ranges(_required().sum_weights, pointers, row_ranges(sums.numel(), [indptr], 1), sums.data_ptr())
    return sums


def scaled_values(
    indptr: Tensor,
    columns: Tensor,
    pair_of_slot: Tensor | None,
    weights: Tensor | None,
    hidden: Tensor | None,
    scale: Tensor,
) -> Tensor:
    """(nnz,) scale_i w_ij scale_j, in the order of the entries; 0 for hidden pairs."""
    values = torch.empty(columns.numel())
    pointers = tuple(map(_at, (indptr, columns, pair_of_slot, weights, hidden, scale)))
    run_ranges(_required().scale_values, pointers, row_ranges(indptr.numel() - 1, [indptr], 2), values.data_ptr())
    return values


def estimate_pairs(rows: Tensor, size: int, pairs: Tensor) -> Tensor:
    """(p, 6) what the sketches in (n, 3 size + 1) rows, perhaps columns of a wider matrix, estimate of (p, 2) pairs."""
    pairs = pairs.contiguous()
    found = torch.empty(pairs.shape[0], 6)
    given = (_at(rows), rows.stride(0), size, _at(pairs))
    run_ranges(_required().estimate_pairs, given, equal_parts(pairs.shape[0], 5 * size), found.data_ptr())
    return found


def multiply_pairs(y: Tensor, size: int, pairs: Tensor) -> Tensor:
    """(p, size) y_i ⊙ y_j of (p, 2) pairs, over the first `size` columns of y."""
    pairs = pairs.contiguous()
    products = torch.empty(pairs.shape[0], size)
    given = (_at(y), y.stride(0), size, _at(pairs))
    run_ranges(_required().multiply_pairs, given, equal_parts(pairs.shape[0], size), products.data_ptr())
    return products


def pair_gradients(y: Tensor, size: int, pairs: Tensor, slopes: Tensor) -> Tensor:
    """The gradient of `multiply_pairs` for y, given (p, size) slopes; 0 in the other columns of y.

    Each row is summed in the order of its pairs, so that the sums do not depend on the number of threads.
    """
    indptr, columns, pair_of_slot = symmetric_rows(pairs, y.shape[0])
    found, slopes = torch.empty_like(y), slopes.contiguous()
    given = (_at(y), y.stride(0), size, _at(slopes), _at(indptr), _at(columns), _at(pair_of_slot))
    run_ranges(_required().pair_gradients, given, row_ranges(y.shape[0], [indptr], size), found.data_ptr())
    return found


def count_shared(
    indptr: Tensor, columns: Tensor, most: int, sources: Tensor, starts: Tensor, candidates: Tensor
) -> Tensor:
    """(c, 4) exact counts between (s,) sources and the (c,) candidates that `starts` (s + 1,) gives to each.

    Common neighbours, Adamic-Adar, resource allocation, and weighted paths of length three whose inner nodes have
    `most` neighbours at most. All tensors are of int64.
    """
    num_nodes, found = indptr.numel() - 1, torch.empty(candidates.numel(), 4)
    given = (_at(indptr), _at(columns), num_nodes, most, _at(sources), _at(starts), _at(candidates))
    work = columns.numel() // max(1, num_nodes) * candidates.numel() // max(1, sources.numel())
    parts = split_evenly(sources.numel(), min(torch.get_num_threads(), len(equal_parts(sources.numel(), work + 1))))
    if any(run_ranges(_required().count_shared, given, parts, found.data_ptr())):
        raise MemoryError(f"no memory for the marks of {num_nodes:,} nodes")
    return found


def why_not() -> str | None:
    """Why there are no compiled kernels; None where there are."""
    built, words = _load()
    return None if built is not None else words


def _required() -> ctypes.CDLL:
    built = library()
    if built is None:
        raise RuntimeError(f"there are no compiled kernels: {why_not()}")
    return built


def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they are switched off (YINYAN_NATIVE=0) or there are none."""
    return _load()[0]


def origin() -> str:
    """Where the kernels are from: for which processors, of the wheel or compiled here; or why there are none."""
    return _load()[1] if library() else f"torch's own ({why_not()})"


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library and where it is from; or None, and why."""
    try:
        built, where = load_kernels(_SOURCE, (_Matrix, _Layer))
    except NoKernelsError as error:
        return None, str(error)
    _declare(built)
    return (built, where) if _is_right(built) else (None, "what was compiled gives wrong sums")


def _declare(built: ctypes.CDLL) -> None:
    """Say what the functions take, so that no pointer is cut to 32 bits."""
    long = ctypes.c_int64
    pointer = ctypes.c_void_p
    for name in _STORED.values():
        getattr(built, f"layer_{name}").argtypes = (pointer, long, long, pointer)
        getattr(built, f"project_{name}").argtypes = (pointer, pointer, long, long, long, long, pointer)
    built.drop.argtypes = (pointer, pointer, ctypes.c_uint8, ctypes.c_float, long, long, pointer)
    built.estimate_pairs.argtypes = (pointer, long, long, pointer, long, long, pointer)
    built.multiply_pairs.argtypes = (pointer, long, long, pointer, long, long, pointer)
    built.pair_gradients.argtypes = (pointer, long, long, *[pointer] * 4, long, long, pointer)
    built.count_shared.argtypes = (pointer, pointer, long, long, pointer, pointer, pointer, long, long, pointer)
    built.draw_nodes.argtypes = (ctypes.c_uint64, long, long, long, pointer)
    built.draw_block_pairs.argtypes = (
        ctypes.c_uint64, long, pointer, pointer, long, long, long, pointer, long, long, pointer
    )  # fmt: skip
    number = ctypes.c_int
    built.mark_pairs.argtypes = (pointer, long, long, number, number, pointer)
    built.suspect_pairs.argtypes = (pointer, long, number, number, number, pointer, long, long, pointer)
    built.count_ends.argtypes = (pointer, long, long, long, pointer)
    built.begin_rows.argtypes = (pointer, long, long, pointer)
    built.place_ends.argtypes = (pointer, long, long, pointer, pointer, pointer)
    built.sum_weights.argtypes = (pointer, pointer, pointer, pointer, long, long, pointer)
    built.scale_values.argtypes = (*[pointer] * 6, long, long, pointer)
    built.breadth_first.argtypes = (pointer, pointer, pointer, long, pointer, pointer)
    built.spread_labels.argtypes = (pointer, pointer, long, ctypes.c_int32, pointer, pointer, pointer, pointer)
    built.suspect_pairs.restype = built.spread_labels.restype = built.count_shared.restype = long


def _is_right(built: ctypes.CDLL) -> bool:
    """A small sum whose answer is known: [[1, 2], [3, 4]] summed over both rows, in the column tail's code."""
    x = torch.arange(1.0, 35.0).view(2, 17)
    out = torch.empty(1, 17)
    indptr, columns, values = torch.tensor([0, 2]).int(), torch.tensor([0, 1]).int(), torch.ones(2)
    matrix = (_Matrix * 1)(_Matrix(_at(indptr), _at(columns), _at(values), 1.0, 1))
    task = _Layer(17, _at(x), None, None, None, None, 0, matrix, 1, None, None, None, 0, _at(out), None, None, None, 0)
    built.layer_float32(ctypes.byref(task), 0, 1, torch.zeros(1, dtype=torch.float64).data_ptr())
    return torch.equal(out[0], x.sum(0))


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
