from pathlib import Path

import numpy as np
import pytest

from relatent.errors import InputError
from relatent.model.links import (
    LINKS,
    CountLink,
    IdentityLink,
    LogisticLink,
    RankingLink,
    RelationLinks,
    SmoothLink,
)

THETA = np.linspace(-4, 5, 90_001)
EVERY = [
    LogisticLink(),
    SmoothLink(),
    SmoothLink(0.3),
    SmoothLink(0.5),
    IdentityLink(),
    CountLink(),
    RankingLink(),
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


def test_the_count_link_is_the_probability_of_any_of_a_poisson_number():
    theta = np.array([-40.0, 0.0, 1.0, 1e6])
    np.testing.assert_allclose(CountLink().probability(theta), [np.exp(-40), 1 - np.exp(-1), 1 - np.exp(-np.e), 1])
    assert CountLink().response(theta)[:3].tolist() == np.exp(theta[:3]).tolist()


def test_scores_of_a_ranking_have_an_order_and_no_probability():
    assert not RankingLink().gives_probabilities
    assert all(link.gives_probabilities for link in EVERY if not isinstance(link, RankingLink))
    np.testing.assert_array_equal(RankingLink().response(THETA), RankingLink().probability(THETA))


def test_links_of_relations_are_those_of_each_cell():
    links = RelationLinks(("logistic", "smooth", "count"))
    theta, k = np.linspace(-2, 2, 30), np.arange(30) % 3
    for relation, link in enumerate((LogisticLink(), SmoothLink(), CountLink())):
        for what in ("probability", "response"):
            found, wanted = getattr(links, what)(theta, k), getattr(link, what)(theta)
            np.testing.assert_array_equal(found[k == relation], wanted[k == relation])
    assert links.gives_probabilities
    assert not RelationLinks(("logistic", "ranking")).gives_probabilities
    assert RelationLinks(["logistic"]) == RelationLinks(("logistic",))
    with pytest.raises(InputError, match="links differ by relation, so the relations of the scores are needed"):
        links.probability(theta)


@pytest.mark.parametrize(("links", "said"), [(("logistic", "identity"), "'identity'"), ((), "none")])
def test_links_of_relations_are_plain_ones(links, said):
    with pytest.raises(InputError, match=f"links of relations must be plain ones, got {said}"):
        RelationLinks(links)


def test_every_link_is_listed_by_its_name():
    assert set(LINKS) == {"logistic", "smooth", "count", "identity", "ranking", "per-relation", "sum"}
    assert all(kind.name == name for name, kind in LINKS.items())


def test_every_link_is_on_the_format_page():
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    assert [name for name in LINKS if f"| `{name}` |" not in page] == []
