import numpy as np
import pytest

from relatent.cells.sparse import streamed
from relatent.cells.sparse.streamed import StreamedLayout
from relatent.data.dense_tensors import dense_tensors
from relatent.data.facts import Facts
from relatent.data.shard import Shard
from small_graphs import random_facts, relative_error

pytestmark = pytest.mark.usefixtures("single_blas")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def layout_of(facts, *arguments):
    return StreamedLayout(Shard.of(facts), *arguments)


def visited(facts, A, R, n_threads):
    """AᵀX_kA of each relation, and Σ_k X_k A R_kᵀ + X_kᵀ A R_k."""
    layout = layout_of(facts, A.shape[1], A.dtype, n_threads)
    prepared, F, M = layout.prepare(A), np.zeros_like(A), []
    for block in layout.blocks:
        M_block, products = block.project(prepared, None)
        M.append(M_block)
        block.add_right_side(F, prepared, R[block.relations], products, None, None)
    return np.concatenate(M), F


@pytest.fixture(params=["small", "as it is"])
def sizes(request, monkeypatch):
    """Blocks, chunks and groups so small that every edge is met, and the usual ones."""
    if request.param == "small":
        for name, value in (("CHUNK_BYTES", 60), ("BLOCK_BYTES", 400)):
            monkeypatch.setattr(streamed, name, value)
        for name in ("MAX_KEPT_PRODUCTS", "MIN_GROUP_ELEMENTS"):
            monkeypatch.setattr(streamed, name, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k", "count", "r"), [(1, 1, 1, 1), (7, 3, 20, 5), (60, 4, 900, 17), (300, 2, 4000, 50)])
def test_gathers_give_what_dense_products_give(sizes, n, k, count, r, dtype):
    facts, rng = random_facts(n, k, count), np.random.default_rng(0)
    A, R = rng.normal(size=(n, r)).astype(dtype), rng.normal(size=(k, r, r))
    X, wide = dense_tensors(facts)[0], A.astype(np.float64)
    M, F = visited(facts, A, R, 2)
    assert M.dtype == np.float64
    assert relative_error(M, wide.T @ X @ wide) < TOLERANCE[dtype]
    wanted = sum(X[q] @ wide @ R[q].T + X[q].T @ wide @ R[q] for q in range(k))
    assert relative_error(F, wanted) < TOLERANCE[dtype]


def test_the_number_of_threads_changes_nothing(sizes):
    facts, rng = random_facts(80, 3, 800), np.random.default_rng(0)
    A, R = rng.normal(size=(80, 17)).astype(np.float32), rng.normal(size=(3, 17, 17))
    one, three = visited(facts, A, R, 1), visited(facts, A, R, 3)
    for first, second in zip(one, three, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_neighbours_are_summed_over_all_relations_both_ways(sizes, n_threads):
    facts = random_facts(60, 4, 900)
    A = np.random.default_rng(0).normal(size=(60, 5))
    layout, F = layout_of(facts, 5, "float64", n_threads), np.ones((60, 5))
    layout.neighbours(layout.prepare(A), F)
    X = dense_tensors(facts)[0]
    assert relative_error(F, 1 + sum(X_k + X_k.T for X_k in X) @ A) < 1e-12


def test_numbers_too_small_to_multiply_count_as_zero():
    A = np.array([[1.0, 1e-18, -1e-20, 0.0]], np.float32)
    wide = layout_of(random_facts(1, 1, 1), 4, "float32", 1).prepare(A)
    np.testing.assert_array_equal(wide[:, :4], np.array([[1.0, 1e-18, 0.0, 0.0]], np.float32))


def test_facts_are_sorted_by_object_and_then_by_subject():
    facts = random_facts(50, 3, 700)
    s, k, o = facts.triples.T
    order, side = np.lexsort((s, o, k)), layout_of(facts, 2, "float32", 2).backward
    np.testing.assert_array_equal(np.stack([side.rows, side.columns]), [o[order], s[order]])


def test_relations_without_facts_and_one_entity_with_all_of_them():
    facts = Facts.from_arrays([3] * 5, [1] * 5, range(5), n_entities=6, n_relations=3)
    A, R = np.random.default_rng(0).normal(size=(6, 5)), np.random.default_rng(1).normal(size=(3, 5, 5))
    M, F = visited(facts, A, R, 4)
    X = dense_tensors(facts)[0]
    np.testing.assert_allclose(M, A.T @ X @ A, atol=1e-12)
    np.testing.assert_allclose(F, X[1] @ A @ R[1].T + X[1].T @ A @ R[1], atol=1e-12)


@pytest.mark.parametrize(
    ("r", "dtype", "width"), [(10, "float32", 16), (16, "float32", 16), (17, "float32", 17), (3, "float64", 4)]
)
def test_rows_touch_the_fewest_cache_lines(r, dtype, width):
    wide = layout_of(random_facts(99, 1, 20), r, dtype, 1).prepare(np.ones((99, r), dtype))
    assert wide.shape == (99, width)
    first = wide.ctypes.data + wide.strides[0] * np.arange(99)
    lines = (first + r * wide.itemsize - 1) // 64 - first // 64 + 1
    assert lines.max() == -(-r * wide.itemsize // 64)
    assert wide[:, :r].all()


def test_a_matrix_is_multiplied_by_another_one_on_the_way():
    A, U = np.random.default_rng(0).normal(size=(99, 5)), np.random.default_rng(1).normal(size=(5, 5))
    np.testing.assert_allclose(layout_of(random_facts(99, 1, 20), 5, "float64").prepare(A, U)[:, :5], A @ U, rtol=1e-12)
