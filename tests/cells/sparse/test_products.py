import numpy as np
import pytest
import scipy.sparse as sp

from relatent.cells.sparse import products as sparse
from small_graphs import relative_error


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_of_single_cells(rng, dtype):
    Q, A = rng.normal(size=(40, 6)).astype(dtype), rng.normal(size=(20, 6)).astype(dtype)
    rows, columns = rng.integers(0, 40, 100), rng.integers(0, 20, 100)
    got = sparse.scores(Q, A, rows, columns)
    assert got.dtype == dtype
    assert relative_error(got, (Q.astype(float) @ A.astype(float).T)[rows, columns]) < 1e-6


def test_scores_of_no_cells_are_none(rng):
    nothing = np.empty(0, np.int64)
    assert sparse.scores(rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), nothing, nothing).shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("density", [0.0, 0.05, 1.0])
def test_sparse_products_are_those_of_scipy(rng, dtype, density):
    X = sp.random(30, 20, density, format="csr", random_state=0, dtype=dtype)
    A = rng.normal(size=(20, 5)).astype(dtype)
    places = rng.permutation(X.nnz)
    values = np.empty(X.nnz, dtype)
    values[places] = X.data
    got = sparse.product(X.indptr.astype(np.int64), X.indices, places, values, A)
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got, X.toarray().astype(float) @ A.astype(float), atol=1e-5 if dtype == "float32" else 1e-13
    )
