"""The search for the best cells leaves out what cannot be among them."""

import numpy as np
import pytest
from scipy.special import expit

import relatent
from relatent.analysis.best_cells import Region, _BestSoFar

NOTHING = np.empty((0, 2), np.int64)


@pytest.fixture
def search(monkeypatch):
    """A search for one cell of two relations; no cell of the second has a probability above .3."""
    facts = relatent.read([("Ann", "likes", "Bob"), ("Bob", "likes", "Cid"), ("Cid", "knows", "Ann")])
    A, R = np.eye(3), np.stack([np.diag([3.0, 2.0, 1.0])] * 2)
    factors = relatent.Factors(A, R, np.zeros(2), facts.entities, facts.relations)

    def capped(self, theta, region):
        return np.minimum(expit(np.asarray(theta, np.float64)), 0.3 if region.relation else 1.0)

    monkeypatch.setattr(_BestSoFar, "_probabilities", capped)
    return _BestSoFar(factors, 1)


def region(relation):
    return Region(relation, np.arange(3), np.arange(3), NOTHING)


def test_the_best_cell_is_found(search):
    list(search.add(region(0)))
    assert search.cells.tolist() == [[0, 0, 0]]
    assert search.probabilities == pytest.approx(expit(3.0))


def test_cells_whose_probabilities_have_a_lower_limit_are_not_scored(search):
    list(search.add(region(0)))
    scored = search.n_scored
    assert search._limit(region(1)) == np.inf
    assert list(search.add(region(1))) == []
    assert search.n_scored == scored
    assert search.cells.tolist() == [[0, 0, 0]]


def test_they_are_found_if_nothing_else_is_better(search):
    list(search.add(region(1)))
    assert search.cells.tolist() == [[0, 1, 0]]
    list(search.add(region(0)))
    assert search.cells.tolist() == [[0, 0, 0]]
