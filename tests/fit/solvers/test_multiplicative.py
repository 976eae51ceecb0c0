import numpy as np
import pytest

import relatent
from reference_sums import squared
from relatent.errors import InputError
from relatent.fit import init as start
from relatent.fit.solvers.multiplicative import Nonnegative
from small_graphs import blocks, random_facts

FACTS = random_facts(15, 3, 120, unobserved=80, weighted=True)
PENALTIES = {"l2_entities": 0.2, "l2_relations": 0.1, "l1_entities": 0.05, "l1_relations": 0.03}


def solver_of(facts, rank=4):
    return Nonnegative(facts, rank, dtype=np.float64, **PENALTIES)


def sweeps(facts, count, rank=4):
    solver = solver_of(facts, rank)
    states = [solver.start(*start.positive(facts, rank, 0))]
    for _ in range(count):
        states.append(solver.step(states[-1]))
    return states


def objective(facts, A, R):
    penalty = 0.2 * np.sum(A**2) + 0.1 * np.sum(R**2) + 0.05 * np.sum(A) + 0.03 * np.sum(R)
    return squared(facts, A, R) + penalty


def test_the_objective_told_is_that_of_the_factors():
    for state in sweeps(FACTS, 5):
        assert state.objective == pytest.approx(objective(FACTS, state.A, state.R), rel=1e-10)


def test_no_sweep_raises_the_objective_and_no_factor_turns_negative():
    states = sweeps(FACTS, 60)
    objectives = [state.objective for state in states]
    assert (np.diff(objectives) <= 0).all()
    assert objectives[-1] < 0.7 * objectives[0]
    assert states[-1].A.min() >= 0
    assert states[-1].R.min() >= 0


def test_both_sides_of_the_update_are_the_two_parts_of_the_gradient():
    """lower − upper is half the slope of the objective in A."""
    state = sweeps(FACTS, 3)[-1]
    rng, h = np.random.default_rng(0), 1e-6
    step = rng.normal(size=state.A.shape)
    up, down = (objective(FACTS, state.A + sign * h * step, state.R) for sign in (1, -1))
    assert (up - down) / (2 * h) == pytest.approx(2 * np.sum((state.lower - state.upper) * step), rel=1e-6)


def test_a_world_of_groups_is_taken_apart_into_its_groups():
    facts = blocks(24, groups=3)
    A = (
        relatent.NonnegativeRescal(rank=3, l2_entities=0.01, l2_relations=0.01, tol=1e-3, calibrate=False)
        .fit(facts)
        .factors_.A
    )
    group = np.argmax(A, axis=1)
    assert len(set(group)) == 3
    for g in range(3):
        assert len(set(group[g::3])) == 1  # entity i belongs to group i mod 3


def test_sparsity_empties_the_factors():
    facts = blocks(24, groups=3)
    few, many = (
        np.mean(relatent.NonnegativeRescal(rank=6, l1_relations=l1, calibrate=False).fit(facts).factors_.R == 0)
        for l1 in (0, 5)
    )
    assert many > few


def test_negative_factors_cannot_start_a_fit():
    given = relatent.RescalALS(3, 0.1, 0.1, calibrate=False).fit(FACTS).factors_
    with pytest.raises(InputError, match=r"factors of a non-negative model must not be negative, got -.* in A"):
        relatent.NonnegativeRescal(3, init=given, calibrate=False).fit(FACTS)
