"""A complex structure is a linear map to R_k: sums, penalties and derivatives agree with those of whole matrices."""

import numpy as np
import pytest

from planted_graphs import uniform
from relatent.backend.compact_matrices import contracted, expanded, times, transposed
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.logistic_sampled import SampledLogisticSum
from relatent.fit.losses import Logistic
from relatent.fit.penalised_likelihood import ExpandedSum
from relatent.fit.penalties import L2, Dura
from relatent.model.scores import scores

FACTS = uniform(30, 3, 120, random_state=1)
BACKEND = NumpyBackend(np.float64)
rng = np.random.default_rng(0)
A, P, B = rng.normal(size=(30, 6)), rng.normal(size=(3, 6)), rng.normal(size=3)
R = expanded(P, np.zeros)


def test_parameters_and_their_matrices_give_the_same_products() -> None:
    for p, r, p_t in zip(P, R, transposed(P), strict=True):
        assert np.allclose(times(A, p), A @ r)
        assert np.allclose(times(A, p_t), A @ r.T)
    s, k, o = FACTS.triples.T
    assert np.allclose(scores(A, P, B, s, k, o), scores(A, R, B, s, k, o))


def test_the_contraction_is_the_transpose_of_the_expansion() -> None:
    dR, direction = rng.normal(size=R.shape), rng.normal(size=P.shape)
    assert np.sum(contracted(dR, np.zeros_like(P)) * direction) == pytest.approx(
        np.sum(dR * expanded(direction, np.zeros))
    )


def test_a_sampled_sum_over_parameters_is_that_over_matrices() -> None:
    over_matrices, over_parameters = (SampledLogisticSum(FACTS, np.float64, n_threads=1) for _ in range(2))
    over_matrices.draw(1)
    over_parameters.draw(1)
    value, dA, dR, db = over_matrices(A, R, B)
    value_p, dA_p, dP, db_p = over_parameters(A, P, B)
    assert value_p == pytest.approx(value)
    assert np.allclose(dA_p, dA)
    assert np.allclose(dP, contracted(dR, np.zeros_like(P)))
    assert np.allclose(db_p, db)


@pytest.mark.parametrize("penalty", [L2(0.3, 0.7), Dura(0.2)])
def test_a_penalty_of_parameters_is_that_of_their_matrices(penalty: L2 | Dura) -> None:
    add = penalty.bound(FACTS, BACKEND)
    dA, dR, dA_p, dP = np.zeros_like(A), np.zeros_like(R), np.zeros_like(A), np.zeros_like(P)
    assert add(A, P, dA_p, dP) == pytest.approx(add(A, R, dA, dR))
    assert np.allclose(dA_p, dA)
    assert np.allclose(dP, contracted(dR, np.zeros_like(P)))


def test_an_exact_sum_has_the_derivatives_of_differences() -> None:
    cells = ExpandedSum(Logistic().cell_sum(FACTS, BACKEND), BACKEND)
    _, _, dP, _ = cells(A, P, B)
    step = np.zeros_like(P)
    for place in ((0, 1), (2, 5)):
        step[:] = 0
        step[place] = 1e-5
        difference = (cells(A, P + step, B).value - cells(A, P - step, B).value) / 2e-5
        assert dP[place] == pytest.approx(difference, rel=1e-6)
