"""Coefficients per group, drawn towards their mean, where those that made the data are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from relatent.fit.pooled_logistic import CoefficientPrior, pooled_logistic

WIDE = CoefficientPrior(
    centre=np.zeros(2),
    mean_precision=np.full(2, 0.01),
    precision=np.full(2, 0.1),
    nonnegative=np.array([False, False]),
)
TRUTH = np.array([[-1.0, 2.0], [0.5, 1.0], [-2.0, 0.5]])


def cases(per_group=(20_000, 20_000, 20_000), seed=0):
    """Features, groups and truth of random cases."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(per_group)), per_group)
    X = np.stack([np.ones(len(groups)), rng.normal(size=len(groups))], axis=1)
    return X, groups, rng.random(len(groups)) < expit(np.einsum("np,np->n", X, TRUTH[groups]))


def fitted(X, groups, truth, prior=WIDE, n_groups=3, **options):
    true, false = truth.astype(float), (~truth).astype(float)
    return pooled_logistic(X, groups, n_groups, true, false, prior, **options)


def objective(flat, X, groups, true, false, prior, labelled):
    """The stated objective, case by case."""
    mean, own = flat[:2], flat[2:].reshape(-1, 2)
    p = labelled * expit(np.einsum("np,np->n", X, own[groups]))
    loss = -(true * np.log(p)).sum() - (false * np.log(1 - p)).sum()
    loss += (prior.precision * (own - mean) ** 2).sum() / 2
    Q = np.diag(prior.mean_precision) + (0 if prior.smooth is None else prior.smooth)
    return loss + (mean - prior.centre) @ Q @ (mean - prior.centre) / 2


def test_the_coefficients_of_each_group_are_found():
    found = fitted(*cases())
    np.testing.assert_allclose(found.of_group, TRUTH, atol=0.1)
    np.testing.assert_allclose(found.mean, TRUTH.mean(axis=0), atol=0.1)


def test_they_are_found_if_only_a_share_of_the_true_cases_is_said_to_be_true():
    X, groups, truth = cases((30_000,) * 3)
    is_labelled = truth & (np.random.default_rng(1).random(len(truth)) < 0.3)
    np.testing.assert_allclose(fitted(X, groups, is_labelled, labelled=0.3).of_group, TRUTH, atol=0.2)
    taken_for_false = fitted(X, groups, is_labelled).of_group
    assert np.abs(taken_for_false[:, 0] - TRUTH[:, 0]).min() > 0.5


@pytest.mark.parametrize("labelled", [1.0, 0.4])
def test_nothing_is_likelier(labelled):
    X, groups, truth = cases((30, 8, 2))
    prior = replace(WIDE, precision=np.array([0.5, 3.0]), smooth=np.array([[1.0, -0.4], [-0.4, 0.7]]))
    found = fitted(X, groups, truth, prior, labelled=labelled)
    flat = np.concatenate([found.mean, found.of_group.ravel()])
    arguments = (X, groups, truth.astype(float), (~truth).astype(float), prior, labelled)
    better = minimize(objective, flat, arguments, method="Powell", options={"xtol": 1e-6, "ftol": 1e-12})
    assert objective(flat, *arguments) == pytest.approx(better.fun, rel=1e-5)
    np.testing.assert_allclose(flat, better.x, atol=0.02)


def test_a_group_of_few_cases_is_like_the_others_and_one_of_none_is_their_mean():
    X, groups, truth = cases((20_000, 20_000, 3))
    pooled = replace(WIDE, precision=np.full(2, 5.0))
    found = fitted(X, groups, truth, pooled, n_groups=4)
    assert np.abs(found.of_group[2] - found.mean).max() < np.abs(found.of_group[:2] - found.mean).max()
    np.testing.assert_array_equal(found.of_group[3], found.mean)


def test_without_any_case_the_centre_is_the_mean():
    prior = replace(WIDE, centre=np.array([-1.0, 0.5]))
    found = fitted(np.empty((0, 2)), np.empty(0, int), np.empty(0, bool), prior, n_groups=2)
    np.testing.assert_allclose(found.of_group, np.tile(prior.centre, (2, 1)))


