"""The two-dimensional map of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from yinyan.errors import InputError
from yinyan.reporting.embedding_map import EmbeddingMap


def two_clusters(size: int = 60) -> np.ndarray:
    generator = np.random.default_rng(0)
    return np.concatenate([generator.normal(-4, 1, (size, 16)), generator.normal(4, 1, (size, 16))])


def test_well_separated_clusters_stay_apart():
    points = EmbeddingMap.of(two_clusters(), seed=0).points
    assert len(points) == 120
    first, second = points[:60], points[60:]
    gap = np.linalg.norm(first.mean(0) - second.mean(0))
    reach = max(np.linalg.norm(part - part.mean(0), axis=1).max() for part in (first, second))
    assert gap > 2 * reach


def test_neighbours_on_the_map_are_neighbours_in_the_embedding():
    generator = np.random.default_rng(1)
    turn = generator.uniform(0, 2 * np.pi, 200)  # a circle, turned into ten dimensions
    embeddings = np.stack([np.cos(turn), np.sin(turn)], 1) @ generator.standard_normal((2, 10))
    points = EmbeddingMap.of(embeddings, seed=0).points
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(1)
    apart = np.abs(np.angle(np.exp(1j * (turn - turn[nearest]))))
    assert np.median(apart) < 0.1


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 5, 9, 10, 12])
@pytest.mark.parametrize("dimensions", [1, 2, 40])
def test_few_nodes(num_nodes, dimensions):
    embeddings = np.random.default_rng(0).standard_normal((num_nodes, dimensions))
    made = EmbeddingMap.of(embeddings, seed=0)
    points = made.points
    assert points.shape == (num_nodes, 2)
    assert np.isfinite(points).all() and np.abs(points).max() <= 1
    assert np.isfinite(made.place(embeddings)).all()


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-30, 1e30, 1e300])
def test_any_scale_of_embeddings_gives_finite_points(scale):
    embeddings = scale * np.random.default_rng(0).standard_normal((50, 4))
    points = EmbeddingMap.of(embeddings, seed=0).points
    assert np.isfinite(points).all()


def test_coinciding_nodes_are_no_obstacle():
    points = EmbeddingMap.of(np.repeat(np.eye(3), 20, axis=0), seed=0).points
    assert np.isfinite(points).all()
    centres = points.reshape(3, 20, 2).mean(1)
    assert min(np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 0.3


def test_the_seed_decides_the_map():
    first = EmbeddingMap.of(two_clusters(), seed=3, num_landmarks=40)
    again = EmbeddingMap.of(two_clusters(), seed=3, num_landmarks=40)
    other = EmbeddingMap.of(two_clusters(), seed=4, num_landmarks=40)
    assert np.array_equal(first.landmarks, again.landmarks) and np.array_equal(first.points, again.points)
    assert not np.array_equal(first.landmarks, other.landmarks)


def test_a_landmark_keeps_its_place():
    made = EmbeddingMap.of(two_clusters(), seed=0)
    np.testing.assert_allclose(made.place(two_clusters()), made.points, atol=1e-6)


def test_other_nodes_stand_among_the_landmarks_of_their_cluster():
    made = EmbeddingMap.of(two_clusters(), seed=0, num_landmarks=40)
    side = np.sign(made.landmarks[:, 0])
    centres = [made.points[side == s].mean(0) for s in (-1, 1)]
    placed = made.place(two_clusters())
    nearest = np.stack([np.linalg.norm(placed - centre, axis=1) for centre in centres]).argmin(0)
    assert nearest.tolist() == [0] * 60 + [1] * 60


def test_what_is_placed_at_once_does_not_matter():
    made = EmbeddingMap.of(two_clusters(), seed=0, num_landmarks=30)
    table = np.random.default_rng(2).normal(0, 4, (2500, 16))  # several parts
    np.testing.assert_allclose(made.place(table)[2000:], made.place(table[2000:]), atol=1e-9)


@pytest.mark.parametrize("embeddings", [np.zeros(3), np.zeros((0, 4)), np.zeros((4, 0))])
def test_what_is_no_table_is_refused(embeddings):
    with pytest.raises(InputError, match="needs shape"):
        EmbeddingMap.of(embeddings, seed=0)


def test_nan_is_refused():
    with pytest.raises(InputError, match="NaN or infinity"):
        EmbeddingMap.of(np.array([[0.0, np.nan], [1.0, 2.0]]), seed=0)
