"""Adam on exact and on sampled sums: its updates, its end, its checkpoints, and that both reach the same objective."""

import functools

import numpy as np
import pytest
from sklearn.base import clone

import relatent
from interruptions import InterruptedFitError, assert_same_fit, interrupt_at
from reference_sums import logistic
from relatent.backend.numpy_backend import NumpyBackend
from relatent.cells.cell_sum import Reduction
from relatent.cells.logistic_sampled import SampledLogisticSum
from relatent.fit.checkpoint import Checkpoint
from relatent.fit.estimators import base
from relatent.fit.penalised_likelihood import Layout, PenalisedLikelihood
from relatent.fit.penalties import L2, N3, Dura
from relatent.fit.solvers.adam import AdamSearch
from small_graphs import blocks, random_facts

pytestmark = pytest.mark.usefixtures("one_thread")
SPARSE = random_facts(400, 2, 600, seed=1)  # 160,000 cells per relation: a step sums only some of them
SAMPLED = relatent.RescalLogit(4, 0.1, 0.1, method="sampled", max_iter=30)
BACKEND = NumpyBackend("float64")


def no_penalty(A, R, dA, dR):
    return 0.0


class QuadraticSum:
    """|A|², and a record of when the value was wanted."""

    def __init__(self):
        self.wanted = []

    def __call__(self, A, R, b, *, value=True):
        self.wanted.append(value)
        return Reduction(float(np.sum(A * A)) if value else np.nan, 2 * A, 0 * R, 0 * b)


def exact_search(cells, rounds, lr=0.1):
    objective = PenalisedLikelihood(cells, Layout(2, 1, 1), no_penalty, bias=True, backend=BACKEND)
    return AdamSearch(objective, lr=lr, betas=(0.9, 0.99), rounds=rounds)


def sampled_search(facts, rank=3, *, bias=True, penalty=None, rounds=10):
    cells = SampledLogisticSum(facts, np.float64)
    layout = Layout(facts.n_entities, facts.n_relations, rank)
    penalty = L2(0.1, 0.2) if penalty is None else penalty
    bound = penalty.bound(facts, BACKEND)
    objective = PenalisedLikelihood(cells, layout, bound, bias=bias, backend=BACKEND, sample=cells)
    return AdamSearch(objective, lr=None, betas=(0.9, 0.95), rounds=rounds)


def start_vector(facts, rank=3):
    rng = np.random.default_rng(0)
    n, k = facts.n_entities, facts.n_relations
    return rng.normal(scale=0.5, size=n * rank + k * rank * rank + k)


# --- exact sums


def test_the_steps_are_those_of_kingma_and_ba_with_the_rate_along_a_cosine():
    search = exact_search(QuadraticSum(), rounds=2)
    x = np.array([3.0, -2.0, 0.0, 0.0])
    state = search.step(search.step(search.start(x.copy())))
    m, v = np.zeros(4), np.zeros(4)
    for t in range(1, 9):
        g = 2 * x
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        lr = 0.1 * (1 + np.cos(np.pi * t / 8)) / 2
        x = x - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-30)
    np.testing.assert_allclose(state.x, x, rtol=1e-6)
    assert search.finished(state).startswith("the schedule of the learning rate is complete")


def test_an_exact_objective_is_evaluated_once_per_round():
    cells = QuadraticSum()
    search = exact_search(cells, rounds=3)
    search.step(search.start(np.ones(4)))
    assert cells.wanted == [False, False, False, True]


def test_without_a_learning_rate_the_first_step_is_a_tenth_of_the_size_of_the_factors():
    search = exact_search(QuadraticSum(), rounds=10**6, lr=None)
    x = np.array([3.0, 4.0, 1.0, 0.0])
    assert search._rates(x) == pytest.approx((0.1 * np.sqrt(12.5), 0.1, 0.05))


# --- sampled sums


