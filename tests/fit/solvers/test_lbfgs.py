import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit

from relatent.errors import FitError
from relatent.fit.loop import run
from relatent.fit.solvers.lbfgs import LbfgsSearch


def rosenbrock(x):
    return scipy.optimize.rosen(x), scipy.optimize.rosen_der(x).astype(x.dtype)


def quadratic(n=30, dtype="float64", condition=100.0):
    """½ xᵀHx − cᵀx and its minimum."""
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.normal(size=(n, n)))
    H = U @ np.diag(np.geomspace(1, condition, n)) @ U.T
    c = rng.normal(size=n)

    def objective(x):
        wide = x.astype(np.float64)
        return float(0.5 * wide @ H @ wide - c @ wide), (H @ wide - c).astype(x.dtype)

    return objective, np.linalg.solve(H, c)


def minimise(objective, x, *, max_iter=500, tol=0.0, memory=10):
    solver = LbfgsSearch(objective, memory=memory)
    return run(solver, solver.start(x), max_iter=max_iter, tol=tol)


@pytest.mark.parametrize("n", [2, 10])
def test_the_bottom_of_rosenbrocks_valley_is_found(n):
    start = np.tile([-1.2, 1.0], n // 2)
    state, trace = minimise(rosenbrock, start)
    np.testing.assert_allclose(state.x, np.ones(n), atol=1e-6)
    assert trace.converged
    assert state.evaluations < 250


@pytest.mark.parametrize("memory", [1, 3, 10])
def test_a_quadratic_ends_at_its_closed_form(memory):
    objective, minimum = quadratic()
    state, _ = minimise(objective, np.zeros(30), memory=memory)
    np.testing.assert_allclose(state.x, minimum, atol=1e-6)


def test_single_precision_gets_as_far_as_it_can():
    objective, minimum = quadratic()
    state, trace = minimise(objective, np.zeros(30, np.float32))
    assert state.x.dtype == state.gradient.dtype == state.S.dtype == np.float32
    np.testing.assert_allclose(state.x, minimum, atol=1e-3)
    assert trace.converged


def test_logistic_regression_ends_where_scipy_does():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(200, 8)), rng.random(200) < 0.3

    def objective(x):
        t = Z @ x
        return float(np.sum(np.logaddexp(0, t) - y * t) + x @ x), Z.T @ (expit(t) - y) + 2 * x

    state, _ = minimise(objective, np.zeros(8))
    wanted = scipy.optimize.minimize(objective, np.zeros(8), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    assert state.objective == pytest.approx(wanted.fun, rel=1e-9)
    np.testing.assert_allclose(state.x, wanted.x, atol=1e-4)


def test_no_step_raises_the_objective():
    _, trace = minimise(rosenbrock, np.tile([-1.2, 1.0], 5))
    assert (np.diff(trace.objective) <= 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_at_the_minimum_it_stops_and_stays(dtype):
    def bowl(x):
        return float(np.sum(x.astype(np.float64) ** 2)), 2 * x

    state, trace = minimise(bowl, np.zeros(5, dtype), tol=1e-9)
    assert trace.converged
    np.testing.assert_array_equal(state.x, np.zeros(5))


def test_where_rounding_hides_every_descent_it_says_so():
    """The gradient promises a descent that the value, a constant, never shows."""
    state, trace = minimise(lambda x: (1.0, np.ones_like(x)), np.zeros(3))
    assert trace.converged
    assert trace.verdict == "ended after 2 steps: no step lowers the objective at this precision"
    np.testing.assert_array_equal(state.x, np.zeros(3))


@pytest.mark.parametrize("beyond", [np.nan, np.inf])
def test_a_region_without_a_value_is_backed_out_of(beyond):
    """x − log x, with no value left of zero; from 0.01 the first steps overshoot, from 50 they fall into it."""

    def objective(x):
        if (x <= 0).any():
            return beyond, np.full_like(x, beyond)
        return float(np.sum(x - np.log(x))), 1 - 1 / x

    for start in (0.01, 50.0):
        state, _ = minimise(objective, np.full(3, start))
        np.testing.assert_allclose(state.x, np.ones(3), atol=1e-6)


def test_a_start_without_a_value_is_an_error_not_an_answer():
    with pytest.raises(FitError, match="the objective became nan at step 1; raise the penalties"):
        minimise(lambda x: (np.nan, x), np.ones(3))


def test_an_endless_descent_stays_finite_or_is_an_error():
    """Minus infinity is no minimum."""
    with pytest.raises(FitError, match="the objective became -inf"), np.errstate(all="ignore"):
        minimise(lambda x: (float(-np.sum(np.exp(x))), -np.exp(x)), np.zeros(2), max_iter=5000)


def test_a_memory_that_points_uphill_is_forgotten():
    objective, _ = quadratic()
    solver = LbfgsSearch(objective)
    state = solver.step(solver.start(np.ones(30)))
    assert state.kept == 1
    spoilt = state._replace(Y=-state.Y, curvature=-state.curvature)  # bent the wrong way: −H g climbs
    after = solver.step(spoilt)
    assert after.objective < state.objective
    assert after.failures == 0


def test_the_start_is_left_alone():
    start = np.tile([-1.2, 1.0], 2)
    before = start.copy()
    minimise(rosenbrock, start)
    np.testing.assert_array_equal(start, before)
