"""One, two and four processes train the same model; faults are refused by name."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contracts import planted_graph
from rank_runs import FEW, OVERRIDES, TESTS, command, environment, overrides, prepared
from yinyan import Graph, LinkPredictor, read_prepared
from yinyan.datasets import bundled_cora
from yinyan.model.fitted import embed_graph
from yinyan.model.tensors import feature_tensor, message_graph

SIZES = (1, 2, 4)
IN_PARTS = {"features": ("parts", "whole"), "bipartite": ("parts",)}


def bipartite_graph() -> Graph:
    rng = np.random.default_rng(0)
    edges = [(i, 30 + j) for i in range(30) for j in range(50) if rng.random() < (0.4 if i % 3 == j % 3 else 0.05)]
    return Graph.from_arrays(np.array(edges), num_nodes=80, sides=[0] * 30 + [1] * 50)


def graph_of(case: str) -> Graph:
    if case == "bipartite":
        return bipartite_graph()
    if case == "cora":
        return bundled_cora()
    if case == "features":
        features = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
        weights = np.random.default_rng(1).uniform(0.5, 2.0, size=planted_graph(4, 20).num_edges)
        return planted_graph(4, 20, features=features, weights=weights.astype(np.float32))
    return planted_graph(4, 20, directed=case == "directed")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what all jobs of this file have written."""
    place = tmp_path_factory.mktemp("runs")
    jobs: list[dict[str, Any]] = []
    for case in OVERRIDES:
        folder = prepared(graph_of(case), place / case, "clean" if case == "cora" else "holdout")
        job = {"folder": str(folder), "overrides": overrides(case)}
        jobs += [{**job, "kind": "fit", "size": size, "out": f"{place}/{case} {size}"} for size in SIZES]
        jobs.append({**job, "kind": "forward", "size": 2, "out": f"{place}/{case} forward"})
    other = prepared(planted_graph(4, 20, seed=1), place / "other")
    broken = prepared(planted_graph(4, 20), place / "broken")
    (broken / "edges" / "part-00003.parquet").unlink()
    mixed = prepared(planted_graph(4, 20), place / "mixed")
    (mixed / "edges" / "part-00003.parquet").write_bytes((other / "edges" / "part-00003.parquet").read_bytes())
    plain = prepared(planted_graph(4, 20), place / "plain")
    two = {"kind": "fit", "size": 2, "overrides": overrides("directed"), "folder": str(plain)}
    jobs += [
        {**two, "out": f"{place}/two folders", "other_folder": str(other)},
        {**two, "out": f"{place}/missing part", "folder": str(broken)},
        {**two, "out": f"{place}/mixed parts", "folder": str(mixed)},
        {**two, "out": f"{place}/two versions", "is_older": 1},
        {**two, "out": f"{place}/too many", "size": 5},
        {**two, "out": f"{place}/hanging", "hangs": 1, "environment": {"YINYAN_RANK_TIMEOUT": "2"}},
        {"kind": "command", "size": 2, "out": f"{place}/calm", "arguments": command(plain, place / "calm model")},
    ]
    asked = {**two, "overrides": overrides("inner products")}
    for name, kind in (("saved", "SIGUSR1"), ("stopped", "SIGTERM")):
        jobs.append({**asked, "out": f"{place}/{name}", "asks": kind, "checkpoints": f"{place}/{name} state"})
    jobs.append({**asked, "out": f"{place}/resumed", "checkpoints": f"{place}/stopped state", "resumes": True})
    for case, names in IN_PARTS.items():
        for name in names:
            given = command(place / case, place / f"{case} {name}", case)
            given += ["--max-shard-bytes", "1000"] if name == "parts" else []
            jobs.append({"kind": "command", "size": 2, "out": f"{place}/{case} {name}.run", "arguments": given})
    run = subprocess.run(
        [sys.executable, str(TESTS / "distributed_worker.py"), json.dumps(jobs)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return place


def codes(runs: Path, name: str) -> list[int]:
    found: list[int] = json.loads((runs / f"{name}.codes").read_text())
    return found


def errors(runs: Path, name: str) -> list[str]:
    return [file.read_text() for file in sorted(runs.glob(f"{name}.*.error"))]


@pytest.mark.parametrize("case", OVERRIDES)
@pytest.mark.parametrize("size", SIZES[1:])
def test_the_number_of_processes_changes_only_the_order_of_sums(runs: Path, case: str, size: int) -> None:
    assert codes(runs, f"{case} {size}") == [0] * size
    one, several = np.load(runs / f"{case} 1.npz"), np.load(runs / f"{case} {size}.npz")
    assert len(one["losses"]) == FEW["epochs"]
    assert one["losses"][-1] < one["losses"][0]  # it learns
    np.testing.assert_allclose(several["losses"], one["losses"], atol=1e-4)
    np.testing.assert_allclose(several["scores"], one["scores"], atol=0.02)  # ranks of nearly equal scores may swap
    np.testing.assert_allclose(several["embeddings"], one["embeddings"], atol=2e-3)
    np.testing.assert_allclose(several["metrics"], one["metrics"], atol=0.02)


@pytest.mark.parametrize("size", SIZES[1:])
def test_figures_of_test_edges_do_not_depend_on_the_number_of_processes(runs: Path, size: int) -> None:
    """On Cora, whose test edges no process has trained on."""
    one, several = (np.load(runs / f"cora {count}.npz")["tested"] for count in (1, size))
    assert one[0] > 0.7  # three epochs are enough to rank test edges above others
    np.testing.assert_allclose(several, one, atol=0.01)


@pytest.mark.parametrize("case", OVERRIDES)
def test_the_forward_pass_is_that_of_one_process(runs: Path, case: str) -> None:
    found = np.load(runs / f"{case} forward.npz")
    assert found["found"].shape == found["expected"].shape
    np.testing.assert_allclose(found["found"], found["expected"], atol=1e-5)
    np.testing.assert_allclose(found["energies"][0], found["energies"][1], rtol=1e-4)


def test_gradients_go_back_to_the_rows_that_were_sent(runs: Path) -> None:
    there, back = np.load(runs / "features forward.npz")["sides"]
    assert there == pytest.approx(back, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("two folders", ["the processes differ in the prepared folder", "process 1"]),
        ("two versions", ["the processes differ in the version of yinyan", "'0.0.1' in process 1"]),
        ("missing part", ["part 3 is missing", "part-00003.parquet", "run yinyan prepare again"]),
        ("mixed parts", ["part-00003.parquet", "is of another preparation", "parts of two graphs"]),
        ("too many", ["has 4 parts, and there are 5 processes", "--parts 5"]),
    ],
)
def test_faults_are_refused_by_name_in_all_processes(runs: Path, name: str, words: list[str]) -> None:
    ended = codes(runs, name)
    assert ended == [1] * len(ended)
    said = errors(runs, name)
    assert len(said) == len(ended)
    for text in said:
        assert all(word in text for word in words), text


def test_a_process_that_hangs_ends_in_an_error_within_the_timeout(runs: Path) -> None:
    assert codes(runs, "hanging")[0] == 1
    (said,) = errors(runs, "hanging")
    assert "process 0 of 2 lost the others" in said
    assert "hangs" in said
    assert "YINYAN_RANK_TIMEOUT=2" in said


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds threads in /proc")
def test_the_group_has_no_threads_left_when_its_processes_exit(runs: Path) -> None:
    """One of gloo's threads that frees a tensor while the interpreter ends aborted a process (signal 6)."""
    files = sorted(runs.glob("calm.*.threads"))
    assert len(files) == 2
    for file in files:
        names = json.loads(file.read_text())
        assert names
        assert not [name for name in names if "gloo" in name or "tcpstore" in name]


def test_a_model_in_parts_is_that_in_one_piece_bit_for_bit(runs: Path) -> None:
    """Each process has written its own rows."""
    case = "features"
    assert [codes(runs, f"{case} {name}.run") for name in ("whole", "parts")] == [[0, 0], [0, 0]]
    paths = [runs / f"{case} {name}" for name in ("whole", "parts")]
    assert not list(paths[0].glob("*-of-*"))
    listed = json.loads((paths[1] / "parts.json").read_text())["arrays"]
    parts = {array["name"]: [(part["first"], part["last"]) for part in array["parts"]] for array in listed}
    assert {"embeddings", "edges", "message_edges"} < parts.keys()
    assert any(name.endswith("base.table") for name in parts)
    assert {"features", "weights"} < parts.keys()
    starts = json.loads((runs / case / "manifest.json").read_text())["starts"]
    assert starts[2] in [first for first, _ in parts["embeddings"]]  # where the rows of the second process begin
    whole, apart = (LinkPredictor.load(path, device="cpu") for path in paths)
    assert np.array_equal(whole.embeddings_, apart.embeddings_)
    assert np.array_equal(whole.graph_.edges, apart.graph_.edges)
    assert whole.graph_.ids == apart.graph_.ids
    weights = [model.fitted_.model.state_dict() for model in (whole, apart)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    nodes = whole.graph_.ids.take(range(0, whole.graph_.num_nodes, 7))
    found = [model.recommend(nodes, k=4).to_pandas() for model in (whole, apart)]
    assert found[0].equals(found[1])
    assert whole.metrics_ == apart.metrics_
    assert not list(paths[1].with_name(f"{paths[1].name}.checkpoint").glob("*/*"))


@pytest.mark.parametrize("case", IN_PARTS)
def test_the_saved_model_belongs_to_the_prepared_graph(runs: Path, case: str) -> None:
    """Rows, ids, edges and features stand as in the graph that is read back in one piece."""
    model, (graph, split) = LinkPredictor.load(runs / f"{case} parts", device="cpu"), read_prepared(runs / case)
    assert model.graph_.ids == graph.ids
    assert np.array_equal(model.graph_.edges, graph.edges)
    for name in ("weights", "sides", "features"):
        one, other = getattr(model.graph_, name), getattr(graph, name)
        assert (one is None) == (other is None) and (one is None or np.array_equal(one, other))
    assert np.array_equal(model.fitted_.message_edges, split.test_messages)
    features = feature_tensor(graph.features, torch.device("cpu"))
    messages = message_graph(graph, split.test_messages, torch.device("cpu"))
    fitted = model.fitted_
    expected = embed_graph(fitted.model, features, messages, fitted.settings, fitted.seed)
    np.testing.assert_allclose(model.embeddings_, expected.numpy(), atol=1e-5)


def test_a_signal_to_one_process_writes_a_checkpoint_of_all_in_the_middle_of_an_epoch(runs: Path) -> None:
    assert codes(runs, "saved") == [0, 0]
    (found,) = json.loads((runs / "saved.noted").read_text())
    assert found.startswith("epoch-000001-step-")
    one, saved = np.load(runs / "inner products 2.npz"), np.load(runs / "saved.npz")
    assert np.array_equal(one["losses"], saved["losses"])


def test_a_training_that_was_told_to_end_goes_on_from_there(runs: Path) -> None:
    """One of two processes got the signal by which Kubernetes and torchrun end a process."""
    assert codes(runs, "stopped") == [1, 1]
    for text in errors(runs, "stopped"):
        assert "training was stopped in epoch 2" in text and "--resume" in text
    assert codes(runs, "resumed") == [0, 0]
    one, resumed = np.load(runs / "inner products 2.npz"), np.load(runs / "resumed.npz")
    for name in ("losses", "scores", "embeddings"):
        assert np.array_equal(one[name], resumed[name]), name


def launched(arguments: list[str], *options: str) -> subprocess.Popen[str]:
    """torchrun with a command of ours."""
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, "-m", "yinyan", *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_launchers_meet_at_a_rendezvous(runs: Path) -> None:
    """As on two machines: each starts one process, and the model is that of one launcher with two, bit for bit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={place}"]
    out = runs / "two launchers"
    both = [launched(command(runs / "plain", out), *options, "--rdzv-id=here") for _ in range(2)]
    said = [each.communicate(timeout=120)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    calm, found = (LinkPredictor.load(runs / name, device="cpu") for name in ("calm model", out.name))
    assert np.array_equal(calm.embeddings_, found.embeddings_)


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="torch finds no two CUDA devices")
def test_two_gpus_learn_what_two_cpus_learn(runs: Path) -> None:
    """NCCL in the place of gloo."""
    out = runs / "on gpus"
    run = launched([*command(runs / "plain", out), "--device=cuda"], "--standalone", "--nproc-per-node=2")
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0, said
    calm, found = (LinkPredictor.load(runs / name, device="cpu") for name in ("calm model", out.name))
    losses = [[record.loss for record in model.fitted_.history] for model in (calm, found)]
    np.testing.assert_allclose(losses[1], losses[0], atol=1e-3)
    np.testing.assert_allclose(found.embeddings_, calm.embeddings_, atol=1e-2)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds processes in /proc")
def test_a_killed_process_changes_nothing(runs: Path) -> None:
    """kill -9 of one process in the middle: torchrun starts both again, and the model is the same bit for bit."""
    assert codes(runs, "calm") == [0, 0]
    out = runs / "killed model"
    run = launched(command(runs / "plain", out), "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    state, until = out.with_name("killed model.checkpoint"), time.monotonic() + 120
    while not any(state.glob("epoch-00000[2-9]")):
        assert run.poll() is None and time.monotonic() < until, run.communicate()[0]
        time.sleep(0.005)
    os.kill(children(run.pid)[-1], signal.SIGKILL)
    said = run.communicate(timeout=120)[0]
    assert run.returncode == 0, said
    assert "exitcode: -9" in said  # one was killed, in the words of torchrun
    assert not state.exists()
    calm, killed = (LinkPredictor.load(runs / name) for name in ("calm model", "killed model"))
    assert np.array_equal(calm.embeddings_, killed.embeddings_)
    weights = calm.fitted_.model.state_dict(), killed.fitted_.model.state_dict()
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert [record.loss for record in calm.fitted_.history] == [record.loss for record in killed.fitted_.history]
