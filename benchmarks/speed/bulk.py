"""Bulk answers: the search of some thousand nodes by Ray actors with a shard each, against one process.

python benchmarks/speed/bulk.py                            # 200,000 nodes, two actors of one thread, one process of two
python benchmarks/speed/bulk.py --json

Both search exactly for the 20 best of the same nodes, in blocks of 500 as `recommend --all` does, and take turns; the
actors have two blocks under way. The model has the default settings of 200,000 nodes and 2.5 million edges without
features, after one epoch. `over_one_process` is the ratio of the least seconds; `same` tells whether rows and scores
are equal. `index_s` are the seconds of the same nodes by an index that the actors built of their shards in
`index_build_s`, and `index_recall` is what it found of the exact answers. Starting Ray and loading the model
(`start_s`) are not part of the times. Needs the extra `cluster`. `--model` keeps the fit apart from the timing.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import _path  # noqa: F401
from lib import common
from lib.graphs import synthetic
from yinyan import Graph, LinkPredictor
from yinyan.retrieval.index import Index

BLOCK, K, THREADS = 500, 20, 2


def main() -> None:
    parser = common.parser(__doc__, picture=False)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--links", type=int, default=2_500_000)
    parser.add_argument("--sources", type=int, default=4_000, help="nodes to search for")
    parser.add_argument("--shards", type=int, default=2, help="Ray actors, of one thread each")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--model", type=Path, help="a model that was saved before (default: it is fitted here)")
    options = common.parsed(parser, nodes=400, links=2_000, sources=1_000, shards=2, rounds=1)
    result = measure(options.nodes, options.links, options.sources, options.shards, options.rounds, options.model)
    common.report(options, result | common.machine(), lambda: show(result))


def measure(nodes: int, links: int, sources: int, shards: int, rounds: int, model: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = model or Path(folder) / "model"
        if not path.is_dir():
            graph = Graph.from_arrays(synthetic(nodes, links, 0).numpy(), num_nodes=nodes)
            LinkPredictor(seed=0, epochs=1, evaluate_every=1).fit(graph, verbose=False).save(path)
        alone, apart = (LinkPredictor.load(path, device="cpu", threads=THREADS) for _ in range(2))
        nodes = alone.graph_.num_nodes
        asked = np.linspace(0, nodes - 1, min(nodes, sources)).astype(np.int64)
        began = time.perf_counter()
        with apart.sharded(path, shards=shards):
            started = time.perf_counter() - began
            found = [answers(alone, asked, at_once=1), answers(apart, asked, at_once=2)]
            times = common.Times()
            times.run(
                {
                    "one process": lambda: answers(alone, asked, at_once=1),
                    "ray": lambda: answers(apart, asked, at_once=2),
                },
                rounds,
                warm_up=0,
            )
            began = time.perf_counter()
            index = apart.index("auto", k=K)
            built = time.perf_counter() - began
            by_index = answers(apart, asked, at_once=2, index=index)
            times.once("index", lambda: answers(apart, asked, at_once=2, index=index))
    same = all(
        a.targets == b.targets and np.array_equal(a.scores, b.scores) for a, b in zip(found[0], found[1], strict=True)
    )
    return {
        "nodes": nodes,
        "sources": len(asked),
        "shards": shards,
        "one_process_s": times.least("one process"),
        "ray_s": times.least("ray"),
        "over_one_process": times.ratio("ray", "one process"),
        "median_ratio": times.median_ratio("ray", "one process"),
        "rounds": rounds,
        "start_s": started,
        "same": same,
        "index": index.metadata.kind,
        "index_s": times.least("index"),
        "index_build_s": built,
        "index_recall_stated": index.metadata.recall_at(K),
        "index_recall": recall(by_index, found[0]),
    }


def recall(found: list[Any], exact: list[Any]) -> float:
    """The share of the exact answers that was found."""
    pairs = [{(s, t) for one in some for s, t in zip(one.sources, one.targets, strict=True)} for some in (found, exact)]
    return len(pairs[0] & pairs[1]) / len(pairs[1])


def answers(
    model: LinkPredictor, asked: np.ndarray[Any, Any], *, at_once: int, index: Index | None = None
) -> list[Any]:
    blocks = [asked[at : at + BLOCK].tolist() for at in range(0, len(asked), BLOCK)]
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda block: model.recommend(block, K, index=index, search="exact"), blocks))


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['sources']:,} of {result['nodes']:,} nodes: one process {result['one_process_s']:.1f} s, "
        f"{result['shards']} Ray actors {result['ray_s']:.1f} s, ratio {result['over_one_process']:.2f}, "
        f"{'the same answers' if result['same'] else 'OTHER ANSWERS'}; Ray started in {result['start_s']:.1f} s"
    )
    print(
        f"{result['index']} index of the actors: built in {result['index_build_s']:.1f} s, "
        f"{result['index_s']:.1f} s for the same nodes, "
        f"recall {result['index_recall']:.4f} ({result['index_recall_stated']:.4f} stated)"
    )


if __name__ == "__main__":
    main()
