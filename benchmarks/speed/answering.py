"""Answers with default settings: `recommend --all` against an old revision, and Flashlight against exact search.

python benchmarks/speed/answering.py --against 647f649 --json      # 200,000 and 1,000,000 nodes
python benchmarks/speed/answering.py --nodes 200000 --large 0      # the command alone; --cache keeps models

default   what `LinkPredictor().fit(graph)` gives for 200,000 nodes and 2.1 million edges without features, after few
          epochs: a dot decoder with a degree column. `dot_ms` is its exact search per node, in batches, and `gemm_ms`
          the matrix products of that search alone.
mlp       the size that --against 647f649 gives such a graph: 128 dimensions, a HadamardMLP of width 128 with a residual
          connection, sketches of 32 dimensions (lib/trained.py)
large     what is suggested for 1,000,000 nodes with 128 features: a HadamardMLP of width 64, depth 3 and with layer
          normalisation, sketches of 32 dimensions (lib/trained.py)

`all_s` is the whole command `yinyan recommend MODEL --all -k 20`, from the start of the process to the end of the file,
with the choice of the search and the build of an index. `scan_s` and `against_s` are exact search for every node of the
model `mlp`, by this revision and by --against, which is checked out in a git worktree: both are measured on a sample of
nodes in a process of their own and EXTRAPOLATED to all nodes. `unscreened` is exact search that scores everything.
Recall is against exact search on those nodes. `*_cpu_*` are processor seconds, which a busy machine changes less. Known
edges are excluded.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

import _path
from lib import common
from lib.trained import SIZE, Trained, links_of, settings_of, trained
from yinyan import Graph, LinkPredictor
from yinyan.retrieval.budgets import Budget, recall_of
from yinyan.retrieval.building import build_index
from yinyan.retrieval.exact import ExactSearch, TopK
from yinyan.retrieval.snapshot import Snapshot

ROOT = Path(_path.__file__).resolve().parents[2]
SKETCH, OLD = 32, {"residual": True}  # what the old revision suggests above 100,000 nodes
K, K_LARGE = 20, 100
EPOCHS = 4


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--nodes", type=int, default=200_000, help="of `recommend --all`; 0: not measured")
    parser.add_argument(
        "--large", type=int, default=1_000_000, help="nodes of Flashlight against exact; 0: not measured"
    )
    parser.add_argument("--against", default=None, metavar="REV", help="a revision to compare `recommend --all` with")
    parser.add_argument("--sample", type=int, default=64, help="nodes that exact search is timed on")
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps trained models")
    options = common.parsed(parser, nodes=500, large=600, sample=6)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache, epochs = options.cache or Path(folder), 1 if options.smoke else EPOCHS
        if options.nodes:
            found |= whole_graph(options, Path(folder), cache, epochs)
        if options.large:
            found |= flashlight(options, trained(options.large, "default", cache, epochs=2 * epochs))
    facts = found | {"extrapolated_from_nodes": options.sample} | common.machine()
    common.report(options, facts, lambda: show(found))


def show(found: dict[str, Any]) -> None:
    common.print_machine(common.machine())
    common.print_table(("", "value"), list(found.items()))
    print("scan_s and against_s are extrapolated from a sample of nodes")


def whole_graph(options: Any, folder: Path, cache: Path, epochs: int) -> dict[str, Any]:
    """`recommend --all` of both models, and exact search by this revision and by the other."""
    n = options.nodes
    made, file = old_model(n, cache, epochs)
    sources = np.random.default_rng(7).choice(n, options.sample, replace=False)
    ours = scanned(ROOT / "src", file, sources, options)
    found = {
        "nodes": n,
        "scan_s": ours["seconds"] * n / len(sources),
        "scan_cpu_s": ours["cpu_seconds"] * n / len(sources),
    }
    if options.against:
        with checked_out(options.against, folder / "against") as source:
            theirs = scanned(source, file, sources, options)
        found |= {
            "against": options.against,
            "against_s": theirs["seconds"] * n / len(sources),
            "against_cpu_s": theirs["cpu_seconds"] * n / len(sources),
        }
    predictor_of(made).save(folder / "mlp")
    found |= commanded("mlp", options, folder / "mlp", sources, ours["rows"])
    model = fitted_model(n, cache, epochs)
    found |= exact_dots(model, options)
    truth = [top.rows.tolist() for top in exact_of(model, sources)]
    model.save(folder / "default")
    found |= commanded("default", options, folder / "default", sources, truth)
    for name in ("mlp", "default") if options.against else ():
        for end in ("", "_cpu"):
            found[f"{name}_all_over_against{end}"] = found[f"against{end}_s"] / found[f"{name}_all{end}_s"]
    return found


def commanded(name: str, options: Any, saved: Path, sources: np.ndarray, truth: list[list[int]]) -> dict[str, Any]:
    """The command, from the start of its process to the end of the file."""
    out = saved.parent / f"{name}.parquet"
    command = [sys.executable, "-m", "yinyan", "recommend", str(saved), "--all", "-k", str(K), "--out", str(out)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(
        [*command, "--json"], env=environment(ROOT / "src", options.threads), capture_output=True, text=True, check=True
    )
    spent, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(ran.stdout)
    return {
        f"{name}_all_s": spent,
        f"{name}_all_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        f"{name}_all_search": said["search"],
        f"{name}_all_recall_reported": said["recall"],
        f"{name}_all_recall": recall_in(out, sources, truth),
    }


def old_model(num_nodes: int, cache: Path, epochs: int) -> tuple[Trained, Path]:
    """A model of the size that the old revision gives such a graph, and the file that keeps it."""
    before = set(cache.glob("trained-*")) if cache.exists() else set()
    made = trained(num_nodes, "hadamard", cache, epochs=epochs, sketch_size=SKETCH, decoder=OLD)
    fresh = set(cache.glob("trained-*")) - before
    kept = fresh or {f for f in before if f.name.startswith(f"trained-hadamard-{num_nodes}-")}
    return made, max(kept, key=lambda file: file.stat().st_mtime)


def fitted_model(num_nodes: int, cache: Path, epochs: int) -> LinkPredictor:
    """A model that `fit` gives a graph without features; nothing is chosen but the number of epochs."""
    folder = cache / f"fitted-{num_nodes}-{epochs}"
    if not folder.exists():
        graph = Graph.from_arrays(links_of(num_nodes), num_nodes=num_nodes)
        LinkPredictor(training={"epochs": epochs}, seed=0).fit(graph).save(folder)
    return LinkPredictor.load(folder)


def exact_of(model: LinkPredictor, sources: np.ndarray) -> list[TopK]:
    """Exact answers of some nodes."""
    fitted = model.fitted_
    search = ExactSearch(fitted.model.decoder.requires_grad_(False))
    return search.top_k(Snapshot.of(fitted.embeddings), sources, K, fitted.graph.neighbours)


def exact_dots(model: LinkPredictor, options: Any) -> dict[str, Any]:
    """Milliseconds per node of exact search in batches, and of its matrix products alone."""
    y = model.fitted_.embeddings
    asked = np.random.default_rng(8).choice(len(y), min(len(y), 16 * options.sample), replace=False)
    clock = {"dot": [0.0, 0.0], "gemm": [0.0, 0.0]}
    exact_of(model, asked[:2])
    for part in np.array_split(asked, 2):
        with timed(clock["dot"]):
            exact_of(model, part)
        with timed(clock["gemm"]):
            own = y[torch.from_numpy(part)]
            for block in y.split(4096):
                for some in own.split(256):
                    some @ block.t()
    found = {f"{name}_ms": 1e3 * clock[name][0] / asked.size for name in clock}
    return {
        "default_decoder": type(model.fitted_.model.decoder).__name__,
        **found,
        "dot_gigaflops": 2e-9 * y.numel() / (1e-3 * found["dot_ms"]),
        "dot_over_gemm": found["dot_ms"] / found["gemm_ms"],
    }


def predictor_of(made: Trained) -> LinkPredictor:
    """A predictor with these embeddings; its encoder has learned nothing, and no answer reads it."""
    rng, n = np.random.default_rng(0), made.embeddings.shape[0]
    settings = settings_of("hadamard", 1000, 1, SKETCH, OLD)
    few = Graph.from_arrays(rng.integers(0, 200, (1000, 2)), features=rng.random((200, SIZE), dtype=np.float32))
    model = LinkPredictor(encoder=settings.encoder, decoder=settings.decoder, training=settings.training).fit(few)
    model.fitted_.model.decoder.load_state_dict(made.decoder.state_dict())
    graph = Graph.from_arrays(made.pairs.numpy(), num_nodes=n, features=np.zeros((n, SIZE), np.float32))
    edges = np.arange(graph.num_edges)
    model.fitted_ = replace(model.fitted_, graph=graph, message_edges=edges, embeddings=made.embeddings)
    return model


def scanned(source: Path, file: Path, sources: np.ndarray, options: Any) -> dict[str, Any]:
    """Exact answers of some nodes, timed in a process of the revision whose `src` is given."""
    task = {
        "file": str(file),
        "decoder": {"kind": "hadamard", "width": SIZE, "dropout": 0.1, **OLD},
        "size": SIZE,
        "sketch_size": SKETCH,
        "k": K,
        "sources": sources.tolist(),
        "threads": options.threads,
    }
    command = [sys.executable, str(ROOT / "benchmarks" / "lib" / "scan_child.py"), json.dumps(task)]
    ran = subprocess.run(command, env=environment(source, options.threads), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def environment(source: Path, threads: int) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}


@contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[Path]:
    """The `src` of a revision, in a git worktree for as long as it is needed."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", str(folder), revision], check=True, capture_output=True)
    try:
        yield folder / "src"
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True, capture_output=True)


