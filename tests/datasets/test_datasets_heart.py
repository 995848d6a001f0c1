"""HeaRT's fixed splits, with uniform negatives and with hard ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from data_set_files import pairs, real_data
from yinyan.datasets import load
from yinyan.datasets.heart import read_heart
from yinyan.errors import InputError
from yinyan.graph import Graph

GRAPH = Graph.from_arrays(pairs((0, 1), (1, 2), (2, 3), (3, 4)), num_nodes=6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = {
        "train_pos": "1\t0\n5\t5\n2\t1\n",
        "valid_pos": "2\t3\n4\t4\n",
        "test_pos": "4\t3\n",
        "train_neg": "0\t5\n1\t5\n",
        "valid_neg": "0\t3\n",
        "test_neg": "0\t4\n",
    }
    for name, text in lines.items():
        (tmp_path / f"{name}.txt").write_text(text)
    np.save(tmp_path / "heart_valid_samples.npy", np.array([[[2, 0], [2, 5]], [[4, 0], [4, 1]]]))
    np.save(tmp_path / "heart_test_samples.npy", np.array([[[4, 0], [5, 3]]]))
    return tmp_path


def test_uniform_negatives_are_shared(folder: Path) -> None:
    graph, parts = read_heart(folder, GRAPH, hard=False)
    assert parts.train.tolist() == [[1, 0], [2, 1]] and parts.test.tolist() == [[4, 3]]
    assert parts.train_negatives is not None and parts.train_negatives.tolist() == [[0, 5], [1, 5]]
    assert parts.valid_negatives is not None and parts.valid_negatives.tolist() == [[0, 3]]
    assert graph.notes == (
        "dropped 1 row of train_pos.txt with both ends alike",
        "dropped 1 row of valid_pos.txt with both ends alike",
    )


def test_hard_negatives_stay_with_their_positives(folder: Path) -> None:
    _, parts = read_heart(folder, GRAPH, hard=True)
    assert parts.valid_negatives is not None and parts.valid_negatives.tolist() == [[[2, 0], [2, 5]]]
    assert parts.test_negatives is not None and parts.test_negatives.shape == (1, 2, 2)


def test_a_split_of_another_graph_is_refused(folder: Path) -> None:
    other = Graph.from_arrays(pairs((0, 1), (1, 2), (2, 3), (4, 5)), num_nodes=6)
    with pytest.raises(InputError, match="1 of its 4 links are no edges, and 1 edges are in no part of it"):
        read_heart(folder, other, hard=False)
    with pytest.raises(InputError, match=r"train_pos\.txt' needs node numbers between 0 and 3 \(got 0 to 5\)"):
        read_heart(folder, Graph.from_arrays(pairs((0, 1)), num_nodes=4), hard=False)
    (folder / "test_pos.txt").write_text("4 3\n1 0\n")
    with pytest.raises(InputError, match="holds 1 of its links twice"):
        read_heart(folder, GRAPH, hard=False)


@pytest.mark.parametrize("text", ["1\n", "1 2 3\n", "a b\n"])
def test_lines_that_are_no_pairs_are_refused(folder: Path, text: str) -> None:
    (folder / "valid_neg.txt").write_text(text)
    with pytest.raises(InputError, match=r"valid_neg\.txt' needs two node numbers a line"):
        read_heart(folder, GRAPH, hard=False)


@pytest.mark.parametrize(
    "held", [np.zeros((2, 2)), np.zeros((1, 2, 2), int), np.zeros((2, 2, 2)), np.full((2, 1, 2), 9)]
)
def test_samples_of_another_shape_are_refused(
    folder: Path, held: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> None:
    np.save(folder / "heart_valid_samples.npy", held)
    with pytest.raises(InputError, match=r"heart_valid_samples\.npy' needs"):
        read_heart(folder, GRAPH, hard=True)


def test_pickled_samples_are_refused(folder: Path) -> None:
    for content in (pickle.dumps([1]), b"", b"\x93NUMPY"):
        (folder / "heart_valid_samples.npy").write_bytes(content)
        with pytest.raises(InputError, match="is not an array of numbers, or is damaged"):
            read_heart(folder, GRAPH, hard=True)
    np.save(folder / "heart_valid_samples.npy", np.array([[[object()]]], dtype=object))
    with pytest.raises(InputError, match="is not an array of numbers"):
        read_heart(folder, GRAPH, hard=True)


def test_real_citeseer_has_both_kinds_of_negatives() -> None:
    folder = real_data("planetoid", "heart/citeseer")
    fixed, heart = load("fixed-citeseer", folder=folder), load("heart-citeseer", folder=folder)
    assert (fixed.metric, heart.metric) == ("hits@100", "mrr")
    assert fixed.parts is not None and heart.parts is not None
    assert (len(fixed.parts.train), len(fixed.parts.valid), len(fixed.parts.test)) == (3_870, 227, 455)
    assert np.array_equal(fixed.parts.test, heart.parts.test)
    assert fixed.parts.test_negatives is not None and fixed.parts.test_negatives.shape == (455, 2)
    own = heart.parts.test_negatives
    assert own is not None and own.shape == (455, 500, 2)
    shares = (own == heart.parts.test[:, None]).any(axis=2) | (own == heart.parts.test[:, None, ::-1]).any(axis=2)
    assert shares.all()  # each negative has an end of its positive: the rows belong together
    assert heart.graph.num_edges == 4_552
    assert heart.notes[-1] == "dropped 48 rows of train_pos.txt with both ends alike"


def test_real_pubmed_lacks_its_hard_negatives() -> None:
    folder = real_data("planetoid", "heart/pubmed")
    parts = load("fixed-pubmed", folder=folder).parts
    assert parts is not None and len(parts.train) + len(parts.valid) + len(parts.test) == 44_324
    if (folder / "heart/pubmed/heart_valid_samples.npy").exists():
        pytest.skip("the hard negatives are here after all")
    with pytest.raises(InputError, match=r"no file 'heart/pubmed/heart_valid_samples.npy' in .* get it from https"):
        load("heart-pubmed", folder=folder)
