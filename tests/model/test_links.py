import numpy as np
import pytest

from relatent.errors import InputError
from relatent.model.links import LINKS, Logistic, Smooth

THETA = np.linspace(-4, 5, 90_001)


@pytest.mark.parametrize("link", [Logistic(), Smooth(), Smooth(0.3), Smooth(0.5)])
def test_a_link_rises_from_0_to_1(link):
    p = link.probability(THETA)
    assert (np.diff(p) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


def test_the_logistic_link_is_even_at_zero_and_safe_far_out():
    assert Logistic().probability(np.array([0.0, -1e4, 1e4])).tolist() == [0.5, 0.0, 1.0]
    np.testing.assert_array_equal(Logistic().response(THETA), Logistic().probability(THETA))


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 0.5])
def test_the_smooth_link_is_theta_itself_inside(epsilon):
    inside = THETA[(epsilon <= THETA) & (1 - epsilon >= THETA)]
    np.testing.assert_allclose(Smooth(epsilon).probability(inside), inside, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3, 0.5])
def test_the_smooth_link_is_continuous_with_its_derivative(epsilon):
    link, h = Smooth(epsilon), 1e-7
    for edge in (epsilon, 1 - epsilon):
        below, at, above = link.probability(np.array([edge - h, edge, edge + h]))
        np.testing.assert_allclose([below, at, above], edge, atol=2 * h)
        np.testing.assert_allclose([(at - below) / h, (above - at) / h], 1, atol=1e-4)


def test_the_smooth_link_is_symmetric_about_one_half():
    p = Smooth(0.1).probability
    np.testing.assert_allclose(p(0.5 + THETA), 1 - p(0.5 - THETA), atol=1e-12)


def test_the_smooth_link_responds_with_theta():
    np.testing.assert_array_equal(Smooth().response(THETA), THETA)


def test_the_smooth_link_is_safe_far_out():
    assert Smooth().probability(np.array([-1e30, 1e30])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("epsilon", [0, -0.1, 0.6, float("nan")])
def test_an_epsilon_that_bends_nothing_or_everything_is_refused(epsilon):
    with pytest.raises(InputError, match=f"epsilon must be above 0 and at most 0.5, got {epsilon}"):
        Smooth(epsilon)


def test_every_link_is_listed_by_its_name():
    assert {name: kind.name for name, kind in LINKS.items()} == {"logistic": "logistic", "smooth": "smooth"}
