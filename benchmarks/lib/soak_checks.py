"""What a soak checks beside the load: exactness, acknowledged changes, damaged files, loads during saves."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yinyan import LinkPredictor
from yinyan.errors import YinYanError
from yinyan.live.change_log import log_path
from yinyan.live.live_state import LiveState
from yinyan.live.renewal import fresh_embeddings
from yinyan.retrieval.exact import ExactSearch
from yinyan.retrieval.index_store import INDEX_FILE
from yinyan.retrieval.snapshot import Snapshot
from yinyan.service.context import Room
from yinyan.service.options import Options

FORKS = multiprocessing.get_context("forkserver")  # a process for each damaged file: it may end with a signal
K = 10
PATIENCE = 120.0  # seconds in which a file has to be refused or read


# -- the live graph -------------------------------------------------------------------------------------------


def read_room(model: Path, log: Path | None = None) -> Room:
    """Model and change log, read in this process."""
    return Room(Options(model=model, log=log, read_only=True, index="exact"))


def fresh_lists(state: LiveState, ids: Sequence[str]) -> list[list[str]]:
    """The best links of some nodes by a fresh pass over the graph of a state, every candidate scored."""
    rows = Snapshot.of(fresh_embeddings(state))
    tops = ExactSearch(state.decoder).top_k(rows, state.rows(ids), K, lambda row: state.left_out(row, True))
    return [[str(name) for name in state.ids(top.rows)] for top in tops]


def overlaps(answered: Sequence[Sequence[str]], fresh: Sequence[Sequence[str]]) -> list[float]:
    """The share of each fresh list that was answered."""
    return [len({*a} & {*b}) / len(b) for a, b in zip(answered, fresh, strict=True) if b]


def lost_and_doubled(state: LiveState, lanes: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Acknowledged changes that are not in the graph, and what is there without having been asked for."""
    lost, doubled = [], []
    structure, names = state.structure, state.structure.names
    for lane in lanes:
        for what, rows in (("edges", structure.out), ("rejected", structure.rejected)):
            for a, b, wanted in lane[what]:
                if wanted is not None and rows.has(names.row(a), names.row(b)) != wanted:
                    (lost if wanted else doubled).append(f"{what} {a} {b}")
        for name, near in lane["added"].items():
            if name not in names:
                lost.append(f"node {name}")
                continue
            lost += [
                f"edge {name} {other}" for other in near if not structure.has_link(names.row(name), names.row(other))
            ]
        doubled += lane["contradictions"]
    sent = {name for lane in lanes for name in (*lane["added"], *lane["unsure"])}
    known = len(names.base)
    later = [str(name) for name in names.take(np.arange(known, len(names)))]
    counts = Counter(later)
    doubled += [f"node {name}" for name in later if name not in sent or counts[name] > 1]
    return lost, doubled


# -- damaged files --------------------------------------------------------------------------------------------


def answers_of_model(model: Path) -> str:
    """A digest of what a model answers."""
    predictor = LinkPredictor.load(model, device="cpu")
    return _digest(predictor.recommend(predictor.graph_.ids.take(range(30)), K), predictor.embeddings_)


def answers_of_index(model: Path) -> str:
    """A digest of what a saved index answers."""
    predictor = LinkPredictor.load(model, device="cpu")
    index = predictor.load_index(model)
    return _digest(index.recommend(predictor.graph_.ids.take(range(min(1_000, predictor.graph_.num_nodes))), K))


def answers_of_log(model: Path) -> str:
    """A digest of the graph that a change log makes of a model."""
    room = read_room(model)
    state = room.now
    parts = (state.structure.pairs(), state.structure.rejected.pairs(), state.ids(np.arange(state.num_nodes)))
    room.close()
    return _digest(state.version, *parts)


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if hasattr(part, "scores"):  # recommendations
            digest.update(repr([(row.source, row.target, row.score) for row in part]).encode())
        else:
            digest.update(part.tobytes() if hasattr(part, "tobytes") else repr(part).encode())
    return digest.hexdigest()


Reading = Callable[[Path], str]


def _read_in_child(read: Reading, model: Path, pipe: Any) -> None:
    torch.set_num_threads(1)
    try:
        pipe.send(("read", read(model)))
    except YinYanError as error:
        pipe.send(("refused", str(error)))
    except Exception as error:
        pipe.send(("traceback", repr(error)))


def outcome(read: Reading, model: Path) -> tuple[str, str]:
    """How reading ends in a process of its own: read, refused, traceback, signal or hang, with words on it."""
    here, there = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_read_in_child, args=(read, model, there))
    process.start()
    there.close()
    try:
        if not here.poll(PATIENCE):
            return "hang", ""
        found: tuple[str, str] = here.recv()
        return found
    except EOFError:
        process.join()
        return "signal", str(process.exitcode)
    finally:
        process.kill()
        process.join()
        here.close()


