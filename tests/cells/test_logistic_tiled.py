import subprocess
import sys

import numpy as np
import pytest

import reference_sums as plain
from relatent.cells import tiling
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.cells.tiling import block_and_row, row_blocks
from relatent.data.facts import Facts
from relatent.model.entity_types import EntityTypes
from small_graphs import NO_FACTS, random_facts, random_parameters, relative_error, with_types

pytestmark = pytest.mark.usefixtures("single_blas")

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
SHAPES = [  # N, K, r: one cell, many relations in a block, both sides of every edge of a tile (its side varies with r)
    (1, 1, 1),
    (1, 30, 3),
    (2, 1, 2),
    (2, 3, 5),
    (2, 30, 1),
    (20, 30, 17),
    (255, 1, 5),
    (255, 3, 1),
    (256, 3, 5),
    (257, 1, 17),
    (257, 3, 5),
    (257, 30, 2),
    (512, 1, 5),
    (512, 3, 1),
    (513, 1, 1),
    (513, 3, 17),
    (600, 1, 40),
    (600, 3, 5),
    (50, 5, 100),
    (51, 5, 100),
    (100, 2, 100),
    (101, 2, 100),
    (201, 2, 100),
    (121, 4, 17),
    (122, 4, 17),
    (242, 2, 17),
    (243, 2, 17),
    (447, 2, 5),
    (448, 2, 5),
    (513, 1, 101),
    (600, 1, 300),
]


def world(n, k, seed=0):
    """About a tenth of the cells are facts, with weights 0, 0.3, 1 and 2.5, and a twentieth unobserved."""
    cells = n * n * k
    return random_facts(n, k, min(cells // 10 + 1, 3000), unobserved=min(cells // 20, 2000), weighted=True, seed=seed)


def assert_same(got, wanted, tolerance):
    assert abs(got.value - wanted.value) <= tolerance * abs(wanted.value)
    for name in ("dA", "dR", "db"):
        assert relative_error(getattr(got, name), getattr(wanted, name)) <= tolerance, name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_give_the_reference_sum(shape, dtype):
    n, k, r = shape
    facts = world(n, k)
    parameters = random_parameters(facts, r)
    threads = 1 + (n + k) % 3
    assert_same(
        TiledLogisticSum(facts, dtype, threads)(*parameters), plain.logistic(facts, *parameters), TOLERANCE[dtype]
    )


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize(("n", "k"), [(5, 2), (30, 40), (300, 2), (530, 1)])
def test_the_number_of_threads_changes_nothing_but_the_rounding(n, k, n_threads):
    facts = world(n, k)
    parameters = random_parameters(facts, 4)
    assert_same(TiledLogisticSum(facts, "float64", n_threads)(*parameters), plain.logistic(facts, *parameters), 1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"weighted": True}, {"unobserved": 150}, {"weighted": True, "unobserved": 150}],
    ids=["plain", "weighted", "masked", "both"],
)
def test_weights_and_masks_count_as_the_formula_says(options):
    facts = random_facts(40, 3, 300, **options)
    parameters = random_parameters(facts, 6)
    assert_same(TiledLogisticSum(facts, "float64")(*parameters), plain.logistic(facts, *parameters), 1e-12)


