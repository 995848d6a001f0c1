"""What each way of running costs, on paper, up to 10⁹ nodes and 10¹¹ edges: memory per rank, bytes on the wire, time.

python benchmarks/speed/scale_model.py           # the tables of docs/scale.md, from the kept runs
python benchmarks/speed/scale_model.py --page    # and write them into the page

Every constant is read from a kept run in docs/performance; a missing one is an error. Nothing is measured here.

Memory of a rank    (v n d 4 + e m) / P + 2 b d 4 bytes. The v vectors per node are what is left of the peak of
    train.json after e = 60 bytes per edge, the figure of the library's own estimate of memory.
Rows at the boundary    Over all ranks n (P - 1) (1 - (1 - 1 / (P - 1))^x) for nodes with x edges to other ranks, the
    mean degree times the share of edges between two parts. That share and a factor for uneven degrees are those of
    preparing.json, whose parts keep communities together.
Wire    Each layer sends the b rows of a rank forward and their gradients back, in each step; the sums over all ranks
    are of d numbers and are left out.
Computing    Seconds per edge and dimension of the largest graph of scaling.json, divided evenly. It is of two cores;
    more cores are taken to be as many times faster, which is an assumption.
Network    The seconds for the wire's bytes at a bandwidth, not overlapped with computing. It is the limit below
    the bandwidth at which both take as long.
Bulk answers    Exact search takes the seconds per source and candidate of bulk.json, whose decoder is the default one
    of large graphs, an inner product. An index takes those of retrieval.json for the same kind of decoder, and grows
    with the nodes as it did there; building it grows with the power 1.5, the products of rows and cells.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import _path  # noqa: F401
from yinyan.files import write_text

KEPT = Path(__file__).resolve().parents[2] / "docs" / "performance"
PAGE = KEPT.parent / "scale.md"
EDGE_BYTES, FLOAT, GIB = 60, 4, 2**30
RANK_GIB, CORES = 64, 16  # of a rank in the tables
SIZE, LAYERS = 128, 3
GRAPHS = ((10**6, 10**7), (10**7, 10**8), (10**8, 10**9), (10**8, 10**10), (10**9, 10**10), (10**9, 10**11))
GIGABITS = (10, 100)
MOST_RANKS = 1 << 16
MARKS = "<!-- scale_model.py {name} -->", "<!-- end -->"


class Constants(NamedTuple):
    """What was measured, and where."""

    vectors: float  # per node, of training
    edge_seconds: float  # per edge, dimension and layer, of one core
    cut: float  # share of edges between two parts of the many that preparing.json has
    cut_parts: int
    uneven: float  # rows at the boundary over the formula's
    prepare_seconds: float  # per edge, of one core
    prepare_gib: float
    exact_seconds: float  # per source and candidate, of one core
    index_ms: float  # per source, at so many nodes
    index_nodes: int
    index_exponent: float
    index_build_seconds: float
    index_recall: float
    bulk: dict[str, Any]  # of two Ray actors


class Plan(NamedTuple):
    """A training on so many ranks."""

    ranks: int
    bytes: float  # of a rank
    boundary: float  # rows of a rank
    wire: float  # bytes of a rank and step
    compute: float  # seconds of a step


def kept(name: str) -> dict[str, Any]:
    """A kept run; a missing one ends the script with the command that makes it."""
    path = KEPT / name
    if not path.is_file():
        raise SystemExit(
            f"the kept run '{path}' is missing: make it with the command that benchmarks/README.md names for {name}"
        )
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def constants() -> Constants:
    """All of them, from the kept runs."""
    train, scaling, prepared = kept("train.json"), kept("scaling.json"), kept("preparing.json")
    bulk, found = kept("bulk.json"), kept("retrieval.json")
    size, edges, nodes = (train["sizes"][name] for name in ("size", "links", "nodes"))
    largest, first, index = prepared["runs"][-1], found["sizes"][0], found["sizes"][-1]
    parts, per_edge = prepared["parts"], scaling["per_edge"]
    share, degree = largest["cut_share"], 2 * largest["edges"] / largest["nodes"]
    expected = boundary_rows(largest["nodes"], parts, share * degree)
    return Constants(
        vectors=(train["peak_gigabytes"] * GIB - EDGE_BYTES * edges) / (nodes * size * FLOAT),
        edge_seconds=per_edge["seconds_per_link_and_dimension"][-1]
        * scaling["threads"]
        / scaling["defaults"]["layers"],
        cut=share,
        cut_parts=parts,
        uneven=largest["boundary_rows"] / expected,
        prepare_seconds=largest["seconds"] * prepared["machine"]["threads"] / largest["rows"],
        prepare_gib=largest["peak_gib"],
        exact_seconds=bulk["one_process_s"] * bulk["threads"] / (bulk["sources"] * bulk["nodes"]),
        index_ms=index["mips_ms"] * found["threads"],
        index_nodes=index["nodes"],
        index_exponent=math.log(index["mips_ms"] / first["mips_ms"]) / math.log(index["nodes"] / first["nodes"]),
        index_build_seconds=index["mips_build_s"] * found["threads"],
        index_recall=index["mips_recall"],
        bulk=bulk,
    )


def boundary_rows(nodes: float, ranks: int, outside: float) -> float:
    """Rows that all ranks need from others, if a node has so many edges to them, spread evenly."""
    others = ranks - 1
    if not others:
        return 0.0
    reached = outside if others == 1 else -math.expm1(outside * math.log1p(-1 / others))
    return nodes * (min(1.0, outside) if others == 1 else others * reached)


def plan(known: Constants, nodes: float, edges: float, ranks: int) -> Plan:
    """One of so many ranks."""
    share = 0.0 if ranks == 1 else known.cut * (1 - 1 / ranks) / (1 - 1 / known.cut_parts)
    rows = known.uneven * boundary_rows(nodes, ranks, share * 2 * edges / nodes) / ranks
    own = (known.vectors * nodes * SIZE * FLOAT + EDGE_BYTES * edges) / ranks
    wire = 2 * LAYERS * rows * SIZE * FLOAT
    compute = known.edge_seconds * edges * SIZE * LAYERS / ranks / CORES
    return Plan(ranks, own + 2 * rows * SIZE * FLOAT, rows, wire, compute)


def least_plan(known: Constants, nodes: float, edges: float) -> Plan | None:
    """With the fewest ranks, a power of two, that have room; None if rows of others alone fill them."""
    ranks = 1
    while ranks <= MOST_RANKS:
        found = plan(known, nodes, edges, ranks)
        if found.bytes <= RANK_GIB * GIB:
            return found
        ranks *= 2
    return None


def power(value: float) -> str:
    return f"10{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(round(math.log10(value))))}"


def amount(size: float) -> str:
    """Bytes in the unit that suits."""
    for unit, name in ((2**50, "PiB"), (2**40, "TiB"), (GIB, "GiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 2**20:.3g} MiB" if size else "0"


def duration(seconds: float) -> str:
    """Seconds in the unit that suits."""
    for unit, name in ((365 * 86_400, "years"), (86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.3g} {name}"
    return f"{seconds:.2g} s" if seconds else "0"


def training(known: Constants) -> str:
    """Ranks of training, by size."""
    head = ["nodes", "edges", "ranks", "memory per rank", "rows at its boundary", "wire per rank and step"]
    head += ["computing per step", *(f"network, {speed} Gbit/s" for speed in GIGABITS), "Gbit/s where both are equal"]
    rows = []
    for nodes, edges in GRAPHS:
        found = least_plan(known, nodes, edges)
        if found is None:
            rows.append([power(nodes), power(edges), "none", *[""] * (len(head) - 3)])
            continue
        times = [8 * found.wire / (speed * 1e9) for speed in GIGABITS]
        equal = "" if found.ranks == 1 else f"{8 * found.wire / found.compute / 1e9:.0f}"
        shown = [power(nodes), power(edges), f"{found.ranks:,}", amount(found.bytes), f"{found.boundary:.2g}"]
        shown += [amount(found.wire), duration(found.compute), *map(duration, times), equal]
        rows.append(shown)
    return table(head, rows)


def answers(known: Constants) -> str:
    """Bulk answers for all nodes, in hours of one core."""
    rows = []
    for nodes in sorted({nodes for nodes, _ in GRAPHS}):
        exact = known.exact_seconds * nodes * nodes
        search = 1e-3 * known.index_ms * (nodes / known.index_nodes) ** known.index_exponent * nodes
        build = known.index_build_seconds * (nodes / known.index_nodes) ** 1.5  # cells times rows
        cores = max(1, math.ceil(nodes * SIZE * FLOAT * 1.3 / (RANK_GIB * GIB))) * CORES
        best = min(exact, search + build)
        rows.append(
            [
                *(power(nodes), amount(nodes * SIZE * FLOAT), duration(exact), duration(search), duration(build)),
                *(f"{cores:,}", duration(best / cores)),
            ]
        )
    head = ["nodes", "embeddings", "exact, core time", "index, core time", "building it, core time"]
    return table([*head, "cores whose memory holds them", "the quicker one there"], rows)


def measured(known: Constants) -> str:
    """What the constants are."""
    bulk = known.bulk
    rows = [
        ["vectors of 4-byte numbers per node, training", f"{known.vectors:.1f}", "train.json"],
        ["core nanoseconds per edge, dimension and layer", f"{1e9 * known.edge_seconds:.2f}", "scaling.json"],
        [f"share of edges between {known.cut_parts} parts", f"{known.cut:.1%}", "preparing.json"],
        ["boundary rows over the formula's", f"{known.uneven:.2f}", "preparing.json"],
        ["core seconds per million edges, preparing", f"{1e6 * known.prepare_seconds:.2f}", "preparing.json"],
        ["peak of preparing 10⁸ edges", f"{known.prepare_gib:.1f} GiB", "preparing.json"],
        ["core nanoseconds per source and candidate, exact", f"{1e9 * known.exact_seconds:.1f}", "bulk.json"],
        ["two Ray actors over one process of two threads", f"{bulk['over_one_process']:.2f}", "bulk.json"],
        [f"core ms per source, index of {known.index_nodes:,}", f"{known.index_ms:.2f}", "retrieval.json"],
        ["recall of that index", f"{known.index_recall:.4f}", "retrieval.json"],
        ["exponent of its growth with the nodes", f"{known.index_exponent:.2f}", "retrieval.json"],
    ]
    return table(["constant", "value", "kept run"], rows)


def ways(_: Constants) -> str:
    """What each way has cost in the kept runs, on two cores."""
    train, embed, found = kept("train.json"), kept("embed.json"), kept("retrieval.json")["sizes"][-1]
    prepared, bulk, soak = kept("preparing.json")["runs"][-1], kept("bulk.json"), kept("soak.json")
    mixed, ranks = soak["load"]["features"], kept("distributed.json")
    size, other = train["sizes"], embed["sizes"]
    steps = {name: min(spent) for name, spent in ranks["step_seconds"].items()}
    peaks = {name: count / GIB for name, count in ranks["peak_bytes"].items()}
    rows = [
        [
            "one process",
            f"a training step, {size['nodes']:,} nodes, {size['links']:,} edges",
            f"{train['seconds_a_step']:.1f} s, {train['peak_gigabytes']:.1f} GiB",
            "train.json",
        ],
        [
            "one process",
            f"embedding {other['nodes']:,} nodes, {other['links']:,} edges",
            f"{embed['seconds']:.0f} s, {embed['peak_gigabytes']:.1f} GiB",
            "embed.json",
        ],
        [
            "torchrun, two ranks",
            f"a training step, {ranks['nodes']:,} nodes, {ranks['links']:,} edges",
            f"{steps['two processes']:.2f} s, one process of two threads {steps['one process']:.2f} s",
            "distributed.json",
        ],
        [
            "torchrun, four ranks",
            "the same graph, memory of the largest rank",
            f"{peaks['largest of four']:.1f} GiB, one rank {peaks['one process']:.1f} GiB",
            "distributed.json",
        ],
        [
            "an index",
            f"inner products, {found['nodes']:,} nodes, per source",
            f"{found['mips_ms']:.2f} ms, exact {found['mips_exact_ms']:.1f} ms, {found['mips_build_s']:.0f} s to build",
            "retrieval.json",
        ],
        [
            "prepare",
            f"{prepared['rows']:,} rows, one process",
            f"{prepared['seconds']:.0f} s, {prepared['peak_gib']:.1f} GiB",
            "preparing.json",
        ],
        [
            "Ray, two actors",
            f"{bulk['sources']:,} of {bulk['nodes']:,} nodes, exact",
            f"{bulk['ray_s']:.1f} s, one process {bulk['one_process_s']:.1f} s",
            "bulk.json",
        ],
        [
            "Ray, an index",
            "the same nodes",
            f"{bulk['index_s']:.1f} s, {bulk['index_build_s']:.1f} s to build, recall {bulk['index_recall']:.3f}",
            "bulk.json",
        ],
        [
            "service",
            f"mixed load, {soak['workers']} workers of one host, {soak['nodes']:,} nodes, with kill -9",
            f"{mixed['requests_per_second']:.0f} requests per second",
            "soak.json",
        ],
    ]
    return table(["way", "what", "cost", "kept run"], rows)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES = {"ways": ways, "constants": measured, "training": training, "answers": answers}


def tables() -> dict[str, str]:
    """All tables of the page, by name."""
    known = constants()
    return {name: make(known) for name, make in TABLES.items()}


def filled(page: str, made: dict[str, str]) -> str:
    """The page with the tables between their marks."""
    for name, text in made.items():
        first, last = MARKS[0].format(name=name), MARKS[1]
        pattern = re.compile(rf"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
        page, count = pattern.subn(lambda _, first=first, text=text: f"{first}\n\n{text}\n\n{MARKS[1]}", page)
        if count != 1:
            raise SystemExit(f"'{PAGE}' needs the mark {first} once (found {count} times)")
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write the tables into docs/scale.md")
    parser.add_argument("--smoke", action="store_true", help="the same as without: it measures nothing")
    options = parser.parse_args()
    made = tables()
    if options.page:
        write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), made))
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
