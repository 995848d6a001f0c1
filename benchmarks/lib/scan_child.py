"""Seconds of exact answers for some nodes, by whichever revision of yinyan the path holds; prints them as JSON.

python -m lib.scan_child '{"file": ..., "decoder": {...}, "size": 128, "sketch_size": 32, "k": 20, ...}'

It uses only what old revisions have as well: the decoder, the exact search and the rows of a file.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from yinyan import Graph
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.snapshot import Snapshot
from yinyan.settings import DecoderSettings

try:
    from yinyan.model.decoder import build_decoder
except ModuleNotFoundError:  # its place in old revisions
    from yinyan.decoder import build_decoder  # type: ignore[import-not-found, no-redef]


def main(task: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(task["threads"])
    kept = load_file(task["file"])
    own = {name.removeprefix("decoder."): v for name, v in kept.items() if name.startswith("decoder.")}
    settings = DecoderSettings(**task["decoder"])
    decoder = build_decoder(settings, task["size"], directed=False, sketch_size=task["sketch_size"])
    decoder.load_state_dict(own)
    decoder.eval().requires_grad_(False)
    y = kept["embeddings"]
    graph = Graph.from_arrays(kept["pairs"].numpy(), num_nodes=y.shape[0])
    rows, search, sources = Snapshot.of(y), ExactSearch(decoder), np.array(task["sources"])
    search.top_k(rows, sources[:1], task["k"], graph.neighbours)  # kernels are compiled once
    started, cpu = time.perf_counter(), time.process_time()
    found = search.top_k(rows, sources, task["k"], graph.neighbours)
    spent, used = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": spent, "cpu_seconds": used, "rows": [top.rows.tolist() for top in found]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