def keep_log(model: Path, folder: Path) -> Path:
    """The files of a change log as they are now, as after kill -9: with what is in the write-ahead log alone."""
    kept = folder / f"log-of-{model.name}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for file in log_path(model).parent.glob(f"{log_path(model).name}*"):
        if not file.name.endswith("-shm"):  # memory of processes that are gone
            shutil.copy2(file, kept)
    return kept


def flips(
    model: Path, kept_log: Path, folder: Path, count: int, seconds: float, chance: random.Random
) -> dict[str, dict[str, int]]:
    """Bits flipped in copies of a model, its index, its change log and its write-ahead log, one at a time."""
    copy = folder / "flipped"
    log = log_path(copy)
    found: dict[str, dict[str, int]] = {}
    deadline = time.monotonic() + seconds
    kinds: dict[str, tuple[Reading, Callable[[], list[Path]]]] = {
        "model": (answers_of_model, lambda: [p for p in sorted(copy.iterdir()) if p.name != INDEX_FILE]),
        "index": (answers_of_index, lambda: [copy / INDEX_FILE]),
        "log": (answers_of_log, lambda: [log]),
        "write-ahead log": (answers_of_log, lambda: [log.with_name(f"{log.name}-wal")]),
    }
    for kind, (read, files) in kinds.items():
        kept = kept_log if kind == "write-ahead log" else None
        _copied(model, copy, kept)
        how, right = outcome(read, copy)
        if how != "read":
            raise RuntimeError(f"the {kind} cannot be read before it is damaged: {how} {right}")
        results = found.setdefault(kind, {})
        for _ in range(count):
            if time.monotonic() > deadline and results:
                break
            _copied(model, copy, kept)
            _flip(chance.choice([file for file in files() if file.stat().st_size]), chance)
            how, what = outcome(read, copy)
            name = how if how != "read" else "exact" if what == right else "silently other"
            results[name] = results.get(name, 0) + 1
        deadline += seconds
    for left in folder.glob("flipped*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return found


def _copied(model: Path, copy: Path, kept_log: Path | None) -> None:
    """Model, index and log: the log as it was kept, or as one whole file."""
    for old in copy.parent.glob(f"{copy.name}*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(model, copy)
    source, log = log_path(model), log_path(copy)
    for file in (kept_log or source.parent).glob(f"{source.name}*"):
        if kept_log is not None or not file.name.endswith(("-wal", "-shm")):
            shutil.copy2(file, log.with_name(file.name.replace(source.name, log.name, 1)))
    if kept_log is None:
        with closing(sqlite3.connect(source)) as old_log, closing(sqlite3.connect(log)) as new_log:
            old_log.backup(new_log)


def _flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    first, last = chance.choice(_parts(path, content))
    content[chance.randrange(first, last)] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _parts(path: Path, content: bytearray) -> list[tuple[int, int]]:
    """Where parts of a file begin and end: small arrays beside large ones would hardly ever be hit otherwise."""
    if path.suffix != ".safetensors":
        return [(0, len(content))]
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = [facts["data_offsets"] for facts in json.loads(content[8:start]).values() if "data_offsets" in facts]
    return [(0, start), *((start + first, start + last) for first, last in arrays if last > first)]


# -- loads during saves ---------------------------------------------------------------------------------------


def _save_in_turn(models: list[Path], place: Path, seconds: float, pipe: Any) -> None:
    torch.set_num_threads(1)
    predictors = [LinkPredictor.load(model, device="cpu") for model in models]
    saved, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        predictors[saved % len(predictors)].save(place)
        saved += 1
        if saved == 1:
            pipe.send(saved)  # there is something to load
    pipe.send(saved)


def loads_during_saves(models: list[Path], folder: Path, seconds: float) -> dict[str, int]:
    """A process saves two models in turn to one place, constantly; each load has to be one of them entirely."""
    place = folder / "saved"
    right = {answers_of_model(model) for model in models}
    here, there = FORKS.Pipe(duplex=False)
    saver = FORKS.Process(target=_save_in_turn, args=(models, place, seconds, there))
    saver.start()
    here.recv()
    found = {"loads": 0, "mixed": 0, "failed": 0}
    while saver.is_alive():
        try:
            found["mixed"] += answers_of_model(place) not in right
        except YinYanError:
            found["failed"] += 1
        found["loads"] += 1
    found["saves"] = here.recv()
    saver.join()
    shutil.rmtree(place)
    return found
