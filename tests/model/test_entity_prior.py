import numpy as np
import pytest

from relatent.model import entity_prior as module
from relatent.model.entity_prior import entity_prior


def groups_of_points(centres, n=60, spread=0.1, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.asarray(centres, float)
    return np.repeat(centres, n, axis=0) + spread * rng.normal(size=(n * len(centres), centres.shape[1]))


def test_one_cloud_is_one_group_with_its_mean_and_covariance():
    rng = np.random.default_rng(0)
    spread = np.array([[2.0, 0, 0], [1.0, 1.0, 0], [0, 0, 0.5]])
    A = rng.normal(size=(3000, 3)) @ spread.T + [1.0, 2.0, 3.0]
    prior = entity_prior(A)
    np.testing.assert_allclose(prior.means, [A.mean(axis=0)])
    np.testing.assert_allclose(prior.log_weights, [0.0])
    np.testing.assert_allclose(np.linalg.inv(prior.precision), np.cov(A.T), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_groups_are_found_with_their_means_and_weights(dtype):
    centres = [[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]]
    A = np.concatenate([groups_of_points(centres), groups_of_points(centres[:1], seed=1)]).astype(dtype)
    prior = entity_prior(A)
    order = np.argsort(prior.means @ [1.0, 2.0])
    np.testing.assert_allclose(prior.means[order], centres, atol=0.1)
    np.testing.assert_allclose(np.exp(prior.log_weights[order]), [0.5, 0.25, 0.25], rtol=1e-6)
    assert np.linalg.inv(prior.precision).diagonal().max() < 0.1


def test_the_same_vectors_give_the_same_prior():
    A = groups_of_points([[0.0, 0.0], [3.0, 0.0]])
    for first, second in zip(entity_prior(A), entity_prior(A), strict=True):
        np.testing.assert_array_equal(first, second)


def test_fewer_entities_than_components_give_a_usable_precision():
    prior = entity_prior(np.random.default_rng(0).normal(size=(5, 20)))
    assert len(prior.means) == 1
    values = np.linalg.eigvalsh(prior.precision)
    assert 0 < values[0] < values[-1] < 100 * values[0]


@pytest.mark.parametrize("A", [np.zeros((5, 2)), np.ones((5, 2)), np.ones((1, 2))])
def test_vectors_that_do_not_differ_give_no_prior(A):
    assert entity_prior(A) is None


def test_entities_left_out_do_not_count():
    A = np.random.default_rng(0).normal(size=(20, 2))
    wild = np.concatenate([A, [[1e6, 1e6]]])
    np.testing.assert_allclose(entity_prior(wild, np.array([20])).means, entity_prior(A).means)


def test_of_many_entities_a_sample_is_taken(monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTITIES", 500)
    A = np.random.default_rng(0).normal([1.0, -1.0], size=(20_000, 2))
    np.testing.assert_allclose(entity_prior(A).means, [[1.0, -1.0]], atol=0.2)


def test_equal_vectors_in_groups_do_not_break_the_estimate():
    A = np.repeat([[0.0, 0.0], [1.0, 0.0]], 20, axis=0)
    prior = entity_prior(A)
    assert len(prior.means) == 2
    variances = np.linalg.eigvalsh(np.linalg.inv(prior.precision))
    np.testing.assert_allclose(variances, 0.01 * A.var(axis=0).mean())
