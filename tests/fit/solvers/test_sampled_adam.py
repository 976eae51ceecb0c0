"""Adam on sampled cells: its update, its lists, its end, and that it comes out where the exact fit does."""

import functools
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from relatent.cells.logistic_sampled import Sampled
from relatent.cells.reference import logistic
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base as contract
from relatent.fit.estimators import rescal as estimators
from relatent.fit.objective import Layout
from relatent.fit.solvers import sampled_adam as adam
from relatent.fit.solvers.sampled_adam import SampledAdam
from worlds import blocks, random_facts

SPARSE = random_facts(400, 2, 600, seed=1)  # 160,000 cells a relation: only some of them are drawn in a step
SAMPLED = relatent.RescalLogit(4, 0.1, 0.1, method="sampled", max_iter=30)


def solver(facts, rank=3, **settings):
    layout = Layout(facts.n_entities, facts.n_relations, rank)
    rules = {"l2_entities": 0.1, "l2_relations": 0.2, "bias": True, "max_iter": 10, "random_state": 0} | settings
    return SampledAdam(Sampled(facts, np.float64), layout, **rules)


def started(facts, rank=3):
    rng = np.random.default_rng(0)
    n, k = facts.n_entities, facts.n_relations
    return rng.normal(scale=0.5, size=n * rank + k * rank * rank + k)


def test_a_round_is_four_steps_of_adam():
    facts = blocks()  # so small that every cell is drawn: nothing is left to chance
    rule = solver(facts)
    x = started(facts)
    found = rule.step(rule.start(x.copy()))
    m, v, values = np.zeros_like(x), np.zeros_like(x), []
    parts = rule.layout.views(x)
    sizes = [0.1 * np.sqrt(np.mean(part**2)) for part in parts[:2]]  # of steps: A's and R's own, and that of the bias
    size = np.repeat([*sizes, 0.05], [part.size for part in parts])
    for t in range(1, 5):  # by the book
        A, R, b = rule.layout.views(x)
        value, *parts = logistic(facts, A, R, b)
        values.append(value)
        g = rule.layout.pack(*parts, np.float64) + 2 * rule.layout.pack(0.1 * A, 0.2 * R, 0 * b, np.float64)
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        rate = size * (1 + np.cos(np.pi * t / 40)) / 2
        x = x - rate * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.95**t))
    np.testing.assert_allclose(found.x, x, rtol=1e-5, atol=1e-7)
    A, R, _ = rule.layout.views(x)
    np.testing.assert_allclose(found.objective, np.mean(values) + 0.1 * np.sum(A**2) + 0.2 * np.sum(R**2), rtol=1e-6)


def test_without_a_bias_it_stands_still():
    facts = blocks()
    rule = solver(facts, bias=False)
    state = rule.start(started(facts))
    b = rule.layout.views(state.x).b.copy()
    np.testing.assert_array_equal(rule.layout.views(rule.step(state).x).b, b)


def test_the_fit_ends_when_the_learning_rate_is_zero():
    model = clone(SAMPLED).fit(SPARSE)
    assert len(model.trace_) == 30
    assert model.trace_.converged
    assert "learning rate" in model.trace_.verdict


@pytest.mark.parametrize("world", ["blocks", "sparse"])
def test_it_comes_out_where_the_exact_fit_does(world):
    facts = {"blocks": blocks(), "sparse": SPARSE}[world]
    exact, sampled = (
        relatent.RescalLogit(4, 1.0, 1.0, method=method, max_iter=300).fit(facts) for method in ("exact", "sampled")
    )
    objectives = [_objective(model, facts) for model in (exact, sampled)]
    assert objectives[1] == pytest.approx(objectives[0], rel=0.02)


def _objective(model, facts):
    f = model.factors_
    A, R, b = (part.astype(np.float64) for part in (f.A, f.R, f.bias))
    return logistic(facts, A, R, b).value + np.sum(A**2) + np.sum(R**2)


