"""Cora, Citeseer and Pubmed as Planetoid has them."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pytest

from data_set_files import real_data, write_planetoid
from yinyan.datasets import bundled_cora, load, planetoid, sources
from yinyan.datasets.planetoid import read_planetoid
from yinyan.errors import InputError, MissingExtraError
from yinyan.graph import Graph
from yinyan.graph.features import SparseFeatures


def dense(graph: Graph) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    assert graph.features is not None
    return graph.features.to_dense() if isinstance(graph.features, SparseFeatures) else graph.features


def test_test_rows_go_to_their_nodes(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    graph, looped = read_planetoid(tmp_path, "tiny")
    assert graph.edges.tolist() == [[0, 1], [3, 5]] and not graph.directed
    assert len(looped) == 1
    assert dense(graph).argmax(axis=1).tolist() == [0, 1, 2, 3, 0, 3]
    assert dense(graph)[[3, 4, 5], 3].tolist() == [3.0, 0.0, 5.0]  # node 4 has no features
    assert graph.notes == (
        "1 node absent from the test index: kept, with features of zero",
        "dropped the self loops of 1 node",
        "the lists of neighbours repeat themselves 2 times: merged",
    )


@pytest.mark.parametrize("index", ["5\n", "5\n5\n", "5\n1\n", "5\nthree\n"])
def test_a_wrong_test_index_is_refused(tmp_path: Path, index: str) -> None:
    write_planetoid(tmp_path)
    (tmp_path / "ind.tiny.test.index").write_text(index)
    with pytest.raises(InputError, match=r"test index needs 2 different nodes from 3 on|one node number a line"):
        read_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("value", [[1, 2], {0: 5}, {0: ["a"]}, {"a": [0]}, {0: [2**70]}])
def test_a_wrong_graph_is_refused(tmp_path: Path, value: object) -> None:
    write_planetoid(tmp_path)
    (tmp_path / "ind.tiny.graph").write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match=r"ind\.tiny\.graph' needs to hold each node's list of neighbours"):
        read_planetoid(tmp_path, "tiny")
    (tmp_path / "ind.tiny.tx").write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match=r"ind\.tiny\.tx' needs to hold a sparse matrix"):
        read_planetoid(tmp_path, "tiny")


def test_files_of_another_size_are_refused(tmp_path: Path) -> None:
    write_planetoid(tmp_path / "planetoid", "cora")
    with pytest.raises(InputError, match="'cora' has 6 nodes, but 2,708 were published"):
        load("cora", folder=tmp_path)


@pytest.mark.parametrize("name", planetoid.SIZES)
def test_real_graphs_have_their_published_size(name: str) -> None:
    found = load(name, folder=real_data("planetoid"), download=False)
    size = planetoid.SIZES[name]
    assert (found.graph.num_nodes, found.graph.num_edges) == (size.nodes, size.edges)
    assert found.graph.features is not None and found.graph.features.shape == (size.nodes, size.features)
    assert (found.name, found.metric, found.parts) == (name, "hits@100", None)


def test_real_features_are_as_they_were_written() -> None:
    folder = real_data("planetoid")
    cora, citeseer, pubmed = (load(name, folder=folder) for name in ("cora", "citeseer", "pubmed"))
    for words in (cora, citeseer):
        assert isinstance(words.graph.features, SparseFeatures)
        assert np.array_equal(np.unique(words.graph.features.values), [1.0])
    assert isinstance(pubmed.graph.features, SparseFeatures)
    assert 0.1 < len(pubmed.graph.features.values) / (19_717 * 500) < 0.101
    empty = np.flatnonzero(np.diff(citeseer.graph.features.indptr) == 0)
    absent = np.setdiff1d(
        np.arange(2_312, 3_327), np.loadtxt(folder / "planetoid" / "ind.citeseer.test.index", dtype=int)
    )
    assert len(absent) == 15 and set(absent) <= set(empty)
    assert citeseer.notes[:2] == (
        "15 nodes absent from the test index: kept, with features of zero",
        "dropped the self loops of 124 nodes",
    )
    assert citeseer.notes == citeseer.graph.notes


def test_real_cora_is_the_bundled_one_in_another_order() -> None:
    cora = load("cora", folder=real_data("planetoid")).graph
    try:
        bundled = bundled_cora()
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert cora.num_edges == bundled.num_edges
    assert sorted(cora.degrees) == sorted(bundled.degrees)
    assert sorted(dense(cora).sum(axis=0)) == sorted(dense(bundled).sum(axis=0))


def test_real_neighbours_share_words() -> None:
    """Test rows that went to the wrong nodes would not be like their neighbours."""
    graph = load("cora", folder=real_data("planetoid")).graph
    words = dense(graph)
    tested = graph.edges[(graph.edges >= 1_708).any(axis=1)]
    other = np.random.default_rng(0).permutation(tested[:, 1])
    shared = (words[tested[:, 0]] * words[tested[:, 1]]).sum(axis=1).mean()
    assert shared > 2 * (words[tested[:, 0]] * words[other]).sum(axis=1).mean()


def test_the_known_checksums_are_those_of_the_real_files() -> None:
    folder = real_data("planetoid", "seal_mat")
    groups = [sources.planetoid_group(name) for name in planetoid.SIZES]
    groups += [sources.seal_group(name) for name in ("usair", "ns", "power", "router")]
    for group in groups:
        for file, (url, digest, _) in group.sources.items():
            assert hashlib.sha256((folder / group.folder / file).read_bytes()).hexdigest() == digest
            assert url.startswith("https://") and url.endswith(f"/{file}")