@pytest.mark.parametrize("given", [False, True], ids=["seen there", "types"])
@pytest.mark.parametrize(("n", "k"), [(5, 2), (30, 40), (300, 2), (530, 1)])
def test_typed_sums_leave_out_cells_of_wrong_types(n, k, given):
    facts = random_facts(n, k, k if given else n // 2, unobserved=n, weighted=True)
    facts = with_types(facts) if given else facts
    s, relation, o = cells = np.indices((n, k, n)).reshape(3, -1)
    allowed = [np.zeros((k, n), bool), np.zeros((k, n), bool)]
    for is_allowed, place in zip(allowed, (0, 2), strict=True):
        if given:
            is_allowed[:] = [EntityTypes.of(facts, facts.types).allowed(i, place) for i in range(k)]
        else:
            is_allowed[facts.triples[:, 1], facts.triples[:, place]] = True
    outside = cells.T[~(allowed[0][relation, s] & allowed[1][relation, o])]
    assert 0 < len(outside) < cells.shape[1]
    masked = facts.hold_out(outside, masked=True)
    parameters = random_parameters(facts, 4)
    for value in (True, False):
        got = TiledLogisticSum(facts, "float32", 2, typed=True)(*parameters, value=value)
        wanted = plain.logistic(masked, *parameters)
        assert_same(got if value else got._replace(value=wanted.value), wanted, TOLERANCE["float32"])


def test_without_facts_the_zeros_still_have_a_loss():
    facts = Facts.from_arrays(*NO_FACTS, n_entities=30, n_relations=2)
    parameters = random_parameters(facts, 3)
    assert_same(TiledLogisticSum(facts, "float64", 2)(*parameters), plain.logistic(facts, *parameters), 1e-12)


def test_the_loss_is_zero_if_nothing_is_observed():
    n = 10
    cells = np.stack(np.unravel_index(np.arange(n * n), (n, 1, n)), axis=1)
    facts = Facts.from_arrays(*NO_FACTS, n_entities=n, n_relations=1, unobserved=cells)
    for dtype in ("float32", "float64"):
        reduction = TiledLogisticSum(facts, dtype)(*random_parameters(facts, 3))
        assert abs(reduction.value) < 1e-30
        assert np.abs(reduction.dA).max() < 1e-30


def test_the_gradient_agrees_with_finite_differences():
    facts = random_facts(12, 3, 60, unobserved=30, weighted=True)
    rng = np.random.default_rng(1)
    parameters = random_parameters(facts, 4)
    evaluate = TiledLogisticSum(facts, "float64")
    gradient = evaluate(*parameters)
    step = 1e-5
    for _ in range(10):
        direction = [rng.normal(size=part.shape) for part in parameters]
        ahead, behind = (
            evaluate(*(p + sign * step * d for p, d in zip(parameters, direction, strict=True))).value
            for sign in (1, -1)
        )
        slope = sum(np.sum(g * d) for g, d in zip(gradient[1:], direction, strict=True))
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [30, 530])
def test_the_gradient_without_the_value_is_the_same(n, dtype):
    facts = world(n, 2)
    parameters = random_parameters(facts, 4)
    evaluate = TiledLogisticSum(facts, dtype, 2)
    whole, without = evaluate(*parameters), evaluate(*parameters, value=False)
    assert np.isnan(without.value)
    for name in ("dA", "dR", "db"):
        assert relative_error(getattr(without, name), getattr(whole, name)) < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("theta", [-1e4, -100.0, -87.5, -30.0, 0.0, 30.0, 87.5, 100.0, 1e4])
def test_extreme_scores_stay_finite_and_right(theta, dtype):
    facts = random_facts(7, 1, 9, unobserved=5, weighted=True)
    parameters = np.ones((7, 1)), np.full((1, 1, 1), theta), np.zeros(1)
    got, wanted = TiledLogisticSum(facts, dtype)(*parameters), plain.logistic(facts, *parameters)
    assert_same(got, wanted, TOLERANCE[dtype] if abs(theta) < 80 else 1e-4)


def test_a_large_score_may_come_from_the_bias():
    facts = random_facts(7, 2, 9, unobserved=5)
    parameters = np.ones((7, 1)), np.zeros((2, 1, 1)), np.array([-200.0, 200.0])
    assert_same(TiledLogisticSum(facts, "float32")(*parameters), plain.logistic(facts, *parameters), 1e-6)