@pytest.mark.parametrize("penalty", [L2(0.1, 0.2), N3(0.05), Dura(0.05)], ids=repr)
def test_a_round_on_sampled_sums_is_four_steps_of_adam(penalty):
    facts = blocks()  # so small that every cell is drawn: the sample is exact
    search = sampled_search(facts, penalty=penalty)
    layout, bound = search.layout, penalty.bound(facts, BACKEND)
    x = start_vector(facts)
    found = search.step(search.start(x.copy()))
    m, v, values = np.zeros_like(x), np.zeros_like(x), []
    parts = layout.views(x)
    sizes = [0.1 * np.sqrt(np.mean(part**2)) for part in parts[:2]]
    size = np.repeat([*sizes, 0.05], [part.size for part in parts])
    for t in range(1, 5):
        A, R, b = layout.views(x)
        value, dA, dR, db = logistic(facts, A, R, b)
        values.append(value + bound(A, R, dA, dR))
        g = layout.pack(dA, dR, db, np.float64)
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        rate = size * (1 + np.cos(np.pi * t / 40)) / 2
        x = x - rate * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.95**t))
    np.testing.assert_allclose(found.x, x, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.objective, np.mean(values), rtol=1e-6)


def test_without_a_bias_it_stays_fixed():
    facts = blocks()
    search = sampled_search(facts, bias=False)
    state = search.start(start_vector(facts))
    b = search.layout.views(state.x).b.copy()
    np.testing.assert_array_equal(search.layout.views(search.step(state).x).b, b)


def test_the_fit_ends_when_the_learning_rate_is_zero():
    model = clone(SAMPLED).fit(SPARSE)
    assert len(model.trace_) == 30
    assert model.trace_.converged
    assert "learning rate" in model.trace_.verdict


@pytest.mark.parametrize("step", [2, 13])
@pytest.mark.parametrize(
    "settings", [{}, {"penalty": Dura(0.02), "optimiser": relatent.Adam(0.05)}], ids=["L2", "Dura"]
)
def test_an_interrupted_fit_resumes_to_the_same_factors(monkeypatch, tmp_path, step, settings):
    monkeypatch.setattr(base, "Checkpoint", functools.partial(Checkpoint, every=0.0))
    model = clone(SAMPLED).set_params(**settings)
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(InterruptedFitError):
        clone(model).fit(SPARSE, checkpoint=path, progress=interrupt_at(step))
    resumed = clone(model).fit(SPARSE, checkpoint=path)
    assert_same_fit(resumed, clone(model).fit(SPARSE))


# --- sampled and exact fits


def exact_objective(model, facts):
    """The exact objective of a fitted model."""
    f = model.factors_
    A, R, b = (part.astype(np.float64) for part in (f.A, f.R, f.bias))
    penalty = (model.penalty or L2(model.l2_entities, model.l2_relations)).bound(facts, BACKEND)
    return logistic(facts, A, R, b).value + penalty(A, R, np.zeros_like(A), np.zeros_like(R))


@pytest.mark.parametrize("world", ["blocks", "sparse"])
@pytest.mark.parametrize("penalty", [None, Dura(0.05), N3(0.05)], ids=repr)
def test_a_sampled_fit_reaches_the_objective_of_the_exact_fit(world, penalty):
    """With the same optimiser from the same start, so that both approach the same minimum."""
    facts = {"blocks": blocks(), "sparse": SPARSE}[world]
    settings = {"penalty": penalty, "optimiser": relatent.Adam(lr=None, beta2=0.95), "max_iter": 300}
    exact, sampled = (
        relatent.RescalLogit(4, 1.0, 1.0, method=method, **settings, calibrate=False).fit(facts)
        for method in ("exact", "sampled")
    )
    assert exact_objective(sampled, facts) == pytest.approx(exact_objective(exact, facts), rel=0.02)


@pytest.mark.parametrize("world", ["blocks", "sparse"])
def test_sampled_adam_reaches_the_objective_of_exact_lbfgs(world):
    facts = {"blocks": blocks(), "sparse": SPARSE}[world]
    exact, sampled = (
        relatent.RescalLogit(4, 1.0, 1.0, method=method, max_iter=300, calibrate=False).fit(facts)
        for method in ("exact", "sampled")
    )
    assert exact_objective(sampled, facts) == pytest.approx(exact_objective(exact, facts), rel=0.02)