def test_zeros_that_become_likely_are_listed_and_unlikely_ones_given_back(monkeypatch):
    rule = solver(SPARSE)
    monkeypatch.setattr(adam, "RELIST", 10**9)
    state = rule.start(started(SPARSE))
    rule.layout.views(state.x).b[:] = 2.0
    state = rule.step(state)
    assert len(state.active) > 0
    assert not SPARSE.contains(adam.cells_of(state.active, 400)).any()
    assert len(rule.cells.listed.subjects) == len(SPARSE) + len(state.active)
    rule.layout.views(state.x).b[:] = -30.0
    state = rule.step(state._replace(found=np.array([5])))  # something new: the list is made again
    assert len(state.active) == 0


def test_not_more_zeros_are_listed_than_memory_is_meant_for():
    rule = solver(SPARSE)
    A, R, b = rule.layout.views(started(SPARSE))
    b[:] = 3.0
    zeros = np.setdiff1d(np.arange(5000), SPARSE.keys)
    kept = rule._renewed(A, R, b, zeros[::2], zeros[1::2])
    theta = adam.scores(A, R, b, *adam.cells_of(zeros, 400).T)
    np.testing.assert_array_equal(kept, zeros[theta >= np.sort(theta)[-len(SPARSE)]])


@pytest.mark.parametrize("step", [2, 13])
def test_a_broken_off_fit_goes_on_to_the_very_same_factors(monkeypatch, tmp_path, step):
    monkeypatch.setattr(contract, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        clone(SAMPLED).fit(SPARSE, checkpoint=path, progress=interrupt_at(step))
    resumed = clone(SAMPLED).fit(SPARSE, checkpoint=path)
    assert_same_fit(resumed, clone(SAMPLED).fit(SPARSE))


# --- which method


def test_auto_is_exact_where_that_is_affordable_and_tells(monkeypatch):
    model = relatent.RescalLogit(rank=2, max_iter=20, tol=0.1)
    assert model.fit(blocks()).method_ == model.factors_.about["fit"]["method"] == "exact"
    monkeypatch.setattr(estimators, "EXACT_FLOP", 100.0)
    assert model.fit(blocks()).method_ == model.factors_.about["fit"]["method"] == "sampled"
    other = relatent.Rescal(rank=2, loss="squared", max_iter=20, tol=0.1)
    assert other.fit(blocks()).method_ == "exact", "only the logistic loss is sampled"


def test_millions_of_entities_are_sampled_and_a_family_is_not():
    model = relatent.RescalLogit(rank=50)
    assert model.method_for(relatent.load_dataset("kinships")) == "exact"
    assert model.method_for(relatent.Facts.from_arrays([0], [0], [1], n_entities=3_000_000)) == "sampled"


def test_typed_zeros_leave_other_cells_alone():
    """Facts between 0–9 and 10–19 only: nothing is learned about cells elsewhere, and less is asked of the bias."""
    rng = np.random.default_rng(0)
    facts = relatent.Facts.from_arrays(rng.integers(0, 10, 80), [0] * 80, rng.integers(10, 20, 80), n_entities=200)
    rules = {"rank": 2, "l2_entities": 3.0, "l2_relations": 3.0, "max_iter": 200, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relatent.errors.VanishedWarning)
        typed = relatent.RescalLogit(**rules, zeros="typed").fit(facts)
        everywhere = relatent.RescalLogit(**rules, method="sampled").fit(facts)
    s, o = np.divmod(np.arange(100), 10)
    share = len(facts) / 100
    assert typed.method_ == "sampled"
    assert np.mean(typed.factors_.probability(s, 0, o + 10)) == pytest.approx(share, abs=0.03)
    assert np.mean(everywhere.factors_.probability(s, 0, o + 10)) < share


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "guess"}, "method must be 'auto', 'exact' or 'sampled', got 'guess'"),
        ({"zeros": "some"}, "zeros must be 'all' or 'typed', got 'some'"),
        ({"zeros": "typed", "method": "exact"}, "zeros='typed' needs method='sampled'"),
        ({"loss": "hinge", "method": "sampled"}, "method='sampled' is for the logistic loss, got 'hinge'"),
    ],
)
def test_what_does_not_go_together_is_said(settings, message):
    with pytest.raises(relatent.RelatentError, match=message):
        relatent.Rescal(rank=2, **settings).fit(blocks())
