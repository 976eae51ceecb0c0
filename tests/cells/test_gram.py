import numpy as np
import pytest
import scipy.sparse as sp

from relatent.cells import gram
from worlds import all_scores, relative_error


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 7, 20, 100])
def test_products_are_summed_in_double_precision_chunk_by_chunk(rng, monkeypatch, rows, dtype):
    monkeypatch.setattr(gram, "ROWS", rows)
    A, B, C = (rng.normal(size=shape).astype(dtype) for shape in ((20, 3), (20, 5), (4, 20, 5)))
    wide_A, wide_B, wide_C = (array.astype(np.float64) for array in (A, B, C))
    assert gram.product(A, B).dtype == np.float64
    np.testing.assert_allclose(gram.product(A, B), wide_A.T @ wide_B, atol=1e-13)
    np.testing.assert_allclose(gram.product(A, C), np.einsum("np,mnq->mpq", wide_A, wide_C), atol=1e-13)


def test_a_long_sum_of_single_precision_numbers_keeps_its_digits():
    A = np.full((1_000_003, 1), 0.1, np.float32)
    assert gram.product(A, A)[0, 0] == pytest.approx(1_000_003 * float(np.float32(0.1)) ** 2, rel=1e-12)


def test_the_sum_of_all_squared_scores_closes_in_the_gram_matrix(rng):
    A, R = rng.normal(size=(30, 4)), rng.normal(size=(5, 4, 4))
    wanted = (all_scores(A, R) ** 2).sum(axis=(1, 2))
    G = A.T @ A
    found = gram.quadratic(R, G)
    assert found.sum_of_squares == pytest.approx(np.sum(wanted), rel=1e-12)
    np.testing.assert_allclose(found.normal, sum(R_k @ G @ R_k.T + R_k.T @ G @ R_k for R_k in R), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_of_single_cells(rng, dtype):
    Q, A = rng.normal(size=(40, 6)).astype(dtype), rng.normal(size=(20, 6)).astype(dtype)
    rows, columns = rng.integers(0, 40, 100), rng.integers(0, 20, 100)
    got = gram.scores(Q, A, rows, columns)
    assert got.dtype == dtype
    assert relative_error(got, (Q.astype(float) @ A.astype(float).T)[rows, columns]) < 1e-6


def test_scores_of_no_cells_are_none(rng):
    nothing = np.empty(0, np.int64)
    assert gram.scores(rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), nothing, nothing).shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
def test_sparse_products_are_those_of_scipy(rng, dtype, density):
    X = sp.random(30, 20, density, format="csr", random_state=0, dtype=dtype)
    A = rng.normal(size=(20, 5)).astype(dtype)
    places = rng.permutation(X.nnz)
    values = np.empty(X.nnz, dtype)
    values[places] = X.data
    got = gram.sparse_product(X.indptr.astype(np.int64), X.indices, places, values, A)
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got, X.toarray().astype(float) @ A.astype(float), atol=1e-5 if dtype == "float32" else 1e-13
    )
