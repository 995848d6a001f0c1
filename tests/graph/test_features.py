"""Features: every column type, what is skipped and said, and exact round trips."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from yinyan.errors import InputError
from yinyan.graph.feature_matrix import rows_normalised
from yinyan.graph.features import FeatureEncoder, SparseFeatures, features_from_matrix
from yinyan.graph.ids import Ids


def dense(features: Any) -> np.ndarray:
    return features.to_dense() if isinstance(features, SparseFeatures) else features


def encoded(columns: dict[str, Any]) -> tuple[FeatureEncoder, np.ndarray]:
    table = pa.table(columns)
    encoder = FeatureEncoder.fit(table)
    return encoder, dense(encoder.transform(table))


def test_numbers_are_standardised() -> None:
    encoder, matrix = encoded({"age": [10, 20, 30]})
    assert np.allclose(matrix[:, 0], [-(1.5**0.5), 0, 1.5**0.5])
    assert encoder.notes == ()
    assert np.allclose(dense(encoder.transform(pa.table({"age": [20.0]}))), 0)


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_numbers_become_the_mean_and_a_mark(gap: float | None) -> None:
    encoder, matrix = encoded({"age": pa.array([10.0, gap, 30.0, 40.0], pa.float64())})
    assert matrix[:, 1].tolist() == [0, 1, 0, 0]
    assert matrix[1, 0] == 0
    assert encoder.notes == ("column 'age': 1 missing value filled with the mean 26.67 and marked in a further column",)


def test_columns_of_zeros_and_ones_stay() -> None:
    _, matrix = encoded({"word": [0, 1, 1, 0], "flag": [True, False, None, True]})
    assert matrix.tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0]]


def test_categories_are_one_hot_with_missing_and_unknown() -> None:
    encoder, matrix = encoded({"kind": ["b", "a", None, "b", "a", "a"]})
    assert matrix.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 0]]
    later = encoder.transform(pa.table({"kind": ["a", "new", None]}))
    assert dense(later).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    as_dictionary = pa.table({"kind": pa.array(["a", "new", None]).dictionary_encode()})
    assert np.array_equal(dense(encoder.transform(as_dictionary)), dense(later))


def test_many_categories_are_sparse() -> None:
    values = [f"k{number % 50}" for number in range(200)]
    encoder = FeatureEncoder.fit(pa.table({"kind": values}))
    features = encoder.transform(pa.table({"kind": values}))
    assert isinstance(features, SparseFeatures)
    assert features.shape == (200, 50)
    assert features.values.tolist() == [1.0] * 200
    again = encoder.transform(pa.table({"kind": ["k3", None, "k?"]}))
    assert isinstance(again, SparseFeatures)  # as fitted, whatever the table
    assert dense(again).sum(axis=1).tolist() == [1, 0, 0]


@pytest.mark.parametrize("count", [2, 3, 10, 3000])
def test_the_limit_of_categories(count: int) -> None:
    limit = max(2, min(1000, count // 2))
    kept = FeatureEncoder.fit(pa.table({"x": [f"{number % limit}" for number in range(count)]}))
    assert kept.num_columns == limit
    if count > limit:
        dropped = FeatureEncoder.fit(pa.table({"x": [f"{number % (limit + 1)}" for number in range(count)]}))
        assert dropped.num_columns == 0
        assert "distinct values" in dropped.notes[0]


def test_what_is_skipped_is_said_once() -> None:
    encoder, matrix = encoded(
        {
            "one": [1, 1, 1, 1],
            "same": ["x", "x", "x", "x"],
            "title": ["p", "q", "r", "s"],
            "void": pa.nulls(4),
            "raw": [b"1", b"2", b"3", b"4"],
            "alike": [[1.0, 2.0]] * 4,
            "age": [1, 2, 3, 4],
        }
    )
    assert matrix.shape == (4, 1)
    assert encoder.notes == (
        "skipped columns 'one', 'same', 'alike': the same value in every row",
        "skipped column 'title': text with more than 2 distinct values (name the column under feature_columns, "
        "--feature, to use its words)",
        "skipped column 'void': no values",
        "skipped column 'raw': values of type binary are no features",
    )


def test_vectors_are_taken_as_they_are() -> None:
    for kind in (pa.list_(pa.float64()), pa.large_list(pa.int64()), pa.list_(pa.float32(), 2)):
        _, matrix = encoded({"v": pa.array([[1, 2], [3, 4], None], kind)})
        assert matrix.tolist() == [[1, 2, 0], [3, 4, 0], [0, 0, 1]]
    _, flags = encoded({"v": pa.array([[True, False], [True, True]])})
    assert flags.tolist() == [[1, 0], [1, 1]]


def test_mostly_zero_vectors_are_sparse() -> None:
    words = np.eye(30)
    table = pa.table({"words": pa.FixedSizeListArray.from_arrays(pa.array(words.reshape(-1)), 30)})
    features = FeatureEncoder.fit(table).transform(table)
    assert isinstance(features, SparseFeatures)
    assert np.array_equal(features.to_dense(), words)


def test_a_chunked_slice_of_vectors() -> None:
    column = pa.chunked_array([pa.array([[9.0, 9.0], [1.0, 2.0]])[1:], pa.array([[3.0, 4.0]])])
    _, matrix = encoded({"v": column})
    assert matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "values",
    [
        [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3)],
        [datetime(2020, 1, 1), datetime(2020, 1, 2), datetime(2020, 1, 3)],
        [timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=3)],
    ],
)
def test_times_are_numbers(values: list[Any]) -> None:
    _, matrix = encoded({"when": values})
    assert np.allclose(matrix[:, 0], [-(1.5**0.5), 0, 1.5**0.5], atol=1e-5)


def test_huge_numbers_stay_finite() -> None:
    _, matrix = encoded({"x": [1e300, -1e300, 0.0], "y": [2**62, 2**62 + 2**40, 0]})
    assert np.isfinite(matrix).all()
    assert np.allclose(matrix.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("inf"), 2.0], "column 'x' is infinite or too large at node 'b'"),
        (
            [[1.0], [float("inf")], [2.0]],
            "column 'x' holds a missing or infinite number at node 'b', place 0",
        ),
        ([[1.0, 2.0], [1.0, None], [0.0, 0.0]], "missing or infinite number at node 'b', place 1"),
        ([[1.0], [1.0, 2.0], [1.0]], "lists of different lengths, first at node 'b'"),
    ],
)
def test_bad_values_are_named(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FeatureEncoder.fit(pa.table({"x": values}), ids=Ids.from_values(["a", "b", "c"]))
    with pytest.raises(InputError, match=r"row 2 \(the first is 1\)"):
        FeatureEncoder.fit(pa.table({"x": values}))


def test_transform_needs_the_same_columns() -> None:
    encoder = FeatureEncoder.fit(pa.table({"age": [1, 2], "v": [[1.0, 2.0], [2.0, 3.0]]}))
    with pytest.raises(InputError, match="lacks the feature column 'v'"):
        encoder.transform(pa.table({"age": [1]}))
    with pytest.raises(InputError, match="needs numbers"):
        encoder.transform(pa.table({"age": ["x"], "v": [[1.0, 2.0]]}))
    with pytest.raises(InputError, match="lists of 2 numbers"):
        encoder.transform(pa.table({"age": [1], "v": [[1.0]]}))
    with pytest.raises(InputError, match="lists of numbers"):
        encoder.transform(pa.table({"age": [1], "v": [1.0]}))
    from_text = encoder.transform(pa.table({"age": ["2"], "v": [[0.0, 1.0]]}))
    assert dense(from_text).tolist() == [[1, 0, 1]]


def test_columns_may_be_chosen() -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 7]})
    encoder = FeatureEncoder.fit(table, ["c", 0])
    assert [plan.name for plan in encoder.plans] == ["c", "a"]
    with pytest.raises(InputError, match="no feature column 'd'"):
        FeatureEncoder.fit(table, ["d"])


floats = st.floats(-1e6, 1e6) | st.none()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(floats, st.sampled_from(["x", "y", None]), st.booleans()), min_size=1, max_size=20))
def test_the_stored_form_is_exact(rows: list[tuple[float | None, str | None, bool]]) -> None:
    numbers, words, flags = (list(column) for column in zip(*rows, strict=True))
    table = pa.table({"n": pa.array(numbers, pa.float64()), "w": pa.array(words, pa.string()), "f": flags})
    encoder = FeatureEncoder.fit(table)
    again = FeatureEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert np.array_equal(dense(again.transform(table)), dense(encoder.transform(table)))
    assert np.isfinite(dense(encoder.transform(table))).all()


@pytest.mark.parametrize("form", [{}, {"columns": [{"name": "x"}]}, {"columns": [5], "sparse": 1, "notes": []}])
def test_a_damaged_stored_form_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not the stored form"):
        FeatureEncoder.from_dict(form)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_compressed_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    assert np.array_equal(dense(features_from_matrix(torch.eye(3).to_sparse_csr(), 3)), np.eye(3))


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.sampled_from([0.0, 0.0, 1.5]),
    )
)
def test_sparse_and_dense_agree(matrix: np.ndarray) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    torch = pytest.importorskip("torch")
    for given_matrix in (
        matrix,
        matrix.tolist(),
        sparse.csr_matrix(matrix),
        sparse.coo_array(matrix),
        sparse.csc_array(matrix),
        torch.from_numpy(matrix),
        torch.from_numpy(matrix).to_sparse(),
    ):
        features = features_from_matrix(given_matrix, len(matrix))
        assert isinstance(features, SparseFeatures) == (np.count_nonzero(matrix) < 0.15 * matrix.size)
        assert np.array_equal(dense(features), matrix)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.sampled_from([0, 0, 2]), min_size=4, max_size=4), min_size=1, max_size=6), st.data())
def test_sparse_take(rows: list[list[int]], data: st.DataObject) -> None:
    matrix = np.array(rows, dtype=np.float32)
    at, columns = np.nonzero(matrix)
    counts = np.bincount(at, minlength=len(matrix))
    features = SparseFeatures(np.concatenate([[0], np.cumsum(counts)]), columns, matrix[at, columns], 4)
    chosen = data.draw(st.lists(st.integers(0, len(matrix) - 1), max_size=8))
    assert np.array_equal(features.take(chosen).to_dense(), matrix[np.array(chosen, dtype=int)])
    assert features.shape == matrix.shape
    assert np.array_equal(dense(features_from_matrix(features, len(matrix))), matrix)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((3, 2)), r"2 rows \(got 3\)"),
        (np.ones(2), r"two dimensions.*\(2,\)"),
        (np.array([[1, 2], [3, np.nan]]), "hold nan in row 1, column 1"),
        (np.array([[1, 2], [np.inf, 4]]), "hold inf in row 1, column 0"),
        (np.array([[1, 2], [1e300, 4]]), "hold inf in row 1, column 0"),
        (np.where(np.arange(60).reshape(2, 30) == 37, np.nan, 0), "hold nan in row 1, column 7"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.array([[1j], [2]]), "real numbers"),
        ([[1, 2], [3]], "rectangular"),
    ],
)
def test_bad_matrices_are_refused(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        features_from_matrix(matrix, 2)


@pytest.mark.parametrize(
    ("indptr", "indices", "values", "columns", "message"),
    [
        ([1, 2], [0], [1.0], 2, "begin with 0"),
        ([0, 2, 1], [0], [1.0], 2, "never fall"),
        ([0, 2], [0], [1.0], 2, "2 entries each"),
        ([0, 1], [2], [1.0], 2, "between 0 and 1"),
        ([0, 1], [-1], [1.0], 2, "between 0 and 1"),
    ],
)
def test_bad_sparse_parts_are_refused(
    indptr: list[int], indices: list[int], values: list[float], columns: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        SparseFeatures(np.array(indptr), np.array(indices), np.array(values, dtype=np.float32), columns)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_divided_by_their_sums(sparse: bool) -> None:
    matrix = np.array([[1, 3, 0, 0], [0, 0, 0, 0], [0, -2, 0, 0], [5, -5, 0, 0], [0, 0, 0, 0.5]], dtype=np.float32)
    given = features_from_matrix(matrix, 5)
    if sparse:
        rows, columns = np.nonzero(matrix)
        indptr = np.searchsorted(rows, np.arange(6))
        given = SparseFeatures(indptr, columns, matrix[rows, columns], 4)
    before = dense(given).copy()
    found = rows_normalised(given)
    assert isinstance(found, SparseFeatures) == sparse
    assert dense(found).dtype == np.float32
    expected = [[0.25, 0.75, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]  # a sum of 0 leaves zeros
    np.testing.assert_allclose(dense(found), expected)
    assert np.array_equal(dense(given), before), "the given features stay as they are"


def test_no_rows_to_divide() -> None:
    assert rows_normalised(np.zeros((0, 3), dtype=np.float32)).shape == (0, 3)
    assert rows_normalised(SparseFeatures(np.zeros(4), np.zeros(0), np.zeros(0), 2)).shape == (3, 2)


@pytest.mark.parametrize(("nonzero", "sparse"), [(14, True), (15, False)])
def test_tables_and_matrices_are_sparse_from_the_same_share_on(nonzero: int, sparse: bool) -> None:
    """The threshold once was .10 for tables and .15 for matrices."""
    matrix = np.zeros((10, 10), dtype=np.float32)
    matrix.reshape(-1)[: 7 * nonzero : 7] = 2.0
    assert np.count_nonzero(matrix) == nonzero
    table = pa.table({"vector": pa.array(list(matrix), pa.list_(pa.float32()))})
    encoder = FeatureEncoder.fit(table)
    assert encoder.sparse == sparse
    assert isinstance(encoder.transform(table), SparseFeatures) == sparse
    assert isinstance(features_from_matrix(matrix, 10), SparseFeatures) == sparse
