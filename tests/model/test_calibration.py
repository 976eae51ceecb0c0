"""From a score to log-odds: lines between knots and beyond them, shifts by kind, and what is refused."""

import dataclasses

import numpy as np
import pytest

from relatent.errors import InputError
from relatent.model.calibration import Calibration

KNOTS = Calibration.of_lines([([-1.0, 0.0, 2.0], [-3.0, -3.0, 1.0]), ([0.5], [-2.0]), ([0.0, 1.0], [0.0, 0.5])])


def test_log_odds_are_linear_between_the_knots_and_beyond_them():
    theta = np.array([-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 9.0])
    np.testing.assert_allclose(KNOTS.line(theta, 0), [-3, -3, -3, -3, -2, -1, 1, 15])
    np.testing.assert_allclose(KNOTS.line(theta, 1), -2)
    np.testing.assert_allclose(KNOTS.line(theta, 2), theta / 2)


def test_a_score_that_is_no_candidate_stays_none_and_scores_of_single_precision_are_exact():
    assert KNOTS.line(np.array([-np.inf]), 2)[0] == -np.inf
    assert KNOTS.line(np.array([-np.inf]), 0)[0] == -3  # a flat end
    theta = np.linspace(-1, 2, 100, dtype=np.float32)
    found = KNOTS.line(theta, 2)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, KNOTS.line(theta.astype(np.float64), 2))


def test_other_answers_of_the_ends_shift_the_log_odds():
    shifts = np.array([[0.0, 1.0, -1.0, 2.5]] * 3)
    shifted = dataclasses.replace(KNOTS, shifts=shifts)
    np.testing.assert_allclose(shifted.log_odds(np.ones(4), 2, np.arange(4)), 0.5 + shifts[2])


def test_the_score_of_log_odds_is_the_inverse_of_a_line_that_rises():
    theta = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(KNOTS.score_at(KNOTS.line(theta, 2), 2), theta)


def test_a_line_rises_if_all_of_its_segments_do():
    assert [KNOTS.rises(k) for k in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": np.zeros((3, 2))}, r"values of a calibration must have shape \(3, 3\), got \(3, 2\)"),
        ({"shifts": np.zeros((2, 4))}, r"shifts of a calibration must have shape \(3, 4\), got \(2, 4\)"),
        ({"one_answer": np.zeros((3, 1), bool)}, r"one_answer of a calibration must have shape \(3, 2\)"),
        ({"scores": np.full((3, 3), np.nan), "values": np.full((3, 3), np.nan)}, r"each relation .* needs knots"),
        ({"scores": np.array([[0.0, np.nan, 1.0]] * 3)}, "each relation of a calibration needs knots"),
        ({"values": np.full((3, 3), np.inf)}, r"each relation .* needs knots, which are finite numbers"),
        ({"scores": np.zeros((3, 3)), "values": np.zeros((3, 3))}, "must rise from knot to knot"),
        (
            {"scores": np.array([[0.0, 1.0, 2.0]] * 3), "values": np.array([[0.0, 1.0, 0.5]] * 3)},
            "scores and log-odds of a calibration must rise from knot to knot",
        ),
        ({"shifts": np.full((3, 4), np.nan)}, "shifts and base rates of a calibration must be finite"),
        ({"base_rates": np.full(3, np.inf)}, "shifts and base rates of a calibration must be finite"),
        ({"unobserved": np.inf}, "must be finite numbers"),
        ({"base_rates": np.zeros(2)}, "needs 3 base rates and a share of missing facts between 0 and 1"),
        ({"missing": 1.0}, "a share of missing facts between 0 and 1"),
        ({"missing": float("nan")}, "a share of missing facts between 0 and 1"),
    ],
)
def test_what_is_no_calibration_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(KNOTS, **changes)
