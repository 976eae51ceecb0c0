from pathlib import Path

import numpy as np
import pytest

from relatent.errors import InputError
from relatent.model.links import LINKS, IdentityLink, IsotonicLink, LogisticLink, PlattLink, SmoothLink

THETA = np.linspace(-4, 5, 90_001)
KNOTS = IsotonicLink((-1.0, 0.0, 2.0), (0.1, 0.1, 0.9))
EVERY = [
    LogisticLink(),
    SmoothLink(),
    SmoothLink(0.3),
    SmoothLink(0.5),
    IdentityLink(),
    PlattLink(2.5, -1),
    PlattLink(0, 3),
    KNOTS,
    IsotonicLink([0], [1]),
]


@pytest.mark.parametrize("link", EVERY)
def test_a_link_rises_from_0_to_1(link):
    p = link.probability(THETA)
    assert (np.diff(p) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_the_logistic_link_is_even_at_zero_and_safe_far_out():
    assert LogisticLink().probability(np.array([0.0, -1e4, 1e4])).tolist() == [0.5, 0.0, 1.0]
    np.testing.assert_array_equal(LogisticLink().response(THETA), LogisticLink().probability(THETA))


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 0.5])
def test_the_smooth_link_is_theta_itself_inside(epsilon):
    inside = THETA[(epsilon <= THETA) & (1 - epsilon >= THETA)]
    np.testing.assert_allclose(SmoothLink(epsilon).probability(inside), inside, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 0.5])
def test_the_smooth_link_is_continuous_with_its_derivative(epsilon):
    link, h = SmoothLink(epsilon), 1e-7
    for edge in (epsilon, 1 - epsilon):
        below, at, above = link.probability(np.array([edge - h, edge, edge + h]))
        np.testing.assert_allclose([below, at, above], edge, atol=2 * h)
        np.testing.assert_allclose([(at - below) / h, (above - at) / h], 1, atol=1e-4)


def test_the_smooth_link_is_symmetric_about_one_half():
    p = SmoothLink(0.1).probability
    np.testing.assert_allclose(p(0.5 + THETA), 1 - p(0.5 - THETA), atol=1e-12)


def test_the_smooth_link_responds_with_theta():
    np.testing.assert_array_equal(SmoothLink().response(THETA), THETA)


def test_the_smooth_link_is_safe_far_out():
    assert SmoothLink().probability(np.array([-1e30, 1e30])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("epsilon", [0, -0.1, 0.6, float("nan")])
def test_an_epsilon_that_bends_nothing_or_everything_is_refused(epsilon):
    with pytest.raises(InputError, match=f"epsilon must be above 0 and at most 0.5, got {epsilon}"):
        SmoothLink(epsilon)


def test_the_identity_link_is_theta_kept_inside():
    assert IdentityLink().probability(np.array([-0.2, 0.3, 1.7])).tolist() == [0, 0.3, 1]
    np.testing.assert_array_equal(IdentityLink().response(THETA), THETA)


def test_the_platt_link_is_the_logistic_one_stretched_and_shifted():
    np.testing.assert_allclose(
        PlattLink(2, -1).probability(THETA), LogisticLink().probability(2 * THETA - 1), rtol=1e-12
    )
    np.testing.assert_array_equal(PlattLink(1, 0).probability(THETA), LogisticLink().probability(THETA))


def test_the_isotonic_link_is_linear_between_its_knots_and_level_outside():
    p = KNOTS.probability(np.array([-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 9.0]))
    np.testing.assert_allclose(p, [0.1, 0.1, 0.1, 0.1, 0.3, 0.5, 0.9, 0.9])


@pytest.mark.parametrize("link", [PlattLink(3, 1), KNOTS])
def test_a_calibrated_link_responds_with_the_probability_and_is_exact_for_float32(link):
    theta = np.linspace(-1, 2, 100, dtype=np.float32)
    p = link.probability(theta)
    assert p.dtype == np.float64
    np.testing.assert_array_equal(link.response(theta), p)
    assert float(link.probability(theta[7])) == p[7]


def test_knots_compare_and_hash_whether_they_came_as_lists_or_tuples():
    assert IsotonicLink([0, 1], [0.2, 0.5]) == IsotonicLink((0.0, 1.0), (0.2, 0.5))
    assert len({IsotonicLink([0, 1], [0.2, 0.5]), IsotonicLink((0, 1), (0.2, 0.5)), PlattLink(1, 0)}) == 2


@pytest.mark.parametrize(
    ("slope", "intercept", "message"),
    [
        (-1, 0, "slope must be at least 0, so that probabilities rise with scores, got -1"),
        (float("nan"), 0, "slope must be a finite number, got nan"),
        (1, float("inf"), "intercept must be a finite number, got inf"),
        (1, None, "intercept must be a finite number, got None"),
        (True, 0, "slope must be a finite number, got True"),
    ],
)
def test_a_platt_link_that_does_not_rise_is_refused(slope, intercept, message):
    with pytest.raises(InputError, match=message):
        PlattLink(slope, intercept)


@pytest.mark.parametrize(
    ("scores", "probabilities", "message"),
    [
        ([], [], "scores and probabilities need the same length, at least 1, got 0 and 0"),
        ([0, 1], [0.5], "scores and probabilities need the same length, at least 1, got 2 and 1"),
        ([0, 0], [0.1, 0.2], "scores must increase from knot to knot"),
        ([1, 0], [0.1, 0.2], "scores must increase from knot to knot"),
        ([0, 1], [0.2, 0.1], "probabilities must not decrease from knot to knot"),
        ([0, 1], [-0.1, 0.1], "probabilities must be within 0 and 1, got -0.1 to 0.1"),
        ([0, 1], [0.1, 1.1], "probabilities must be within 0 and 1, got 0.1 to 1.1"),
        ([0, float("nan")], [0.1, 0.2], "scores must be a list of finite numbers"),
        ([0, 1], [0.1, "x"], "probabilities must be a list of finite numbers"),
        ("01", [0.1, 0.2], "scores must be a list of finite numbers"),
        ([0, 1], 0.3, "probabilities must be a list of finite numbers"),
    ],
)
def test_knots_that_make_no_rising_line_are_refused(scores, probabilities, message):
    with pytest.raises(InputError, match=message):
        IsotonicLink(scores, probabilities)


def test_every_link_is_listed_by_its_name():
    assert {"logistic", "smooth", "identity", "platt", "isotonic"} <= set(LINKS)
    assert all(kind.name == name for name, kind in LINKS.items())


def test_every_link_is_on_the_format_page():
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    assert [name for name in LINKS if f"| `{name}` |" not in page] == []
