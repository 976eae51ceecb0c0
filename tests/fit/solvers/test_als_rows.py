import dataclasses

import numpy as np
import pytest

from relatent.backend.numpy_backend import NumpyBackend
from relatent.fit.solvers.als import Als
from relatent.fit.solvers.als_rows import AlsRows, sweeps
from worlds import random_facts, relative_error

pytestmark = pytest.mark.usefixtures("single_blas")

LAMBDAS = {"l2_entities": 0.5, "l2_relations": 0.3, "l2_attributes": 0.7}


def with_attributes(facts):
    D = np.random.default_rng(3).normal(size=(facts.n_entities, 4))
    D[::5, 1] = np.nan
    return dataclasses.replace(facts, attributes=D)


WORLDS = {
    "plain": random_facts(30, 4, 200),
    "a relation without facts": dataclasses.replace(random_facts(30, 1, 90), relations=random_facts(9, 3, 9).relations),
    "weights": random_facts(30, 4, 200, weighted=True),
    "unobserved cells": random_facts(30, 4, 200, unobserved=300),
    "both": random_facts(30, 4, 200, unobserved=300, weighted=True),
    "attributes": with_attributes(random_facts(30, 4, 200)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_sweeps_along_rows_are_the_sweeps_of_als(world):
    facts = WORLDS[world]
    A = np.random.default_rng(0).normal(size=(facts.n_entities, 5))
    solvers = (
        Als(facts, 5, **LAMBDAS, dtype="float64"),
        AlsRows(facts, 5, **LAMBDAS, backend=NumpyBackend("float64")),
    )
    states = [solver.start(A) for solver in solvers]
    for _ in range(4):
        for name in ("A", "R", "V", "E", "F"):
            one, other = (getattr(state, name) for state in states)
            assert relative_error(other, one) < 1e-9, name
        assert states[1].objective == pytest.approx(states[0].objective, rel=1e-10)
        states = [solver.step(state) for solver, state in zip(solvers, states, strict=True)]
    assert solvers[0].nothing == solvers[1].nothing


def test_scores_in_small_chunks_give_the_same(monkeypatch):
    facts = WORLDS["both"]
    A = np.random.default_rng(0).normal(size=(30, 5))
    whole = AlsRows(facts, 5, **LAMBDAS, backend=NumpyBackend("float64")).start(A)
    monkeypatch.setattr("relatent.fit.solvers.als_rows.CELLS", 7)
    chunks = AlsRows(facts, 5, **LAMBDAS, backend=NumpyBackend("float64")).start(A)
    np.testing.assert_array_equal(whole.F, chunks.F)


def test_rows_are_swept_alone_where_few_occur():
    backend, lambdas = NumpyBackend("float64"), LAMBDAS
    many_relations, dense = random_facts(30, 40, 200), random_facts(30, 2, 600)
    assert type(sweeps(many_relations, 3, lambdas, backend)) is AlsRows
    assert type(sweeps(dense, 3, lambdas, backend)) is Als
