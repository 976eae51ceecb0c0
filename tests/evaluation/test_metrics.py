import numpy as np
import pytest
from sklearn import metrics

from relatent.errors import InputError
from relatent.evaluation.metrics import measure


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("n_true", [1, 7, 50, 99])
def test_a_constant_score_gets_the_base_rate_and_by_trapezoid_the_mean_of_it_and_one(n_true):
    truth = np.arange(100) < n_true
    found = measure(truth, np.zeros(100), np.full(100, 0.3))
    assert found.average_precision == n_true / 100
    assert found.auc_pr == (1 + n_true / 100) / 2
    assert found.auc_roc == 0.5
    assert (found.n_cells, found.n_true) == (100, n_true)


def test_a_perfect_score_gets_one_and_a_reversed_one_almost_nothing():
    truth = np.arange(100) < 10
    right, wrong = (measure(truth, sign * truth.astype(float), truth * 1.0) for sign in (1, -1))
    assert right[:3] == (1, 1, 1)
    assert right.brier == right.log_loss == 0
    assert wrong.average_precision == 0.1
    assert wrong.auc_roc == 0


def test_metrics_are_those_of_scikit_learn(rng):
    truth, scores = rng.random(300) < 0.2, rng.normal(size=300).round(1)
    p = 1 / (1 + np.exp(-scores))
    found = measure(truth, scores, p)
    precision, recall, _ = metrics.precision_recall_curve(truth, scores)
    assert found.auc_pr == pytest.approx(np.trapezoid(precision[::-1], recall[::-1]))
    assert found.average_precision == pytest.approx(metrics.average_precision_score(truth, scores))
    assert found.auc_roc == pytest.approx(metrics.roc_auc_score(truth, scores))
    assert found.brier == pytest.approx(metrics.brier_score_loss(truth, p))
    assert found.log_loss == pytest.approx(metrics.log_loss(truth, p))


def test_a_weight_is_a_repetition(rng):
    truth, scores = rng.random(200) < 0.3, rng.normal(size=200).round(1)
    p, times = rng.random(200), rng.integers(1, 5, 200)
    weighted = measure(truth, scores, p, times.astype(float))
    repeated = measure(*(np.repeat(each, times) for each in (truth, scores, p)))
    np.testing.assert_allclose(weighted[:5], repeated[:5], rtol=1e-12)
    assert weighted.n_cells == 200


def test_the_order_of_the_cells_does_not_matter(rng):
    truth, scores, p = rng.random(200) < 0.3, rng.normal(size=200).round(1), rng.random(200)
    order = rng.permutation(200)
    np.testing.assert_allclose(measure(truth[order], scores[order], p[order]), measure(truth, scores, p))


def test_increasing_maps_of_the_scores_leave_the_areas_unchanged(rng):
    truth, scores, p = rng.random(200) < 0.3, rng.normal(size=200), rng.random(200)
    assert measure(truth, np.exp(scores), p)[:3] == measure(truth, scores, p)[:3]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["scores", "probabilities"])
def test_scores_and_probabilities_must_be_finite(bad, what):
    values = {"scores": np.zeros(5), "probabilities": np.full(5, 0.5)}
    values[what][[1, 3]] = bad
    with pytest.raises(InputError, match=f"{what} must be finite, got 2 that are not; did the fit diverge"):
        measure(np.arange(5) < 2, **values)


@pytest.mark.parametrize("truth", [[True, True], [False, False]])
def test_only_true_cells_have_no_curve_but_a_loss(truth):
    found = measure(np.array(truth), np.zeros(2), np.full(2, 0.5))
    assert np.isnan(found[:3]).all()
    assert found.log_loss == pytest.approx(np.log(2))
    assert found.brier == 0.25


def test_no_cells_have_no_metrics():
    found = measure(np.zeros(0, bool), np.zeros(0), np.zeros(0))
    assert np.isnan(found[:5]).all()
    assert found.n_cells == 0


def test_a_certain_mistake_has_a_finite_loss():
    assert measure(np.array([True, False]), np.zeros(2), np.array([0.0, 0.0])).log_loss == pytest.approx(
        -np.log(1e-12) / 2
    )
