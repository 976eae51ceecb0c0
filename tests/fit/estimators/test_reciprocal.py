"""Softmax(reciprocal=True): a matrix per direction during the fit, their mean in the model."""

from typing import Any

import numpy as np
import pytest

import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.softmax import SoftmaxSum
from relatent.data.inverse_facts import with_inverses
from small_graphs import politics, random_facts, random_parameters

COMMON: dict[str, Any] = {"penalty": relatent.Dura(0.02), "optimiser": relatent.Adam(0.05), "init": "small"}


def fit(facts: relatent.Facts, **settings: Any) -> relatent.Rescal:
    loss = relatent.Softmax(relation_weight=0.5, batch_size=16, reciprocal=True)
    return relatent.Rescal(8, loss=loss, **{"max_iter": 60, **COMMON, **settings}, calibrate=False).fit(facts)


def test_at_equal_directions_the_sum_is_that_of_both_sides() -> None:
    facts, backend = random_facts(15, 3, 60, unobserved=20, weighted=True), NumpyBackend("float64")
    A, R, b = random_parameters(facts, 4)
    both = np.concatenate([R, R.swapaxes(1, 2)])
    one = SoftmaxSum(facts, backend)(A, R, b)
    two = SoftmaxSum(with_inverses(facts), backend, only_objects=True)(A, both, np.tile(b, 2))
    assert two.value == pytest.approx(one.value)
    assert np.allclose(two.dA, one.dA)
    assert np.allclose(two.dR[:3] + two.dR[3:].swapaxes(1, 2), one.dR)


@pytest.mark.parametrize("structure", ["full", "complex", "diagonal", relatent.Blocks(4)])
@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_every_compact_structure_ranks_the_facts_first(structure: Any, method: str) -> None:
    facts = politics()
    model = fit(facts, structure=structure, method=method).factors_
    assert len(model.relation_matrices) == facts.n_relations
    s, k, o = facts.triples.T
    everyone = np.arange(facts.n_entities)
    theta = model.score(s[:, None], k[:, None], everyone)
    others = ~facts.contains(np.stack(np.broadcast_arrays(s[:, None], k[:, None], everyone), -1).reshape(-1, 3))
    above = others.reshape(theta.shape) & (theta > theta[np.arange(len(o)), o][:, None])
    assert (1 / (1 + above.sum(axis=1))).mean() > 0.75


def test_a_fit_is_reproducible_and_takes_factors_as_a_start() -> None:
    facts = politics()
    first, second = (fit(facts, method="sampled").factors_ for _ in range(2))
    assert np.array_equal(first.A, second.A)
    again = fit(facts, method="sampled", init=first, max_iter=5, optimiser=relatent.Adam(1e-4)).factors_
    assert np.allclose(again.A, first.A, atol=0.02)
    assert np.allclose(again.R, first.R, atol=0.02)


def test_validation_facts_stop_a_fit() -> None:
    train, valid = relatent.split(politics(), test_size=0.1, random_state=0)
    loss = relatent.Softmax(reciprocal=True)
    model = relatent.Rescal(8, loss=loss, max_iter=400, patience=1, **COMMON, calibrate=False).fit(
        train, validation=valid
    )
    assert model.n_iter_ < 400


@pytest.mark.parametrize("structure", ["symmetric", relatent.Shared(2)])
def test_other_structures_are_refused(structure: Any) -> None:
    with pytest.raises(relatent.InputError, match="reciprocal of Softmax needs structure 'full'"):
        fit(politics(), structure=structure)


def test_a_value_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(relatent.InputError, match="reciprocal of Softmax must be True or False, got 1"):
        relatent.Rescal(loss=relatent.Softmax(reciprocal=1), calibrate=False).fit(politics())  # type: ignore[arg-type]
