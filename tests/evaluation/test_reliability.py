import numpy as np
import pytest
from scipy.special import expit, logit

from relatent.errors import InputError
from relatent.evaluation.reliability import expected_calibration_error, reliability


@pytest.fixture
def honest():
    """Cells that are true as often as their probability says."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=50_000)
    return rng.random(len(p)) < p, p


def test_correct_probabilities_have_no_calibration_error(honest):
    assert expected_calibration_error(*honest) < 0.01
    assert expected_calibration_error(*honest, above=0.5) < 0.01


def test_overconfident_probabilities_have_the_planted_error(honest):
    truth, p = honest
    sure = expit(2 * logit(p))
    assert expected_calibration_error(truth, sure, bins=50) == pytest.approx(np.abs(sure - p).mean(), abs=0.01)


def test_one_bin_is_the_gap_of_the_means(honest):
    truth, p = honest
    assert expected_calibration_error(truth, p**2, bins=1) == pytest.approx(truth.mean() - (p**2).mean())


def test_bins_have_equal_mass_and_rise(honest):
    curve = reliability(*honest, bins=20)
    np.testing.assert_allclose(curve.mass, 2500, atol=1)
    assert (np.diff(curve.predicted) > 0).all()
    assert curve.mass.sum() == 50_000


def test_bins_are_those_of_a_plain_loop():
    truth, p = np.array([0, 0, 1, 0, 1, 1], bool), np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    curve = reliability(truth, p, bins=3)
    np.testing.assert_allclose(curve.predicted, [0.15, 0.35, 0.55])
    np.testing.assert_allclose(curve.observed, [0, 0.5, 1])
    np.testing.assert_allclose(curve.mass, 2)
    assert curve.error == pytest.approx((0.15 + 0.15 + 0.45) / 3)


def test_equal_probabilities_share_a_bin_and_the_order_does_not_matter():
    rng = np.random.default_rng(0)
    p = rng.choice([0.1, 0.5, 0.9], 1000)
    truth = rng.random(1000) < p
    order = rng.permutation(1000)
    one, other = reliability(truth, p, bins=10), reliability(truth[order], p[order], bins=10)
    np.testing.assert_allclose(one.predicted, [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(one, other)


def test_a_weight_stands_for_so_many_cells():
    rng = np.random.default_rng(0)
    p, weights = rng.random(300), rng.integers(1, 5, 300)
    truth = rng.random(300) < p
    weighted = reliability(truth, p, weights.astype(float))
    repeated = reliability(np.repeat(truth, weights), np.repeat(p, weights))
    for one, other in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(one, other)


def test_only_cells_above_the_threshold_count():
    truth, p = np.array([True, False, True]), np.array([0.05, 0.04, 0.9])
    assert reliability(truth, p, above=0.05).mass.tolist() == [1]
    assert np.isnan(expected_calibration_error(truth, p, above=0.95))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([True], [0.5, 0.5]), r"truth, probabilities and weights must be equally long, got \[1, 2\]"),
        (([True], [1.5]), "probabilities must be within 0 and 1, got 1.5"),
        (([True], [np.nan]), "probabilities must be within 0 and 1, got nan"),
        (([True], [0.5], None, 0), "bins must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        reliability(*arguments)