def test_rows_with_weights_stand_for_many_cases_in_any_order():
    X, groups, truth = cases((40, 40, 40))
    copies = np.random.default_rng(2).integers(0, 4, len(truth))
    repeated = fitted(*(np.repeat(part, copies, axis=0) for part in (X, groups, truth)))
    turned = np.random.default_rng(3).permutation(len(truth))
    found = pooled_logistic(X[turned], groups[turned], 3, (copies * truth)[turned], (copies * ~truth)[turned], WIDE)
    np.testing.assert_allclose(found.of_group, repeated.of_group, atol=0.01)


def test_a_coefficient_that_may_not_be_negative_ends_at_zero():
    X, groups, truth = cases((5000,) * 3)
    prior = replace(WIDE, nonnegative=np.array([False, True]))
    found = fitted(X * [1, -1], groups, truth, prior)
    assert (found.of_group[:, 1] == 0).all()
    shares = [truth[groups == g].mean() for g in range(3)]
    np.testing.assert_allclose(expit(found.of_group[:, 0]), shares, atol=0.02)


@pytest.mark.parametrize("labelled", [1.0, 0.999, 0.01])
@pytest.mark.parametrize("kind", ["separated", "all true", "all false", "one case"])
def test_coefficients_are_finite_whatever_the_cases(kind, labelled):
    X, groups, truth = cases((50, 50, 50))
    if kind == "separated":
        truth = X[:, 1] > 0
    elif kind == "one case":
        X, groups, truth = X[:1], groups[:1], np.array([True])
    else:
        truth[:] = kind == "all true"
    found = fitted(X, groups, truth, labelled=labelled)
    assert np.isfinite(found.of_group).all()
    assert np.isfinite(found.mean).all()


# --- how much groups differ


def worlds(spread, n_groups=40, per_group=60, seed=0):
    """Cases of many groups, whose slopes differ by `spread`; features, groups, truth and slopes."""
    rng = np.random.default_rng(seed)
    slopes = 1.0 + spread * rng.normal(size=n_groups)
    groups = np.repeat(np.arange(n_groups), per_group)
    X = np.stack([np.ones(len(groups)), rng.normal(size=len(groups))], axis=1)
    return X, groups, rng.random(len(groups)) < expit(X[:, 1] * slopes[groups] - 0.5), slopes


ALIKE = replace(WIDE, precision=np.array([1.0, 1.0]), alike=np.arange(2))


def test_groups_that_differ_by_chance_alone_get_nearly_one_slope():
    X, groups, truth, _ = worlds(0.0)
    stated, learned = (fitted(X, groups, truth, prior, n_groups=40) for prior in (replace(ALIKE, alike=None), ALIKE))
    assert learned.of_group[:, 1].std() < 0.5 * stated.of_group[:, 1].std()
    assert learned.mean[1] == pytest.approx(1.0, abs=0.15)


def test_groups_that_differ_keep_their_slopes():
    X, groups, truth, slopes = worlds(2.0)
    tight = replace(ALIKE, precision=np.array([1.0, 30.0]))
    stated, learned = (fitted(X, groups, truth, prior, n_groups=40) for prior in (replace(tight, alike=None), tight))
    assert np.abs(learned.of_group[:, 1] - slopes).mean() < 0.6 * np.abs(stated.of_group[:, 1] - slopes).mean()
    assert learned.of_group[:, 1].std() == pytest.approx(slopes.std(), rel=0.3)


def test_the_likeliest_cases_of_all_groups_are_as_likely_as_they_are_called():
    """The groups whose slopes chance has raised give the likeliest cases."""
    called, true = [], []
    for seed in range(20):
        X, groups, truth, slopes = worlds(0.0, per_group=25, seed=seed)
        found = fitted(X, groups, truth, ALIKE, n_groups=40).of_group
        theta = np.einsum("np,np->n", X, found[groups])
        best = np.argsort(-theta)[:20]
        called.append(expit(theta[best]).mean())
        true.append(expit(X[best, 1] * slopes[groups[best]] - 0.5).mean())
    assert np.mean(called) == pytest.approx(np.mean(true), abs=0.03)


def test_one_group_has_the_stated_precision():
    X, groups, truth = cases((300,))
    for name in ("mean", "of_group"):
        stated, learned = (fitted(X, groups, truth, prior, n_groups=1) for prior in (replace(ALIKE, alike=None), ALIKE))
        np.testing.assert_array_equal(getattr(stated, name), getattr(learned, name))
