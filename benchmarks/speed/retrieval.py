"""Top-k among many nodes: exact, by Flashlight and by MIPS, beside a torch loop and PyG's index, on trained embeddings.

python benchmarks/speed/retrieval.py --quick --json            # 200,000 nodes, within two minutes
python benchmarks/speed/retrieval.py --nodes 1000000           # one size; --cache keeps models for the next time
python benchmarks/speed/retrieval.py --picture retrieval.png   # 10^4 to 3·10^6 nodes, and curves of recall and time
python benchmarks/speed/retrieval.py --sketch-size 64 --nodes 200000

Embeddings of 128 dimensions from trained.py, a HadamardMLP of width 128 and a dot decoder, k = 100, known links not
excluded. Recall is against exact on nodes that had no part in choosing an index's effort. Times are a node's, the least
of several calls that took turns; searches answer batches of 256 nodes, dot products are exact in batches of 64. The
loop is what one writes first: decoder(own.expand, embeddings[block]) by blocks of 16,384 and one topk. `exact` finds
candidates by bounds in bytes, made once in `exact_prepare_s`; `unscreened_ms` is the time of scoring everything.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import _path  # noqa: F401
from lib import common
from lib.retrieval_peers import Peer, faiss_lists, pyg_approximate, pyg_flat, torch_loop
from lib.trained import Trained, trained
from yinyan import Graph
from yinyan.retrieval.budgets import Budget, recall_of
from yinyan.retrieval.building import build_index
from yinyan.retrieval.efforts import Efforts, ladder
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index import Index
from yinyan.retrieval.index_store import load_index
from yinyan.retrieval.probing import Probing
from yinyan.retrieval.queries import is_linear
from yinyan.retrieval.snapshot import Snapshot

K = 100
BATCH = 256
EPOCHS = 4  # of the models' training
SIZES = (10_000, 100_000, 1_000_000, 3_000_000)


def main() -> None:
    parser = common.parser(__doc__, quick="200,000 nodes")
    parser.add_argument("--nodes", type=int, nargs="+", default=None)
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps trained models")
    parser.add_argument("--sketch-size", type=int, default=0)
    parser.add_argument("--recall", type=float, default=0.995, help="asked of Flashlight; MIPS is asked for .97")
    parser.add_argument("--faiss", action="store_true", help="also lists by faiss, where MIPS is measured")
    parser.add_argument("--curves", action="store_true", help="also recall and time of every effort")
    options = common.parsed(parser, nodes=[400, 500], curves=True)
    sizes = [200_000] if options.quick and not options.smoke else options.nodes or list(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache or Path(folder)
        wanted = options.curves or options.picture is not None
        epochs = 1 if options.smoke else EPOCHS
        results = [
            measure(n, cache, options.sketch_size, options.recall, epochs, curves=wanted, faiss=options.faiss)
            for n in sizes
        ]
    figures = {"growth_exponent": growth(results)} if len(results) > 1 else {}
    if options.picture:
        draw(options.picture, results)
    own = {name: results[-1][name] for name in HEADLINES if name in results[-1]}
    report = own | figures | {"sizes": results} | common.machine()
    common.report(options, report, lambda: show(results, figures))


def show(results: Sequence[dict[str, Any]], figures: dict[str, float]) -> None:
    common.print_machine(common.machine())
    sizes = [result["nodes"] for result in results]
    names = [name for name in results[0] if not name.endswith("curve")]
    common.print_table(["", *map(str, sizes)], [[name, *(r.get(name) for r in results)] for name in names])
    print("\nNodes per second, k = 100:")
    rates = {"torch loop": "flashlight_loop_ms", "exact": "flashlight_exact_ms", "Flashlight": "flashlight_ms"}
    rates |= {"dot, torch loop": "mips_loop_ms", "dot, exact": "mips_exact_ms", "dot, MIPS": "mips_ms"}
    rates |= {"dot, PyG's MIPS, exact": "pyg_flat_ms", "dot, PyG's MIPS, approximate": "pyg_ms"}
    lines = [[name, *(1e3 / r[key] if key in r else None for r in results)] for name, key in rates.items()]
    common.print_table(["", *map(str, sizes)], lines)
    for name, value in figures.items():
        print(f"{name.replace('_', ' ')}: {value:.3f}")


HEADLINES = ("exact_over_loop", "flashlight_over_exact", "flashlight_recall", "mips_over_exact", "mips_recall")


def measure(
    n: int, cache: Path, sketch_size: int, recall: float, epochs: int, *, curves: bool, faiss: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {"nodes": n}
    for kind, decoder in (("flashlight", "hadamard"), ("mips", "dot")):
        if kind == "mips" and sketch_size:
            continue
        model = trained(n, decoder, cache, epochs=epochs, sketch_size=sketch_size)
        index, seconds = built(
            kind, model, recall if kind == "flashlight" else 0.97, cache / f"{kind}-{n}-{sketch_size}"
        )
        found |= of_kind(kind, model, index, curves=curves, faiss=faiss) | {f"{kind}_build_s": seconds}
        found[f"{kind}_build_share"] = seconds / (1e-3 * found[f"{kind}_exact_ms"] * n)
    return found


def built(kind: str, model: Trained, recall: float, folder: Path) -> tuple[Index, float]:
    """An index and the seconds that it took, kept beside the model."""
    graph = Graph.from_arrays(np.empty((0, 2), np.int64), num_nodes=model.embeddings.shape[0])
    kept = folder / f"{recall:g}.json"
    if not kept.exists():
        folder.mkdir(exist_ok=True)
        started = time.perf_counter()
        budget = Budget(recall=recall, k=K)
        index = build_index(graph, model.decoder, model.embeddings, kind=kind, budget=budget, sample=128)
        seconds = time.perf_counter() - started
        index.save(folder)
        kept.write_text(json.dumps(seconds))
    return load_index(folder, graph, model.decoder, model.embeddings), json.loads(kept.read_text())


def of_kind(kind: str, model: Trained, index: Index, *, curves: bool, faiss: bool = False) -> dict[str, Any]:
    decoder, y = model.decoder, model.embeddings
    rows, exact, plain = Snapshot.of(y), ExactSearch(decoder), ExactSearch(decoder, screen=False)
    started = time.perf_counter()
    exact.prepare(rows)
    prepared = time.perf_counter() - started
    asked = np.random.default_rng(7).choice(y.shape[0], BATCH, replace=False)
    few = asked[: 2 if kind == "flashlight" else 64]
    tasks: dict[str, common.Task] = {
        "exact": lambda: exact.top_k(rows, few, K),
        "search": lambda: index.top_k(asked, K),
        "single": lambda: index.top_k(asked[:1], K),
        "loop": lambda: torch_loop(decoder, y, few[:2], K),
    }
    counts = {"exact": len(few), "search": BATCH, "single": 1, "loop": 2, "unscreened": 2}
    if kind == "flashlight":
        tasks["unscreened"] = lambda: plain.top_k(rows, few, K)
    if kind == "mips":
        peer, flat = pyg_approximate(y), pyg_flat(y)
        tasks |= {"pyg": lambda: peer(y[asked], K), "pyg_flat": lambda: flat(y[few], K)}
        counts |= {"pyg": BATCH, "pyg_flat": len(few)}
    truth = exact.top_k(rows, asked, K)

    def recall_by(peer: Peer) -> float:
        got = peer(y[asked], K + 1)
        kept = [row[row != source] for row, source in zip(got, asked, strict=True)]
        return float(np.mean([np.isin(t.rows, k).mean() for k, t in zip(kept, truth, strict=True)]))

    if kind == "mips" and faiss:
        lists = faiss_lists(y, len(index.search.lists.centres), lambda peer: recall_by(peer) >= 0.97)
        tasks["faiss"], counts["faiss"] = lambda: lists(y[asked], K), BATCH
    times = common.Times()
    times.run(tasks, 3)
    ms = {name: 1e3 * times.least(name) / counts[name] for name in tasks}
    facts = index.metadata
    found = {
        f"{kind}_ms": ms["search"],
        f"{kind}_single_ms": ms["single"],
        f"{kind}_exact_ms": ms["exact"],
        f"{kind}_loop_ms": ms["loop"],
        f"{kind}_over_exact": ms["exact"] / ms["search"],
        f"{kind}_recall": recall_of(index.top_k(asked, K), truth),
        f"{kind}_bytes_share": facts.bytes_share,
        f"{kind}_effort": str(tuple((facts.effort or {}).values())),
        ("exact" if kind == "flashlight" else "exact_dot") + "_over_loop": ms["loop"] / ms["exact"],
    }
    if kind == "flashlight":
        found |= {"unscreened_ms": ms["unscreened"], "exact_prepare_s": prepared}
    if kind == "mips":
        found |= {"pyg_ms": ms["pyg"], "pyg_flat_ms": ms["pyg_flat"], "pyg_recall": recall_by(peer)}
        if faiss:
            found |= {"faiss_ms": ms["faiss"], "faiss_recall": recall_by(lists)}
    if curves:
        found[f"{kind}_curve"] = curve(index, rows, asked, truth)
    return found


def curve(index: Index, rows: Snapshot, asked: np.ndarray, truth: Sequence[Any]) -> list[dict[str, Any]]:
    """Recall and time of every effort."""
    search = index.search
    if not isinstance(search, Probing):
        return []
    drawn = []
    for effort in ladder(len(search.lists.centres), K, linear=is_linear(index.decoder)):
        tried, times = search.with_efforts(Efforts({K: effort})), common.Times()
        times.run({"search": lambda tried=tried: tried.top_k(rows, asked, K)}, 2, warm_up=0)
        recall = recall_of(tried.top_k(rows, asked, K), truth)
        drawn.append(
            {
                "probes": effort.probes,
                "rounds": effort.rounds,
                "recall": recall,
                "ms": 1e3 * times.least("search") / BATCH,
            }
        )
        if recall > 0.9999:
            break
    return drawn


def growth(results: Sequence[dict[str, Any]]) -> float:
    """b of latency ~ n^b between 10^5 nodes, or the smallest size above, and the largest."""
    first = min((r for r in results if r["nodes"] >= 100_000), key=lambda r: r["nodes"], default=results[0])
    last = max(results, key=lambda r: r["nodes"])
    if first is last:
        first = results[0]
    return math.log(last["flashlight_ms"] / first["flashlight_ms"]) / math.log(last["nodes"] / first["nodes"])


def frontier(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Efforts that nothing faster beats, the fastest first."""
    kept: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda p: p["ms"]):
        if not kept or point["recall"] > kept[-1]["recall"]:
            kept.append(point)
    return kept


def draw(path: Path, results: Sequence[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    figure = Figure(figsize=(12, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    sizes = [r["nodes"] for r in results]
    lines = {"torch loop": "flashlight_loop_ms", "exact": "flashlight_exact_ms", "Flashlight": "flashlight_ms"}
    lines |= {"exact dot": "mips_exact_ms", "MIPS": "mips_ms", "PyG's MIPS": "pyg_ms"}
    for name, key in lines.items():
        values = [r[key] for r in results if key in r]
        if values:
            left.loglog(sizes[: len(values)], values, "o--" if "dot" in name or "MIPS" in name else "o-", label=name)
    left.set(title="Time of a node's best hundred", xlabel="nodes", ylabel="ms")
    left.legend(fontsize=8)
    for axes, kind in ((middle, "flashlight"), (right, "mips")):
        for r in results:
            points = frontier(r.get(f"{kind}_curve", ()))
            if points:
                axes.semilogx(
                    [p["ms"] for p in points], [p["recall"] for p in points], "o-", label=f"{r['nodes']:,} nodes"
                )
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set(title={"flashlight": "Flashlight", "mips": "MIPS"}[kind], xlabel="ms a node", ylabel="recall@100")
        axes.legend(fontsize=8)
    for axes in (left, middle, right):
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
