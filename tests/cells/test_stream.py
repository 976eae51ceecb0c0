import numpy as np
import pytest

from relatent.cells import stream
from relatent.cells.plain import dense_tensors
from relatent.cells.stream import Stream
from relatent.data.facts import Facts
from worlds import random_facts, relative_error

pytestmark = pytest.mark.usefixtures("single_blas")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def visited(facts, A, R, n_threads):
    """AᵀX_kA of each relation, and Σ_k X_k A R_kᵀ + X_kᵀ A R_k."""
    made, r = Stream(facts, n_threads), A.shape[1]
    wide, Y = made.padded(A), made.room(A)
    F, M = np.zeros_like(wide), []
    for k in range(facts.n_relations):
        M.append(made.project(k, wide, Y, r))
        made.pull(k, wide, Y, R[k].astype(A.dtype), F)
    assert not F[:, r:].any()  # the padding stays empty
    return np.array(M), F[:, :r]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize(("n", "k", "count", "r"), [(1, 1, 1, 1), (7, 3, 20, 5), (60, 2, 900, 17), (300, 2, 4000, 50)])
def test_gathers_give_what_dense_products_give(monkeypatch, n, k, count, r, n_threads, dtype):
    monkeypatch.setattr(stream, "ROWS", 16)
    stream._kernels.cache_clear()  # the number of rows is compiled in
    facts, rng = random_facts(n, k, count), np.random.default_rng(0)
    A, R = rng.normal(size=(n, r)).astype(dtype), rng.normal(size=(k, r, r))
    X, wide = dense_tensors(facts)[0], A.astype(np.float64)
    M, F = visited(facts, A, R, n_threads)
    assert M.dtype == np.float64
    assert relative_error(M, wide.T @ X @ wide) < TOLERANCE[dtype]
    wanted = sum(X[q] @ wide @ R[q].T + X[q].T @ wide @ R[q] for q in range(k))
    assert relative_error(F, wanted) < TOLERANCE[dtype]
    stream._kernels.cache_clear()


def test_the_number_of_threads_does_not_change_where_a_row_is_summed():
    facts, rng = random_facts(50, 2, 800), np.random.default_rng(0)
    A, R = rng.normal(size=(50, 8)).astype(np.float32), rng.normal(size=(2, 8, 8))
    np.testing.assert_array_equal(visited(facts, A, R, 1)[1], visited(facts, A, R, 3)[1])


def test_relations_without_facts_and_one_entity_with_all_of_them():
    facts = Facts.from_arrays([3] * 5, [1] * 5, range(5), n_entities=6, n_relations=3)
    A, R = np.random.default_rng(0).normal(size=(6, 2)), np.random.default_rng(1).normal(size=(3, 2, 2))
    M, F = visited(facts, A, R, 4)
    X = dense_tensors(facts)[0]
    np.testing.assert_allclose(M, A.T @ X @ A, atol=1e-12)
    np.testing.assert_allclose(F, X[1] @ A @ R[1].T + X[1].T @ A @ R[1], atol=1e-12)


def test_rows_begin_at_cache_lines():
    made = Stream(random_facts(9, 1, 20), 1)
    for r, dtype, width in ((10, np.float32, 16), (16, np.float32, 16), (17, np.float32, 32), (3, np.float64, 8)):
        wide = made.padded(np.ones((9, r), dtype))
        assert wide.shape == (9, width)
        assert wide.ctypes.data % 64 == 0
        assert wide[:, :r].all()
        assert not wide[:, r:].any()