def recall_in(file: Path, sources: np.ndarray, truth: list[list[int]]) -> float:
    """The mean share of the exact answers that stand in a file of rows."""
    table = pq.read_table(file, columns=["source", "target"])
    first, second = (table[name].to_numpy() for name in ("source", "target"))
    shares = [np.isin(rows, second[first == s]).mean() for s, rows in zip(sources, truth, strict=True) if rows]
    return float(np.mean(shares))


def flashlight(options: Any, made: Trained) -> dict[str, Any]:
    """Flashlight for a recall of .99 at k = 100 against exact search, in batches."""
    n = made.embeddings.shape[0]
    graph = Graph.from_arrays(made.pairs.numpy(), num_nodes=n)
    decoder = made.decoder.requires_grad_(False)
    rows, exact, plain = Snapshot.of(made.embeddings), ExactSearch(decoder), ExactSearch(decoder, screen=False)
    started = time.perf_counter()
    budget = Budget(recall=0.99, k=K_LARGE)
    index = build_index(graph, made.decoder, made.embeddings, kind="flashlight", budget=budget, seed=1)
    built = time.perf_counter() - started
    asked = np.random.default_rng(7).choice(n, min(n, 16 * options.sample), replace=False)
    few = asked[: options.sample]
    screened = exact.prepare(rows) > 0
    index.top_k(asked[:2], K_LARGE, graph.neighbours)
    clock = {"exact": [0.0, 0.0], "unscreened": [0.0, 0.0], "flashlight": [0.0, 0.0]}
    for part in np.array_split(few, 2):  # in turn, so that a busy machine disturbs both alike
        with timed(clock["exact"]):
            exact.top_k(rows, part, K_LARGE, graph.neighbours)
        with timed(clock["unscreened"]):
            plain.top_k(rows, part, K_LARGE, graph.neighbours)
        with timed(clock["flashlight"]):
            index.top_k(asked, K_LARGE, graph.neighbours)
    truth, found = exact.top_k(rows, few, K_LARGE, graph.neighbours), index.top_k(few, K_LARGE, graph.neighbours)
    counts = {"exact": few.size, "unscreened": few.size, "flashlight": 2 * asked.size}
    wall, cpu = ({name: 1e3 * clock[name][c] / counts[name] for name in clock} for c in (0, 1))
    return {
        "large_nodes": n,
        "exact_ms": wall["exact"],
        "exact_is_screened": screened,
        "unscreened_ms": wall["unscreened"],
        "flashlight_ms": wall["flashlight"],
        "exact_cpu_ms": cpu["exact"],
        "unscreened_cpu_ms": cpu["unscreened"],
        "flashlight_cpu_ms": cpu["flashlight"],
        "flashlight_over_exact": wall["exact"] / wall["flashlight"],
        "flashlight_over_exact_cpu": cpu["exact"] / cpu["flashlight"],
        "flashlight_over_unscreened": wall["unscreened"] / wall["flashlight"],
        "flashlight_over_unscreened_cpu": cpu["unscreened"] / cpu["flashlight"],
        "flashlight_recall": recall_of(found, truth),
        "flashlight_recall_reported": index.metadata.recall,
        "flashlight_effort": str(index.metadata.effort),
        "flashlight_build_s": built,
    }


@contextmanager
def timed(total: list[float]) -> Iterator[None]:
    """Adds the seconds of a block, and the processor's."""
    started, cpu = time.perf_counter(), time.process_time()
    yield
    total[0] += time.perf_counter() - started
    total[1] += time.process_time() - cpu


if __name__ == "__main__":
    main()
