"""The two-dimensional map of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.reporting import map_2d


def two_clusters(size: int = 60) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(-4, 1, (size, 16)), generator.normal(4, 1, (size, 16))])


def test_well_separated_clusters_stay_apart():
    rows, points = map_2d(two_clusters(), seed=0)
    assert rows.tolist() == list(range(120))
    first, second = points[:60], points[60:]
    gap = np.linalg.norm(first.mean(0) - second.mean(0))
    reach = max(np.linalg.norm(part - part.mean(0), axis=1).max() for part in (first, second))
    assert gap > 2 * reach


def test_neighbours_on_the_map_are_neighbours_in_the_embedding():
    generator = np.random.default_rng(1)
    turn = generator.uniform(0, 2 * np.pi, 200)  # a circle, turned into ten dimensions
    embeddings = np.stack([np.cos(turn), np.sin(turn)], 1) @ generator.standard_normal((2, 10))
    _, points = map_2d(embeddings, seed=0)
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(1)
    apart = np.abs(np.angle(np.exp(1j * (turn - turn[nearest]))))
    assert np.median(apart) < 0.1


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 5, 9, 10, 12])
@pytest.mark.parametrize("dimensions", [1, 2, 40])
def test_few_nodes(num_nodes, dimensions):
    embeddings = np.random.default_rng(0).standard_normal((num_nodes, dimensions))
    rows, points = map_2d(embeddings, seed=0)
    assert rows.tolist() == list(range(num_nodes))
    assert points.shape == (num_nodes, 2)
    assert np.isfinite(points).all() and np.abs(points).max() <= 1


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-30, 1e30, 1e300])
def test_any_scale_of_embeddings_gives_finite_points(scale):
    embeddings = scale * np.random.default_rng(0).standard_normal((50, 4))
    _, points = map_2d(embeddings, seed=0)
    assert np.isfinite(points).all()


def test_coinciding_nodes_are_no_obstacle():
    _, points = map_2d(np.repeat(np.eye(3), 20, axis=0), seed=0)
    assert np.isfinite(points).all()
    centres = points.reshape(3, 20, 2).mean(1)
    assert min(np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 0.3


def test_the_seed_decides_the_map():
    rows, points = map_2d(two_clusters(), seed=3, max_points=40)
    again_rows, again = map_2d(two_clusters(), seed=3, max_points=40)
    other_rows, _ = map_2d(two_clusters(), seed=4, max_points=40)
    assert np.array_equal(rows, again_rows) and np.array_equal(points, again)
    assert not np.array_equal(rows, other_rows)


def test_kept_rows_are_among_the_chosen():
    keep = np.array([119, 0, 7, 7])
    rows, points = map_2d(two_clusters(), seed=0, max_points=20, keep=keep)
    assert len(rows) == len(points) == 20
    assert (np.diff(rows) > 0).all()
    assert set(keep.tolist()) <= set(rows.tolist())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep": [0, 1, 2], "max_points": 2}, "'max_points' needs to be at least 3"),
        ({"max_points": 0}, "'max_points' needs to be at least 1"),
        ({"keep": [120]}, "'keep' needs rows from 0 to 119"),
        ({"keep": [-1]}, "'keep' needs rows from 0 to 119"),
    ],
)
def test_impossible_choices_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        map_2d(two_clusters(), seed=0, **arguments)


@pytest.mark.parametrize("embeddings", [np.zeros(3), np.zeros((0, 4)), np.zeros((4, 0))])
def test_what_is_no_table_is_refused(embeddings):
    with pytest.raises(InputError, match="needs shape"):
        map_2d(embeddings, seed=0)


def test_nan_is_refused():
    with pytest.raises(InputError, match="NaN or infinity"):
        map_2d(np.array([[0.0, np.nan], [1.0, 2.0]]), seed=0)
