"""OGB's folders: the real ogbl-ddi, and small ones in exactly the layouts of the others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_datasets_pickles import Call

from data_set_files import pairs, real_data, write_old_torch, write_table
from yinyan.datasets import load, ogb
from yinyan.datasets.dataset import Size
from yinyan.datasets.ogb import LAYOUTS, read_ogb
from yinyan.errors import InputError
from yinyan.graph.features import SparseFeatures


def write_ogb(folder: Path, name: str, num_nodes: int, split: dict[str, dict[str, Any]], features: Any = None) -> None:
    layout = LAYOUTS[name]
    train = split["train"]
    rows = train["edge"] if "edge" in train else np.stack([train["source_node"], train["target_node"]], axis=1)
    raw = folder / layout.folder / "raw"
    write_table(raw / "edge.csv.gz", rows)
    write_table(raw / "num-node-list.csv.gz", [num_nodes])
    write_table(raw / "num-edge-list.csv.gz", [len(rows)])
    if features is not None:
        write_table(raw / "node-feat.csv.gz", features)
    for part, held in split.items():
        write_old_torch(folder / layout.folder / "split" / layout.split / f"{part}.pt", held)


def publish(monkeypatch: pytest.MonkeyPatch, name: str, **size: Any) -> None:
    """Pretend that the small data set is the published one."""
    monkeypatch.setitem(ogb.LAYOUTS, name, replace(LAYOUTS[name], size=Size(**size)))


def collab() -> dict[str, dict[str, Any]]:
    """The pair 0, 1 in three years of training, again in validation, and, turned round, in test."""
    return {
        "train": {
            "edge": pairs((0, 1), (1, 0), (2, 1), (0, 1)),
            "weight": np.array([1, 2, 5, 1]),
            "year": np.array([2010, 2009, 2015, 2012]),
        },
        "valid": {
            "edge": pairs((0, 1), (3, 2)),
            "weight": np.array([9, 4]),
            "year": np.array([2018, 2018]),
            "edge_neg": pairs((0, 3)),
        },
        "test": {
            "edge": pairs((1, 0), (4, 3)),
            "weight": np.array([9, 7]),
            "year": np.array([2019, 2019]),
            "edge_neg": pairs((0, 4), (1, 4), (1, 3)),
        },
    }


def test_collab_has_weights_and_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.array([[0.5, -1.25], [1e-3, 2], [3, 4], [5, 6], [7.125, 8]])
    write_ogb(tmp_path, "ogbl-collab", 5, collab(), features)
    write_table(tmp_path / "ogbl_collab/raw/edge_weight.csv.gz", [1, 2, 5, 1])
    write_table(tmp_path / "ogbl_collab/raw/edge_year.csv.gz", [2010, 2009, 2015, 2012])
    publish(monkeypatch, "ogbl-collab", nodes=5, features=2, parts=(4, 2, 2))
    found = load("ogbl-collab", folder=tmp_path)
    assert found.metric == "hits@50" and not found.graph.directed
    assert found.graph.edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert found.graph.weights is not None and found.graph.times is not None
    assert found.graph.weights.tolist() == [4, 5, 4, 7]  # without the 9s: validation and test must not reach training
    assert found.graph.times.tolist() == [2009, 2015, 2018, 2019] and found.graph.times.dtype == np.int64
    assert isinstance(found.graph.features, np.ndarray)
    assert np.array_equal(found.graph.features, features.astype(np.float32))
    assert found.parts is not None and found.parts.train.tolist() == [[0, 1], [1, 0], [2, 1], [0, 1]]  # as shipped
    assert found.parts.test.tolist() == [[1, 0], [4, 3]]
    assert found.parts.test_negatives is not None and found.parts.test_negatives.tolist() == [[0, 4], [1, 4], [1, 3]]
    assert any("2 pairs of a later part met before" in note for note in found.notes)
    assert any("merged 2 repeated edges" in note for note in found.notes)


def test_ppa_has_one_hot_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = {
        "train": {"edge": pairs((5, 0), (1, 2))},
        "valid": {"edge": pairs((3, 4)), "edge_neg": pairs((0, 1), (0, 2))},
        "test": {"edge": pairs((4, 5)), "edge_neg": pairs((0, 3))},
    }
    species = np.eye(58, dtype=np.int64)[[0, 3, 3, 57, 1, 1]]
    write_ogb(tmp_path, "ogbl-ppa", 6, split, species)
    publish(monkeypatch, "ogbl-ppa", nodes=6, features=58, parts=(2, 1, 1))
    found = load("ogbl-ppa", folder=tmp_path)
    assert found.metric == "hits@100" and found.graph.weights is None and found.graph.times is None
    assert isinstance(found.graph.features, SparseFeatures)
    assert np.array_equal(found.graph.features.to_dense(), species)
    assert found.graph.edges.tolist() == [[0, 5], [1, 2], [3, 4], [4, 5]]
    assert found.parts is not None and found.parts.train.tolist() == [[5, 0], [1, 2]]


def citation() -> dict[str, dict[str, Any]]:
    return {
        "train": {"source_node": np.array([3, 1]), "target_node": np.array([0, 0])},
        "valid": {
            "source_node": np.array([3, 2]),
            "target_node": np.array([1, 0]),
            "target_node_neg": np.array([[4, 2, 0], [4, 3, 1]]),
        },
        "test": {
            "source_node": np.array([0]),
            "target_node": np.array([3]),
            "target_node_neg": np.array([[1, 2, 4]]),
        },
    }


def test_citation2_is_directed_and_has_negatives_of_each_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ogb(tmp_path, "ogbl-citation2", 5, citation(), np.linspace(-1, 1, 15).reshape(5, 3))
    write_table(tmp_path / "ogbl_citation2/raw/node_year.csv.gz", [2001, 2002, 2003, 2004, 2005])
    publish(monkeypatch, "ogbl-citation2", nodes=5, features=3, parts=(2, 2, 1))
    found = load("ogbl-citation2", folder=tmp_path)
    assert found.metric == "mrr" and found.graph.directed
    assert found.graph.edges.tolist() == [[0, 3], [1, 0], [2, 0], [3, 0], [3, 1]]
    assert found.parts is not None and found.parts.valid.tolist() == [[3, 1], [2, 0]]
    negatives = found.parts.valid_negatives
    assert negatives is not None and negatives.dtype == np.int32 and negatives.shape == (2, 3, 2)
    assert negatives.tolist() == [[[3, 4], [3, 2], [3, 0]], [[2, 4], [2, 3], [2, 1]]]
    assert found.parts.train_negatives is None


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("train", "edge", pairs((0, 5)), "needs rows between 0 and 4"),
        ("valid", "edge_neg", pairs((0, -1)), r"'edge_neg' needs rows between 0 and 4 \(got -1 to 0\)"),
        (
            "test",
            "edge",
            np.zeros((2, 3), int),
            r"'edge' needs integers of shape \(pairs, 2\) \(got int64, shape \(2, 3\)",
        ),
        ("test", "edge", np.zeros((2, 2)), r"\(got float64"),
        ("valid", "weight", np.array([1]), "'weight' needs one number"),
        ("train", "edge", pairs((0, 1)), "'weight' needs one number"),
        ("train", "edge", [1, 2], "needs to hold arrays by name"),
    ],
)
def test_wrong_parts_are_refused(tmp_path: Path, part: str, key: str, value: Any, message: str) -> None:
    split = collab()
    write_ogb(tmp_path, "ogbl-collab", 5, split, np.zeros((5, 2)))
    split[part][key] = value
    path = tmp_path / "ogbl_collab/split/time" / f"{part}.pt"
    write_old_torch(path, split[part])
    with pytest.raises(InputError, match=f"{part}.pt'.*{message}"):
        read_ogb(tmp_path / "ogbl_collab", LAYOUTS["ogbl-collab"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target_node": np.array([0])}, "as many targets as sources"),
        ({"source_node": np.array([[0, 1]])}, r"'source_node' needs integers of shape \(pairs,\)"),
        ({"target_node_neg": np.array([[1]])}, "negatives for each of 2 sources"),
        ({"target_node_neg": np.array([1, 2])}, "'target_node_neg' needs integers"),
    ],
)
def test_wrong_sources_and_targets_are_refused(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    write_ogb(tmp_path, "ogbl-citation2", 5, citation(), np.zeros((5, 2)))
    write_old_torch(tmp_path / "ogbl_citation2/split/time/valid.pt", {**citation()["valid"], **wrong})
    with pytest.raises(InputError, match=message):
        read_ogb(tmp_path / "ogbl_citation2", LAYOUTS["ogbl-citation2"])
    write_old_torch(tmp_path / "ogbl_citation2/split/time/valid.pt", {"other": np.zeros(1)})
    with pytest.raises(InputError, match=r"lacks 'source_node' \(it holds \['other'\]\)"):
        read_ogb(tmp_path / "ogbl_citation2", LAYOUTS["ogbl-citation2"])


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    write_ogb(tmp_path, "ogbl-collab", 5, collab(), np.zeros((5, 2)))
    folder, raw = tmp_path / "ogbl_collab", tmp_path / "ogbl_collab/raw"
    for content in ([[1, 2], [3]], [["a", "b"]], [["", 1]]):
        write_table(raw / "node-feat.csv.gz", content)
        with pytest.raises(InputError, match=r"node-feat\.csv\.gz' needs rows of numbers"):
            read_ogb(folder, LAYOUTS["ogbl-collab"])
    (raw / "node-feat.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match=r"node-feat\.csv\.gz' needs rows of numbers"):
        read_ogb(folder, LAYOUTS["ogbl-collab"])
    write_table(raw / "num-edge-list.csv.gz", [7])
    with pytest.raises(InputError, match="lists 7 edges, but its training part has 4"):
        read_ogb(folder, LAYOUTS["ogbl-collab"])
    write_table(raw / "num-node-list.csv.gz", [3, 4])
    with pytest.raises(InputError, match=r"num-node-list\.csv\.gz' needs to hold one number"):
        read_ogb(folder, LAYOUTS["ogbl-collab"])


def test_a_split_that_runs_code_is_refused(tmp_path: Path) -> None:
    write_ogb(tmp_path, "ogbl-collab", 5, collab(), np.zeros((5, 2)))
    marker = tmp_path / "marker"
    attack = {**collab()["test"], "edge_neg": Call(os.system, f"echo > '{marker}'")}
    for zipped in (True, False):
        torch.save(attack, tmp_path / "ogbl_collab/split/time/test.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(InputError, match=r"test\.pt' asks for \w+\.system, and was not read"):
            load("ogbl-collab", folder=tmp_path)
    assert not marker.exists()


def test_another_size_than_the_published_is_refused(tmp_path: Path) -> None:
    write_ogb(tmp_path, "ogbl-collab", 5, collab(), np.zeros((5, 2)))
    with pytest.raises(InputError, match="'ogbl-collab' has 5 nodes, but 235,868 were published"):
        load("ogbl-collab", folder=tmp_path)


def test_the_layouts_agree_with_ogb() -> None:
    spec = pytest.importorskip("importlib.util").find_spec("ogb")
    if spec is None:
        pytest.skip("the ogb package, whose table this compares with, is not installed")
    lines = (Path(spec.submodule_search_locations[0]) / "linkproppred/master.csv").read_text().splitlines()
    table = {line.partition(",")[0]: line.split(",")[1:] for line in lines}
    for name, layout in LAYOUTS.items():
        place = table[""].index(name)
        assert table["eval metric"][place] == layout.metric
        assert table["download_name"][place] == layout.archive
        assert table["split"][place] == layout.split
        assert table["has_node_attr"][place] == str(layout.has_features)
        assert table["add_inverse_edge"][place] == str(not layout.directed)
        assert table["url"][place].endswith(f"/{layout.archive}.zip")


def test_real_ddi_is_complete() -> None:
    found = load("ogbl-ddi", folder=real_data("ogbl_ddi"), download=False)
    assert (found.metric, found.notes) == ("hits@20", ())
    assert (found.graph.num_nodes, found.graph.num_edges) == (4_267, 1_334_889)  # the parts are disjoint
    assert found.parts is not None and found.parts.train[0].tolist() == [4_039, 2_424]
    assert found.parts.valid_negatives is not None and found.parts.valid_negatives.shape == (101_882, 2)
    assert found.parts.test_negatives is not None and found.parts.test_negatives.shape == (95_599, 2)
    assert found.graph.has_edges(found.parts.test).all()
    assert not found.graph.has_edges(found.parts.test_negatives).any()
