import numpy as np
import pytest

from relatent import arrays
from relatent.backend import gram_matrix as gram
from small_graphs import all_scores


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 7, 20, 100])
def test_products_are_summed_in_double_precision_chunk_by_chunk(rng, monkeypatch, rows, dtype):
    monkeypatch.setattr(arrays, "ROWS_PER_BLOCK", rows)
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