@pytest.mark.parametrize("n", [3, 40, 300, 600])
@pytest.mark.parametrize("theta", [-8.0, -12.0, -16.5, -24.0, -60.0])
def test_the_loss_of_unlikely_cells_keeps_its_digits_in_single_precision(n, theta):
    facts = Facts.from_arrays(*NO_FACTS, n_entities=n, n_relations=1)
    value = TiledLogisticSum(facts, "float32")(np.ones((n, 1)), np.full((1, 1, 1), theta), np.zeros(1)).value
    assert value == pytest.approx(n * n * np.logaddexp(0, theta), rel=1e-6)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_every_call_gives_the_same_numbers(n_threads):
    facts = world(300, 3)
    parameters = random_parameters(facts, 5)
    first_sum, second_sum = TiledLogisticSum(facts, "float32", n_threads), TiledLogisticSum(facts, "float32", n_threads)
    first = first_sum(*parameters)
    first_sum(*random_parameters(facts, 5, seed=9))  # scratch space must leave no trace
    for again in (first_sum(*parameters), second_sum(*parameters)):
        assert again.value == first.value
        for name in ("dA", "dR", "db"):
            np.testing.assert_array_equal(getattr(again, name), getattr(first, name))


def test_one_evaluator_serves_several_ranks():
    facts = world(250, 2)
    evaluate = TiledLogisticSum(facts, "float64", 2)
    for r in (3, 40, 3, 120):
        parameters = random_parameters(facts, r)
        assert_same(evaluate(*parameters), plain.logistic(facts, *parameters), 1e-9)


def test_inputs_are_unchanged():
    facts = world(40, 2)
    parameters = [part.astype(np.float32) for part in random_parameters(facts, 5)]
    before = [part.copy() for part in parameters]
    TiledLogisticSum(facts, "float32", 2)(*parameters)
    for part, old in zip(parameters, before, strict=True):
        np.testing.assert_array_equal(part, old)


def test_parameters_need_not_be_contiguous():
    facts = world(20, 2)
    A, R, b = random_parameters(facts, 4)
    wanted = TiledLogisticSum(facts, "float64")(A, R, b)
    crooked = np.asfortranarray(A), R.transpose(0, 2, 1).copy().transpose(0, 2, 1), np.repeat(b, 2)[::2]
    assert_same(TiledLogisticSum(facts, "float64")(*crooked), wanted, 1e-14)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("n", "k"),
    [(n, k) for n in (1, 2, 100, 255, 256, 257, 512, 513, 1025) for k in (1, 2, 3, 30, 700) if n * k < 50_000],
)
def test_blocks_cover_every_row_once_and_fit_the_scratch(n, k, n_threads):
    blocks = row_blocks(n, k, n_threads)
    relation, subject = np.divmod(np.arange(n * k), n)
    block, row = block_and_row(blocks, n, relation, subject)
    heights = (blocks[:, 1] - blocks[:, 0]) * (blocks[:, 3] - blocks[:, 2])
    assert heights.max() <= tiling.ROWS
    assert heights.sum() == n * k
    assert len(np.unique(block * tiling.ROWS + row)) == n * k
    assert (row < heights[block]).all()


MEMORY = """
import resource, sys
import numpy as np
from relatent.backend.blas_threads import one_blas_thread
from relatent.cells.logistic_tiled import TiledLogisticSum
from relatent.data.facts import Facts

def evaluate(n, dtype):
    rng = np.random.default_rng(0)
    facts = Facts.from_arrays(rng.integers(0, n, 1000), np.zeros(1000, int), rng.integers(0, n, 1000), n_entities=n)
    A = rng.normal(size=(n, 8)) / 3
    with one_blas_thread():
        assert np.isfinite(TiledLogisticSum(facts, dtype, 2)(A, np.ones((1, 8, 8)), np.zeros(1)).value)

evaluate(100, sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
evaluate(6000, sys.argv[1])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_square_of_the_entities():
    """One N × N array of float32 would be 144 MB."""
    done = subprocess.run([sys.executable, "-c", MEMORY, "float32"], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 60
