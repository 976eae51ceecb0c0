"""The search for the best cells leaves out what cannot be among them."""

import dataclasses

import numpy as np
import pytest
from scipy.special import expit

import relatent
from relatent.model.best_cells import Region, _BestSoFar
from relatent.model.calibration import Calibration
from relatent.model.links import RankingLink

NOTHING = np.empty((0, 2), np.int64)


@pytest.fixture
def model():
    """Two relations of the same scores; cells of the second are less likely."""
    names = ["Ann", "Bob", "Cid"], ["likes", "knows"]
    A, R = np.eye(3), np.stack([np.diag([3.0, 2.0, 1.0])] * 2)
    calibration = Calibration.of_lines([([0.0, 1.0], [0.0, 1.0]), ([0.0, 3.0, 4.0], [-4.0, 1.0, 1.0])])
    return relatent.Factors(A, R, np.zeros(2), *names, calibration=calibration)


@pytest.fixture
def search(model):
    """A search for one cell, which no cell of the second relation is if there is one of more than e / (1 + e)."""
    return _BestSoFar(model.candidates, 1)


def region(relation, kind=0):
    return Region(relation, np.arange(3), np.arange(3), NOTHING, kind)


def test_the_best_cell_is_found(search):
    list(search.add(region(0)))
    assert search.best.cells.tolist() == [[0, 0, 0]]
    assert search.best.probability == pytest.approx(expit(3.0))


def test_cells_whose_probabilities_have_a_lower_limit_are_not_scored(search):
    list(search.add(region(0)))
    scored = search.n_scored
    assert search._limit(region(1)) == np.inf
    assert list(search.add(region(1))) == []
    assert search.n_scored == scored
    assert search.best.cells.tolist() == [[0, 0, 0]]


def test_they_are_found_if_nothing_else_is_better(search):
    list(search.add(region(1)))
    assert search.best.cells.tolist() == [[0, 1, 0]]
    assert search.best.probability == pytest.approx(expit(1.0))
    list(search.add(region(0)))
    assert search.best.cells.tolist() == [[0, 0, 0]]


def test_the_limit_depends_on_what_is_known_of_the_ends_of_cells(model):
    shifts = np.array([[0.0, -9.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    calibration = dataclasses.replace(model.calibration, shifts=shifts)
    search = _BestSoFar(dataclasses.replace(model, calibration=calibration).candidates, 1)
    list(search.add(region(0)))
    likely, unlikely = (search._limit(region(0, kind)) for kind in (0, 1))
    assert likely == pytest.approx(3.0, abs=1e-6)
    assert unlikely == pytest.approx(12.0, abs=1e-6)


def test_unobserved_cells_may_be_likelier_than_their_scores_say(model):
    """The fit has not seen them as false: the limit of θ is lower where there are such cells."""
    facts = relatent.Facts.from_ids(
        np.array([[2, 0, 0]]), model.entities, model.relations, unobserved=np.array([[1, 0, 1]])
    )
    calibration = dataclasses.replace(model.calibration, unobserved=1.5)
    factors = dataclasses.replace(model, calibration=calibration, facts=facts, link=RankingLink())
    search = _BestSoFar(factors.candidates, 1)
    list(search.add(region(0)))
    assert search.best.cells.tolist() == [[1, 0, 1]]  # 2 + 1.5 against 3
    assert search.best.score == pytest.approx(3.5)
    assert search._limit(region(0)) == pytest.approx(2.0, abs=1e-6)
