import numpy as np
import pytest
from scipy.special import expit

from relatent.cells import sigmoid
from relatent.cells.tiling import TileCells

GRID = np.concatenate([np.linspace(-100, 100, 4001), np.linspace(-1, 1, 401), [-1e4, -87, 0.0, 87, 1e4]])


def run(T, dtype, bias=None, value=True):
    """σ, row sums and Σ softplus of T + bias by the compiled pass."""
    T = np.array(T, dtype, ndmin=2)
    bias = np.zeros(len(T), dtype) if bias is None else np.asarray(bias, dtype)
    sums = np.zeros(len(T), dtype)
    scratch = np.empty(sigmoid.FOLD_LENGTH + T.shape[1], dtype)
    if dtype == "float64":
        return T, sums, sigmoid.sigmoid_softplus64(T, bias, sums)
    if value:
        return T, sums, sigmoid.sigmoid_softplus32(T, bias, sums, scratch)
    sigmoid.sigmoid32(T, bias, sums)
    return T, sums, None


def one_tile(rows, columns, weight=0.0):
    """Cells of the only tile."""
    rows, columns = (np.array(ids, np.int32) for ids in (rows, columns))
    return TileCells(np.array([0, len(rows)]), rows, columns, np.full(len(rows), weight))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-7), ("float64", 1e-15)])
@pytest.mark.parametrize("value", [True, False])
def test_sigmoid_has_the_digits_of_its_type_down_to_the_smallest_probability(dtype, tolerance, value):
    theta = GRID.astype(dtype).astype(np.float64)
    got, _, _ = run(GRID, dtype, value=value)
    ordinary = np.abs(theta) <= 87
    np.testing.assert_allclose(got[0][ordinary], expit(theta[ordinary]), rtol=tolerance)
    assert (got[0][theta < -87] < 2e-38).all()
    np.testing.assert_allclose(got[0][theta > 87], 1, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 5e-7), ("float64", 1e-14)])
def test_softplus_of_a_single_cell_has_the_digits_of_its_type(dtype, tolerance):
    for theta in GRID[np.abs(GRID) <= 87][::7].astype(dtype).astype(np.float64):
        assert run(theta, dtype)[2] == pytest.approx(np.logaddexp(0, theta), rel=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 2), (3, 1), (700, 1), (5, 63), (9, 64), (4, 65), (2, 511), (3, 512), (100, 37)]
)
def test_one_logarithm_for_many_cells_is_the_sum_of_many(shape, dtype):
    rng = np.random.default_rng(0)
    T, bias = rng.normal(-3, 4, size=shape).astype(dtype), rng.normal(size=shape[0]).astype(dtype)
    theta = T.astype(np.float64) + bias.astype(np.float64)[:, None]
    got, sums, value = run(T, dtype, bias)
    assert value == pytest.approx(np.logaddexp(0, theta).sum(), rel=1e-6)
    np.testing.assert_allclose(got, expit(theta), rtol=2e-6)
    np.testing.assert_allclose(sums, expit(theta).sum(axis=1), rtol=5e-6)


def test_the_fold_survives_scores_of_zero_where_every_factor_is_two():
    n = 512 * 8
    assert run(np.zeros((8, 512)), "float32")[2] == pytest.approx(n * np.log(2), rel=1e-6)


@pytest.mark.parametrize("theta", [-12.0, -20.0, -40.0])
def test_the_fold_keeps_the_digits_of_unlikely_cells(theta):
    """A plain product of factors 1 + e would round e away."""
    assert run(np.full((3, 500), theta), "float32")[2] == pytest.approx(1500 * np.logaddexp(0, theta), rel=1e-6)


def test_row_sums_are_added_to_what_was_there():
    T, sums = np.zeros((2, 3), np.float32), np.array([10, 20], np.float32)
    sigmoid.sigmoid32(T, np.zeros(2, np.float32), sums)
    np.testing.assert_allclose(sums, [11.5, 21.5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_hidden_cell_adds_nothing(dtype):
    T = np.zeros((2, 3), dtype)
    sigmoid.mask_cells(T, one_tile([0, 1], [2, 0]), 0)
    got, sums, value = run(T, dtype, bias=[5, -5])
    wanted = 2 * np.logaddexp(0, 5.0) + 2 * np.logaddexp(0, -5.0)
    assert value == pytest.approx(wanted, rel=1e-6)
    assert max(got[0, 2], got[1, 0]) < 1e-37
    np.testing.assert_allclose(sums, 2 * expit([5.0, -5.0]), rtol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.5])
def test_facts_are_corrected_from_a_zero_to_a_weighted_one(weight):
    theta, bias = np.array([[0.7, -1.2]]), np.array([0.4])
    facts = one_tile([0], [1], weight)
    t = -1.2 + 0.4
    correction = sigmoid.prepare_facts(theta, bias, facts, 0)
    assert correction == pytest.approx(weight * np.logaddexp(0, -t) - np.logaddexp(0, t), rel=1e-12)
    D, sums, _ = run(theta, "float64", bias)
    sigmoid.finish_facts(D, sums, facts, 0)
    np.testing.assert_allclose(D, [[expit(1.1), weight * (expit(t) - 1)]], rtol=1e-12)
    np.testing.assert_allclose(sums, D.sum(axis=1), rtol=1e-12)
