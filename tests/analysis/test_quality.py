import dataclasses

import numpy as np
import pytest

import relatent
import small_graphs
from relatent.analysis import quality as module
from relatent.analysis.quality import quality
from relatent.data.facts_union import union
from relatent.errors import InputError
from relatent.evaluation.metrics import measure
from relatent.evaluation.reliability import expected_calibration_error
from relatent.model.calibration import Calibration


def world(n=15):
    facts = small_graphs.random_facts(n=n, n_relations=2, count=80)
    A, R, b = small_graphs.random_parameters(facts, rank=3)
    train, test = relatent.split(facts, test_size=20, keep_covered=False)
    return relatent.Factors(A, R, b, facts.entities, facts.relations, facts=train), train, test


def all_cells(factors, train, test):
    n = len(factors.entities)
    grid = np.stack(np.meshgrid(np.arange(n), np.arange(2), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 3)
    return grid[~train.contains(grid)]


def test_in_a_small_graph_all_cells_except_the_known_are_measured():
    factors, train, test = world()
    found = quality(factors, test)
    cells = all_cells(factors, train, test)
    truth, theta = test.contains(cells), np.asarray(factors.score(*cells.T))
    p = factors.link.probability(theta)
    plain = measure(truth, theta, p)
    assert found.n_cells == len(cells)
    assert found.overall.average_precision == pytest.approx(plain.average_precision)
    assert found.overall.auc_pr == pytest.approx(plain.auc_pr)
    assert found.overall.mrr == pytest.approx(relatent.evaluate(factors, test).mrr)
    assert found.calibration_error == pytest.approx(expected_calibration_error(truth, p, above=0.05))
    assert sum(relation.figures.n_facts for relation in found.relations) == len(test) == found.overall.n_facts


@pytest.mark.parametrize("is_calibrated", [False, True])
def test_a_tested_fact_that_the_model_knows_is_tested_as_if_it_did_not(is_calibrated):
    """Its figures are not those of a good model, but it must not answer for other tested facts either."""
    factors, train, test = world()
    if is_calibrated:
        shifts = np.array([[0.0, 1.0, -1.0, 0.5]] * 2)
        calibration = Calibration.of_lines([([0.0, 1.0], [-1.0, 0.0])] * 2, shifts=shifts)
        factors = dataclasses.replace(factors, calibration=calibration)
    both = union([train, test], entities=factors.entities, relations=factors.relations)
    wanted = quality(factors, test)
    assert quality(dataclasses.replace(factors, facts=both), test) == wanted
    assert quality(dataclasses.replace(factors, facts=None), test, known=train) == wanted


def test_sampled_rows_stand_for_all_rows(monkeypatch):
    factors, _, test = world(n=40)
    exact = quality(factors, test)
    monkeypatch.setattr(module, "MAX_CELLS", 40 * 40)
    rng = np.random.default_rng(0)
    cells = [module.score_rows(factors, test, factors.candidates, rng) for _ in range(40)]
    assert np.mean([sample.weights.sum() for sample in cells]) == pytest.approx(exact.n_cells, rel=0.01)
    assert np.mean([sample.weights[sample.truth].sum() for sample in cells]) == pytest.approx(len(test), rel=0.1)


def test_of_many_facts_a_sample_is_ranked(monkeypatch):
    factors, _, test = world()
    monkeypatch.setattr(module, "MAX_RANKED_FACTS", 7)
    found = quality(factors, test)
    assert (found.n_facts, found.n_ranked, found.overall.n_facts) == (20, 7, 7)


def test_facts_of_other_data_are_refused():
    factors, _, _ = world()
    other = relatent.Facts.from_arrays(["a"], ["b"], ["c"])
    with pytest.raises(InputError, match="the model knows no relation of the test facts"):
        quality(factors, other)
