"""What the benchmark of fitting reads, counts and draws."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lib import fit_cases, fit_curves, fit_runs, graphs, interactions


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("time: about 42 s", 42),
        ("time: about 0.4 s", 0.4),
        ("time: about 3 min", 180),
        ("time: about 3 min 20 s on this machine", 200),
        ("time: about 1 h 20 min", 4800),
        ("training: up to 20 epochs, 12 steps each", None),
        ("time: unknown", None),
    ],
)
def test_the_announced_time_is_read(line: str, seconds: float | None) -> None:
    assert fit_cases.announced_seconds(["model: about 7 h", line]) == seconds


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("memory: about 331 MiB at the peak, 20.6 GiB are free", 331 * 2**20),
        ("memory: about 1,020 MiB at the peak", 1020 * 2**20),
        ("memory: about 1.5 GiB at the peak", 1.5 * 2**30),
        ("model: 3 propagation steps", None),
    ],
)
def test_the_announced_memory_is_read(line: str, size: float | None) -> None:
    assert fit_cases.announced_bytes([line]) == size


def test_both_layouts_of_interactions_are_read(tmp_path: Path) -> None:
    columns, lines = tmp_path / "columns", tmp_path / "lines"
    columns.mkdir()
    for part, text in (("train", "0 2 1\n0 0 1\n1 1 1\n0 2 1\n"), ("test", "1 2 1\n0 0 1\n"), ("valid", "2 4 1\n")):
        (columns / f"{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    found = interactions.read(columns)
    assert (found.users, found.items) == (3, 5)
    assert found.train.tolist() == [[0, 0], [0, 2], [1, 1]]
    assert found.test.tolist() == [[1, 2]], "a test pair of the training would be left out of every ranking"
    assert found.edges().tolist() == [[0, 3], [0, 5], [1, 4]]

    interactions.write(lines, train=found.train, test=found.test)
    again = interactions.read(lines)
    assert again.train.tolist() == found.train.tolist()
    assert again.test.tolist() == found.test.tolist()


def test_the_quality_of_a_ranking_is_that_counted_by_hand() -> None:
    def recommend(users: np.ndarray) -> np.ndarray:
        ranked = np.full((users.size, interactions.K), -1)
        ranked[:, 0], ranked[:, 1], ranked[:, 2] = 9, 4, users
        return ranked

    found = interactions.quality(recommend, np.array([[7, 5], [3, 3], [3, 4]]))
    # user 3: items 3 and 4 at ranks 3 and 2; user 7: item 5 is not ranked
    second, third = 1 / np.log2(3), 1 / np.log2(4)
    assert found["recall_at_20"] == pytest.approx(0.5)
    assert found["ndcg_at_20"] == pytest.approx((second + third) / (1 + second) / 2)
    assert found["test_users"] == found["of_test_users"] == 2


def test_a_ranking_that_is_cut_short_tells_how_many_users_it_has() -> None:
    nothing = np.full((1, interactions.K), -1)
    relevant = np.stack([np.arange(1_000), np.arange(1_000)], axis=1)
    cut = interactions.quality(lambda users: nothing.repeat(users.size, 0), relevant, minutes=0.0)
    assert (cut["test_users"], cut["of_test_users"]) == (256, 1_000)
    few = interactions.quality(lambda users: nothing.repeat(users.size, 0), relevant, most_users=10)
    assert (few["test_users"], few["ndcg_at_20"]) == (10, 0.0)


def test_a_bipartite_graph_joins_its_sides_and_names_every_node() -> None:
    pairs = graphs.bipartite(300, 500, 6_000, seed=1).numpy()
    assert pairs.shape == (6_000, 2)
    assert len(np.unique(pairs, axis=0)) == 6_000
    assert np.unique(pairs[:, 0]).tolist() == list(range(300))
    assert np.unique(pairs[:, 1]).tolist() == list(range(300, 800))


def test_isolated_nodes_get_an_edge_and_the_others_keep_theirs() -> None:
    drawn = graphs.synthetic(300, 2_400, 3).numpy()
    lonely = np.where(drawn == 299, 5, drawn)  # node 299 has no edge any more
    lonely = np.unique(np.sort(lonely[lonely[:, 0] != lonely[:, 1]], axis=1), axis=0)
    made = graphs.without_isolated(lonely, 300, seed=0)
    assert made.shape == lonely.shape
    assert (np.bincount(made.ravel(), minlength=300) > 0).all()
    assert len(np.unique(np.sort(made, axis=1), axis=0)) == len(made)
    with pytest.raises(ValueError, match="too few to reach all"):
        graphs.without_isolated(lonely, 3_000, seed=0)


def test_a_revision_that_is_not_there_is_an_error_with_its_name() -> None:
    with pytest.raises(fit_runs.RunError, match=r"git is not installed|0000000"), fit_runs.revision("0000000"):
        pass


def test_a_process_that_fails_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    job = {"case": "x", "kind": "csv", "path": str(tmp_path / "absent.csv"), "bipartite": False}
    with pytest.raises(fit_runs.RunError, match=r"absent\.csv"):
        fit_runs.fit(job, threads=1)


def test_a_short_run_extrapolates_the_steps_of_all_epochs(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    pairs = graphs.synthetic(200, 1_200, 0).tolist()
    path.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    job = {"case": "x", "kind": "csv", "path": str(path), "bipartite": False}
    found = fit_runs.fit(job, threads=1, do="short")
    assert found["steps_measured"] == 11
    trained = found["most_epochs"] * found["steps_per_epoch"] * found["step_seconds"]
    assert found["seconds"] > found["fixed_seconds"] + trained
    assert found["fixed_seconds"] > found["import_seconds"] > 0


def test_curves_show_the_figures_that_were_recorded(tmp_path: Path) -> None:
    sampled = [{"seconds": 1.0, "hits": 0.5, "mrr": 0.1}, {"seconds": 9.0, "hits": 0.9, "mrr": 0.3}]
    ranked = [{"seconds": 0.5, "ndcg": 0.1, "hits": 0.4}]
    assert fit_curves.shown({"old": sampled}) == ["hits", "mrr"]
    assert fit_curves.shown({"old": sampled, "als": ranked}) == ["ndcg", "hits"]
    pytest.importorskip("matplotlib")
    fit_curves.draw(tmp_path / "x.png", "x", {"old": sampled, "als (implicit)": ranked})
    assert (tmp_path / "x.png").stat().st_size > 5_000
