import threading

import numpy as np
import pytest
from numba import njit

from relatent.cells.sparse import vectors
from relatent.cells.sparse.vectors import add_outer_products, add_products, add_row, take_next
from small_graphs import relative_error

RANKS = [1, 2, 3, 5, 8, 17, 31, 50]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


@pytest.fixture(params=[16, 32, 64])
def compiled(request, monkeypatch):
    """The functions for registers of this many bytes."""
    monkeypatch.setattr(vectors, "_register_lanes", lambda _, item_bytes: request.param // item_bytes)

    @njit
    def rows(Y, row, A, other, kept):
        add_row(Y, row, A, other, kept)

    @njit
    def products(F, ids, Y, count, C):
        add_products(F, ids, Y, count, C)

    @njit
    def outer_products(M, A, ids, Y, count):
        add_outer_products(M, A, ids, Y, count)

    return rows, products, outer_products


def matrix(rng, n, r, dtype):
    """Random numbers, and memory that may be read behind them."""
    raw = np.full(n * r + vectors.REGISTER_BYTES, np.nan, dtype)
    raw[: n * r] = rng.normal(size=n * r)
    return raw[: n * r].reshape(n, r)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_and_products_at_every_rank_and_width_of_registers(compiled, dtype):
    rows, products, outer_products = compiled
    rng = np.random.default_rng(0)
    for r in RANKS:
        A, Y, C = (matrix(rng, n, r, dtype) for n in (40, 13, r))
        ids = rng.permutation(40)[:13].astype(np.int32)

        F, wanted = A.copy(), A.copy()
        products(F, ids, Y, 11, C)
        wanted[ids[:11]] += Y[:11] @ C
        assert relative_error(F, wanted) < TOLERANCE[dtype]
        untouched = np.setdiff1d(np.arange(40), ids[:11])
        np.testing.assert_array_equal(F[untouched], A[untouched])

        M = np.ones((r, r))
        outer_products(M, A, ids, Y, 11)
        assert relative_error(M, 1 + A[ids[:11]].T @ Y[:11]) < TOLERANCE[dtype]

        sums, wanted = Y.copy(), Y.copy()
        rows(sums, 4, A, 7, A.dtype.type(2))
        wanted[4] = 2 * Y[4] + A[7]
        assert relative_error(sums, wanted) < TOLERANCE[dtype]
        np.testing.assert_array_equal(np.delete(sums, 4, 0), np.delete(Y, 4, 0))


@njit(nogil=True)
def _take(counter, taken):
    number = take_next(counter)
    while number < len(taken):
        taken[number] += 1
        number = take_next(counter)


def test_threads_take_every_number_once():
    counter, taken = np.zeros(1, np.int64), np.zeros(1_000_000, np.int64)
    threads = [threading.Thread(target=_take, args=(counter, taken)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (taken == 1).all()
