import numpy as np
import pytest

import reference_sums as plain
from relatent.cells import categorical
from relatent.cells.categorical import CategoricalSum
from relatent.data.facts import Facts
from small_graphs import assert_same_sums as assert_same
from small_graphs import random_facts, random_parameters

pytestmark = pytest.mark.usefixtures("single_blas")

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}


def world(n=12, k=3, *, weighted=True):
    """A tenth of the cells are facts, with several a pair and weights down to 0; a fifth is unobserved."""
    return random_facts(n, k, max(1, n * n * k // 10), unobserved=n * n * k // 5, weighted=weighted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k", "r"), [(1, 1, 1), (2, 3, 2), (12, 3, 4), (13, 1, 5), (30, 7, 3)])
def test_pairs_give_the_reference_sum(n, k, r, dtype):
    facts = world(n, k)
    parameters = random_parameters(facts, r)
    assert_same(CategoricalSum(facts, dtype)(*parameters), plain.categorical(facts, *parameters), TOLERANCE[dtype])


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(("cells", "columns"), [(1, 1), (60, 5), (1 << 18, 512)])
def test_neither_tiles_nor_threads_change_more_than_the_rounding(monkeypatch, n_threads, cells, columns):
    monkeypatch.setattr(categorical, "TILE_CELLS", cells)
    monkeypatch.setattr(categorical, "COLUMNS", columns)
    facts = world()
    parameters = random_parameters(facts, 4)
    assert_same(CategoricalSum(facts, "float64", n_threads)(*parameters), plain.categorical(facts, *parameters), 1e-9)


def test_the_gradient_is_the_slope_of_the_value():
    facts = world(6, 2)
    A, R, b = random_parameters(facts, 3)
    evaluate, h, rng = CategoricalSum(facts, "float64"), 1e-6, np.random.default_rng(1)
    found = evaluate(A, R, b)
    steps = [rng.normal(size=array.shape) for array in (A, R, b)]
    up, down = (evaluate(*(x + sign * h * d for x, d in zip((A, R, b), steps, strict=True))).value for sign in (1, -1))
    slope = sum(np.sum(g * d) for g, d in zip(found[1:], steps, strict=True))
    assert (up - down) / (2 * h) == pytest.approx(slope, rel=1e-6)


def test_a_pair_whose_cells_are_all_unobserved_costs_nothing():
    cells = [(0, k, 0) for k in range(3)]
    facts = Facts.from_arrays([], [], [], n_entities=1, n_relations=3, unobserved=cells)
    found = CategoricalSum(facts, "float64")(*random_parameters(facts, 2))
    assert found.value == pytest.approx(0, abs=1e-12)
    assert np.abs(found.dR).max() < 1e-12


def test_far_scores_neither_overflow_nor_lose_the_loss():
    facts = Facts.from_arrays([0], [0], [0], n_relations=2)
    found = CategoricalSum(facts, "float32")(np.ones((1, 1)), np.array([[[-2000.0]], [[2000.0]]]), np.zeros(2))
    assert found.value == pytest.approx(4000)
    np.testing.assert_allclose(found.db, [-1, 1])
