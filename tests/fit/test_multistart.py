import numpy as np

import relatent
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.cell_sum import Parameters
from relatent.distributed.workers import ALONE
from relatent.fit import multistart
from relatent.fit.penalised_likelihood import Layout
from small_graphs import blocks, random_facts


class Bowl:
    """x · x, of the parameters of six entities and one relation."""

    layout, backend, workers = Layout(6, 1, 2), NumpyBackend(np.float64), ALONE

    def __call__(self, x, *, value=True):
        return float(x @ x), 2 * x


def test_the_start_that_gets_lowest_is_chosen(monkeypatch):
    monkeypatch.setattr(multistart, "TRIAL_STEPS", 0)  # so that the heights of the starts themselves decide
    facts = random_facts(6, 1, 8)
    near, far = (Parameters(np.full((6, 2), x), np.full((1, 2, 2), x), np.zeros(1)) for x in (0.01, 100.0))
    assert multistart.lowest_start(Bowl(), near, facts, 0) is near
    chosen, again, other = (multistart.lowest_start(Bowl(), far, facts, seed) for seed in (0, 0, 1))
    assert np.abs(chosen.A).max() < 100
    np.testing.assert_array_equal(chosen.A, again.A)
    assert not np.array_equal(chosen.A, other.A)


def test_only_tiny_problems_are_started_several_times(monkeypatch):
    assert multistart.is_tiny(Layout(14, 56, 14))  # Nations
    assert not multistart.is_tiny(Layout(104, 26, 50))  # Kinships
    started = []
    lowest = multistart.lowest_start
    monkeypatch.setattr(
        "relatent.fit.estimators.rescal.lowest_start", lambda *given: started.append(1) or lowest(*given)
    )
    facts = random_facts(12, 2, 40)
    for init, method, times in (("als", "exact", 1), ("random", "exact", 0), ("als", "sampled", 0)):
        started.clear()
        relatent.RescalLogit(2, 0.1, 0.1, init=init, method=method, max_iter=50, tol=0.01, calibrate=False).fit(facts)
        assert len(started) == times


def test_a_trial_that_gains_nothing_more_ends(monkeypatch):
    steps, step = [], multistart.LbfgsSearch.step
    monkeypatch.setattr(multistart.LbfgsSearch, "step", lambda self, state: steps.append(1) or step(self, state))
    estimator = relatent.RescalLogit(3, 0.1, 0.1, calibrate=False).fit(blocks(24, groups=3))
    trials = len(steps) - estimator.n_iter_
    assert 0 < trials < 0.6 * (1 + multistart.RANDOM_STARTS) * multistart.TRIAL_STEPS
