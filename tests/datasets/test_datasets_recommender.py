"""Users and items with a fixed split, in the two layouts of their files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from data_set_files import real_data
from yinyan.datasets import load, recommender
from yinyan.datasets.dataset import Dataset, Size
from yinyan.datasets.recommender import Layout, read_recommender
from yinyan.errors import InputError
from yinyan.evaluation import make_split

PAIRS = Layout(("train", "valid", "test"), lists=False, size=Size(nodes=7))
LISTS = Layout(("train", "test"), lists=True, size=Size(nodes=6))


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in texts.items():
        (folder / f"{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write(tmp_path, train="0 0 1\n0 1 1\n2 1 1\n0 0 1\n", valid="2 3 1\n", test="0 3 1\n2 9 1\n")


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write(tmp_path, train="0 0 1 2\n1 2\n", test="1 5\n")


def names(graph_ids: object, rows: np.ndarray) -> list[tuple[str, str]]:  # type: ignore[type-arg]
    return [tuple(graph_ids[int(row)] for row in pair) for pair in rows]  # type: ignore[index, misc]


def test_lines_of_user_item_and_one(pairs: Path) -> None:
    graph, parts = read_recommender(pairs, PAIRS)
    assert list(graph.ids) == ["user:0", "user:2", "item:0", "item:1", "item:3", "item:9"]
    assert graph.num_left == 2 and graph.num_edges == 6 and not graph.directed
    assert names(graph.ids, parts.train) == [("user:0", "item:0"), ("user:0", "item:1"), ("user:2", "item:1")]
    assert names(graph.ids, parts.valid) == [("user:2", "item:3")]
    assert names(graph.ids, parts.test) == [("user:0", "item:3"), ("user:2", "item:9")]
    assert graph.notes == ("dropped 1 repeated interaction of train.txt.gz",)


def test_lines_of_a_user_and_its_items(lists: Path) -> None:
    graph, parts = read_recommender(lists, LISTS)
    assert graph.num_left == 2 and graph.num_nodes == 6
    expected = [("user:0", f"item:{i}") for i in range(3)]
    assert names(graph.ids, parts.train) == [*expected, ("user:1", "item:2")]
    assert names(graph.ids, parts.test) == [("user:1", "item:5")]
    assert parts.valid.shape == (0, 2)


@pytest.mark.parametrize("text", ["0 1\n", "0 1 2\n", "0 1 1\n-1 1 1\n", "a b 1\n", ""])
def test_other_lines_are_refused(pairs: Path, text: str) -> None:
    write(pairs, valid=text)
    with pytest.raises(InputError, match=r"valid\.txt\.gz' needs lines of a user number, an item number and a 1"):
        read_recommender(pairs, PAIRS)


@pytest.mark.parametrize("text", ["0\n", "0 x\n", "0 -1\n", ""])
def test_other_lists_are_refused(lists: Path, text: str) -> None:
    write(lists, test=text)
    with pytest.raises(InputError, match=r"test\.txt\.gz' needs lines of a user number and the numbers of its items"):
        read_recommender(lists, LISTS)


def test_a_damaged_file_is_refused(pairs: Path) -> None:
    whole = (pairs / "train.txt.gz").read_bytes()
    (pairs / "train.txt.gz").write_bytes(whole[:-10])
    with pytest.raises(InputError, match=r"train\.txt\.gz cannot be unpacked"):
        read_recommender(pairs, PAIRS)


def test_absent_files_have_no_download_and_the_error_names_their_layout(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no file 'recommender/citeulike/train\.txt\.gz' in .*cannot be downloaded"
    ) as e:
        load("citeulike", folder=tmp_path)
    assert "gzip files train.txt.gz, valid.txt.gz, test.txt.gz with lines of a user, an item and a 1" in str(e.value)
    with pytest.raises(InputError, match=r"train\.txt\.gz, test\.txt\.gz with lines of a user and all of its items"):
        load("ml-1m", folder=tmp_path)


def test_files_of_another_size_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "recommender/ml-1m", train="0 0 1 2\n1 2\n", test="1 5\n")
    with pytest.raises(InputError, match="'ml-1m' has 6 nodes, but 9,653 were published"):
        load("ml-1m", folder=tmp_path)


def test_validation_edges_are_drawn_by_the_seed_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(f"{user} {' '.join(str((user + step) % 9) for step in range(5))}\n" for user in range(12))
    write(tmp_path / "recommender/ml-1m", train=lines, test="".join(f"{u} {(u + 6) % 9}\n" for u in range(12)))
    monkeypatch.setitem(recommender.LAYOUTS, "ml-1m", Layout(("train", "test"), lists=True, size=Size(nodes=21)))
    data = load("ml-1m", folder=tmp_path)
    first, again, other = (make_split(data, "official", seed) for seed in (0, 0, 1))
    assert (len(first.train_targets), len(first.valid_targets), len(first.test_targets)) == (54, 6, 12)
    assert np.array_equal(first.valid_targets, again.valid_targets)
    assert not np.array_equal(first.valid_targets, other.valid_targets)
    assert np.array_equal(first.test_targets, other.test_targets)
    assert len(first.train_messages) == 54  # neither validation nor test edges pass messages


@pytest.mark.parametrize(
    ("name", "users", "parts"),
    [
        ("citeulike", 5_551, (151_895, 18_727, 39_882)),
        ("amazon-beauty", 52_204, (284_530, 29_796, 80_582)),
        ("ml-1m", 6_039, (590_733, 0, 164_848)),
    ],
)
def test_real_files(name: str, users: int, parts: tuple[int, int, int]) -> None:
    data: Dataset = load(name, folder=real_data(f"recommender/{name}"))
    assert data.graph.num_left == users and data.metric == "ndcg@20"
    assert data.parts is not None
    assert (len(data.parts.train), len(data.parts.valid), len(data.parts.test)) == parts
    split = make_split(data, "official", 0)  # audited: the parts are disjoint
    assert len(split.train_targets) + len(split.valid_targets) == parts[0] + parts[1]
