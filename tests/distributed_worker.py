"""Groups of forked processes that train on prepared folders and write down what came of it; run by the tests.

Torch and the library are imported once, and each group is forked from there: importing takes longer than the training.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import yinyan.distributed.fit as fitting
from yinyan import LinkPredictor, read_prepared
from yinyan.cli.commands import app
from yinyan.distributed.finish import whole_model
from yinyan.distributed.fit import Job, facts_of, fit_prepared
from yinyan.distributed.group import Group
from yinyan.distributed.model import sharded_model
from yinyan.distributed.prepared import ROLES, read_manifest, read_part
from yinyan.distributed.shard import Nodes, sharded_messages
from yinyan.distributed.whole import whole_graph
from yinyan.errors import YinYanError
from yinyan.metrics import hits_at_rate, roc_auc
from yinyan.model.encoder import EncoderInput
from yinyan.model.fitted import Fitted, embed_graph, our_encoder
from yinyan.model.tensors import feature_tensor, message_graph
from yinyan.settings import Settings
from yinyan.training.hooks import Hooks


def main(given: str) -> None:
    """Run jobs, each by several processes, one after the other, and write down how the processes ended."""
    torch.set_num_threads(1)
    for job in json.loads(given):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(job["size"]):
            child = os.fork()
            if child == 0:
                place = {"RANK": rank, "WORLD_SIZE": job["size"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                os.environ.update({name: str(value) for name, value in place.items()})
                os.environ.update(job.get("environment", {}))
                os._exit(_done(job, rank))
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        Path(job["out"] + ".codes").write_text(json.dumps(codes))


def _done(job: dict[str, Any], rank: int) -> int:
    try:
        _KINDS[job["kind"]](job, rank)
    except YinYanError as error:
        Path(f"{job['out']}.{rank}.error").write_text(str(error))
        return 1
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _fit(job: dict[str, Any], rank: int) -> None:
    group = Group("cpu")
    if rank == job.get("hangs"):
        time.sleep(8)
        return
    if rank == job.get("is_older"):
        fitting.__version__ = "0.0.1"
    folder = Path(job["other_folder"] if rank == 1 and "other_folder" in job else job["folder"])
    given = Job(
        folder, Path(f"{job['out']}.rows"), job["overrides"], checkpoints=_folder_of(job), resume="resumes" in job
    )
    hooks = Hooks(on_step=lambda epochs: _asked(job, rank, epochs)) if "asks" in job else Hooks()
    found = fit_prepared(group, given, hooks)
    if found is not None:
        fitted = found.fitted
        np.savez(
            job["out"],
            losses=[record.loss for record in fitted.history],
            scores=[record.score for record in fitted.history if record.score is not None],
            embeddings=fitted.embeddings.numpy(),
            metrics=list(fitted.metrics.values()),
            tested=_tested(fitted, folder),
        )
    group.leave()


def _tested(fitted: Fitted, folder: Path) -> list[float]:
    """The figures of the test edges, where there are any."""
    _, split = read_prepared(folder)
    if not len(split.test_targets):
        return []
    model = LinkPredictor()
    model.fitted_ = fitted
    scores = [model.score_rows(pairs) for pairs in (split.test_targets, split.test_negatives)]
    return [roc_auc(*scores), hits_at_rate(*scores, 0.1)]


def _folder_of(job: dict[str, Any]) -> Path | None:
    return Path(job["checkpoints"]) if "checkpoints" in job else None


def _asked(job: dict[str, Any], rank: int, epochs: float) -> None:
    """One process is asked for something in the second epoch; the first one notes which checkpoints there are."""
    if not 1 < epochs <= 2:
        return
    if rank == 1 and not job.get("has asked"):
        job["has asked"] = True
        signal.raise_signal(getattr(signal, job["asks"]))
    if rank == 0:
        there = sorted(path.name for path in Path(job["checkpoints"]).glob("epoch-*"))
        Path(f"{job['out']}.noted").write_text(json.dumps(there))


def _forward(job: dict[str, Any], rank: int) -> None:
    """The embeddings of a fresh model by all processes, and by one; and whether gradients go back as rows came."""
    group = Group("cpu")
    settings, manifest = Settings().updated(job["overrides"]), read_manifest(Path(job["folder"]))
    part = read_part(manifest, manifest.parts_of(group.rank, group.size))
    nodes = Nodes(group, manifest, part.left)
    model = sharded_model(settings, facts_of(manifest, 1), nodes, 3)
    messages = sharded_messages(nodes, part, tuple(ROLES.values()))
    features = None if part.features is None else torch.from_numpy(part.features)
    with torch.no_grad():
        own, energies = model.encoder.watched(EncoderInput(features, messages))
    exchange = messages.exchange
    x = torch.randn(exchange.num_own, 3, dtype=torch.float64)
    there = exchange.extended(x)
    back = torch.randn_like(there)
    sides = group.summed(torch.stack([(there * back).sum(), (x * exchange.returned(back)).sum()]))
    table = our_encoder(model).base.table
    rows, table = group.gathered_by_first(own), None if table is None else group.gathered_by_first(table.detach())
    if rows is not None:
        read = whole_graph(manifest)
        graph, order = read.graph, read.order
        whole = whole_model(model, settings, graph, None if table is None else table[torch.from_numpy(order)])
        given = feature_tensor(graph.features, torch.device("cpu"))
        all_messages = message_graph(graph, np.arange(graph.num_edges), torch.device("cpu"))
        expected = embed_graph(whole, given, all_messages, settings, 0)
        energy = whole.encoder.watched(EncoderInput(given, all_messages))[1]
        np.savez(
            *(job["out"],),
            found=rows.numpy()[order],
            expected=expected.numpy(),
            energies=[energies, energy],
            sides=sides.numpy(),
        )
    group.leave()


def _command(job: dict[str, Any], rank: int) -> None:
    try:
        app(job["arguments"], standalone_mode=True)
    finally:
        names = sorted(file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm"))
        Path(f"{job['out']}.{rank}.threads").write_text(json.dumps(names))


_KINDS = {"fit": _fit, "forward": _forward, "command": _command}


if __name__ == "__main__":
    main(sys.argv[1])
